"""A file grants no rights: whatever a manifest, mixer, journal, part or patch table says, nothing else is opened.

Each key of each format takes each of some hostile values, one at a time. The commands that read the file then end with
one of the known codes; the kernel watches the files that the values name, and a socket the address.
"""

from __future__ import annotations

import ast
import copy
import json
import select
import shutil
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import read_raster, write_raster
from oracle.run import assert_refused, contents, run
from oracle.watch import Watch

import geotfr
from geotfr.options import ExportOptions, IngestOptions, TableOptions
from geotfr.options.choice import ChoiceOptions
from geotfr.options.labels import LabelOptions
from geotfr.options.scope import scope_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

_CALM = {0, 2, 3, 10, 11, 12, 13, 14}
REGION = '{"type": "Polygon", "coordinates": [[[-75.1, 36], [-74.9, 36], [-74.9, 36.2], [-75.1, 36.2], [-75.1, 36]]]}'


@dataclass(frozen=True)
class World:
    """A set with all that lies beside it, and what it must not lead to."""

    folder: Path
    source: Path
    canary: Path
    server: socket.socket

    @property
    def hostile(self) -> list[Any]:
        """Values that name what isn't theirs to name, or are of another type."""
        region, url = self.canary.with_name("region.geojson"), "http://{}:{}/x".format(*self.server.getsockname())
        near = f"../{self.canary.parent.name}/{self.canary.name}"
        return [
            *(str(self.canary), near, str(region), f"@{region}", url, f"/vsicurl/{url}", "..", ""),
            *([str(self.canary)], ["VRT", "GTiff"], {"source": str(self.canary), "x": near}, {}, [], None),
            *(True, -1, 0, 2**70, 1e308, "no", [["x"]]),
        ]

    def restored(self, kept: dict[str, bytes]) -> None:
        """Put the folder back as it was."""
        now = contents(self.folder)
        for name in now.keys() - kept.keys():
            (self.folder / name).unlink()
        for name in kept:
            if now.get(name) != kept[name]:
                (self.folder / name).write_bytes(kept[name])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("GDAL_HTTP_TIMEOUT", "1")
    for name in ("attack", "elsewhere"):
        (tmp_path / name).mkdir()
    pixels = np.arange(2 * 16 * 16, dtype=np.uint8).reshape(2, 16, 16)
    source = write_raster(tmp_path / "attack" / "scene.tif", pixels)
    canary = write_raster(tmp_path / "elsewhere" / "canary.tif", pixels)
    (tmp_path / "elsewhere" / "region.geojson").write_text(REGION)
    monkeypatch.chdir(tmp_path / "attack")
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield World(tmp_path / "attack", source, canary, server)


def paths_of(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where each value of nested JSON stands, containers too; of a list the first item speaks for all."""
    if here:
        yield here
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, part in items:
        yield from paths_of(part, (*here, key))


def with_value(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


def attacked(
    world: World, documents: list[tuple[Any, Callable[[Any], None]]], commands: list[list[Any]], *, every: int = 1
) -> int:
    """Put each hostile value at each place, run each command, and hold the promise; how many runs there were."""
    kept = contents(world.folder)
    others = list(world.canary.parent.iterdir())
    watch = Watch(*others)
    count = 0
    for document, write in documents:
        for path in paths_of(document):
            for value in world.hostile:
                count += 1
                if count % every:
                    continue
                write(with_value(document, path, value))
                for command in commands:
                    (world.folder / "out").mkdir(exist_ok=True)
                    done = run(*command)
                    what = f"{'.'.join(map(str, path))} = {value!r}: {' '.join(map(str, command))}: {done.told}"
                    assert not watch.events(), f"another file was opened: {what}"
                    assert not select.select([world.server], [], [], 0)[0], f"the network was used: {what}"
                    assert done.code in _CALM, what
                    assert "Traceback" not in done.told, what
                    shutil.rmtree(world.folder / "out")
                world.restored(kept)
    watch.close()
    assert len(contents(world.canary.parent)) == len(others)
    return count


def json_file(path: Path) -> tuple[Any, Callable[[Any], None]]:
    return json.loads(path.read_text()), lambda changed: path.write_text(json.dumps(changed)) and None


def json_lines(path: Path) -> list[tuple[Any, Callable[[Any], None]]]:
    """Each line of a journal, and what writes the journal with it changed."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]

    def writer(number: int) -> Callable[[Any], None]:
        def write(changed: Any) -> None:
            every = [*lines[:number], changed, *lines[number + 1 :]]
            path.write_text("".join(json.dumps(line) + "\n" for line in every))

        return write

    return [(line, writer(number)) for number, line in enumerate(lines)]


# All of them take a quarter of an hour; these numbers have no divisor in common with that of the values.
QUICK = [pytest.param(101, id="some"), pytest.param(7, id="more", marks=pytest.mark.slow)]


@pytest.mark.parametrize("every", QUICK)
def test_a_manifest_grants_nothing(world: World, every: int) -> None:
    box = "-75.1,36,-74.9,36.2"
    result = geotfr.export_image(world.source, "set", patch_dimensions=8, min_valid=0.1, region=box, patch_table=True)
    assert result.manifest is not None
    manifest, shard = result.manifest, result.shards[0]
    commands = [
        ["table", manifest, "--source", world.source, "-o", "out/t.parquet", "--quiet"],
        ["ingest-predictions", manifest, shard, "-o", "out/o.tif", "--mask-from", "manifest", "--quiet"],
        ["verify", manifest, "--quiet"],
        ["inspect", manifest, "--quiet"],
        ["stats", manifest, "-o", "out/s.json", "--quiet"],
    ]
    assert [run(*command).code for command in commands if (world.folder / "out").mkdir(exist_ok=True) is None] == [
        0
    ] * 5
    shutil.rmtree(world.folder / "out")
    assert attacked(world, [json_file(manifest)], commands, every=every) > 1000


@pytest.mark.parametrize("every", QUICK)
def test_a_mixer_grants_nothing(world: World, every: int) -> None:
    result = geotfr.export_image(world.source, "set", patch_dimensions=8)
    assert result.mixer is not None
    assert result.manifest is not None
    result.manifest.unlink()
    commands = [
        ["ingest-predictions", result.mixer, result.shards[0], "-o", "out/o.tif", "--quiet"],
        ["verify", result.mixer, result.shards[0], "--quiet"],
    ]
    assert attacked(world, [json_file(result.mixer)], commands, every=every) > 100


@pytest.mark.parametrize("every", QUICK)
def test_the_journal_of_a_part_grants_nothing(world: World, every: int) -> None:
    for number in range(2):
        geotfr.export_part(world.source, "set", split=(number, 2), patch_dimensions=8, patch_table=True)
    journals = sorted(world.folder.glob(".*part-0-of-2-journal"))
    assert len(journals) == 1
    commands = [["finalize", "set", "--quiet"]]
    assert attacked(world, json_lines(journals[0]), commands, every=every) > 1000


@pytest.mark.parametrize("every", QUICK)
def test_the_journal_of_a_stopped_run_grants_nothing(world: World, every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["export", world.source, "-o", "set", "--patch-dimensions", "8", "--max-file-size", "300", "--resume"]
    with monkeypatch.context() as stopped:

        def stop(self: Any, *_: Any, **__: Any) -> None:
            # The names are noted, and none is given.
            self._journal.add({"publish": ["set-00000.tfrecord.gz"], "incomplete_without": ["set-manifest.json"]})
            raise geotfr.OutputError("stopped")

        stopped.setattr("geotfr.storage.output_set.OutputSet.publish", stop)
        assert run(*command).code == 14
    journals = sorted(world.folder.glob(".*journal"))
    assert len(journals) == 1
    assert attacked(world, json_lines(journals[0]), [[*command, "--quiet"]], every=every) > 500


@pytest.mark.parametrize("every", QUICK)
def test_the_metadata_of_a_patch_table_grant_nothing(world: World, every: int) -> None:
    result = geotfr.export_image(world.source, "set", patch_dimensions=8, patch_table=True)
    table = pq.read_table(result.patch_table)
    path = Path(str(result.patch_table))

    def write(key: bytes) -> Callable[[Any], None]:
        def changed(document: Any) -> None:
            metadata = {**table.schema.metadata, key: json.dumps(document).encode()}
            pq.write_table(table.replace_schema_metadata(metadata), path)

        return changed

    documents = [(json.loads(table.schema.metadata[key]), write(key)) for key in (b"geotfr.patch_table", b"geo")]
    commands = [
        ["stats", path, "-o", "out/s.json", "--quiet"],
        ["split", path, "--by", "random", "-o", "out/t.parquet", "--quiet"],
    ]
    assert attacked(world, documents, commands, every=every) > 200


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("allow_drivers", ["VRT"]),
        ("allow_network", True),
        ("region", "/etc/hostname"),
        ("masks", ["/etc/hostname"]),
        ("array_bands", ["x=/etc/hostname"]),
        ("array_bands", {"x=1": "/etc/hostname"}),
        ("labels", {"source": "/etc/hostname"}),
        ("format_options", {"patchDimensions": 4}),
        ("keep", "/etc/hostname"),
        ("within", "/etc/hostname"),
    ],
)
def test_no_right_and_no_file_comes_from_the_options_of_a_manifest(key: str, value: Any) -> None:
    used = ExportOptions.checked(patch_dimensions=8).as_used()
    plain = ExportOptions.from_manifest(used)
    foreign = {**used, key: value, "choice": {"keep": "/etc/hostname"}}
    if key in ("region", "masks", "array_bands", "labels"):
        with pytest.raises((geotfr.UsageError, geotfr.DamagedError)):
            ExportOptions.from_manifest(foreign, keep=[3])
        return
    options = ExportOptions.from_manifest(foreign, keep=[3])
    assert (options.allow_drivers, options.allow_network, options.masks) == ((), False, ())
    assert options.choice is not None
    assert (options.choice.keep, options.choice.within) == ((3,), None)
    assert (options.labels, options.region, options.patch_yx) == (None, None, plain.patch_yx)


def test_the_network_of_a_manifest_opens_no_source(world: World) -> None:
    """Sources named on the command line are opened with the rights given there."""
    result = geotfr.export_image(world.source, "set", patch_dimensions=8)
    assert result.manifest is not None
    text = json.loads(result.manifest.read_text())
    text["options"] |= {"allow_network": True, "allow_drivers": ["VRT"]}
    result.manifest.write_text(json.dumps(text))
    url = "http://{}:{}/scene.tif".format(*world.server.getsockname())
    assert_refused(run("table", result.manifest, "--source", url, "-o", "t.parquet", "--quiet"), {2, 10}, "network")
    assert not select.select([world.server], [], [], 0)[0]
    vrt = world.folder / "scene.vrt"
    vrt.write_text(
        f'<VRTDataset rasterXSize="16" rasterYSize="16"><VRTRasterBand band="1">{world.canary}</VRTRasterBand>'
    )
    assert_refused(run("table", result.manifest, "--source", vrt, "-o", "t.parquet", "--quiet"), 10, "VRT")


@pytest.mark.parametrize("name", ["../elsewhere/canary.tif", "/etc/hostname", "..", "a/b.tif", "a\\b.tif", ""])
@pytest.mark.parametrize("more", [[], ["--sources", "."]])
def test_a_source_of_another_folder_is_refused(world: World, name: str, more: list[str]) -> None:
    result = geotfr.export_image(world.source, "set", patch_dimensions=8)
    assert result.manifest is not None
    text = json.loads(result.manifest.read_text())
    text["sources"][0]["name"] = name
    result.manifest.write_text(json.dumps(text))
    call = ["ingest-predictions", result.mixer, *result.shards, "-o", "o.tif", "--mask-from", "manifest", *more]
    assert_refused(run(*call), 12, "source", "without folder")


def test_a_region_file_is_found_again_where_the_user_names_it(world: World) -> None:
    elsewhere = world.canary.with_name("own.geojson")
    shutil.copy(world.canary.with_name("region.geojson"), elsewhere)
    result = geotfr.export_image(world.source, "set", patch_dimensions=8, region=str(elsewhere), patch_table=True)
    assert result.patch_table is not None
    assert result.manifest is not None
    assert json.loads(result.manifest.read_text())["options"]["region"] == "own.geojson"
    expected = pq.read_table(result.patch_table)
    call = ["table", result.manifest, "--source", world.source, "-o", "t.parquet", "--quiet"]
    # A file of that name lies here, and isn't taken for it.
    (world.folder / "own.geojson").write_text("{}")
    assert_refused(run(*call), 2, "own.geojson", "--region")
    assert run(*call, "--region", elsewhere).code == 0
    assert pq.read_table("t.parquet").equals(expected)


@pytest.mark.parametrize("region", ["{folder}/region", "@{folder}/region", "{folder}/region.geojson"])
def test_the_manifest_names_no_folder_of_a_region(world: World, region: str) -> None:
    folder = world.canary.parent
    shutil.copy(folder / "region.geojson", folder / "region")
    result = geotfr.export_image(world.source, "set", patch_dimensions=8, region=region.format(folder=folder))
    assert result.manifest is not None
    assert str(folder) not in result.manifest.read_text()


@pytest.mark.parametrize("options", [ExportOptions, LabelOptions, ChoiceOptions, IngestOptions, TableOptions])
def test_every_option_has_a_scope(options: type) -> None:
    assert set(scope_of(options)) == {each.name for each in fields(options)}
    assert set(scope_of(options).values()) <= {"bytes", "right", "run"}


def test_rights_are_what_they_are() -> None:
    rights = {
        name
        for options in (ExportOptions, LabelOptions, ChoiceOptions, IngestOptions, TableOptions)
        for name, scope in scope_of(options).items()
        if scope == "right"
    }
    assert rights == {"allow_drivers", "allow_network", "overwrite"}


def test_options_of_a_manifest_are_read_through_their_scope() -> None:
    """Single keys of a manifest's options that a module reads decide bytes; all of them go through one function."""
    known = {each.metadata.get("key", each.name) for each in fields(ExportOptions) if each.metadata["scope"] == "bytes"}
    files = {each.name for each in fields(ExportOptions) if "may_name_files" in each.metadata}
    keys = set()
    for path in sorted((Path(__file__).resolve().parents[2] / "geotfr").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            target: ast.AST | None = None
            if isinstance(node, ast.Subscript):
                target, key = node.value, node.slice
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "get"
                and node.args
            ):
                target, key = node.func.value, node.args[0]
            if isinstance(target, ast.Attribute) and target.attr == "options" and isinstance(key, ast.Constant):
                keys.add(key.value)
    assert "sequence_data" in keys
    # Masks are looked for among the manifest's sources alone.
    assert keys - {"masks"} <= known - files


def test_the_manifests_sources_are_found_in_a_folder_that_the_user_names(world: World) -> None:
    pixels = np.full((1, 16, 16), 5, np.uint8)
    pixels[0, :3] = 0
    source = write_raster(world.folder / "own.tif", pixels, nodata=0)
    mask = np.ones((1, 16, 16), np.uint8)
    mask[0, :, :2] = 0
    masks = write_raster(world.folder / "mask.tif", mask)
    result = geotfr.export_image(source, "set", patch_dimensions=8, masks=masks, feature_kinds="native")
    folder = world.folder / "sources"
    folder.mkdir()
    for path in (source, masks):
        path.rename(folder / path.name)
    call = ["ingest-predictions", result.mixer, *result.shards, "-o", "o.tif", "--mask-from", "manifest", "--quiet"]
    assert_refused(run(*call), 10, "own.tif", "--sources")
    assert run(*call, "--sources", folder, "--nodata", "9").code == 0
    expected = np.where((pixels[0] != 0) & (mask[0] != 0), pixels[0], 9)
    np.testing.assert_array_equal(read_raster(Path("o.tif"))[0][0], expected)
