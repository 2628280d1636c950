"""Make the README's picture of the one that ``make demo`` draws: smaller, in 64 colours. Needs pillow.

python docs/_build/picture.py demo-output/demo.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

TARGET = Path(__file__).resolve().parents[1] / "images" / "demo.png"
WIDTH_PX = 1000
COLOURS = 64


def main() -> None:
    """Shrink by averaging and write ``docs/images/demo.png``."""
    with Image.open(sys.argv[1]) as picture:
        height = round(picture.height * WIDTH_PX / picture.width)
        small = picture.convert("RGB").resize((WIDTH_PX, height), Image.Resampling.BOX)
    small.quantize(COLOURS, dither=Image.Dither.NONE).save(TARGET, optimize=True)


if __name__ == "__main__":
    main()
