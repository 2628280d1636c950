"""Pictures show what is there: patches at their places, values in their stretch, masks, classes and counts."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets.scenes import PATCH_XY, write_scene
from matplotlib.colors import to_rgb
from oracle.rasters import NORTH_UP, numbered, read_raster, write_raster
from oracle.run import assert_refused, run

import geotfr
from geotfr.errors import OutputExistsError, UsageError
from geotfr.preview.figures import MARGIN, MASKED, label

PLACE = (NORTH_UP[:6], "EPSG:32618")


def legend(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def rectangles(axes: Any, colour: str) -> set[tuple[float, float, float, float]]:
    """(x, y, width, height) of the rectangles with edges of ``colour``."""
    return {
        (*patch.get_xy(), patch.get_width(), patch.get_height())
        for patch in axes.patches
        if patch.get_edgecolor()[:3] == to_rgb(colour)
    }


# The grid.


def test_the_numbers_of_patches_read_row_by_row() -> None:
    figure = geotfr.plot_grid((np.zeros((20, 30)), *PLACE), patch_dimensions=10)
    places = {text.get_text(): text.get_position() for text in figure.axes[0].texts}
    assert places == {
        "0": (5, 5), "1": (15, 5), "2": (25, 5), "3": (5, 15), "4": (15, 15), "5": (25, 15)
    }  # fmt: skip
    # Rows go down.
    bottom, top = figure.axes[0].get_ylim()
    assert bottom > top


def test_the_grid_shows_margins_and_what_the_edges_leave_out() -> None:
    figure = geotfr.plot_grid((np.zeros((600, 600)), *PLACE), patch_dimensions=256, kernel_size=128, highlight=1)
    axes = figure.axes[0]
    assert axes.get_title() == "raster: 2 x 2 patches of 256 x 256, margin 64 x 64"
    assert legend(figure) == ["patch", "block: with margins", "left out: 88 columns, 88 rows (27.2%)"]
    assert (256 - 64, -64, 384, 384) in rectangles(axes, MARGIN)
    hatched = {(*p.get_xy(), p.get_width(), p.get_height()) for p in axes.patches if p.get_hatch()}
    assert hatched == {(0, 512, 600, 88), (512, 0, 88, 512)}


def test_a_padded_edge_is_hatched_beyond_the_raster() -> None:
    figure = geotfr.plot_grid((np.zeros((5, 6)), *PLACE), patch_dimensions=4, source_options={"edge": "pad"})
    hatched = {(*p.get_xy(), p.get_width(), p.get_height()) for p in figure.axes[0].patches if p.get_hatch()}
    assert hatched == {(0, 5, 8, 3), (6, 0, 2, 5)}
    assert legend(figure) == ["patch", "padded: masked"]


def test_dropped_patches_are_crossed_out(tmp_path: Path) -> None:
    pixels = numbered(1, 16, 16)
    pixels[:, :8, 8:] = np.nan
    result = geotfr.export_image((pixels, *PLACE), tmp_path / "s", patch_dimensions=8, masked_threshold=0.5)
    for source in (result, result.manifest, geotfr.read_manifest(result.manifest), tmp_path):
        figure = geotfr.plot_grid(source, raster=(pixels, *PLACE))
        crosses = [c for c in figure.axes[0].collections if to_rgb(MASKED) == tuple(c.get_edgecolor()[0][:3])]
        corners = {tuple(map(tuple, path.vertices)) for path in crosses[0].get_paths()}
        assert corners == {((8, 0), (16, 8)), ((16, 0), (8, 8))}
        assert legend(figure)[-1] == "dropped: 1"


def test_the_raster_lies_where_it_does_on_the_export_s_grid(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "scene.tif", numbered(1, 20, 40))
    transform = (10, 0, NORTH_UP.c + 100, 0, -10, NORTH_UP.f - 50)
    result = geotfr.export_image(
        source, tmp_path / "s", patch_dimensions=5, crs_transform=transform, dimensions=(20, 10)
    )
    figure = geotfr.plot_grid(result.mixer, raster=source)
    image = figure.axes[0].images[0]
    to_grid = image.get_transform() - figure.axes[0].transData
    np.testing.assert_allclose(to_grid.transform([(0, 0), (40, 20)]), [(-10, -5), (30, 15)], atol=1e-6)
    # Of another CRS it is left out.
    other = geotfr.plot_grid(result.mixer, raster=(np.zeros((4, 4)), PLACE[0], "EPSG:4326"))
    assert not other.axes[0].images


def test_a_grid_of_many_patches_has_no_line_for_each() -> None:
    figure = geotfr.plot_grid((np.zeros((2000, 2000), "u1"), *PLACE), patch_dimensions=1)
    assert len(figure.axes[0].collections[0].get_segments()) < 1100
    assert not figure.axes[0].texts


# The contact sheet.


def shades_of(values: np.ndarray, of: np.ndarray) -> np.ndarray:
    """0 to 254 between the 2nd and 98th percentile of ``of``, as the words say."""
    low, high = np.percentile(of, (2, 98))
    return (np.clip((values.astype("f8") - low) / (high - low), 0, 1) * 254).astype("u1")


def cells(figure: Any) -> list[np.ndarray]:
    return [np.asarray(image.get_array()) for image in figure.axes[0].images]


def test_a_contact_sheet_has_each_patch_in_one_stretch(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).normal(5, 1, (3, 16, 24)).astype("float32")
    result = geotfr.export_image((pixels, *PLACE), tmp_path / "s", patch_dimensions=8)
    figure = geotfr.plot_patches(result)
    assert [text.get_text() for text in figure.axes[0].texts] == list("012345")
    for number, cell in enumerate(cells(figure)):
        row, col = divmod(number, 3)
        own = pixels[:, row * 8 : row * 8 + 8, col * 8 : col * 8 + 8]
        for channel in range(3):
            np.testing.assert_array_equal(cell[..., channel], shades_of(own[channel], pixels[channel]))
    each = geotfr.plot_patches(result, bands="b2", patches=[4], stretch_each=True)
    np.testing.assert_array_equal(cells(each)[0][..., 0], shades_of(pixels[1, 8:, 8:16], pixels[1, 8:, 8:16]))


def test_masked_pixels_have_a_pattern_and_the_margin_a_frame(tmp_path: Path) -> None:
    pixels = numbered(2, 8, 8)
    pixels[0, 2:4, 5] = -1
    source = write_raster(tmp_path / "scene.tif", pixels, nodata=-1)
    result = geotfr.export_image(source, tmp_path / "s", patch_dimensions=4, kernel_size=2, default_value=-7)
    figure = geotfr.plot_patches(result, bands="b2")
    is_grey = [np.ptp(cell, axis=2) == 0 for cell in cells(figure)]
    around = np.pad(pixels[0] != -1, 1)
    for number, found in enumerate(is_grey):
        row, col = divmod(number, 2)
        np.testing.assert_array_equal(found, around[row * 4 : row * 4 + 6, col * 4 : col * 4 + 6])
    assert legend(figure) == ["patch, within its margins", "masked: NaN or -7 in every band"]
    assert len(rectangles(figure.axes[0], MARGIN)) == 4


def test_bands_apart_and_tensors_by_channel(tmp_path: Path) -> None:
    pixels = numbered(3, 4, 8, "uint8")
    result = geotfr.export_image((pixels, *PLACE), tmp_path / "s", patch_dimensions=4)
    figure = geotfr.plot_patches(result.mixer, composite=False)
    assert [text.get_text() for text in figure.axes[0].texts] == [
        f"{number}  {band}" for number in (0, 1) for band in ("b1", "b2", "b3")
    ]
    tensor = geotfr.export_image((pixels, *PLACE), tmp_path / "t", patch_dimensions=4, collapse_bands=True)
    figure = geotfr.plot_patches(tensor, bands=["b1[2]"])
    np.testing.assert_array_equal(cells(figure)[1][..., 0], shades_of(pixels[2, :, 4:], pixels[2]))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bands": "b9"}, "no 'b9'"),
        ({"composite": True, "bands": "b1"}, "takes three bands"),
        ({"patches": [4]}, "found 4; there are 0 to 3"),
        ({"count": 0}, "count: found 0"),
        ({"percentiles": (98, 2)}, "percentiles"),
        ({"percentiles": 2}, "percentiles"),
    ],
    ids=["band", "composite", "patch", "count", "descending", "one"],
)
def test_a_sheet_that_can_t_be_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    result = geotfr.export_image((numbered(1, 8, 8), *PLACE), tmp_path / "s", patch_dimensions=4)
    with pytest.raises(UsageError, match=words):
        geotfr.plot_patches(result, **options)


# Classes.


def test_classes_have_names_colours_and_shares(tmp_path: Path) -> None:
    field = np.array([[0, 0, 3], [3, 3, 7]], "uint8")
    (tmp_path / "classes.csv").write_text("0,water,#0000ff\n3,$for$est,#00ff00\n")
    source = write_raster(tmp_path / "map.tif", field, nodata=7)
    figure = geotfr.plot_classes(source, classes=tmp_path / "classes.csv")
    assert legend(figure) == ["0  water  40.0%", r"3  \$for\$est  60.0%", "masked"]
    np.testing.assert_array_equal(
        cells(figure)[0],
        [[[0, 0, 255], [0, 0, 255], [0, 255, 0]], [[0, 255, 0], [0, 255, 0], [255, 255, 255]]],
    )


def test_a_class_has_one_colour_in_every_picture_and_a_colour_table_is_used(tmp_path: Path) -> None:
    one, two = (geotfr.plot_classes((np.full((2, 2), n, "uint8"), *PLACE)) for n in (5, 5))
    both = geotfr.plot_classes((np.array([[1, 5]], "uint8"), *PLACE))
    assert (cells(one)[0][0, 0] == cells(both)[0][0, 1]).all()
    assert (cells(one)[0] == cells(two)[0]).all()
    import rasterio

    path = write_raster(tmp_path / "t.tif", np.array([[0, 1]], "uint8"))
    with rasterio.open(path, "r+") as raster:
        raster.write_colormap(1, {0: (10, 20, 30, 255), 1: (200, 100, 50, 255)})
    np.testing.assert_array_equal(cells(geotfr.plot_classes(path))[0], [[[10, 20, 30], [200, 100, 50]]])


def test_many_classes_are_cut_to_the_most_frequent_and_fractions_are_no_classes() -> None:
    field = np.minimum(np.arange(100), 90).reshape(10, 10)
    texts = legend(geotfr.plot_classes((field, *PLACE)))
    assert len(texts) == 31
    assert "90  10.0%" in texts
    assert texts[-1] == "and 61 more  61.0%"
    with pytest.raises(UsageError, match="no whole numbers"):
        geotfr.plot_classes((np.array([[0.5]]), *PLACE))
    assert legend(geotfr.plot_classes((np.array([[1.0, np.nan]]), *PLACE))) == ["1  100.0%", "masked"]


# Histograms.


def test_histograms_count_the_valid_pixels_of_each_band(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).normal(0, 1, (2, 32, 32)).astype("float32")
    pixels[0, :8] = -99
    source = write_raster(tmp_path / "scene.tif", pixels, nodata=-99, descriptions=("red", "nir"))
    figure = geotfr.plot_histograms(source, bins=10)
    red, nir = figure.axes
    counts, _ = np.histogram(pixels[0, 8:].astype("f8"), 10)
    np.testing.assert_array_equal(red.patches[0].get_data().values, counts)
    assert red.get_xlabel() == "masked: 25.0%"
    assert nir.get_xlabel() == ""
    assert nir.get_title() == f"nir: {pixels[1].min():.6g} to {pixels[1].max():.6g}"


def test_whole_numbers_have_bars_that_hold_equally_many_values() -> None:
    few = geotfr.plot_histograms((np.array([[1, 2, 2, 5]], "uint8"), *PLACE)).axes[0]
    assert {round(bar.get_x() + 0.4): bar.get_height() for bar in few.patches} == {1: 1, 2: 2, 5: 1}
    flat = geotfr.plot_histograms((np.arange(200, dtype="uint8").reshape(10, 20), *PLACE), bins=50).axes[0]
    assert set(flat.patches[0].get_data().values.tolist()) == {4}


def test_histograms_of_patches_leave_margins_and_masked_pixels_out(tmp_path: Path) -> None:
    pixels = numbered(1, 8, 8, "uint8")
    result = geotfr.export_image(
        (pixels, *PLACE), tmp_path / "s", patch_dimensions=4, kernel_size=4, feature_kinds="native"
    )
    for source in (result, geotfr.PatchDataset(result.mixer)):
        axes = geotfr.plot_histograms(source, bins=64).axes[0]
        assert axes.patches[0].get_data().values.tolist() == [1] * 64
    with pytest.raises(UsageError, match="no 'x'"):
        geotfr.plot_histograms(result, bands="x")


def test_a_band_without_a_valid_pixel_is_told() -> None:
    axes = geotfr.plot_histograms((np.full((2, 2), np.nan), *PLACE)).axes[0]
    assert axes.get_title() == "b1: no valid pixel"


# Files, names and the command.


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_the_same_picture_gives_the_same_bytes_whole_or_not_at_all(tmp_path: Path, suffix: str) -> None:
    for name in ("a", "b"):
        figure = geotfr.plot_grid((numbered(1, 8, 8), *PLACE), patch_dimensions=4)
        geotfr.write_figure(figure, tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    with pytest.raises(OutputExistsError):
        geotfr.write_figure(figure, tmp_path / f"a.{suffix}")
    with pytest.raises(UsageError, match=r"ends in \.png"):
        geotfr.write_figure(figure, tmp_path / "a.gif")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{suffix}", f"b.{suffix}"]


@pytest.mark.parametrize("name", [r"$\frac{1}$", "$", "two\nlines", "漢字", "a" * 500, "\\", "\x07", "</svg>&"])
def test_any_name_is_a_label(tmp_path: Path, name: str) -> None:
    figure = geotfr.plot_classes((np.zeros((2, 2), "uint8"), *PLACE), classes={0: name}, title=name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        geotfr.write_figure(figure, tmp_path / "a.png")
        geotfr.write_figure(figure, tmp_path / "a.svg")
    assert len(label(name)) <= 120
    assert "\n" not in label(name)


def test_a_notebook_shows_a_figure_without_pyplot() -> None:
    figure: Any = geotfr.plot_grid((numbered(1, 8, 8), *PLACE), patch_dimensions=4)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    source = write_raster(tmp_path / "s.tif", numbered(1, 8, 8))
    for args in (
        ("grid", source, "--patch-dimensions", "4"),
        ("patches", tmp_path),
        ("classes", source),
        ("histograms", source),
    ):
        assert_refused(run("preview", *args, "-o", tmp_path / "x.png"), 2, "pip install 'geotfr[plot]'")


def test_every_picture_is_a_command(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "s.tif", numbered(3, 16, 16, "uint8"))
    geotfr.export_image(source, f"{tmp_path}/set/", patch_dimensions=8)
    for args in (
        ("grid", source, "--patch-dimensions", "8,4", "--kernel-size", "2", "--edge", "pad", "--bands", "3,2,1"),
        ("grid", tmp_path / "set", "--raster", source),
        ("patches", tmp_path / "set", "--bands", "b3", "--patches", "3,1"),
        ("classes", source, "--band", "2"),
        ("histograms", tmp_path / "set", "--log"),
        ("histograms", source, "--bands", "1,b3"),
    ):
        target = tmp_path / "x.png"
        done = run("preview", *args, "-o", target, "--json", "--overwrite")
        assert done.code == 0, done.told
        assert f'"output": "{target}"' in done.stdout
        assert read_raster(target)[0].shape[0] in (3, 4)
    assert_refused(run("preview", "classes", source, "-o", target), 14, "exists")
    assert_refused(run("preview", "classes", source, "-o", tmp_path / "x.jpg"), 2, ".png")
    assert_refused(run("preview", "grid", source, "-o", tmp_path / "y.png"), 2, "patch_dimensions")
    assert_refused(run("preview", "patches", tmp_path / "set", "--patches", "x", "-o", tmp_path / "y.png"), 2, "whole")
    assert_refused(run("preview", "classes", tmp_path / "none.tif", "-o", tmp_path / "y.png"), 10, "no such file")


def test_one_shard_of_a_larger_set_has_a_sheet(tmp_path: Path) -> None:
    scene = write_scene(tmp_path, margin_xy=(2, 2), shards=4)
    part = (scene.mixer, scene.shards[2], "-o", tmp_path / "x.png")
    refused = run("preview", "patches", *part)
    assert_refused(refused, 12, "first_patch")
    for given in (
        ("--kernel-size", "4", "--first-patch", "10", *part),
        ("--kernel-size", "4", "--patch-dimensions", ",".join(map(str, PATCH_XY)), *part[1:]),
    ):
        done = run("preview", "patches", *given, "--overwrite")
        assert done.code == 0, done.stderr
    assert_refused(run("preview", "patches", *part[1:], "--kernel-size", "4"), 2, "patch_dimensions")
