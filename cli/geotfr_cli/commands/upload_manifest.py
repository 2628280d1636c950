"""``geotfr upload-manifest``."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click

from geotfr_cli.options import common_options, overwrite_option, show

if TYPE_CHECKING:
    from geotfr.pipeline.ingest.upload_manifest import UploadManifest


@click.command(
    "upload-manifest",
    epilog="Example: geotfr upload-manifest patches/scene-mixer.json predictions-*.tfrecord.gz"
    " --name projects/p/assets/map --uri-prefix gs://bucket/map/ --output upload.json",
)
@click.argument("mixer", metavar="MIXER|FOLDER")
@click.argument("shards", metavar="[SHARD...]", nargs=-1)
@click.option("--name", metavar="ASSET", required=True, help="The asset, as projects/PROJECT/assets/NAME.")
@click.option("--uri-prefix", metavar="GS://…", required=True, help="Where the files will lie, as gs://bucket/folder/.")
@click.option("--output", "-o", metavar="FILE", help="The JSON file to write.  [default: stdout]")
@click.option(
    "--kernel-size",
    metavar="W[,H]",
    help="Kernel that padded predictions carry.  [default: the manifest's, or inferred]",
)
@click.option(
    "--pyramiding-policy",
    metavar="POLICY|BAND=POLICY,…",
    help="mean, mode, min, max or sample, for the image or for each band.  [default: mean]",
)
@click.option("--missing-data", metavar="NUMBER", type=float, help="The value of pixels without data.")
@click.option("--start-time", metavar="TIME", help="ISO date or time; UTC unless it says otherwise.")
@click.option("--end-time", metavar="TIME", help="As --start-time.")
@click.option("--property", "properties", metavar="NAME=VALUE", multiple=True, help="A property of the asset.")
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
    output: str | None,
    properties: tuple[str, ...],
    overwrite: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Write the JSON that 'earthengine upload image --manifest' takes, for predictions and their mixer.

    The whole set is checked first: counts, features, lengths, and the bands' names.
    """
    from geotfr.pipeline.ingest.upload_manifest import upload_manifest
    from geotfr.storage.atomic import atomic_output
    from geotfr.storage.inputs import check_not_input
    from geotfr.stores.path import output_path

    found = upload_manifest(mixer, shards, properties=dict(map(_property, properties)), **options)
    if output is None:
        show(found.to_text().rstrip("\n"), found.document, quiet=False, as_json=as_json)
        return
    check_not_input(output_path(output), found.files)
    with atomic_output(output, overwrite=overwrite) as file:
        file.write(found.to_text().encode())
    files = [str(path) for path in found.files]
    text = "\n".join(
        (
            f"wrote     {output}",
            f"bands     {', '.join(found.bands)}",
            f"next      gcloud storage cp {' '.join(files)} {_folder(found)}",
            f"          earthengine upload image --manifest {output}",
        )
    )
    document = {"output": output, "bands": list(found.bands), "files": files}
    show(text, document, quiet=quiet, as_json=as_json)


def _folder(found: UploadManifest) -> str:
    """Where the files of the manifest lie."""
    first: str = found.document["tilesets"][0]["sources"][0]["uris"][0]
    return first.removesuffix(found.files[0].name)


def _property(text: str) -> tuple[str, str | float]:
    """``NAME=VALUE``; a value that is a number is one."""
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise click.UsageError(f"--property {text}: allowed is NAME=VALUE")
    try:
        number = float(value)
    except ValueError:
        return name, value
    if not math.isfinite(number):
        return name, value
    return name, int(number) if number.is_integer() and abs(number) < 2**53 else number
