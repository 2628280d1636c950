"""Hostile rasters, names, CRSs, tables and sets: none reads another file, writes elsewhere, or uses the network."""

from __future__ import annotations

import json
import os
import select
import socket
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from oracle import wire
from oracle.run import run
from oracle.sets import write_set
from promises.attacks import (
    Attack,
    Target,
    Watch,
    attack,
    attacks_of,
    documented_attacks,
    export,
    listener,
    needs_inotify,
    run_attack,
)

pytestmark = needs_inotify

# Files that are called x.tif, and something else.
VRT = (
    '<VRTDataset rasterXSize="32" rasterYSize="32"><GeoTransform>0,1,0,0,0,-1</GeoTransform>'
    '<VRTRasterBand dataType="Byte" band="1"{kind}>{body}</VRTRasterBand>{tail}</VRTDataset>'
)
SIMPLE = '<SimpleSource><SourceFilename relativeToVRT="0">{}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>'
RAW = "<SourceFilename>{}</SourceFilename><ImageOffset>0</ImageOffset><PixelOffset>1</PixelOffset>"
PYTHON = (
    "<PixelFunctionType>f</PixelFunctionType><PixelFunctionLanguage>Python</PixelFunctionLanguage>"
    "<PixelFunctionCode><![CDATA[\nopen({!r})\ndef f(*args): pass\n]]></PixelFunctionCode>"
)
MRF = (
    "<MRF_META><Raster><Size x='32' y='32' c='1'/><PageSize x='32' y='32' c='1'/><DataFile>{data}</DataFile>"
    "<IndexFile>{index}</IndexFile></Raster></MRF_META>"
)
CACHED_MRF = (
    "<MRF_META><CachedSource><Source>{}</Source></CachedSource><Raster><Size x='32' y='32'/></Raster></MRF_META>"
)
WMS = (
    '<GDAL_WMS><Service name="TMS"><ServerUrl>{}/${{z}}/${{x}}/${{y}}</ServerUrl></Service><DataWindow>'
    "<UpperLeftX>0</UpperLeftX><UpperLeftY>0</UpperLeftY><LowerRightX>32</LowerRightX><LowerRightY>32</LowerRightY>"
    "<SizeX>32</SizeX><SizeY>32</SizeY></DataWindow><BandsCount>1</BandsCount></GDAL_WMS>"
)
DISGUISED: dict[str, Callable[[Target], str]] = {
    "a VRT of the canary": lambda t: VRT.format(kind="", body=SIMPLE.format(t.canary), tail=""),
    "a VRT after white space": lambda t: "\n\n  " + VRT.format(kind="", body=SIMPLE.format(t.canary), tail=""),
    "a VRT after a byte order mark": lambda t: "\ufeff" + VRT.format(kind="", body=SIMPLE.format(t.canary), tail=""),
    "a VRT after a comment": lambda t: "<!-- x -->" + VRT.format(kind="", body=SIMPLE.format(t.canary), tail=""),
    "a VRT of an address": lambda t: VRT.format(kind="", body=SIMPLE.format(f"/vsicurl/{t.url}"), tail=""),
    "a raw VRT of the canary": lambda t: VRT.format(
        kind=' subClass="VRTRawRasterBand"', body=RAW.format(t.canary), tail=""
    ),
    "a VRT with Python": lambda t: VRT.format(
        kind=' subClass="VRTDerivedRasterBand"', body=PYTHON.format(str(t.canary)), tail=""
    ),
    "a VRT whose mask is the canary": lambda t: VRT.format(
        kind="",
        body="",
        tail=f'<MaskBand><VRTRasterBand dataType="Byte">{SIMPLE.format(t.canary)}</VRTRasterBand></MaskBand>',
    ),
    "a VRT whose overview is the canary": lambda t: VRT.format(
        kind="", body=f"<Overview><SourceFilename>{t.canary}</SourceFilename></Overview>", tail=""
    ),
    "a warped VRT": lambda t: (
        '<VRTDataset rasterXSize="32" rasterYSize="32" subClass="VRTWarpedDataset"><GDALWarpOptions><SourceDataset>'
        f"{t.canary}</SourceDataset></GDALWarpOptions></VRTDataset>"
    ),
    "a pansharpening VRT": lambda t: (
        '<VRTDataset subClass="VRTPansharpenedDataset"><PansharpeningOptions><PanchroBand><SourceFilename>'
        f"{t.canary}</SourceFilename></PanchroBand></PansharpeningOptions></VRTDataset>"
    ),
    "a processed VRT": lambda t: (
        '<VRTDataset subClass="VRTProcessedDataset"><Input><SourceFilename>'
        f"{t.canary}</SourceFilename></Input></VRTDataset>"
    ),
    "a VRT with an external entity": lambda t: (
        f'<!DOCTYPE x [<!ENTITY e SYSTEM "file://{t.canary}">]>' + VRT.format(kind="", body="&e;", tail="")
    ),
    "an MRF whose data are the canary": lambda t: MRF.format(data=t.canary, index=t.canary),
    "an MRF that creates a file": lambda t: MRF.format(data=t.folder / "made", index=t.folder / "made.idx"),
    "an MRF that caches the canary": lambda t: CACHED_MRF.format(t.canary),
    "an MRF that caches an address": lambda t: CACHED_MRF.format(f"/vsicurl/{t.url}"),
    "a tile service": lambda t: WMS.format(f"http://{t.address}"),
    "a tile map": lambda t: f'<TileMap version="1.0.0" tilemapservice="{t.url}"><Title>x</Title></TileMap>',
    "a WMTS": lambda t: f"<GDAL_WMTS><GetCapabilitiesUrl>{t.url}</GetCapabilitiesUrl></GDAL_WMTS>",
    "a WCS": lambda t: f"<WCS_GDAL><ServiceURL>{t.url}?</ServiceURL><CoverageName>x</CoverageName></WCS_GDAL>",
    "an OGC API": lambda t: f"<OGCAPI_GDAL>{t.url}</OGCAPI_GDAL>",
    "a tile index": lambda t: (
        f"<GDALTileIndexDataset><IndexDataset>{t.canary}</IndexDataset><IndexLayer>x</IndexLayer></GDALTileIndexDataset>"
    ),
    "a STAC collection": lambda t: json.dumps({"stac_version": "1.0.0", "assets": {"x": {"href": t.url}}}),
    "a STAC feature list": lambda t: json.dumps(
        {"type": "FeatureCollection", "features": [{"assets": {"x": {"href": t.url}}, "stac_version": "1.0.0"}]}
    ),
    "a DIMAP": lambda t: (
        "<Dimap_Document><Raster_Dimensions><NCOLS>32</NCOLS></Raster_Dimensions><Data_Access><Data_File>"
        f'<DATA_FILE_PATH href="{t.canary}"/></Data_File></Data_Access></Dimap_Document>'
    ),
    "a PDS4 label": lambda t: (
        f"<Product_Observational><File><file_name>{t.canary}</file_name></File></Product_Observational>"
    ),
    "a PDS3 label": lambda t: f'PDS_VERSION_ID = PDS3\n^IMAGE = "{t.canary}"\nOBJECT = IMAGE\nEND_OBJECT\nEND\n',
    "an ISIS3 label": lambda t: (
        f"Object = IsisCube\n  Object = Core\n    ^Core = {t.canary}\n    Format = BandSequential\n"
    ),
    "an ERS header": lambda t: (
        f'DatasetHeader Begin\n  Version = "6.0"\n  DataFile = "{t.canary}"\nDatasetHeader End\n'
    ),
    "an ENVI header": lambda t: f"ENVI\nsamples = 32\nlines = 32\nbands = 1\ndata file = {t.canary}\n",
    "a CALS header": lambda t: "srcdocid: " + str(t.canary) + " " * 2048,
    "a page of HTML": lambda t: f'<html><img src="{t.url}"></html>',
    "an SVG": lambda t: f'<svg xmlns:xlink="http://www.w3.org/1999/xlink"><image xlink:href="{t.url}"/></svg>',
    "a pointer to a large file": lambda _: "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
}
for _name, _made in DISGUISED.items():

    def _disguised(target: Target, make: Callable[[Target], str] = _made) -> list[Any]:
        return export(target.file("x.tif", make(target)))

    attack(f"x.tif is {_name}")(_disguised)

# Names that GDAL takes for addresses and directives.
NAMES: dict[str, Callable[[Target], str]] = {
    "address": lambda t: t.url,
    "vsicurl": lambda t: f"/vsicurl/{t.url}",
    "vsicurl with options": lambda t: f"/vsicurl?url={t.url}",
    "vsis3": lambda _: "/vsis3/bucket/x.tif",
    "vsizip": lambda t: f"/vsizip/{t.canary}.zip/canary.tif",
    "vsigzip": lambda t: f"/vsigzip/{t.canary}",
    "vsitar": lambda t: f"/vsitar/{t.canary}",
    "vsisubfile": lambda t: f"/vsisubfile/0_100,{t.canary}",
    "vsisparse": lambda t: f"/vsisparse/{t.canary}",
    "vsicrypt": lambda t: f"/vsicrypt/key=x,file={t.canary}",
    "vsistdin": lambda _: "/vsistdin/",
    "directory of a TIFF": lambda t: f"GTIFF_DIR:1:{t.canary}",
    "raw TIFF": lambda t: f"GTIFF_RAW:{t.canary}",
    "vrt connection": lambda t: f"vrt://{t.canary}",
    "derived subdataset": lambda t: f"DERIVED_SUBDATASET:LOGAMPLITUDE:{t.canary}",
    "netCDF": lambda t: f'NETCDF:"{t.canary}":x',
    "HDF5": lambda t: f'HDF5:"{t.canary}"://x',
    "Zarr": lambda t: f'ZARR:"/vsicurl/{t.url}"',
    "WMS": lambda t: f"WMS:{t.url}",
    "inline XML": lambda t: VRT.format(kind="", body=SIMPLE.format(t.canary), tail=""),
    "inline JSON": lambda t: json.dumps({"type": "VRT", "source": str(t.canary)}),
    "shell words": lambda t: f"$(cat {t.canary})",
    "shell pipe": lambda t: f"|cat {t.canary}",
    "S3": lambda _: "s3://bucket/x.tif",
}
for _name, _named in NAMES.items():

    def _by_name(target: Target, make: Callable[[Target], str] = _named) -> list[Any]:
        return export(make(target))

    attack(f"a source is named like: {_name}")(_by_name)

    def _as_mask(target: Target, make: Callable[[Target], str] = _named) -> list[Any]:
        return export(target.raster(), "--mask", make(target))

    attack(f"a mask is named like: {_name}")(_as_mask)

# Files that GDAL opens on its own.
for _suffix in (".ovr", ".msk", ".OVR", ".MSK", ".msk.ovr", ".ovr.msk"):

    def _beside(target: Target, suffix: str = _suffix) -> list[Any]:
        source = target.raster()
        target.file(f"x.tif{suffix}", VRT.format(kind="", body=SIMPLE.format(target.canary), tail=""))
        return export(source)

    attack(f"{_suffix} is a VRT")(_beside)


@attack(".aux.xml names overviews elsewhere")
def _aux(target: Target) -> list[Any]:
    source = target.raster()
    target.file(
        "x.tif.aux.xml",
        '<PAMDataset><Metadata domain="OVERVIEWS"><MDI key="OVERVIEW_FILE">'
        f"{target.canary}</MDI></Metadata></PAMDataset>",
    )
    return export(source)


@attack("tags name overviews elsewhere")
def _tags(target: Target) -> list[Any]:
    source = target.raster()
    with rasterio.open(source, "r+") as opened:
        opened.update_tags(ns="OVERVIEWS", OVERVIEW_FILE=str(target.canary))
    return export(source)


@attack("a zip named tif")
def _zip(target: Target) -> list[Any]:
    with zipfile.ZipFile(target.folder / "x.tif", "w") as archive:
        archive.writestr("../../made", "x")
    return export(target.folder / "x.tif")


@attack("a pipe that nobody writes")
def _pipe(target: Target) -> list[Any]:
    os.mkfifo(target.folder / "x.tif")
    return export(target.folder / "x.tif")


# Text that names a CRS.
_WKT = (
    'GEOGCS["x",DATUM["x",SPHEROID["WGS 84",6378137,298.257223563],{0}],PRIMEM["Greenwich",0],'
    'UNIT["degree",0.0174532925199433],{0}]'
)
_GEOGRAPHIC = (
    'GEOGCRS["x",DATUM["x",ELLIPSOID["WGS 84",6378137,298.257223563]],CS[ellipsoidal,2],AXIS["lat",north],'
    'AXIS["lon",east],ANGLEUNIT["degree",0.0174532925199433]]'
)
_BOUND = (
    f"BOUNDCRS[SOURCECRS[{_GEOGRAPHIC}],TARGETCRS[{_GEOGRAPHIC}],ABRIDGEDTRANSFORMATION["
    '"x",METHOD["NTv2",ID["EPSG",9615]],PARAMETERFILE["Latitude and longitude difference file","{}"]]]'
)


def _bound_json(path: str) -> str:
    import pyproj

    text: str = pyproj.CRS.from_wkt(_BOUND.format("harmless.gsb")).to_json()
    return text.replace("harmless.gsb", path)


CRSS: dict[str, Callable[[Target], str]] = {
    "an address": lambda t: f"http://{t.address}/crs",
    "a path": lambda t: str(t.canary),
    "a file of definitions": lambda t: f"+init={t.canary}:4326",
    "a grid at an address": lambda t: f"+proj=longlat +nadgrids=http://{t.address}/grid.tif +type=crs",
    "a grid in a file": lambda t: f"+proj=longlat +nadgrids={t.canary} +type=crs",
    "a geoid in a file": lambda t: f"+proj=longlat +geoidgrids={t.canary} +type=crs",
    "a pipeline": lambda t: f"+proj=pipeline +step +proj=hgridshift +grids={t.canary}",
    "a grid behind a bracket": lambda t: f"+proj=longlat +title=[x] +nadgrids={t.canary} +type=crs",
    "a grid behind what looks like WKT": lambda t: f"x[1] +proj=longlat +nadgrids={t.canary} +type=crs",
    "a quoted grid": lambda t: f'+proj=longlat +nadgrids="{t.canary}" +type=crs',
    "an init file without a plus": lambda t: f"init={t.canary}:4326",
    "WKT with PROJ's words": lambda t: _WKT.format(f'EXTENSION["PROJ4","+proj=longlat +nadgrids={t.canary}"]'),
    "WKT with a grid": lambda t: _WKT.format(f'EXTENSION["PROJ4_GRIDS","{t.canary}"]'),
    "bound WKT": lambda t: _BOUND.format(f"{t.canary}"),
    "bound WKT with an address": lambda t: _BOUND.format(t.url),
    "bound PROJJSON": lambda t: _bound_json(str(t.canary)),
    "an ESRI word": lambda t: f"ESRI::{t.canary}",
    "a code of IGN": lambda t: f"IGNF:{t.canary}",
    "a URN of an address": lambda t: f"urn:ogc:def:crs:{t.url}",
    "an OGC address": lambda t: f"http://{t.address}/def/crs/EPSG/0/4326",
    "bytes of nothing": lambda _: "\u0000\u202e",
}
for _name, _crs in CRSS.items():

    def _in_mixer(target: Target, make: Callable[[Target], str] = _crs) -> list[Any]:
        mixer, shards = write_set(target.folder, np.ones((1, 32, 32), np.float32), patch=(8, 8))
        text = json.loads(mixer.read_text())
        text["projection"]["crs"] = make(target)
        mixer.write_text(json.dumps(text))
        return ["ingest-predictions", "-o", "out/x.tif", mixer, *shards]

    attack(f"a mixer's CRS is {_name}")(_in_mixer)

    def _as_option(target: Target, make: Callable[[Target], str] = _crs) -> list[Any]:
        return export(target.raster(), "--crs", make(target).replace("\0", ""))

    attack(f"--crs is {_name}")(_as_option)


# Tables that are something else.
TABLES: dict[str, Callable[[Target], str]] = {
    "a VRT of the canary": lambda t: (
        f'<OGRVRTDataSource><OGRVRTLayer name="x"><SrcDataSource>{t.canary}</SrcDataSource></OGRVRTLayer>'
        "</OGRVRTDataSource>"
    ),
    "a VRT of an address": lambda t: (
        f'<OGRVRTDataSource><OGRVRTLayer name="x"><SrcDataSource>{t.url}</SrcDataSource></OGRVRTLayer>'
        "</OGRVRTDataSource>"
    ),
    "a WFS": lambda t: f"<OGRWFSDataSource><URL>{t.url}?</URL></OGRWFSDataSource>",
    "GML with a schema elsewhere": lambda t: (
        '<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs" xmlns:gml="http://www.opengis.net/gml"'
        f' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="x {t.url}"/>'
    ),
    "KML with a link": lambda t: (
        f'<kml xmlns="http://www.opengis.net/kml/2.2"><NetworkLink><Link><href>{t.url}</href></Link></NetworkLink></kml>'
    ),
    "GeoJSON with a linked CRS": lambda t: json.dumps(
        {
            "type": "FeatureCollection",
            "crs": {"type": "link", "properties": {"href": t.url, "type": "proj4"}},
            "features": [
                {"type": "Feature", "properties": {"a": 1}, "geometry": {"type": "Point", "coordinates": [0, 0]}}
            ],
        }
    ),
    "GeoJSON with a hidden CRS": lambda t: (
        " "
        * 400
        + '{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {"a": 1}, "geometry": {"type":'
        ' "Point", "coordinates": [0, 0]}}], "\\u0063Rs" : {"x": {"y": {}}, "Type": "L\\u0069nk", "properties":'
        f' {{"href": "{t.url}"}}}}}}'
    ),
    "an ESRI service": lambda t: json.dumps({"geometryType": "esriGeometryPoint", "url": t.url, "features": []}),
    "TopoJSON": lambda t: json.dumps({"type": "Topology", "objects": {}, "arcs": [], "href": t.url}),
    "a page of HTML": lambda t: f'<html><img src="{t.url}"></html>',
}
for _name, _table in TABLES.items():
    for _suffix in (".geojson", ".csv", ".gpkg"):

        def _as_table(target: Target, make: Callable[[Target], str] = _table, suffix: str = _suffix) -> list[Any]:
            return ["export-table", target.file(f"t{suffix}", make(target)), "-o", "out/t"]

        attack(f"t{_suffix} is {_name}")(_as_table)
for _name in ("address", "vsicurl", "vsizip", "shell words", "S3"):

    def _table_by_name(target: Target, make: Callable[[Target], str] = NAMES[_name]) -> list[Any]:
        return ["export-table", "-o", "out/t", "--", make(target) + ".geojson"]

    attack(f"a table is named like: {_name}")(_table_by_name)


# Mixers, manifests and records that lie.
def _mixer(change: Callable[[dict[str, Any]], object]) -> Attack:
    def made(target: Target) -> list[Any]:
        mixer, shards = write_set(target.folder, np.ones((1, 32, 32), np.float32), patch=(8, 8))
        text = json.loads(mixer.read_text())
        change(text)
        mixer.write_text(json.dumps(text))
        return ["ingest-predictions", "-o", "out/x.tif", mixer, *shards]

    return made


attack("a mixer of 10^14 patches")(_mixer(lambda m: m.update(patchesPerRow=10**7, totalPatches=10**14)))
attack("a mixer of huge patches")(_mixer(lambda m: m.update(patchDimensions=[10**9, 10**9])))
attack("a mixer of negative patches")(_mixer(lambda m: m.update(patchDimensions=[-8, -8])))
attack("a mixer with true as a number")(_mixer(lambda m: m.update(totalPatches=True)))
attack("a mixer with a transform of zeros")(
    _mixer(lambda m: m["projection"]["affine"].update(doubleMatrix=[0.0, 0, 0, 0, 0, 0]))
)


@attack("a mixer of 100,000 brackets")
def _deep(target: Target) -> list[Any]:
    _, shards = write_set(target.folder, np.ones((1, 8, 8), np.float32), patch=(8, 8))
    return ["ingest-predictions", "-o", "out/x.tif", target.file("deep.json", "[" * 100_000), *shards]


@attack("a manifest that lists files elsewhere")
def _manifest(target: Target) -> list[Any]:
    source = target.raster()
    assert run("export", source, "-o", target.folder / "in", "--patch-dimensions", "8", "--quiet").code == 0
    manifest = target.folder / "in-manifest.json"
    text = json.loads(manifest.read_text())
    text["shards"][0]["name"] = f"../{target.canary.parent.name}/{target.canary.name}"
    manifest.write_text(json.dumps(text))
    return ["verify", manifest]


@attack("a gzip bomb")
def _bomb(target: Target) -> list[Any]:
    mixer, shards = write_set(target.folder, np.ones((1, 32, 32), np.float32), patch=(8, 8))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    shards[0].write_bytes(b"".join(packer.compress(zeros) for _ in range(64)) + packer.flush())
    return ["ingest-predictions", "-o", "out/x.tif", mixer, *shards]


@attack("a record of 2^62 bytes")
def _long(target: Target) -> list[Any]:
    mixer, shards = write_set(target.folder, np.ones((1, 32, 32), np.float32), patch=(8, 8))
    length = (2**62).to_bytes(8, "little")
    shards[0].write_bytes(length + wire.masked_crc(length))
    return ["ingest-predictions", "-o", "out/x.tif", mixer, *shards]


@attack("a region file that is an address")
def _region(target: Target) -> list[Any]:
    return export(target.raster(), "--region", target.url)


@attack("a region that carries a CRS at an address")
def _region_crs(target: Target) -> list[Any]:
    crs = {"type": "link", "properties": {"href": target.url}}
    return export(
        target.raster(), "--region", json.dumps({"type": "Point", "coordinates": [0, 0], "crs": crs}), "--scale", "10"
    )


@attack("a prefix that climbs")
def _climb(target: Target) -> list[Any]:
    source = target.raster()
    return ["export", source, "-o", "out/missing/../../x", "--patch-dimensions", "8"]


@attack("a feature that is named like a path")
def _feature(target: Target) -> list[Any]:
    mixer, shards = write_set(
        target.folder, np.ones((1, 32, 32), np.float32), patch=(8, 8), names=("../../made\n<xml>&",)
    )
    return ["ingest-predictions", "-o", "out/x.tif", mixer, *shards]


def test_the_watches_see_what_they_watch(tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    canary.write_bytes(b"x")
    watch = Watch(canary)
    assert not watch.events()
    canary.read_bytes()
    assert watch.events()
    watch.close()
    with listener() as server, socket.create_connection(server.getsockname()):
        assert select.select([server], [], [], 0)[0]


# rasterio itself trips over messages of GDAL that quote bytes which are not UTF-8, and goes on.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", attacks_of(__name__))
def test_an_attack_reads_no_other_file_writes_nowhere_else_and_uses_no_network(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: Callable[[str, int], None]
) -> None:
    run_attack(name, tmp_path, monkeypatch)
    count("attacks without a read, a write or a connection", 1)


def test_the_attacks_are_listed_in_the_documentation() -> None:
    assert documented_attacks("Rasters, names, CRSs, tables, sets") == attacks_of(__name__)
