"""``geotfr upload-manifest``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from geotfr_cli.options import common_options, overwrite_option, show, warn

if TYPE_CHECKING:
    from geotfr.pipeline.ingest.upload_manifest import UploadManifest


@click.command(
    "upload-manifest",
    epilog="Example: geotfr upload-manifest patches/scene-mixer.json predictions-*.tfrecord.gz"
    " --name projects/my-project/assets/map --uri-prefix gs://bucket/map/ --output upload.json",
)
@click.argument("mixer", metavar="MIXER|FOLDER")
@click.argument("shards", metavar="[SHARD...]", nargs=-1)
@click.option("--name", metavar="ASSET", required=True, help="The asset, as projects/PROJECT/assets/NAME.")
@click.option(
    "--uri-prefix",
    metavar="[FOLDER=]GS://…",
    multiple=True,
    help="Where the files will lie, as gs://bucket/folder/. Repeatable, for files of a local FOLDER, or one FILE. Files"
    " read from gs:// stay there.",
)
@click.option("--short-uris", is_flag=True, help="Write what all addresses begin with once.")
@click.option(
    "--output", "-o", metavar="FILE", help="The JSON file to write, with --each their folder.  [default: stdout]"
)
@click.option(
    "--each", is_flag=True, help="Every set in FOLDER, and right below it: ASSET/NAME, NAME.json in --output."
)
@click.option(
    "--kernel-size",
    metavar="W[,H]",
    help="Kernel that padded predictions carry.  [default: the manifest's, or inferred]",
)
@click.option(
    "--pyramiding-policy",
    metavar="POLICY|BAND=POLICY,…",
    help="mean, mode, sample, median, min or max, for the image or for bands; the others have that of *."
    "  [default: mean]",
)
@click.option(
    "--missing-data",
    metavar="NUMBER|BAND=NUMBER,…",
    help="The value of pixels without data, for the image or for bands; the others have that of *.",
)
@click.option("--mask-bands", metavar="all|BAND,…", help="Bands that the last band masks; it is no band of the asset.")
@click.option(
    "--list-bands",
    is_flag=True,
    help="List the bands though they don't differ. Their numbers are places in the first record, which is assumed.",
)
@click.option("--crs", metavar="CRS", help="In place of the mixer's CRS, as EPSG:32633 or WKT.")
@click.option("--start-time", metavar="TIME", help="ISO date or time; UTC unless it says otherwise.")
@click.option("--end-time", metavar="TIME", help="As --start-time.")
@click.option(
    "--property",
    "properties",
    metavar="[(TYPE)]NAME=VALUE",
    multiple=True,
    help="A property of the asset. TYPE is string, number or date; without it what looks like a number is one, and null"
    " is no value, as in Earth Engine's client. Repeatable.",
)
@click.option(
    "--shard-order",
    type=click.Choice(["natural", "given"]),
    default="natural",
    show_default=True,
    help="By the numbers in the names, or as listed.",
)
@overwrite_option
@common_options
def command(
    mixer: str,
    shards: tuple[str, ...],
    uri_prefix: tuple[str, ...],
    output: str | None,
    each: bool,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the JSON that 'earthengine upload image --manifest' takes, for predictions and their mixer.

    The whole set is checked first: counts, features, lengths, and the bands' names.
    """
    options["uri_prefix"] = uri_prefix or None
    if each:
        if output is None or shards:
            raise click.UsageError("--each: takes one folder of sets, and a folder to write to as --output")
        _of_folder(mixer, output, options, overwrite=overwrite, quiet=quiet, as_json=as_json)
    else:
        _of_set(mixer, shards, output, options, overwrite=overwrite, quiet=quiet, as_json=as_json)


def _of_set(
    mixer: str,
    shards: tuple[str, ...],
    output: str | None,
    options: dict[str, Any],
    *,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from geotfr.pipeline.ingest.upload_manifest import upload_manifest
    from geotfr.storage.atomic import atomic_output
    from geotfr.storage.inputs import check_not_input
    from geotfr.stores.path import output_path

    found = upload_manifest(mixer, shards, **options)
    warn(found.warnings, quiet=quiet)
    if output is None:
        show(found.to_text().rstrip("\n"), found.document, quiet=False, as_json=as_json)
        return
    check_not_input(output_path(output), found.files)
    with atomic_output(output, overwrite=overwrite) as file:
        file.write(found.to_text().encode())
    steps = [
        *(
            shlex.join(["gcloud", "storage", "cp", *map(str, files), folder])
            for folder, files in found.copies().items()
        ),
        shlex.join(["earthengine", "upload", "image", "--manifest", output]),
    ]
    text = "\n".join(
        (
            f"wrote     {output}",
            f"bands     {', '.join(found.bands)}",
            *(f"{'' if place else 'next':<10}{step}" for place, step in enumerate(steps)),
        )
    )
    show(text, _document(output, found), quiet=quiet, as_json=as_json)


def _of_folder(
    folder: str, output: str, options: dict[str, Any], *, overwrite: bool, quiet: bool, as_json: bool
) -> None:
    from geotfr.pipeline.ingest.upload_manifest import upload_manifest_each, write_each

    made = upload_manifest_each(folder, **options)
    warn(list(dict.fromkeys(text for found in made.values() for text in found.warnings)), quiet=quiet)
    paths = write_each(made, output, overwrite=overwrite)
    text = "\n".join(f"wrote     {paths[name]}  ({found.document['name']})" for name, found in made.items())
    documents = [_document(str(paths[name]), found) for name, found in made.items()]
    show(text, {"manifests": documents}, quiet=quiet, as_json=as_json)


def _document(output: str, found: UploadManifest) -> dict[str, Any]:
    return {
        "output": output,
        "name": found.document["name"],
        "bands": list(found.bands),
        "files": [str(path) for path in found.files],
        "uris": list(found.uris),
        "warnings": list(found.warnings),
    }
