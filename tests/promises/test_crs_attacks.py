"""CRS texts of every origin that name a file: refused before PROJ or GDAL sees them, and nothing is opened."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import numpy as np
import pytest
from oracle.run import run
from oracle.sets import write_set
from promises.attacks import Target, attack, attacks_of, documented_attacks, export, needs_inotify, run_attack

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = needs_inotify

_GEOGCS = (
    'GEOGCS["x",DATUM["x",SPHEROID["WGS 84",6378137,298.257223563]],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.0174532925199433]]'
)
_CUSTOM = f'PROJCS["x",{_GEOGCS},PROJECTION["custom_proj4"],UNIT["metre",1],EXTENSION["PROJ4","{{}}"]]'

TEXTS: dict[str, Callable[[Target], str]] = {
    "a file of definitions": lambda t: f"+init={t.canary}:1",
    "a file of definitions, with spaces": lambda t: f"+init = {t.canary} : 1",
    "a grid": lambda t: f"+proj=longlat +nadgrids={t.canary} +type=crs",
    "a grid after null": lambda t: f"+proj=longlat +nadgrids=@null,{t.canary} +type=crs",
    "a grid behind semicolons": lambda t: f"proj=longlat;nadgrids={t.canary};type=crs",
    "a deformation model": lambda t: f"+proj=defmodel +model={t.canary} +type=crs",
    "a pipeline": lambda t: f"+proj=pipeline +step +proj=hgridshift +grids={t.canary} +type=crs",
    "WKT with a file of definitions": lambda t: _CUSTOM.format(f"+init={t.canary}:1"),
    "WKT with a grid": lambda t: _CUSTOM.format(f"+proj=merc +nadgrids={t.canary} +wktext"),
    "a dictionary of PROJ's words": lambda t: json.dumps({"init": f"{t.canary}:1"}),
}


def _tiff_with_text(path: Path, text: str, *, order: str = "<") -> Path:
    """A GeoTIFF whose citation of a projected CRS is ``text``, as ESRI's software writes it."""
    ascii_text = f"ESRI PE String = {text}|".encode() + b"\0"
    keys = (1, 1, 0, 4, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32767, 3073, 34737, len(ascii_text) - 1, 0)
    pixels = bytes(32 * 32)
    entries = [
        (256, 3, 1, 32),
        (257, 3, 1, 32),
        (258, 3, 1, 8),
        (259, 3, 1, 1),
        (262, 3, 1, 1),
        (273, 4, 1, None),
        (277, 3, 1, 1),
        (278, 3, 1, 32),
        (279, 4, 1, len(pixels)),
        (33550, 12, 3, struct.pack(order + "3d", 1, 1, 0)),
        (33922, 12, 6, struct.pack(order + "6d", 0, 0, 0, 5, 5, 0)),
        (34735, 3, len(keys), struct.pack(f"{order}{len(keys)}H", *keys)),
        (34737, 2, len(ascii_text), ascii_text),
    ]
    at = 8 + 2 + 12 * len(entries) + 4
    table, rest = b"", b""
    for tag, kind, count, value in entries:
        held = pixels if value is None else value
        if isinstance(held, bytes):
            table += struct.pack(order + "HHII", tag, kind, count, at + len(rest))
            rest += held
        else:
            table += struct.pack(order + "HHI", tag, kind, count)
            table += struct.pack(order + ("H2x" if kind == 3 else "I"), held)
    mark = b"II*\0" if order == "<" else b"MM\0*"
    head = mark + struct.pack(order + "IH", 8, len(entries))
    path.write_bytes(head + table + struct.pack(order + "I", 0) + rest)
    return path


def _plain(target: Target) -> Path:
    """A raster without a CRS, whose side files tell it."""
    return target.raster(crs=None)


def _side_file(srs: str) -> Callable[[Target, str], list[Any]]:
    def made(target: Target, text: str) -> list[Any]:
        source = _plain(target)
        target.file("x.tif.aux.xml", srs.format(escape(text, {'"': "&quot;"})))
        return export(source, "--allow-ungeoreferenced")

    return made


def _manifest(target: Target, text: str) -> list[Any]:
    source = target.raster()
    assert run("export", source, "-o", target.folder / "in", "--patch-dimensions", "8", "--quiet").code == 0
    for name, place in (("in-manifest.json", "grid"), ("in.json", "projection")):
        path = target.folder / name
        document = json.loads(path.read_text())
        document[place]["crs"] = text
        path.write_text(json.dumps(document))
    return ["ingest-predictions", "-o", "out/x.tif", target.folder / "in.json", target.folder / "in.tfrecord.gz"]


def _mixer(target: Target, text: str) -> list[Any]:
    mixer, shards = write_set(target.folder, np.ones((1, 32, 32), np.float32), patch=(8, 8))
    document = json.loads(mixer.read_text())
    document["projection"]["crs"] = text
    mixer.write_text(json.dumps(document))
    return ["ingest-predictions", "-o", "out/x.tif", mixer, *shards]


def _region(target: Target, text: str) -> list[Any]:
    polygon = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    crs = {"type": "name", "properties": {"name": text}}
    return export(target.raster(), "--region", target.file("r.geojson", json.dumps({**polygon, "crs": crs})))


ORIGINS: dict[str, Callable[[Target, str], list[Any]]] = {
    "a side file's SRS": _side_file("<PAMDataset><SRS>{}</SRS></PAMDataset>"),
    "a side file's attribute": _side_file('<PAMDataset SRS="{}"/>'),
    "a side file's control points": _side_file(
        '<PAMDataset><GCPList Projection="{}"><GCP Pixel="0" Line="0" X="0" Y="0"/></GCPList></PAMDataset>'
    ),
    "a GeoTIFF's citation": lambda t, text: export(_tiff_with_text(t.folder / "x.tif", text)),
    "a big-endian GeoTIFF's citation": lambda t, text: export(_tiff_with_text(t.folder / "x.tif", text, order=">")),
    "a region": _region,
    "a manifest": _manifest,
    "a mixer": _mixer,
}
for _origin, _made in ORIGINS.items():
    for _name, _text in TEXTS.items():

        def _attack(
            target: Target,
            make: Callable[[Target, str], list[Any]] = _made,
            text: Callable[[Target], str] = _text,
        ) -> list[Any]:
            return make(target, text(target))

        attack(f"{_origin} names {_name}")(_attack)


@attack("a side file names a file of definitions in characters' numbers")
def _numbers(target: Target) -> list[Any]:
    source = _plain(target)
    text = "".join(f"&#x{ord(sign):x};" for sign in f"+init={target.canary}:1")
    target.file("x.tif.aux.xml", f"<PAMDataset><srs>{text}</srs></PAMDataset>")
    return export(source, "--allow-ungeoreferenced")


@attack("a side file names a grid in CDATA")
def _cdata(target: Target) -> list[Any]:
    source = _plain(target)
    text = f"+proj=longlat > +nadgrids={target.canary} +type=crs"
    target.file("x.tif.aux.xml", f"<PAMDataset><SRS><![CDATA[{text}]]></SRS></PAMDataset>")
    return export(source, "--allow-ungeoreferenced")


@attack("the side file of a mask names a file of definitions")
def _mask(target: Target) -> list[Any]:
    source = _plain(target)
    (target.folder / "x.tif.msk").write_bytes(source.read_bytes())
    target.file("x.tif.msk.aux.xml", f"<PAMDataset><SRS>+init={target.canary}:1</SRS></PAMDataset>")
    return export(source, "--allow-ungeoreferenced")


@attack("a side file is a link")
def _link(target: Target) -> list[Any]:
    source = _plain(target)
    (target.folder / "x.tif.aux.xml").symlink_to(target.canary)
    return export(source, "--allow-ungeoreferenced")


@attack("a second page's citation names a grid")
def _page(target: Target) -> list[Any]:
    first = _tiff_with_text(target.folder / "x.tif", _CUSTOM.format(f"+proj=merc +nadgrids={target.canary}"))
    return export(f"GTIFF_DIR:1:{first}")


# rasterio itself trips over messages of GDAL that quote bytes which are not UTF-8, and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", attacks_of(__name__))
def test_a_crs_text_opens_no_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: Callable[[str, int], None]
) -> None:
    done = run_attack(name, tmp_path, monkeypatch)
    # GDAL takes no dictionary for a CRS.
    assert done.code != 0 or "side file" in name, done.told
    count("attacks without a read, a write or a connection", 1)


def test_the_attacks_are_listed_in_the_documentation() -> None:
    assert documented_attacks("CRS texts") == attacks_of(__name__)
