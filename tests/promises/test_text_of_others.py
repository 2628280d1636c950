"""Text from files is printed with controls escaped, and secrets of addresses stand nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
from oracle.rasters import write_raster
from oracle.run import run

import geotfr
from geotfr.errors import GeotfrError, InputError, MissingInputError
from geotfr.plain_text import printable, redact

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0), 0x202A, 0x202E, 0x2066, 0x2069, 0x2028, 0xFEFF)]
NAME = "b\u202e\x9b[2J\nwarning: forged"
SECRET = "Zm9vYmFyc2VjcmV0"


@pytest.mark.parametrize("char", [*CONTROLS, "\udc80", "\U000e0041"])
def test_no_control_is_printed(char: str) -> None:
    assert printable(f"a{char}b").isprintable()
    assert json.loads(printable(json.dumps(f"a{char}b", ensure_ascii=False), as_json=True)) == f"a{char}b"


@pytest.mark.parametrize("text", ["Grönland", "地図 1", "می\u200cخواهم", "🗺️", "a b", "é"])
def test_names_of_all_scripts_are_printed_as_they_are(text: str) -> None:
    assert printable(text) == text


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    path = write_raster(tmp_path / "evil\x1b[31m\u202e\n.tif", np.ones((1, 32, 32), np.uint8))
    with rasterio.open(path, "r+") as opened:
        opened.set_band_description(1, NAME)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["export", "-o", "out/more", "--patch-dimensions", "8", "--dry-run", "{}"],
        ["export", "-o", "out/more", "--patch-dimensions", "8", "{}"],
        ["export", "-o", "out/more", "--patch-dimensions", "8", "--crs", "EPSG:0", "{}"],
        ["export", "-o", "out/more", "--patch-dimensions", "8", "{}.missing"],
        ["inspect", "out/set.tfrecord.gz"],
        ["stats", "out"],
        ["verify", "out"],
        ["verify", "{}"],
        ["table", "out/set-manifest.json"],
    ],
    ids=lambda command: " ".join(command)[:40],
)
@pytest.mark.parametrize("more", [[], ["--json"], ["--debug"]], ids=str)
def test_what_commands_print_holds_no_control_and_no_line_of_a_name(
    evil: Path, tmp_path: Path, command: list[str], more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out").mkdir()
    geotfr.export_image(evil, tmp_path / "out" / "set", patch_dimensions=8)
    monkeypatch.chdir(tmp_path)
    done = run(*(part.format(evil) for part in command), *more)
    lines = done.told.split("\n")
    assert lines != [""]
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("warning: forged") for line in lines)


@pytest.mark.parametrize(
    "text",
    [
        f"https://me:{SECRET}@example.org/x.tif",
        f"https://{SECRET}@example.org/x.tif: can't be fetched",
        f"https://a.blob.core.windows.net/c/x.tif?sv=2020&sig={SECRET}%3D: refused",
        f"'https://h/x?X-Amz-Signature={SECRET}&X-Amz-Credential={SECRET}'",
        f"/vsicurl/https://h/x.tif?token={SECRET}",
        f"/vsicurl?header.Authorization={SECRET}&url=https://h/x",
        f"GET https://h/x.tif?a={SECRET} failed, then http://h/y?b={SECRET}",
        f"X-Amz-Security-Token={SECRET}",
        f"AccountName=me;AccountKey={SECRET}",
        f"the answer holds {SECRET}",
    ],
)
@pytest.mark.parametrize("kind", [InputError, MissingInputError, GeotfrError])
def test_no_error_holds_a_secret(text: str, kind: type[GeotfrError], monkeypatch: pytest.MonkeyPatch) -> None:
    if "answer" in text:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    assert SECRET not in redact(text)
    assert SECRET not in str(kind(text))
    assert SECRET not in repr(kind(text))


@pytest.mark.parametrize("text", ["what?.tif", "a=b", "x://y: z?", "band 1 (a@b)", "s3://bucket/set: gone; run again"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize("more", [[], ["--json"], ["--debug"], ["--allow-network"], ["--allow-network", "--debug"]])
@pytest.mark.parametrize(
    "address",
    [
        f"http://me:{SECRET}@127.0.0.1:1/x.tif",
        f"http://127.0.0.1:1/x.tif?sig={SECRET}",
        f"http://127.0.0.1:1/x.tif?sig={SECRET}:1",
        f"s3://me:{SECRET}@bucket/x.tif",
        f"az://c/x.tif?sig={SECRET}",
        f"ftp://me:{SECRET}@h/x.tif",
        f"/vsicurl/http://127.0.0.1:1/x.tif?sig={SECRET}",
    ],
)
def test_no_command_prints_a_secret(tmp_path: Path, address: str, more: list[str]) -> None:
    done = run("export", "-o", tmp_path / "set", "--patch-dimensions", "8", *more, "--", address)
    assert done.code in (2, 10)
    assert SECRET not in done.told
