"""The page that compares two rasters: one file, no network, a line that moves, whatever the names."""

from __future__ import annotations

import base64
import re
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle.rasters import NORTH_UP, numbered, read_raster, write_raster
from oracle.run import assert_refused, run

import geotfr
from geotfr.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = Path("/usr/bin/chromium")
needs_chromium = pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium")
PLACE = (NORTH_UP[:6], "EPSG:32618")
HALF = ((20, 0, NORTH_UP.c, 0, -20, NORTH_UP.f), "EPSG:32618")


def coloured(rgb: tuple[int, int, int], rows: int = 40, cols: int = 60) -> np.ndarray:
    """(3, row, col) whose stretch is ``rgb``, 0 or 254 each: two pixels of a corner span the range."""
    field = np.stack([np.full((rows, cols), value, "uint8") for value in rgb])
    field[:, 0, :20], field[:, 0, 20:40] = 0, 254
    return field


def browsed(page: str, folder: Path, *args: str) -> str:
    """What Chromium prints of ``page``."""
    (folder / "page.html").write_text(page)
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=640,520",
            f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=2000",
            *args,
            f"file://{folder}/page.html",
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def test_the_pictures_are_in_the_page_and_nothing_is_fetched() -> None:
    red, blue = coloured((254, 0, 0)), coloured((0, 0, 254), 20, 30)
    page = geotfr.swipe_page((red, *PLACE), (blue, *HALF), labels=("first", "second"), percentiles=(0, 100))
    pictures = re.findall(r'src="data:image/png;base64,([A-Za-z0-9+/=]+)"', page)
    from geotfr import decode_picture

    first, second = (decode_picture(base64.b64decode(text)) for text in pictures)
    assert first.shape == (40, 60, 3)
    assert second.shape == (20, 30, 3)
    assert (first[20, 30] == (254, 0, 0)).all()
    assert (second[10, 15] == (0, 0, 254)).all()
    rest = re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert "default-src 'none'" in rest
    assert not re.search(r"https?:|//|@import|url\(", rest)


def test_rasters_of_other_ground_are_refused(tmp_path: Path) -> None:
    one = (numbered(1, 10, 10), *PLACE)
    for other in (
        (numbered(1, 10, 11), *PLACE),
        (numbered(1, 10, 10), (10, 0, NORTH_UP.c + 20, 0, -10, NORTH_UP.f), "EPSG:32618"),
        (numbered(1, 10, 10), NORTH_UP[:6], "EPSG:32619"),
    ):
        with pytest.raises(InputError, match="same ground"):
            geotfr.swipe_page(one, other)


def test_the_command_writes_the_page_whole(tmp_path: Path) -> None:
    source = write_raster(tmp_path / "a.tif", numbered(3, 8, 8, "uint8"))
    target = tmp_path / "x.html"
    done = run("preview", "swipe", source, source, "--labels", "<i>", "b", "--bands", "1", "-o", target)
    assert done.code == 0, done.told
    assert "&lt;i&gt;" in target.read_text()
    assert_refused(run("preview", "swipe", source, source, "-o", target), 14, "exists")
    assert_refused(run("preview", "swipe", source, source, "--side", "1", "-o", tmp_path / "y.html"), 2, "side")


@needs_chromium
@pytest.mark.slow
def test_the_line_follows_pointer_and_slider(tmp_path: Path) -> None:
    page = geotfr.swipe_page((coloured((254, 0, 0)), *PLACE), (coloured((0, 0, 254)), *PLACE), percentiles=(0, 100))
    script = """<script>
      const seen = [], box = frame.getBoundingClientRect();
      const event = (kind, share, buttons) => frame.dispatchEvent(new PointerEvent(kind,
        {clientX: box.left + share * box.width, clientY: box.top + 5, buttons: buttons, pointerId: 1, bubbles: true}));
      const note = () => seen.push(frame.style.getPropertyValue("--at"));
      window.onerror = () => true;
      note(); event("pointerdown", 0.25, 1); note(); event("pointermove", 0.75, 1); note();
      event("pointermove", 0.1, 0); note(); event("pointermove", 7, 1); note();
      at.value = 40; at.dispatchEvent(new Event("input")); note();
      document.title = seen.join(" ");
    </script></body>"""
    told = browsed(page.replace("</body>", script), tmp_path, "--dump-dom")
    found = re.search(r"<title>(.*?)</title>", told)
    assert found is not None
    assert [round(float(text.rstrip("%"))) for text in found[1].split()] == [50, 25, 75, 75, 100, 40]


@needs_chromium
@pytest.mark.slow
def test_what_is_left_of_the_line_is_the_first_raster_and_what_is_right_the_second(tmp_path: Path) -> None:
    page = geotfr.swipe_page(
        (coloured((254, 0, 0)), *PLACE), (coloured((0, 0, 254), 20, 30), *HALF), percentiles=(0, 100)
    )
    page = page.replace("move(50);", "move(25);")
    browsed(page, tmp_path, f"--screenshot={tmp_path / 'shot.png'}")
    shot = read_raster(tmp_path / "shot.png")[0][:3].astype(int)
    width = shot.shape[2]
    line = shot[:, 300]
    is_red, is_blue = (line[0] > 200) & (line[2] < 60), (line[2] > 200) & (line[0] < 60)
    assert is_red.sum() > 0.15 * width
    assert 2.5 < is_blue.sum() / is_red.sum() < 3.5
    assert np.flatnonzero(is_red).max() < np.flatnonzero(is_blue).min()


@pytest.fixture
def hits() -> Iterator[tuple[int, list[str]]]:
    """A server that counts who asks it."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port, seen
    server.shutdown()
    server.server_close()
    thread.join()


@needs_chromium
@pytest.mark.slow
def test_hostile_names_fetch_and_run_nothing(tmp_path: Path, hits: tuple[int, list[str]]) -> None:
    port, seen = hits
    evil = f"""</title></script>"><img src="http://127.0.0.1:{port}/x" onerror="document.title='bad'">\
<script>document.title='bad';fetch('http://127.0.0.1:{port}/y')</script>{{before}}"""
    page = geotfr.swipe_page((numbered(1, 8, 8), *PLACE), (numbered(1, 8, 8), *PLACE), labels=(evil, evil), title=evil)
    told = browsed(page, tmp_path, "--dump-dom")
    assert "<title>bad" not in told
    assert seen == []
    # The policy holds even where markup gets in.
    inside = f'<img src="http://127.0.0.1:{port}/z"></body>'
    browsed(page.replace("</body>", inside), tmp_path, "--dump-dom")
    assert seen == []
