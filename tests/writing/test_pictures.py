"""Pictures with labels: raw or encoded, written and read back."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geotfr.errors import DamagedError, LimitError, UsageError
from geotfr.rasters import encoded
from geotfr.rasters.encoded import decode_picture, encode_picture
from geotfr.records.parse.example import parse_example
from geotfr.records.parse.specs import FixedLenFeature
from geotfr.records.reader import read_records
from geotfr.storage.example_files import write_examples

RGB = np.random.default_rng(7).integers(0, 256, (8, 6, 3), np.uint8)


@pytest.mark.parametrize("picture", [RGB, RGB[..., 0], RGB[..., :2], np.dstack([RGB, RGB[..., :1]])])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_png_keeps_every_value(picture: Any, dtype: Any) -> None:
    picture = picture.astype(dtype) * (200 if dtype == np.uint16 else 1)
    decoded = decode_picture(encode_picture(picture))
    assert decoded.dtype == dtype
    assert np.array_equal(decoded, picture if picture.ndim == 3 else picture[..., None])


def test_jpeg_keeps_about_the_values() -> None:
    smooth = np.add.outer(np.arange(32), np.arange(32))[..., None].repeat(3, axis=2).astype(np.uint8)
    data = encode_picture(smooth, driver="jpeg")
    assert data.startswith(b"\xff\xd8")
    assert np.abs(decode_picture(data).astype(int) - smooth).max() <= 4
    assert len(encode_picture(smooth, driver="jpeg", quality=10)) < len(data)


def test_a_palette_becomes_colours() -> None:
    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content).to_bytes(4, "big")
        return len(content).to_bytes(4, "big") + kind + content + checksum

    # 2 x 1 pixels of 8 bits: indices 1 and 0.
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 3, 0, 0, 0))
    data += chunk(b"PLTE", bytes([1, 2, 3, 250, 0, 9]))
    data += chunk(b"IDAT", zlib.compress(b"\x00\x01\x00")) + chunk(b"IEND", b"")
    assert decode_picture(data).tolist() == [[[250, 0, 9], [1, 2, 3]]]


def test_a_flipped_bit_in_a_png_is_found() -> None:
    data = bytearray(encode_picture(RGB))
    data[len(data) // 2] ^= 4
    with pytest.raises(DamagedError, match="cut or damaged"):
        decode_picture(bytes(data))


@pytest.mark.parametrize(
    ("picture", "options", "words"),
    [
        (RGB.astype(np.float32), {}, "float32 is no PNG; use uint8 or uint16"),
        (RGB.astype(np.uint16), {"driver": "jpeg"}, "uint16 is no JPEG"),
        (RGB[None], {}, "is no PNG; use"),
        (RGB[..., :2], {"driver": "jpeg"}, "with 1, 3 bands"),
        (RGB[:0], {}, "is no PNG"),
        (RGB, {"driver": "webp"}, "'webp' is not known"),
        (RGB, {"driver": "jpeg", "quality": 101}, "quality is 101"),
    ],
)
def test_pictures_that_a_format_lacks_are_refused(picture: Any, options: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        encode_picture(picture, **options)


@pytest.mark.parametrize("data", [b"", b"GIF89a", encode_picture(RGB)[:60], b"\xff\xd8\xff\xe0junk"])
def test_damaged_pictures_are_refused(data: bytes) -> None:
    with pytest.raises(DamagedError):
        decode_picture(data)


def test_a_picture_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoded, "MAX_PIXELS", 10)
    with pytest.raises(LimitError, match="passes 10 values"):
        decode_picture(encode_picture(RGB))


def test_images_and_labels_are_written_raw_or_encoded_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "train.tfrecord"
    write_examples(
        path,
        [{"image": encode_picture(RGB), "raw": RGB.tobytes(), "label": label} for label in range(3)],
        kinds={"label": "int64"},
    )
    specs = {
        "image": FixedLenFeature([], bytes),
        "raw": FixedLenFeature([], bytes),
        "label": FixedLenFeature([], np.int64),
    }
    parsed: Any = parse_example(list(read_records(path)), specs)
    assert parsed["label"].tolist() == [0, 1, 2]
    for image, raw in zip(parsed["image"], parsed["raw"], strict=True):
        assert np.array_equal(decode_picture(image), RGB)
        assert np.array_equal(np.frombuffer(raw, np.uint8).reshape(RGB.shape), RGB)
