"""The patch layout behind whatever a user has: a raster with options, a plan, a result, a mixer or a manifest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geotfr.errors import UsageError
from geotfr.mixer import Manifest, Mixer, is_manifest, is_mixer, read_manifest, read_mixer
from geotfr.mixer.sets import grid_file, manifest_beside
from geotfr.patches import PatchLayout
from geotfr.pipeline.export.plan import ExportPlan
from geotfr.pipeline.export.run import ExportResult, plan_export
from geotfr.stores.path import input_path

if TYPE_CHECKING:
    from geotfr.options import ExportKeywords, PairXY

__all__ = ["DrawnLayout", "layout_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnLayout:
    """What is drawn of a set: its ``name``, its ``layout``, and the numbers of the patches that it lacks."""

    name: str
    layout: PatchLayout
    dropped: tuple[int, ...] = ()


def layout_of(
    source: Any,
    *,
    patch_dimensions: PairXY | None,
    kernel_size: PairXY | None,
    source_options: ExportKeywords | None,
) -> DrawnLayout:
    """The layout that ``source`` tells.

    Raises
    ------
    UsageError
        A raster without ``patch_dimensions``, or options for what isn't a raster.
    InputError, DamagedError
        A file that is missing or can't be read.
    """
    sizes = {"patch_dimensions": patch_dimensions, "kernel_size": kernel_size}
    given: Any = {name: value for name, value in {**sizes, **(source_options or {})}.items() if value is not None}
    known = _known(source)
    if known is not None:
        if given:
            raise UsageError(f"{next(iter(given))}: is for rasters; {known.name} tells its own patches")
        return known
    if patch_dimensions is None and "format_options" not in given:
        raise UsageError("patch_dimensions: a raster alone has no patches; give their size")
    plan = plan_export(source, **given)
    name = Path(source).name if isinstance(source, str | os.PathLike) else "raster"
    return DrawnLayout(name=name, layout=plan.layout)


def _known(source: Any) -> DrawnLayout | None:
    """The layout of all that isn't a raster."""
    if isinstance(source, ExportResult):
        source = source.manifest
    if isinstance(source, ExportPlan):
        return DrawnLayout(name="plan", layout=source.layout)
    if isinstance(source, Manifest):
        return _of_manifest(source, "manifest")
    if isinstance(source, Mixer):
        return DrawnLayout(name="mixer", layout=_of_mixer(source))
    if not isinstance(source, str | os.PathLike):
        return None
    path = input_path(source)
    if path.is_dir():
        path = grid_file(path)
    if path.suffix != ".json" and not (path.is_file() and (is_mixer(path) or is_manifest(path))):
        return None
    if path.is_file() and is_manifest(path):
        return _of_manifest(read_manifest(path), path.name)
    mixer = read_mixer(path)
    manifest = manifest_beside(path, mixer)
    if manifest is not None:
        return _of_manifest(manifest, path.name)
    return DrawnLayout(name=path.name, layout=_of_mixer(mixer))


def _of_manifest(manifest: Manifest, name: str) -> DrawnLayout:
    layout = PatchLayout(
        geobox=manifest.geobox,
        patch_yx=manifest.patch_yx,
        kernel_yx=manifest.kernel_yx,
        pads_edge=manifest.pads_edge,
    )
    return DrawnLayout(name=name, layout=layout, dropped=manifest.patches_dropped)


def _of_mixer(mixer: Mixer) -> PatchLayout:
    return PatchLayout(geobox=mixer.geobox, patch_yx=(mixer.patch_xy[1], mixer.patch_xy[0]))
