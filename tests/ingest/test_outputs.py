"""What is in the file as GDAL reads it: overviews by policy, a valid COG, compression, statistics, a picture."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import rasterio
import rasterio.enums
from oracle.rasters import NORTH_UP, ROTATED, read_raster, write_raster
from oracle.run import assert_refused, contents, run
from oracle.sets import write_blocks, write_set

import geotfr
import geotfr.rasters.cog
import geotfr.rasters.overviews
from geotfr.rasters.cog import COG_OPTIONS

POLICIES = ["mean", "mode", "min", "max", "sample"]


def large_set(folder: Path, picture: np.ndarray, patch: int = 64) -> tuple[Path, list[Path]]:
    """A set of (band, row, col) ``picture``, without margins."""
    bands, rows, cols = picture.shape
    per_row = cols // patch
    blocks = picture.reshape(bands, rows // patch, patch, per_row, patch).transpose(0, 1, 3, 2, 4)
    features = {f"b{band + 1}": blocks[band].reshape(-1, patch, patch) for band in range(bands)}
    return write_blocks(folder, features, patch=(patch, patch), per_row=per_row)


def levels(path: Path) -> list[np.ndarray]:
    """The overviews of a raster, (band, row, col) each."""
    with rasterio.open(path) as raster:
        count = len(raster.overviews(1))
    found = []
    for level in range(count):
        with rasterio.open(path, overview_level=level) as raster:
            found.append(raster.read())
    return found


def quarters(level: np.ndarray) -> np.ndarray:
    rows, cols = level.shape
    return level.reshape(rows // 2, 2, cols // 2, 2).transpose(0, 2, 1, 3).reshape(rows // 2, cols // 2, 4)


@pytest.fixture
def picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 7, (5, 1280, 1280)).astype("uint8")


@pytest.mark.parametrize("form", ["gtiff", "cog"])
def test_each_band_has_overviews_by_its_own_policy(form: str, picture: np.ndarray, tmp_path: Path) -> None:
    mixer, shards = large_set(tmp_path, picture)
    policy = {f"b{place}": name for place, name in enumerate(POLICIES, 1)}
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", format=form, pyramiding_policy=policy)
    found = levels(tmp_path / "o.tif")
    assert [level.shape for level in found] == [(5, 640, 640), (5, 320, 320)]
    below = picture
    for level in found:
        mean, mode, least, most, sample = level
        np.testing.assert_array_equal(mean, np.floor(quarters(below[0]).mean(-1) + 0.5))
        counts = (quarters(below[1])[..., :, None] == quarters(below[1])[..., None, :]).sum(-1)
        chosen = (quarters(below[1])[..., :] == mode[..., None]) * counts
        np.testing.assert_array_equal(chosen.max(-1), counts.max(-1))
        np.testing.assert_array_equal(least, quarters(below[2]).min(-1))
        np.testing.assert_array_equal(most, quarters(below[3]).max(-1))
        np.testing.assert_array_equal(sample, below[4][::2, ::2])
        below = level
    np.testing.assert_array_equal(read_raster(tmp_path / "o.tif")[0], picture)


@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("policy", ["mean", "sample"])
@pytest.mark.parametrize("nodata", [None, 3])
def test_mean_and_sample_are_gdals_own(policy: str, dtype: str, nodata: int | None, tmp_path: Path) -> None:
    picture = np.random.default_rng(1).integers(0, 9, (1, 640, 1280)).astype(dtype)
    mixer, shards = large_set(tmp_path, picture)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", pyramiding_policy=policy, nodata=nodata)
    write_raster(tmp_path / "gdal.tif", picture, nodata=nodata)
    method = {"mean": "average", "sample": "nearest"}[policy]
    with rasterio.open(tmp_path / "gdal.tif", "r+") as raster:
        raster.build_overviews([2], rasterio.enums.Resampling[method])
    np.testing.assert_allclose(levels(tmp_path / "o.tif")[0], levels(tmp_path / "gdal.tif")[0], rtol=1e-6)


def test_mode_is_gdals_own_where_one_value_is_most_frequent(tmp_path: Path) -> None:
    source = np.random.default_rng(2)
    coarse = source.integers(0, 9, (320, 640)).astype("uint8")
    picture = np.kron(coarse, np.ones((2, 2), "uint8"))
    picture[
        source.integers(0, 2, coarse.shape).repeat(2, 0).repeat(2, 1) * np.tile([[1, 0], [0, 0]], (320, 640)) > 0
    ] = 99
    mixer, shards = large_set(tmp_path, picture[np.newaxis])
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", pyramiding_policy="mode")
    np.testing.assert_array_equal(levels(tmp_path / "o.tif")[0][0], coarse)
    write_raster(tmp_path / "gdal.tif", picture)
    with rasterio.open(tmp_path / "gdal.tif", "r+") as raster:
        raster.build_overviews([2], rasterio.enums.Resampling.mode)
    np.testing.assert_array_equal(levels(tmp_path / "o.tif")[0], levels(tmp_path / "gdal.tif")[0])


@pytest.mark.parametrize("compress", ["deflate", "zstd", "lzw", "none"])
@pytest.mark.parametrize("transform", [NORTH_UP, ROTATED], ids=["north-up", "rotated"])
def test_a_cog_is_valid_and_holds_the_pixels(compress: str, transform: Any, tmp_path: Path) -> None:
    cogeo = pytest.importorskip("rio_cogeo.cogeo")
    picture = np.random.default_rng(3).normal(0, 1, (2, 640, 1280)).astype("float32")
    mixer, shards = write_set(
        tmp_path, picture[:, :2, :2], patch=(2, 2), names=("a", "b"), place=(transform, "EPSG:32618")
    )
    geotfr.ingest_predictions(mixer, shards, tmp_path / "small.tif", format="cog", compress=compress)
    (tmp_path / "large").mkdir()
    mixer, shards = large_set(tmp_path / "large", picture)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "large.tif", format="cog", compress=compress, statistics=True)
    for path, wanted in ((tmp_path / "small.tif", picture[:, :2, :2]), (tmp_path / "large.tif", picture)):
        is_valid, errors, warnings = cogeo.cog_validate(path, strict=True)
        assert is_valid, (errors, warnings)
        pixels, profile, _ = read_raster(path)
        np.testing.assert_array_equal(pixels, wanted)
        assert str(profile.get("compress", "none")).lower() == compress
    assert read_raster(tmp_path / "small.tif")[1]["transform"] == transform


def test_statistics_are_those_of_the_valid_pixels(tmp_path: Path) -> None:
    picture = np.random.default_rng(4).normal(5, 2, (2, 640, 640)).astype("float32")
    picture[1, :100] = -1
    mixer, shards = large_set(tmp_path, picture)
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", statistics=True, nodata=-1)
    with rasterio.open(tmp_path / "o.tif") as raster:
        for band in (1, 2):
            tags, values = raster.tags(band), raster.read(band, masked=True).compressed().astype("float64")
            found = [float(tags[f"STATISTICS_{name}"]) for name in ("MINIMUM", "MAXIMUM", "MEAN", "STDDEV")]
            np.testing.assert_allclose(found, [values.min(), values.max(), values.mean(), values.std()], rtol=1e-9)
    assert not (tmp_path / "o.tif.aux.xml").exists()


def test_a_preview_shows_the_colours_of_the_classes(tmp_path: Path) -> None:
    picture = np.kron(np.array([[0, 1], [1, 2]], "uint8"), np.ones((64, 64), "uint8"))[np.newaxis]
    (tmp_path / "classes.csv").write_text("0,a,#ff0000\n1,b,#00ff00\n2,c,#0000ff\n")
    mixer, shards = large_set(tmp_path, picture)
    geotfr.ingest_predictions(
        mixer, shards, tmp_path / "o.tif", classes=tmp_path / "classes.csv", preview=tmp_path / "o.png", nodata=2
    )
    pixels = read_raster(tmp_path / "o.png")[0]
    assert pixels.shape == (3, 128, 128)
    assert pixels[:, 0, 0].tolist() == [255, 0, 0]
    assert pixels[:, 0, 127].tolist() == [0, 255, 0]
    assert pixels[:, 127, 127].tolist() == [255, 255, 255]


def test_a_preview_of_values_is_stretched_and_small(tmp_path: Path) -> None:
    picture = np.linspace(0, 1, 2048 * 64, dtype="float32").reshape(1, 64, 2048)
    mixer, shards = large_set(tmp_path, picture)
    outcome = run("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--preview", tmp_path / "o.png")
    assert outcome.code == 0, outcome.told
    pixels = read_raster(tmp_path / "o.png")[0]
    assert pixels.shape == (3, 32, 1024)
    assert (pixels[0, 0, 0], pixels[0, -1, -1]) == (0, 254)


def test_every_cog_option_is_one_of_gdals(tmp_path: Path) -> None:
    write_raster(tmp_path / "x.tif", np.zeros((16, 16), "uint8"))
    script = tmp_path / "script.py"
    script.write_text(
        "import logging, sys, rasterio.shutil\n"
        "logging.basicConfig(level=logging.DEBUG)\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        rasterio.shutil.copy('x.tif', 'y.tif', driver='COG', **{name: '512'})\n"
        "    except Exception:\n"
        "        pass\n"
    )
    command = [sys.executable, str(script), *sorted(COG_OPTIONS), "NO_SUCH_OPTION"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    refused = [line for line in done.stderr.splitlines() if "does not support creation option" in line]
    assert len(refused) == 1
    assert "NO_SUCH_OPTION" in refused[0]


@pytest.mark.parametrize("form", ["gtiff", "cog"])
@pytest.mark.parametrize("stage", ["levels", "copy", "close"])
def test_a_failed_copy_leaves_nothing(form: str, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = np.random.default_rng(3).normal(0, 1, (1, 640, 640)).astype("float32")
    mixer, shards = large_set(tmp_path, picture)
    before = contents(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    if stage == "levels":
        monkeypatch.setattr(geotfr.rasters.overviews, "halved", fail)
    elif stage == "copy":
        monkeypatch.setattr(geotfr.rasters.cog.rasterio.shutil, "copy", fail)
    else:
        monkeypatch.setattr(geotfr.rasters.sink.GeoTiffSink, "close", fail)
    outcome = run(
        *("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--format", form),
        *("--pyramiding-policy", "mean"),
    )
    assert outcome.code != 0
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == []


@pytest.mark.parametrize("form", ["gtiff", "cog"])
def test_a_full_disk_leaves_nothing(form: str, tmp_path: Path) -> None:
    import resource

    picture = np.random.default_rng(3).normal(0, 1, (1, 640, 640)).astype("float32")
    mixer, shards = large_set(tmp_path, picture)
    before = contents(tmp_path)
    from oracle.run import run_apart

    for limit in (200_000, 1_700_000):
        outcome = run_apart(
            *("ingest-predictions", mixer, *shards, "--output", tmp_path / "o.tif", "--format", form),
            *("--pyramiding-policy", "mean", "--compress", "none"),
            preexec=lambda limit=limit: (  # type: ignore[misc]
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
            ),
        )
        assert_refused(outcome, 14, "o.tif")
        assert contents(tmp_path) == before


def test_a_signal_during_the_last_copy_ends_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    picture = np.random.default_rng(3).normal(0, 1, (1, 64, 64)).astype("float32")
    mixer, shards = large_set(tmp_path, picture)
    before = contents(tmp_path)
    script = tmp_path.parent / "slow_copy.py"
    script.write_text(
        "import sys, threading\n"
        "import geotfr.rasters.cog as cog\n"
        "def slow(*_, **__):\n"
        "    print('copying', flush=True)\n"
        "    threading.Event().wait(60)\n"
        "real = cog.rasterio.shutil.copy\n"
        "def copy(*args, **options):\n"
        "    (slow if options['driver'] == 'COG' else real)(*args, **options)\n"
        "cog.rasterio.shutil.copy = copy\n"
        "from geotfr_cli.main import main\n"
        "main(sys.argv[1:])\n"
    )
    arguments = ["ingest-predictions", str(mixer), *map(str, shards), "--output", str(tmp_path / "o.tif")]
    with subprocess.Popen(
        [sys.executable, str(script), *arguments, "--format", "cog"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"copying\n"
        os.kill(process.pid, signal.SIGTERM)
        # The copy itself would take a minute.
        assert process.wait(30) == 143
    assert contents(tmp_path) == before


@pytest.mark.parametrize("dtype", ["uint8", "int64"])
@pytest.mark.parametrize("form", ["cog", "gtiff"])
@pytest.mark.parametrize("more", [{}, {"nodata": 9}, {"pyramiding_policy": "mode"}], ids=["plain", "nodata", "mode"])
def test_case_78_overviews_of_whole_numbers_hold_no_other_value(
    tmp_path: Path, dtype: str, form: str, more: dict[str, Any]
) -> None:
    values = np.random.default_rng(1).choice([1, 100], (1, 1024, 1024)).astype(dtype)
    mixer, shards = write_set(tmp_path, values, patch=(256, 256))
    if form == "gtiff":
        more = {"pyramiding_policy": "*=mode", **more}
    result = geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", format=form, **more)
    with rasterio.open(tmp_path / "o.tif") as raster:
        assert raster.overviews(1)
        levels = len(raster.overviews(1))
    for level in range(levels):
        with rasterio.open(tmp_path / "o.tif", overview_level=level) as raster:
            assert set(np.unique(raster.read(1))) <= {1, 100}
    told = [note for note in result.notes if "most frequent" in note]
    assert len(told) == ("pyramiding_policy" not in more)


@pytest.mark.parametrize("more", [{"scale": 0.1, "dtype": "int16"}, {}, {"dtype": "float32"}])
def test_overviews_of_measured_values_are_means(tmp_path: Path, more: dict[str, Any]) -> None:
    values = np.zeros((1, 1024, 1024), np.float32)
    values[:, ::2] = 10
    mixer, shards = write_set(tmp_path, values, patch=(256, 256))
    geotfr.ingest_predictions(
        mixer, shards, tmp_path / "o.tif", format="cog", creation_options={"BLOCKSIZE": 256}, **more
    )
    with rasterio.open(tmp_path / "o.tif", overview_level=0) as raster:
        assert set(np.unique(raster.read(1))) == {50 if "scale" in more else 5}


def classes_listed(style: Path) -> list[tuple[str, str, str, str]]:
    """(value, colour, alpha, label) of each entry of a QGIS style, by an XML parser."""
    root = ElementTree.fromstring(style.read_bytes())
    assert root.tag == "qgis"
    renderer = root.find("pipe/rasterrenderer")
    assert renderer is not None
    assert (renderer.get("type"), renderer.get("band")) == ("paletted", "1")
    entries = renderer.findall("colorPalette/paletteEntry")
    return [tuple(entry.get(key, "") for key in ("value", "color", "alpha", "label")) for entry in entries]  # type: ignore[misc]


def test_case_91_a_style_for_qgis_lists_the_classes_and_no_other(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, np.array([[[0, 3]]], "uint8"), patch=(2, 1))
    (tmp_path / "classes.csv").write_text('0,water & "sea",#1f78b4\n3,<forest>,#33a02c80\n7,,\n')
    given: dict[str, Any] = {"classes": tmp_path / "classes.csv"}
    result = geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", **given)
    style = tmp_path / "o.qml"
    assert result.style == style
    assert result.to_dict()["style"] == str(style)
    assert any(".qml" in note for note in result.notes)
    listed = classes_listed(style)
    assert listed[:2] == [("0", "#1f78b4", "255", 'water & "sea"'), ("3", "#33a02c", "128", "<forest>")]
    assert [entry[0] for entry in listed] == ["0", "3", "7"]
    assert listed[2][3] == "7"
    # Replaced with the raster, removed where it has no classes any more.
    (tmp_path / "classes.csv").write_text("0,a,#000000\n3,b,#ffffff\n")
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", overwrite=True, **given)
    assert [entry[3] for entry in classes_listed(style)] == ["a", "b"]
    assert geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", overwrite=True).style is None
    assert not style.exists()


def test_a_style_of_the_users_own_is_not_lost(tmp_path: Path) -> None:
    mixer, shards = write_set(tmp_path, np.array([[[0, 3]]], "uint8"), patch=(2, 1))
    (tmp_path / "classes.csv").write_text("0,a,#000000\n3,b,#ffffff\n")
    style = tmp_path / "o.qml"
    style.write_text("<qgis/>")
    with pytest.raises(geotfr.OutputExistsError, match=r"o\.qml.*overwrite"):
        geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", classes=tmp_path / "classes.csv")
    assert not (tmp_path / "o.tif").exists()
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif")
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", overwrite=True)
    assert style.read_text() == "<qgis/>"
    geotfr.ingest_predictions(mixer, shards, tmp_path / "o.tif", classes=tmp_path / "classes.csv", overwrite=True)
    assert len(classes_listed(style)) == 2
