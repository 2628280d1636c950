"""Reading record files: payload by payload, or as batches of features."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

from geotfr.flags import checks_flags
from geotfr.records.batches import SMALL_RECORD_BYTES, BatchDecoder, FeatureBatch
from geotfr.records.faults import ReadReport
from geotfr.records.framing import BATCH_BYTES, RecordBlocks
from geotfr.records.layout import FRAME_BYTES, HEADER_BYTES
from geotfr.records.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from geotfr.records.framing import BadRecord, Block
    from geotfr.records.stream import ByteStream, Compression

    PathLike = str | os.PathLike[str]

__all__ = ["FeatureBatch", "count_records", "feature_batches", "read_features", "read_records"]

DECODED_BYTES = 256 << 20
"""What the values of one record may grow to in memory, where no limit is given: 8 times for int64 lists of small
numbers, 28 times for hostile bytes lists."""


@checks_flags
def read_records(
    paths: PathLike | Sequence[PathLike],
    *,
    compression: Compression = "auto",
    verify_checksums: bool = True,
    on_bad_record: BadRecord = "error",
    max_record_bytes: int | None = None,
    report: ReadReport | None = None,
) -> Iterator[bytes]:
    """Each record's payload, file by file in the given order.

    Parameters
    ----------
    paths
        One file or several.
    compression
        ``auto`` goes by the content, never by the name. ``none``, ``gzip`` or ``zlib``: any other content is an
        error.
    verify_checksums
        Whether payloads are checked against their CRC32C; lengths always are.
    on_bad_record
        ``error`` raises at the first damage. ``skip`` leaves out records with a wrong payload, and the rest of a
        file whose lengths or compression are damaged. ``repair`` goes on at the next place where a record proves
        itself. Losses are in ``report``, or warned of once a file if there is none.
    max_record_bytes
        Largest payload; by default 2 GiB, and max(128 MiB, 64 times the file) in compressed files.
    report
        Takes counts, notes, warnings and faults.

    Raises
    ------
    RecordError
        A damaged file, or one that is no TFRecord file: with file, record number and byte offset.
    LimitError
        A record over the limit; nothing is allocated for it.
    MissingInputError, InputError
        A file that isn't there or can't be opened.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file:
    ...     _ = file.write(bytes.fromhex("0200000000000000 78270b34 6869 13d60856"))
    ...     file.flush()
    ...     list(read_records(file.name))
    [b'hi']
    """
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        with _opened(path, compression, report) as (stream, used):
            blocks = RecordBlocks(
                stream,
                verify_checksums=verify_checksums,
                on_bad_record=on_bad_record,
                max_record_bytes=max_record_bytes,
                report=used,
            )
            for block in blocks:
                used.records += len(block.starts)
                yield from _payloads(block)


def _payloads(block: Block) -> Iterator[bytes]:
    starts = (block.starts + HEADER_BYTES).tolist()
    stops = (block.starts + block.sizes - (FRAME_BYTES - HEADER_BYTES)).tolist()
    if len(block.data) < SMALL_RECORD_BYTES * len(starts):
        # One copy, then slices of bytes: half the time of a view for each.
        data = block.data.tobytes()
        for start, stop in zip(starts, stops, strict=True):
            yield data[start:stop]
    else:
        for start, stop in zip(starts, stops, strict=True):
            yield block.data[start:stop].tobytes()


def count_records(path: PathLike, *, report: ReadReport) -> int:
    """How many records a file holds; lengths are checked, payloads aren't.

    Raises as :func:`read_records` does of lengths.
    """
    with _opened(path, "auto", report) as (stream, used):
        found = sum(len(block.starts) for block in RecordBlocks(stream, verify_checksums=False, report=used))
        used.records += found
    return found


@checks_flags
def read_features(
    path: PathLike,
    *,
    names: Collection[str] | None = None,
    numbers: range | None = None,
    compression: Compression = "auto",
    verify_checksums: bool = True,
    on_bad_record: BadRecord = "error",
    max_record_bytes: int | None = None,
    batch_bytes: int = BATCH_BYTES,
    report: ReadReport | None = None,
) -> Iterator[FeatureBatch]:
    """The features of the Examples of one file, in batches.

    A batch ends where keys, kinds or lengths change, and at about ``batch_bytes``.

    Parameters
    ----------
    names
        The features wanted; those a record doesn't have are absent from its batch. None is all.
    numbers
        Which records of the file, from 0, at least: the file is read up to them, but those before aren't decoded, nor
        their payloads checked. None is all.
    batch_bytes
        Size of the buffer; a larger record gets a larger one.
    compression, verify_checksums, on_bad_record, max_record_bytes, report
        As in :func:`read_records`. ``max_record_bytes`` also limits what the values of a record take in memory
        where they grow on decoding (int64 lists, lists of many bytes values); by default that is 256 MiB.

    Raises
    ------
    RecordError
        As :func:`read_records`, and for a payload that is no Example.
    LimitError
        A record over a limit.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile() as file:
    ...     _ = file.write(bytes.fromhex("1600000000000000 4f61be28 0a140a120a026231120c120a0a080000c03f00000040"))
    ...     _ = file.write(bytes.fromhex("4115a86a"))
    ...     file.flush()
    ...     for batch in read_features(file.name):
    ...         print(batch.records, batch.features["b1"])
    [0] [[1.5 2. ]]
    """
    with _opened(path, compression, report) as (stream, used):
        yield from feature_batches(
            stream,
            names=names,
            numbers=numbers,
            verify_checksums=verify_checksums,
            on_bad_record=on_bad_record,
            max_record_bytes=max_record_bytes,
            batch_bytes=batch_bytes,
            report=used,
        )


def feature_batches(
    stream: ByteStream,
    *,
    names: Collection[str] | None = None,
    numbers: range | None = None,
    verify_checksums: bool = True,
    on_bad_record: BadRecord = "error",
    max_record_bytes: int | None = None,
    batch_bytes: int = BATCH_BYTES,
    report: ReadReport,
) -> Iterator[FeatureBatch]:
    """As :func:`read_features`, of a stream that is open."""
    wanted = None if names is None else frozenset(names)
    blocks = RecordBlocks(
        stream,
        verify_checksums=verify_checksums,
        on_bad_record=on_bad_record,
        max_record_bytes=max_record_bytes,
        batch_bytes=batch_bytes,
        unchecked=0 if numbers is None else numbers.start,
        report=report,
    )
    growth_limit = DECODED_BYTES if max_record_bytes is None else max_record_bytes
    decoder = BatchDecoder(stream, blocks.templates, wanted, growth_limit, on_bad_record, report)
    for block in blocks:
        if numbers is not None and block.first + len(block.starts) <= numbers.start:
            continue
        if numbers is not None and block.first >= numbers.stop:
            break
        for batch in decoder.batches(block):
            report.records += len(batch.records)
            yield batch


@contextmanager
def _opened(
    path: PathLike, compression: Compression, report: ReadReport | None
) -> Iterator[tuple[ByteStream, ReadReport]]:
    """The stream of one file, and the report to use; without ``report`` what a user should know is warned of."""
    name = os.fspath(path)
    used = ReadReport() if report is None else report
    records, faults = used.records, used.fault_count
    with open_stream(name, compression, used) as stream:
        used.files += 1
        yield stream, used
        if used.records == records and used.fault_count == faults:
            used.warnings.append(f"{name}: no records: an empty shard")
    if report is None:
        if used.fault_count:
            used.warnings.append(f"{used.faults[0]} ({used.fault_count} faults, {used.lost_bytes} bytes left out)")
        for text in used.warnings:
            warnings.warn(text, UserWarning, stacklevel=4)
