"""What the fuzzer calls, and what the tests replay: each target takes bytes and holds a law for all of them.

A mutated record never gets past the checksum of its length, so the targets put valid framing around mutated
payloads, and valid members around mutated deflate streams.
"""

from __future__ import annotations

import gzip
import struct
import tempfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np

from fuzz import outer
from geotfr.errors import GeotfrError, LimitError
from geotfr.integrity.verify import verify
from geotfr.records.faults import ReadReport
from geotfr.records.messages import example_class, sequence_example_class
from geotfr.records.reader import read_features, read_records
from geotfr.records.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["TARGETS"]

_LIMIT = 1 << 20
_KINDS = {"float_list": np.float32, "int64_list": np.int64}


def _masked(data: bytes) -> bytes:
    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + _masked(packed)


def _frame(payload: bytes) -> bytes:
    return _header(len(payload)) + payload + _masked(payload)


def _with_file(content: bytes, law: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.tfrecord"
        path.write_bytes(content)
        law(str(path))


def framing(data: bytes) -> None:
    """Whole, damaged and foreign records in a row: the whole ones before the first damage come out, then an error.

    ``data`` is a row of (what, size, bytes): a record, one with a wrong checksum, junk, a header with any length.
    """
    content, whole, is_good, place = b"", [], True, 0
    while place + 2 <= len(data):
        what, size = data[place] % 4, data[place + 1]
        part = data[place + 2 : place + 2 + size]
        place += 2 + size
        if what == 0:
            content += _frame(part)
            if is_good:
                whole.append(part)
            continue
        is_good = False
        if what == 1:
            content += _frame(part)[:-1] + bytes((_frame(part)[-1] ^ 1,))
        else:
            content += part if what == 2 else _header(int.from_bytes(part[:8], "little")) + part[8:]

    def law(path: str) -> None:
        found = []
        try:
            for record in read_records(path, max_record_bytes=_LIMIT, report=ReadReport()):
                found.append(record)
        except GeotfrError:
            assert not is_good or not content
        assert found[: len(whole)] == whole
        for policy in ("skip", "repair"):
            options: dict[str, Any] = {"on_bad_record": policy, "max_record_bytes": _LIMIT, "report": ReadReport()}
            try:
                kept = list(read_records(path, **options))
            except GeotfrError:
                # Only what is no record file at all is refused under these policies.
                kept = []
            assert kept[: len(found)] == found
            if kept:
                batches = read_features(path, **options)
                assert sum(len(batch) for batch in batches) <= len(kept)

    _with_file(content, law)


def _decoded(payload: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, feature in example_class().FromString(payload).features.feature.items():  # type: ignore[attr-defined]
        kind = feature.WhichOneof("kind")
        if kind in _KINDS:
            found[key] = np.array(getattr(feature, kind).value, _KINDS[kind]).tobytes()
        else:
            found[key] = None if kind is None else list(feature.bytes_list.value)
    return found


def _given(values: Any, row: int) -> Any:
    if values is None:
        return None
    if isinstance(values, list):
        return list(values[row])
    return [values[row].tobytes()] if values.dtype == np.uint8 else values[row].tobytes()


def example(data: bytes) -> None:
    """A payload is decoded to protobuf's values, or refused by both."""
    try:
        wanted: dict[str, Any] | None = _decoded(data)
    except Exception:
        wanted = None

    def law(path: str) -> None:
        rows = []
        try:
            for batch in read_features(path, max_record_bytes=_LIMIT, report=ReadReport()):
                for row in range(len(batch)):
                    rows.append({key: _given(values, row) for key, values in batch.features.items()})
        except LimitError:
            return
        except GeotfrError:
            assert wanted is None
            return
        assert rows == [wanted, wanted]

    _with_file(_frame(data) * 2, law)


def sequence(data: bytes) -> None:
    """A SequenceExample behind a good one is verified to be one, or not, as protobuf says."""
    good = sequence_example_class()()
    good.feature_lists.feature_list["a"].feature.add().float_list.value.append(1.0)  # type: ignore[attr-defined]
    try:
        sequence_example_class().FromString(data)
        is_good = True
    except Exception:
        is_good = False

    def law(path: str) -> None:
        result = verify(path)
        assert result.is_good == is_good
        assert result.records == 1 + is_good

    _with_file(_frame(good.SerializeToString()) + _frame(data), law)


def _member(data: bytes) -> bytes:
    """``data`` as the deflate stream of a member, with the trailer that it wants if it can be inflated."""
    try:
        inflater = zlib.decompressobj(-15)
        inflated = inflater.decompress(data, _LIMIT)
        data = data[: len(data) - len(inflater.unused_data)]
    except zlib.error:
        inflated = b""
    head = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    return head + data + struct.pack("<II", zlib.crc32(inflated), len(inflated))


def gzipped(data: bytes) -> None:
    """What comes out of a gzip file without a fault is what Python's own gzip makes of it.

    The first byte of ``data`` tells what the rest is: a file, the deflate stream of its last member, its content.
    """
    what, rest = (data[0] % 3 if data else 0), data[1:]
    if what == 0:
        content = b"\x1f\x8b" + rest
    elif what == 1:
        content = gzip.compress(b"abc", mtime=0) + _member(rest)
    else:
        content = gzip.compress(rest, mtime=0) + bytes(5) + gzip.compress(rest[::-1], mtime=0)
    try:
        wanted: bytes | None = gzip.decompress(content)
    except Exception:
        wanted = None

    def law(path: str) -> None:
        out, view = bytearray(), bytearray(1 << 16)
        try:
            stream = open_stream(path, "gzip")
        except GeotfrError:
            # Too short to hold anything, or the header of a plain record.
            return
        with stream:
            while len(out) < 4 * _LIMIT and (got := stream.readinto(memoryview(view))):
                out += view[:got]
            if stream.fault is None and len(out) < 4 * _LIMIT:
                assert out == wanted
            elif wanted is not None and what == 2:
                raise AssertionError(stream.fault)
        for policy in ("skip", "repair"):
            list(read_records(path, on_bad_record=policy, max_record_bytes=_LIMIT, report=ReadReport()))  # type: ignore[arg-type]

    _with_file(content, law)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "framing": framing,
    "example": example,
    "sequence": sequence,
    "gzip": gzipped,
    "mixer": outer.mixer,
    "manifest": outer.manifest,
    "crs": outer.crs,
    "ingest": outer.ingest,
    "raster": outer.raster,
    "command": outer.command,
}
