"""One record file, read to its end whatever is wrong with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from google.protobuf.message import DecodeError

from geotfr.records.columns import PROTOBUF_GROWTH
from geotfr.records.faults import Fault, ReadReport
from geotfr.records.framing import RecordBlocks
from geotfr.records.layout import FOOTER_BYTES, HEADER_BYTES
from geotfr.records.messages import sequence_example_class
from geotfr.records.reader import DECODED_BYTES, feature_batches
from geotfr.records.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from geotfr.records.reader import FeatureBatch
    from geotfr.records.stream import ByteStream, Compression
    from geotfr.records.summed import FileSum

__all__ = ["FileSummary", "is_sequence_file", "read_examples", "read_sequences"]

_LOOK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSummary:
    """What a record file is.

    Attributes
    ----------
    path
        The file.
    compression
        ``none``, ``gzip`` or ``zlib``.
    members
        Gzip members; None for other files.
    records
        Whole records whose payload was read.
    file_bytes, record_bytes
        Size on disk, and uncompressed with the framing.
    """

    path: str
    compression: str
    members: int | None
    records: int
    file_bytes: int
    record_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def is_sequence_file(path: str, compression: Compression = "auto") -> bool:
    """Whether the first whole record of ``path`` is a SequenceExample with feature lists, and no Example.

    An Example has one field, the first. A file without a whole record is no sequence file.
    """
    with open_stream(path, compression) as stream:
        # No more is read of it than a record takes: from a store that would be a download.
        for block in RecordBlocks(stream, on_bad_record="repair", report=ReadReport(), batch_bytes=_LOOK_BYTES):
            start, size = int(block.starts[0]), int(block.sizes[0])
            payload = block.data[start + HEADER_BYTES : start + size - FOOTER_BYTES].tobytes()
            try:
                message = cast("Any", sequence_example_class().FromString(payload))
            except DecodeError:
                return False
            return bool(message.feature_lists.feature_list)
    return False


def read_examples(
    path: str,
    report: ReadReport,
    on_batch: Callable[[FeatureBatch], None],
    *,
    compression: Compression = "auto",
    max_record_bytes: int | None = None,
    sums: FileSum | None = None,
) -> FileSummary:
    """Hand every batch of Examples to ``on_batch``; damage goes into ``report`` and the reading goes on behind it.

    ``sums`` sums up the bytes of the file. Raises what :func:`geotfr.records.stream.open_stream` does.
    """
    before = report.records
    with open_stream(path, compression, report, sums=sums) as stream:
        batches = feature_batches(stream, on_bad_record="repair", max_record_bytes=max_record_bytes, report=report)
        for batch in batches:
            on_batch(batch)
        return _summary(stream, report.records - before)


def read_sequences(
    path: str,
    report: ReadReport,
    on_message: Callable[[Any], None],
    *,
    compression: Compression = "auto",
    max_record_bytes: int | None = None,
    sums: FileSum | None = None,
) -> FileSummary:
    """As :func:`read_examples`, for SequenceExamples, one message at a time."""
    parse = sequence_example_class().FromString
    limit = (DECODED_BYTES if max_record_bytes is None else max_record_bytes) // PROTOBUF_GROWTH
    before = report.records
    with open_stream(path, compression, report, sums=sums) as stream:
        blocks = RecordBlocks(stream, on_bad_record="repair", max_record_bytes=max_record_bytes, report=report)
        for block in blocks:
            bounds = zip(block.starts.tolist(), block.sizes.tolist(), strict=True)
            for number, (start, size) in enumerate(bounds, block.first):
                problem = f"{size} bytes to decode, the limit is {limit}" if size > limit else None
                if problem is None:
                    try:
                        message = parse(block.data[start + HEADER_BYTES : start + size - FOOTER_BYTES].tobytes())
                    except DecodeError:
                        problem = "the payload is no tf.train.SequenceExample"
                if problem is None:
                    report.records += 1
                    on_message(message)
                    continue
                position = block.offset + start
                report.add_fault(
                    Fault(
                        path=path,
                        record=number,
                        offset=position,
                        member=stream.member_at(position),
                        problem=problem,
                        hint="export the file again",
                    ),
                    lost_bytes=size,
                )
        return _summary(stream, report.records - before)


def _summary(stream: ByteStream, records: int) -> FileSummary:
    return FileSummary(
        path=stream.path,
        compression=stream.compression,
        members=stream.member_count,
        records=records,
        file_bytes=stream.file_bytes,
        record_bytes=stream.delivered,
    )
