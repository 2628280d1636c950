"""The raster that an ingest writes: its file, overviews, side file and picture, each whole or not there."""

from __future__ import annotations

import contextlib
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from geotfr.errors import GeotfrError, OutputError, UsageError
from geotfr.pipeline.ingest.classes import class_colour
from geotfr.storage import atomic_path
from geotfr.storage.atomic import atomic_output
from geotfr.storage.lock import remove_folder, staging_stem
from geotfr.storage.output_error import output_error
from geotfr.storage.space import check_space, free_bytes
from geotfr.storage.style_files import STYLE_MARK, check_style, is_own_style, style_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.grid import GeoBox
    from geotfr.options import IngestOptions
    from geotfr.patches.pyramid import Policy
    from geotfr.pipeline.ingest.classes import ClassInfo
    from geotfr.pipeline.ingest.pixel_type import PixelType
    from geotfr.rasters.sink import GeoTiffSink

__all__ = ["BandStatistics", "Moments", "RasterOutput", "Samples", "folder_beside", "window_moments"]

_SAMPLE_PX = 256
_SAMPLES = 8
# Deflate makes at least one byte of so many; the others may do with less, but not where values differ.
_MOST_DEFLATED = 1032
_SIDE_FILES = (".aux.xml", ".ovr", ".msk")


@dataclass(slots=True)
class Samples:
    """Corners of some writes, compared with the file when it is reopened."""

    every: int
    kept: list[tuple[int, int, NDArray[Any]]] = field(default_factory=list)
    seen: int = 0

    @staticmethod
    def of(writes: int) -> Samples:
        """Some of about so many writes."""
        return Samples(every=max(writes // _SAMPLES, 1))

    @property
    def keeps_next(self) -> bool:
        """Whether the next write is taken note of."""
        return self.seen % self.every == 0

    def keep(self, row: int, col: int, data: NDArray[Any]) -> None:
        """Take note of a write, or not."""
        if self.keeps_next:
            self.kept.append((row, col, data[:, :_SAMPLE_PX, :_SAMPLE_PX].copy()))
        self.seen += 1


class Moments(NamedTuple):
    """What some pixels of a band add to its statistics: valid ones, their mean, squared deviations and extremes."""

    pixels: int
    mean: float
    squares: float
    low: float
    high: float


def window_moments(data: NDArray[Any], valid: NDArray[np.bool_] | None, nodata: float | None) -> tuple[Moments, ...]:
    """The moments of each band of pixels ``(band, row, col)``; ``valid`` (row, col) is the mask, if there is one."""
    return tuple(_moments(band, valid, nodata) for band in data)


def _moments(band: NDArray[Any], valid: NDArray[np.bool_] | None, nodata: float | None) -> Moments:
    known = np.isfinite(band) if band.dtype.kind == "f" else np.ones(band.shape, bool)
    if nodata is not None:
        known &= band != nodata
    if valid is not None:
        known &= valid
    values = band[known].astype(np.float64)
    if not values.size:
        return Moments(0, 0.0, 0.0, np.inf, -np.inf)
    mean = float(values.mean())
    return Moments(values.size, mean, float(((values - mean) ** 2).sum()), float(values.min()), float(values.max()))


class BandStatistics:
    """Least, greatest, mean and deviation of each band's valid pixels, as GDAL keeps them in a file."""

    def __init__(self, bands: int) -> None:
        self._found: list[tuple[float, float]] = [(np.inf, -np.inf)] * bands
        self._sums = np.zeros((bands, 3))  # count, mean, sum of squared deviations
        self._pixels = 0

    def add(self, pixels: int, moments: Sequence[Moments]) -> None:
        """Take note of so many pixels, valid or not, with these moments of each band."""
        self._pixels += pixels
        for index, found in enumerate(moments):
            if found.pixels:
                low, high = self._found[index]
                self._found[index] = min(low, found.low), max(high, found.high)
                self._sums[index] = _joined(self._sums[index], found)

    def tags(self) -> list[dict[str, str]]:
        """GDAL's metadata items of each band; none for a band without valid pixels."""
        tags = []
        for (low, high), (count, mean, squares) in zip(self._found, self._sums, strict=True):
            items = {
                "STATISTICS_MINIMUM": repr(low),
                "STATISTICS_MAXIMUM": repr(high),
                "STATISTICS_MEAN": repr(float(mean)),
                "STATISTICS_STDDEV": repr(float(np.sqrt(squares / max(count, 1)))),
                "STATISTICS_VALID_PERCENT": f"{100 * count / max(self._pixels, 1):.4g}",
            }
            tags.append(items if count else {})
        return tags


def _joined(sums: NDArray[np.float64], own: Moments) -> NDArray[np.float64]:
    """Count, mean and squared deviations of two parts together: no sum of squares that cancels."""
    count, mean, squares = sums
    total = count + own.pixels
    both = squares + own.squares + (own.mean - mean) ** 2 * count * own.pixels / total
    return np.array([total, mean + (own.mean - mean) * own.pixels / total, both])


@dataclass(frozen=True, slots=True, kw_only=True)
class RasterOutput:
    """What the output file is.

    Attributes
    ----------
    geobox, names, pixel
        Grid, band names, and type.
    options
        The ingest's.
    classes
        Names and colours of values; empty for none.
    threads
        Threads that compress.
    """

    geobox: GeoBox
    names: tuple[str, ...]
    pixel: PixelType
    options: IngestOptions
    classes: tuple[ClassInfo, ...]
    threads: int

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The pyramiding policy of each band, empty if there are no overviews.

        Without a word a COG's whole numbers take the mode, for they may be classes, and its other values the mean.

        Raises
        ------
        UsageError
            A policy for a band that isn't there, or bands without one.
        """
        given = dict(self.options.pyramiding)
        unknown = [name for name in given if name not in (*self.names, "*")]
        if unknown:
            raise UsageError(f"pyramiding_policy: no band {unknown[0]!r}; there are {', '.join(self.names)}")
        if not given and self.options.format == "gtiff":
            return ()
        default: list[Policy] = ["mode" if self.may_be_classes else "mean"] * len(self.names)
        if self.options.argmax:
            default[0] = "mode"
        return tuple(given.get(name, given.get("*", usual)) for name, usual in zip(self.names, default, strict=True))

    @property
    def may_be_classes(self) -> bool:
        """Whether pixels are whole numbers that stand for themselves: their mean may be a class that isn't there."""
        return self.pixel.dtype.kind in "iu" and not self.options.is_quantised

    @property
    def overview_note(self) -> str | None:
        """What to tell of overviews whose policy nobody has given."""
        if not self.policies or self.options.pyramiding or not self.may_be_classes:
            return None
        if self.classes or self.options.argmax or self.options.overlap == "vote":
            return None
        return (
            f"overviews hold the most frequent value (mode), for {self.pixel.dtype.name} may be classes;"
            " --pyramiding-policy mean averages"
        )

    @property
    def is_staged(self) -> bool:
        """Whether the pixels are written to a file of their own first."""
        return bool(self.policies)

    @property
    def creation_options(self) -> dict[str, str]:
        """GDAL's creation options that the user asked for."""
        options = dict(self.options.creation_options)
        if self.options.compress is not None:
            options["COMPRESS"] = self.options.compress.upper()
            level = "LEVEL" if self.options.format == "cog" else "ZSTD_LEVEL"
            if self.options.compress == "zstd" and level not in options:
                options[level] = "1"
        return options

    @contextlib.contextmanager
    def written(self, target: Path, *, overwrite: bool) -> Iterator[tuple[Path, Path]]:
        """(where the pixels go, where the raster comes to be), one path if nothing is staged.

        ``target`` is whole when the block ends well; what lies beside it is removed.
        """
        check_style(target, overwrite=overwrite or not self.classes)
        with contextlib.ExitStack() as stack:
            temporary = stack.enter_context(atomic_path(target, overwrite=overwrite))
            base = temporary
            if self.is_staged:
                base = stack.enter_context(folder_beside(target)) / "base.tif"
            yield base, temporary
        # What described the raster that was replaced; a style of the user's own stays.
        style = style_path(target)
        old = [Path(f"{target}{suffix}") for suffix in _SIDE_FILES] + ([style] if is_own_style(style) else [])
        for path in old:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise output_error(path, error) from error
        if self.classes:
            with atomic_output(style, overwrite=True) as file:
                file.write(self._style_xml().encode())
        if self._has_category_names or self.crs_warning:
            with atomic_output(f"{target}.aux.xml", overwrite=True) as file:
                file.write(self._side_file_xml().encode())

    def takes_tiles(self, block_yx: tuple[int, int]) -> bool:
        """Whether tiles that another file of the same make holds may be put into the pixels' file as they are."""
        from geotfr.rasters.tile_merge import merges_tiles

        # A mask inside the file is an image of its own.
        return not self.pixel.has_mask and merges_tiles(self._sink_options(block_yx))

    def _sink_options(self, block_yx: tuple[int, int]) -> dict[str, str]:
        """All of GDAL's creation options of the pixels' file."""
        from geotfr.rasters.creation import creation_options
        from geotfr.rasters.overviews import STAGE_OPTIONS

        return creation_options(
            STAGE_OPTIONS if self.is_staged else self.creation_options,
            shape=(len(self.names), *self.geobox.shape_yx),
            dtype=self.pixel.dtype,
            block_yx=block_yx,
            threads=self.threads,
        )

    def part_sink(self, path: Path, block_yx: tuple[int, int], geobox: GeoBox) -> GeoTiffSink:
        """A file of some of the pixels, whose tiles are those of the whole where these can be put together."""
        from geotfr.rasters.overviews import STAGE_OPTIONS
        from geotfr.rasters.sink import GeoTiffSink

        is_whole = self.takes_tiles(block_yx)
        return GeoTiffSink(
            path,
            geobox=geobox,
            dtype=self.pixel.dtype,
            band_names=self.names,
            nodata=self.pixel.nodata,
            creation_options=STAGE_OPTIONS if self.is_staged or not is_whole else self.creation_options,
            block_yx=block_yx,
            threads=self.threads,
            has_whole_tiles=is_whole,
        )

    def sink(self, path: Path, block_yx: tuple[int, int], *, is_empty: bool = False) -> GeoTiffSink:
        """The file that the pixels are written to; ``is_empty``: that tiles of other files are put into."""
        from geotfr.rasters.overviews import STAGE_OPTIONS
        from geotfr.rasters.sink import GeoTiffSink

        colours = {each.value: each.rgba for each in self.classes if each.rgba is not None}
        scale, offset = self.options.scale, self.options.offset
        return GeoTiffSink(
            path,
            geobox=self.geobox,
            dtype=self.pixel.dtype,
            band_names=self.names,
            nodata=self.pixel.nodata,
            creation_options={
                **(STAGE_OPTIONS if self.is_staged else self.creation_options),
                **({"SPARSE_OK": "TRUE"} if is_empty else {}),
            },
            block_yx=block_yx,
            # With a mask inside the file, how many threads compress decides where GDAL puts its tiles.
            threads=1 if self.pixel.has_mask and not self.is_staged else self.threads,
            colours=colours if self._takes_colours else None,
            has_whole_tiles=not self.pixel.has_mask and not is_empty,
            scale_offset=(1.0 if scale is None else scale, offset or 0.0) if self.options.is_quantised else None,
        )

    def assemble(self, base: Path, temporary: Path, block_yx: tuple[int, int]) -> None:
        """Make the raster of the staged pixels, with overviews; nothing to do where none are staged."""
        if base == temporary:
            return
        from geotfr.rasters.cog import copy_raster
        from geotfr.rasters.overviews import with_overviews, write_levels

        source = with_overviews(base, write_levels(base, self.policies, threads=self.threads))
        driver = "COG" if self.options.format == "cog" else "GTiff"
        copy_raster(source, temporary, driver=driver, options=self.all_options(block_yx))

    def all_options(self, block_yx: tuple[int, int]) -> dict[str, str]:
        """GDAL's creation options of the raster, the defaults too; tiles of ``block_yx`` unless they say otherwise.

        Raises
        ------
        UsageError
            An option that GDAL doesn't have.
        """
        from geotfr.rasters.cog import cog_options, gtiff_copy_options
        from geotfr.rasters.creation import creation_options

        shape = (len(self.names), *self.geobox.shape_yx)
        common: dict[str, Any] = {"shape": shape, "dtype": self.pixel.dtype, "threads": self.threads}
        if self.options.format == "cog":
            return cog_options(self.creation_options, **common)
        make = gtiff_copy_options if self.is_staged else creation_options
        return make(self.creation_options, block_yx=block_yx, **common)

    @property
    def levels_yx(self) -> tuple[tuple[int, int], ...]:
        """(rows, columns) of the overviews."""
        from geotfr.rasters.overviews import overview_shapes

        return tuple(overview_shapes(self.geobox.shape_yx)) if self.policies else ()

    @property
    def most_bytes(self) -> int:
        """What the pixels and overviews take uncompressed, and their mask."""
        pixel_bytes = len(self.names) * self.pixel.dtype.itemsize + self.pixel.has_mask
        return sum(rows * cols for rows, cols in (self.geobox.shape_yx, *self.levels_yx)) * pixel_bytes

    def check_space(self, folder: Path, block_yx: tuple[int, int]) -> str:
        """Refuse a raster that can't fit into ``folder``; a warning where it may not, else nothing.

        Raises
        ------
        OutputError
            Too little space whatever the values are.
        """
        options = self.all_options(block_yx)
        is_plain = options.get("COMPRESS") == "NONE" and options.get("SPARSE_OK", "NO").upper() in ("NO", "FALSE")
        check_space(folder, self.most_bytes // (1 if is_plain else _MOST_DEFLATED), what="this raster")
        most = self.most_bytes * (2 if self.is_staged else 1)
        free = free_bytes(folder)
        if most <= free:
            return ""
        staged = " with the files on the way to it" if self.is_staged else ""
        return f"the raster may not fit: uncompressed it takes {most:,} bytes{staged}; {free:,} are free in {folder}"

    def check(self, path: Path, samples: Sequence[tuple[int, int, NDArray[Any]]]) -> None:
        """Reopen the raster and compare it with what was meant."""
        from geotfr.rasters.read_back import check_raster

        check_raster(
            path,
            geobox=self.geobox,
            dtype=self.pixel.dtype,
            band_names=self.names,
            nodata=self.pixel.nodata,
            samples=samples,
        )

    @property
    def _takes_colours(self) -> bool:
        return len(self.names) == 1 and self.pixel.dtype in (np.uint8, np.uint16)

    def _style_xml(self) -> str:
        """QGIS' style of a raster of classes, which lists those of the file and no other.

        **Source**: QGIS' layer style files; it reads ``NAME.qml`` with ``NAME.tif``.
        """
        entries = []
        for place, each in enumerate(self.classes):
            red, green, blue, alpha = each.rgba or (*class_colour(each.value, place), 255)
            words = quoteattr(each.name or str(each.value))
            entries.append(
                f'        <paletteEntry value="{each.value}" color="#{red:02x}{green:02x}{blue:02x}" alpha="{alpha}"'
                f" label={words}/>\n"
            )
        return (
            "<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>\n"
            f'{STYLE_MARK}\n<qgis version="3.22" styleCategories="Symbology">\n  <pipe>\n'
            '    <rasterrenderer type="paletted" band="1" opacity="1" alphaBand="-1">\n      <colorPalette>\n'
            f"{''.join(entries)}      </colorPalette>\n    </rasterrenderer>\n  </pipe>\n</qgis>\n"
        )

    @property
    def _has_category_names(self) -> bool:
        return any(each.name for each in self.classes)

    @property
    def crs_warning(self) -> str:
        """That a GeoTIFF has no form for the CRS; empty where it has one."""
        from geotfr.rasters.gtiff_crs import gtiff_holds

        if gtiff_holds(self.geobox.crs):
            return ""
        return "a GeoTIFF has no form for the CRS: it is in the file .aux.xml beside the raster; keep them together"

    def _side_file_xml(self) -> str:
        """What a GeoTIFF can't hold, category names and some CRSs: GDAL's side file.

        **Source**: GDAL's PAM files; the place in the list is the value.
        """
        from geotfr.grid.crs import crs_wkt2

        srs = f"  <SRS>{escape(crs_wkt2(self.geobox.crs))}</SRS>\n" if self.crs_warning else ""
        bands = self._category_xml() if self._has_category_names else ""
        return f"<PAMDataset>\n{srs}{bands}</PAMDataset>\n"

    def _category_xml(self) -> str:
        names = dict.fromkeys(range(self.classes[-1].value + 1), "")
        names |= {each.value: each.name for each in self.classes}
        lines = "".join(f"      <Category>{escape(name)}</Category>\n" for name in names.values())
        return f'  <PAMRasterBand band="1">\n    <CategoryNames>\n{lines}    </CategoryNames>\n  </PAMRasterBand>\n'


@contextlib.contextmanager
def folder_beside(target: Path, *, locked: Path | None = None) -> Iterator[Path]:
    """A hidden folder beside ``target`` for files on the way to it; gone when the block ends.

    What a killed run left of it is removed by the next one that locks ``target``, or the name ``locked`` instead.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{staging_stem(locked or target)}-", suffix=".tmp", dir=target.parent))
    except OSError as error:
        raise OutputError(f"{target}: can't be written: {error.strerror} in its folder") from error
    try:
        yield folder
    except GeotfrError as error:
        # GDAL spoke of a file in there; the user knows the final name.
        error.args = (
            re.sub(rf"{re.escape(str(folder))}/[a-z0-9.-]+", lambda _: str(target), str(error)),
            *error.args[1:],
        )
        raise
    finally:
        remove_folder(folder)
