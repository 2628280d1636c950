"""CRS texts: short where a code says all, whole where none does, never parsed by GDAL."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pyproj
import pytest
import rasterio
from rasterio.crs import CRS
from rasterio.transform import Affine

from geotfr.errors import InputError
from geotfr.grid.crs import check_crs_text, crs_text, crs_wkt, same_crs

if TYPE_CHECKING:
    from pathlib import Path

CODES = [
    "EPSG:4326",
    "EPSG:3857",
    "EPSG:32633",
    "EPSG:2193",  # northing first
    "EPSG:3006",
    "EPSG:5514",  # axes to the south and the west
    "EPSG:4979",
    "EPSG:7415",  # compound
    "ESRI:54009",
    "ESRI:102003",
    "IAU_2015:50200",
    "IAU_2015:50215",
    "OGC:CRS84",
]
SINUSOIDAL = "+proj=sinu +lon_0=0 +x_0=0 +y_0=0 +R=6371007.181 +units=m +no_defs"
EUROPA = "+proj=sinu +lon_0=0 +R=1560800 +units=m +no_defs"
NO_CODE = [
    SINUSOIDAL,
    EUROPA,
    "+proj=laea +lat_0=12.5 +lon_0=3 +datum=WGS84 +units=m",
    "+proj=utm +zone=33 +ellps=bessel +towgs84=1,2,3,4,5,6,7",
    "EPSG:32633+5703",
    'ENGCRS["site",EDATUM["site"],CS[Cartesian,2],AXIS["x",east],AXIS["y",north],UNIT["metre",1]]',
]


def written_and_read(path: Path, text: str) -> str:
    """The WKT that GDAL gives for a GeoTIFF whose CRS is ``text``."""
    profile = {"driver": "GTiff", "width": 2, "height": 2, "count": 1, "dtype": "uint8"}
    transform = Affine(1, 0, 10, 0, -1, 20)
    with rasterio.open(path, "w", crs=CRS.from_wkt(crs_wkt(text)), transform=transform, **profile):
        pass
    with rasterio.open(path) as dataset:
        return str(dataset.crs.to_wkt())


@pytest.mark.parametrize("code", CODES)
def test_case_23_codes_stay_codes_in_any_wkt(code: str) -> None:
    assert crs_text(crs_wkt(code)) == code
    assert crs_text(pyproj.CRS.from_user_input(code).to_wkt("WKT2_2019")) == code


@pytest.mark.parametrize("code", ["EPSG:4326", "EPSG:32633", "EPSG:2193", "EPSG:3006", "EPSG:3035", "ESRI:54009"])
def test_wkt_without_axes_finds_its_code(code: str) -> None:
    wkt = pyproj.CRS.from_user_input(code).to_wkt("WKT1_GDAL", output_axis_rule=False)
    assert "AXIS" not in wkt
    assert crs_text(wkt) == code
    assert same_crs(wkt, code)


@pytest.mark.parametrize("code", [code for code in CODES if not code.startswith("OGC")])
def test_case_23_codes_come_back_from_a_geotiff(tmp_path: Path, code: str) -> None:
    assert crs_text(written_and_read(tmp_path / "x.tif", code)) == code


@pytest.mark.parametrize("text", NO_CODE)
def test_without_a_code_the_text_is_wkt_that_reads_back_equal(text: str) -> None:
    crs = pyproj.CRS.from_user_input(text)
    wkt = crs_text(crs.to_wkt("WKT2_2019"))
    assert "[" in wkt
    assert pyproj.CRS.from_wkt(wkt) == crs
    assert crs_text(crs_wkt(wkt)) == wkt


@pytest.mark.parametrize("text", [SINUSOIDAL, EUROPA])
def test_case_23_wkt_only_crs_comes_back_from_a_geotiff(tmp_path: Path, text: str) -> None:
    assert same_crs(crs_text(written_and_read(tmp_path / "x.tif", text)), text)


def test_a_changed_definition_does_not_pass_for_its_code() -> None:
    wkt = pyproj.CRS.from_epsg(32633).to_wkt("WKT1_GDAL")
    assert '"central_meridian",15' in wkt
    changed = wkt.replace('"central_meridian",15', '"central_meridian",16')
    assert crs_text(changed) != "EPSG:32633"
    assert not same_crs(changed, "EPSG:32633")


def test_no_crs_is_the_empty_text() -> None:
    assert (crs_text(""), crs_wkt(""), crs_wkt(" ")) == ("", "", "")
    assert same_crs("", "")
    assert not same_crs("", "EPSG:4326")


def test_what_cannot_be_parsed_is_one_clear_line() -> None:
    for text in ("EPSG:999999", "nonsense", "PROJCS[", "{}", "x" * 5000, "GEOGCS[" * 10_000):
        with pytest.raises(InputError, match=r"CRS: .* can't be parsed") as error:
            crs_wkt(text)
        assert len(str(error.value)) < 250
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="a text of"):
        crs_wkt("x" * (2 << 20))


def test_a_text_fetches_no_address_and_reads_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.wkt"
    secret.write_text(pyproj.CRS.from_epsg(32633).to_wkt())
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        for text in (f"http://127.0.0.1:{server.getsockname()[1]}/x", str(secret), f"@{secret}"):
            with pytest.raises(InputError):
                crs_wkt(text)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("code", ["IAU_2015:50210", "ESRI:53008", "EPSG:4052"])
def test_an_ellipsoid_a_metre_off_is_another_crs(code: str) -> None:
    wkt = pyproj.CRS.from_user_input(code).to_wkt("WKT1_GDAL")
    radius = f"{pyproj.CRS.from_user_input(code).ellipsoid.semi_major_metre:g}"
    radius = next(text for text in (radius, str(int(float(wkt.split("SPHEROID[")[1].split(",")[1])))) if text in wkt)
    changed = wkt.replace(f",{radius},", f",{int(radius) + 1},", 1)
    assert changed != wkt
    assert crs_text(wkt) == code
    assert crs_text(changed) != code
    assert not same_crs(changed, code)


def test_a_crs_without_a_code_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    search = pyproj.CRS.list_authority
    monkeypatch.setattr(
        pyproj.CRS,
        "list_authority",
        lambda crs, name, **options: found.append(name) or search(crs, name, **options),
    )
    text = crs_text(pyproj.CRS.from_user_input("+proj=sinu +R=6371234 +units=m").to_wkt())
    count = len(found)
    for _ in range(3):
        assert crs_text(crs_wkt(text)) == text
        assert same_crs(text, crs_wkt(text))
    assert len(found) <= 2 * count
    count = len(found)
    assert crs_text(crs_wkt(text)) == text
    assert len(found) == count


NAMES_A_FILE = [
    "+init=/x:1",
    "init = /x : 1",
    "+init=",
    "+nadgrids=a,/x",
    '+nadgrids="a b,/x"',
    "+nadgrids=a ,/x",
    "+nadgrids=@/x",
    "+nadgrids=..",
    "+nadgrids=https://x.test/grid",
    "+geoidgrids=@null,/x",
    "x;grids=/x",
    "+xy_grids=~/x",
    "+proj=defmodel +model=\\x",
    "+proj=pipeline +step +proj=tinshift +file=./x",
    'PARAMETERFILE["a","/x"]',
    'parameterfile ( "a""b" , "/x" )',
    'EXTENSION["PROJ4_GRIDS","a,/x"]',
    'Extension("proj4_grids" , "/x")',
    "EXTENSION[\u201cPROJ4_GRIDS\u201d,\u201c/x\u201d]",
    'EXTENSION["PROJ4","+init=/x:1"]',
    '{"init": "/x:1"}',
    '{"a": [{"nadgrids": ["a", "/x"]}]}',
    '{"a": "\\u0069nit=/x:1"}',
    '{"value": "\\u002fx"}',
    "https://x.test/crs",
    "file:///x",
    "/x",
    "~/x",
    "../x",
]
NAMES_NO_FILE = [
    "EPSG:4326",
    "+nadgrids=@null",
    "+nadgrids=conus,@alaska +no_defs",
    "+init=epsg:4326 +type=crs",
    'EXTENSION["PROJ4","+proj=merc +nadgrids=@null +wktext +no_defs"]',
    'EXTENSION["PROJ4_GRIDS","egm96_15.gtx"]',
    'PARAMETERFILE["Grid file","ntv2_0.gsb"]',
    "urn:ogc:def:crs:OGC:1.3:CRS84",
    "http://www.opengis.net/def/crs/EPSG/0/4326",
]


@pytest.mark.parametrize("text", NAMES_A_FILE)
def test_a_text_that_names_a_file_by_its_path_or_an_address_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="names a file or an address"):
        check_crs_text(text)


@pytest.mark.parametrize("text", NAMES_NO_FILE)
def test_a_text_with_the_names_of_proj_alone_is_taken(text: str) -> None:
    check_crs_text(text)
