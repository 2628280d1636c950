"""Run the command lines of the golden corpus and take the SHA-256 of every file that they write.

``python tests/golden/corpus.py --write`` keeps what this version writes as right: only with a reason, which the commit
tells. Manifests are compared without geotfr's own version.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
import zlib
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from golden.inputs import make_inputs
from golden.lines import LINES
from oracle.run import run

import geotfr

GOLDEN = Path(__file__).with_name("golden.json")
LIBRARIES = ("deflate", "isal", "numpy", "pyarrow", "pyogrio", "rasterio", "zlib-ng")
"""Their versions decide bytes: with others the corpus says nothing."""


def versions() -> dict[str, str]:
    """The versions here of the libraries that decide bytes."""
    return {name: version(name) for name in LIBRARIES} | {"zlib": zlib.ZLIB_RUNTIME_VERSION}


def digests(name: str, folder: Path) -> dict[str, str]:
    """SHA-256 of each file that the lines called ``name`` leave in ``folder/name``, by its path in there.

    ``folder`` is the current folder and has the inputs in ``in/``.
    """
    Path(name).mkdir()
    for line in LINES[name]:
        command, *words = (word.replace("@", name) for word in shlex.split(line))
        if command == "!damage":
            _damage(Path(words[0]))
            continue
        ended = run(command, *(path for word in words for path in _expanded(word)), "--quiet")
        assert ended.code in (0, 3), f"{name}: geotfr {line}: exit {ended.code}: {ended.told}"
    made = sorted(path for path in (folder / name).rglob("*") if path.is_file())
    return {path.relative_to(folder / name).as_posix(): _digest(path) for path in made}


def _digest(path: Path) -> str:
    content = path.read_bytes()
    if path.name.endswith("manifest.json"):
        content = content.replace(b'"geotfr_version": "%s"' % geotfr.__version__.encode(), b"")
    return hashlib.sha256(content).hexdigest()


def _expanded(word: str) -> list[str]:
    """As the shell expands it, but for patterns that geotfr expands itself."""
    return sorted(map(str, Path().glob(word))) if "*" in word and "=" not in word else [word]


def _damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def _write() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        Path("in").mkdir()
        make_inputs(Path("in"))
        files = {name: digests(name, Path.cwd()) for name in LINES}
    GOLDEN.write_text(json.dumps({"versions": versions(), "files": files}, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/golden/corpus.py --write")
    _write()
