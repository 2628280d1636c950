"""Export every GeoTIFF of a folder, each as a set of its own; go on where a run was stopped; tell what failed.

    python examples/export_folder.py SCENES OUTPUT '{"patchDimensions": 256, "kernelSize": 128}'

``SCENES/2024/a.tif`` becomes ``OUTPUT/2024/a/`` with shards, mixer and manifest. Sets that are whole are kept, so the
same command exports what is new, or what failed. One bad raster doesn't stop the others; then the exit code is the
first failure's.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import geotfr

if TYPE_CHECKING:
    from collections.abc import Mapping

SUFFIXES = (".tif", ".tiff")


def export_folder(scenes: Path, output: Path, format_options: Mapping[str, object]) -> dict[Path, str | Exception]:
    """What became of each raster below ``scenes``: a line, or the error that stopped it."""
    rasters = sorted(path for path in scenes.rglob("*") if path.suffix.lower() in SUFFIXES)
    told: dict[Path, str | Exception] = {}
    for raster in rasters:
        folder = output / raster.relative_to(scenes).with_suffix("")
        # The manifest is written last: where it stands, the set is whole.
        if (folder / "manifest.json").exists():
            told[raster] = "kept"
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            done = geotfr.export_image(raster, f"{folder}/", format_options=dict(format_options), resume=True)
        except geotfr.GeotfrError as error:
            told[raster] = error
        else:
            told[raster] = done.to_text().splitlines()[0]
    return told


def main() -> int:
    """Export, print a line for each raster, and return an exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenes", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("format_options", type=json.loads, metavar="JSON", help="Earth Engine's formatOptions")
    given = parser.parse_args()
    told = export_folder(given.scenes, given.output, given.format_options)
    for raster, line in told.items():
        print(line if isinstance(line, Exception) else f"{raster}: {line}")
    failures = [line for line in told.values() if isinstance(line, geotfr.GeotfrError)]
    print(f"{len(told) - len(failures)} of {len(told)} rasters are exported")
    return failures[0].exit_code if failures else 0


if __name__ == "__main__":
    sys.exit(main())
