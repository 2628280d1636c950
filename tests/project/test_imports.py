"""The rooms import one way, and light things stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Lower rooms first: a module may import from its own row and the rows before it.
ROWS = (
    ("plain_text",),
    ("errors", "_version"),
    ("background", "extras", "file_kinds", "flags", "regular_files"),
    ("stores",),
    ("grid",),
    ("patches", "records"),
    ("mixer",),
    ("options",),
    ("storage", "rasters", "vectors"),
    ("integrity", "datasets"),
    ("pipeline",),
    ("preview",),
)
RANK = {room: rank for rank, row in enumerate(ROWS) for room in row}
ONLY_IN = {
    "rasterio": "rasters",
    "affine": "rasters",
    "pyogrio": "vectors",
    "pyarrow": "vectors",
    "matplotlib": "preview",
    "obstore": "stores",
}
# Sub-rooms that keep apart: modules here import nothing of there, but for those that may.
APART = (
    ("pipeline/executors", ("catalog", "export", "ingest", "predict", "tables", "transfer"), ()),
    ("pipeline/export", ("export.parts",), ("export/parts/", "export/run.py")),
    ("pipeline/ingest", ("ingest.parts",), ("ingest/parts/", "ingest/run.py")),
)
HEAVY = (
    "numpy",
    "pandas",
    "pyarrow",
    "pyogrio",
    "geopandas",
    "rasterio",
    "pyproj",
    "google",
    "isal",
    "deflate",
    "zlib_ng",
    "tqdm",
    "tensorflow",
    "torch",
    "dask",
    "matplotlib",
    "xarray",
    "obstore",
)


def modules() -> list[Path]:
    return sorted((ROOT / "geotfr").rglob("*.py"))


def imported(path: Path) -> list[str]:
    """Names of all modules that ``path`` imports, in functions too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found += [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def room_of(path: Path) -> str:
    return path.relative_to(ROOT / "geotfr").parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_rooms_import_from_lower_rooms_only(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "geotfr_cli":
            pytest.fail(f"{path}: the library imports the command line")
        if parts[0] != "geotfr" or len(parts) < 2 or parts[1] not in RANK:
            continue
        other = parts[1]
        is_lower = RANK[other] < RANK[room] or {other, room} == {"patches", "records"}
        assert other == room or is_lower, f"{path}: {room} imports {other}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_library_has_one_importing_room(path: Path) -> None:
    for name in imported(path):
        room = ONLY_IN.get(name.split(".")[0])
        assert room is None or room_of(path) == room, f"{path} imports {name}; only {room} may"


def test_pyproj_has_one_importing_module() -> None:
    importing = {path for path in modules() if any(name.split(".")[0] == "pyproj" for name in imported(path))}
    assert importing == {ROOT / "geotfr/grid/crs.py"}


@pytest.mark.parametrize(("here", "there", "may"), APART, ids=[here for here, _, _ in APART])
def test_sub_rooms_keep_apart(here: str, there: tuple[str, ...], may: tuple[str, ...]) -> None:
    """Engines know no flow; a flow knows of its parts only where it hands over to them."""
    for path in sorted((ROOT / "geotfr" / here).rglob("*.py")):
        if any(each in path.as_posix() for each in may):
            continue
        for name in imported(path):
            assert not name.startswith(tuple(f"geotfr.pipeline.{other}" for other in there)), f"{path} imports {name}"


@pytest.mark.parametrize("statement", ["import geotfr", "from geotfr_cli.main import cli"])
def test_importing_the_package_or_the_command_line_loads_nothing_heavy(statement: str) -> None:
    code = f"{statement}\nimport sys\nprint(*sorted(m for m in sys.modules if m in {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom geotfr_cli.main import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', *sorted(m for m in sys.modules if m in {HEAVY!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["HEAVY"]


def test_every_public_name_can_be_loaded() -> None:
    import geotfr

    for name in geotfr.__all__:
        assert getattr(geotfr, name) is not None
    assert set(geotfr.__all__) <= set(dir(geotfr))
    with pytest.raises(AttributeError, match="no attribute 'export_imag'"):
        _ = geotfr.export_imag
