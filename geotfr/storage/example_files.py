"""Files of Examples and SequenceExamples made from Python values.

All files of a call appear together when the last record is written; if anything fails, none does.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from geotfr.errors import LimitError, UsageError
from geotfr.flags import checks_flags
from geotfr.records.crc import masked_crc32c
from geotfr.records.encode import encode_example, encode_sequence_example
from geotfr.records.gzip import codec
from geotfr.records.layout import FRAME_BYTES, frame_header
from geotfr.storage.outputs import open_outputs
from geotfr.stores.path import any_path

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray
    from typing_extensions import Buffer

    from geotfr.records.encode import FeatureValue, Kinds
    from geotfr.storage.atomic import AtomicFile

    Compression = Literal["none", "gzip", "zlib"]
    Compressor = Literal["fast", "ee"]

__all__ = ["WrittenRecords", "write_examples", "write_sequence_examples"]

CHUNK_BYTES = 1 << 20
"""Records are compressed in pieces of about this size; each is a gzip member of its own with ``fast``."""

MAX_RECORD_BYTES = 2**31 - 1
"""Protobuf's limit for a message."""

_ZLIB_LEVEL = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenRecords:
    """What a call has written.

    Attributes
    ----------
    paths
        The files, in order.
    records
        Number of records in all of them.
    file_bytes
        Size of all files, as on disk.
    """

    paths: tuple[Path, ...]
    records: int
    file_bytes: int


@checks_flags
def write_examples(
    path: str | os.PathLike[str],
    records: Iterable[Mapping[str, FeatureValue]],
    *,
    kinds: Kinds | None = None,
    compression: Compression = "none",
    compressor: Compressor = "fast",
    max_shard_bytes: int | None = None,
    records_per_shard: int | None = None,
    overwrite: bool = False,
) -> WrittenRecords:
    """Write each record as a ``tf.train.Example``.

    Parameters
    ----------
    path
        The file. With ``max_shard_bytes`` or ``records_per_shard`` the shards are named after it: ``train.tfrecord``
        makes ``train-00000.tfrecord``, ``train-00001.tfrecord``, ...
    records
        Key -> value; see :func:`~geotfr.records.encode.encode_example`.
    kinds
        Key -> ``float``, ``int64`` or ``bytes``, where the values' types shouldn't decide.
    compression
        ``none``, ``gzip`` or ``zlib``, whatever the name says.
    compressor
        For gzip: ``fast`` writes many members, which can be inflated in parallel; ``ee`` one, as Earth Engine does.
    max_shard_bytes
        Limit on a shard before compression, framing included; a larger record gets a shard of its own.
    records_per_shard
        Limit on a shard's records.
    overwrite
        Replace files that are there.

    Raises
    ------
    UsageError
        A value that no kind can hold, with its record's number; options without meaning.
    OutputExistsError, OutputError
        A file is there already or can't be written. Nothing is left behind.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_examples(f"{folder}/train.tfrecord", [{"a": 1}, {"a": 2}, {"a": 3}], records_per_shard=2)
    >>> [path.name for path in written.paths]
    ['train-00000.tfrecord', 'train-00001.tfrecord']
    """
    return _write(
        any_path(path),
        _encoded(records, lambda record: encode_example(record, kinds=kinds)),
        pack=_packer(compression, compressor),
        limits=_Limits.checked(max_shard_bytes, records_per_shard),
        overwrite=overwrite,
    )


@checks_flags
def write_sequence_examples(
    path: str | os.PathLike[str],
    records: Iterable[tuple[Mapping[str, FeatureValue], Mapping[str, Sequence[FeatureValue] | NDArray[Any] | None]]],
    *,
    kinds: Kinds | None = None,
    compression: Compression = "none",
    compressor: Compressor = "fast",
    max_shard_bytes: int | None = None,
    records_per_shard: int | None = None,
    overwrite: bool = False,
) -> WrittenRecords:
    """Write each (context, feature lists) as a ``tf.train.SequenceExample``; all else as :func:`write_examples`.

    A feature list is a sequence of steps; of an array, the first axis is the steps.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_sequence_examples(f"{folder}/pixels.tfrecord", [({"elevation": 3.5}, {"ndvi": [0.1, 0.2]})]).records
    1
    """
    return _write(
        any_path(path),
        _encoded(records, lambda record: encode_sequence_example(*record, kinds=kinds)),
        pack=_packer(compression, compressor),
        limits=_Limits.checked(max_shard_bytes, records_per_shard),
        overwrite=overwrite,
    )


class _Packer(Protocol):
    """The bytes of one file from chunks of records."""

    def add(self, chunk: Buffer) -> Buffer: ...

    def finish(self) -> Buffer: ...


class _CodecPacker:
    def __init__(self, name: str) -> None:
        self._codec = codec(name)
        self._stream = self._codec.stream()

    def add(self, chunk: Buffer) -> Buffer:
        return self._stream.add(self._codec.pack(chunk))

    def finish(self) -> Buffer:
        return self._stream.finish()


class _ZlibPacker:
    def __init__(self) -> None:
        self._deflate = zlib.compressobj(_ZLIB_LEVEL)

    def add(self, chunk: Buffer) -> Buffer:
        return self._deflate.compress(chunk)

    def finish(self) -> Buffer:
        return self._deflate.flush()


def _packer(compression: str, compressor: str) -> Callable[[], _Packer]:
    if compression == "zlib" and compressor == "ee":
        raise UsageError("compressor ee makes Earth Engine's gzip files; use compression gzip, or compressor fast")
    if compression == "zlib":
        return _ZlibPacker
    if compression not in ("none", "gzip"):
        raise UsageError(f"compression {compression!r} is not known; use none, gzip or zlib")
    if compressor not in ("fast", "ee"):
        raise UsageError(f"compressor {compressor!r} is not known; use fast or ee")
    return lambda: _CodecPacker("none" if compression == "none" else compressor)


@dataclass(frozen=True, slots=True)
class _Limits:
    max_bytes: int | None
    max_records: int | None

    @classmethod
    def checked(cls, max_bytes: int | None, max_records: int | None) -> _Limits:
        for name, limit in (("max_shard_bytes", max_bytes), ("records_per_shard", max_records)):
            if limit is not None and limit < 1:
                raise UsageError(f"{name} is {limit}; use 1 or more, or None for one file")
        return cls(max_bytes, max_records)

    @property
    def is_sharded(self) -> bool:
        return self.max_bytes is not None or self.max_records is not None

    def are_passed(self, size: int, records: int) -> bool:
        """Whether a shard of so many bytes and records is too large."""
        over_bytes = self.max_bytes is not None and size > self.max_bytes
        return over_bytes or (self.max_records is not None and records > self.max_records)


class _Shard:
    """One file being written: records in, packed chunks out."""

    def __init__(self, file: AtomicFile, packer: _Packer) -> None:
        self.file = file
        self.records = 0
        self.size = 0
        self._packer = packer
        self._chunk = bytearray()

    def add(self, payload: bytes) -> None:
        crc = masked_crc32c(payload).to_bytes(4, "little")
        self._chunk += b"".join((frame_header(len(payload)), payload, crc))
        self.records += 1
        self.size += FRAME_BYTES + len(payload)
        if len(self._chunk) >= CHUNK_BYTES:
            self._flush()

    def finish(self) -> None:
        # A compressed shard without records still has to be one: zero bytes are no gzip.
        if self._chunk or not self.records:
            self._flush()
        self.file.write(self._packer.finish())
        self.file.finish()

    def _flush(self) -> None:
        self.file.write(self._packer.add(bytes(self._chunk)))
        self._chunk.clear()


def _encoded(records: Iterable[Any], encode: Callable[[Any], bytes]) -> Iterator[bytes]:
    for number, record in enumerate(records):
        try:
            payload = encode(record)
        except UsageError as error:
            raise UsageError(f"record {number}: {error}") from error
        if len(payload) > MAX_RECORD_BYTES:
            raise LimitError(f"record {number} has {len(payload)} bytes, protobuf allows {MAX_RECORD_BYTES}; cut it up")
        yield payload


def _write(
    path: Path, payloads: Iterator[bytes], *, pack: Callable[[], _Packer], limits: _Limits, overwrite: bool
) -> WrittenRecords:
    stem, suffix = _parts(path.name)
    shard_name = re.compile(re.escape(stem) + r"-\d{5,}" + re.escape(suffix))

    def belongs(name: str) -> bool:
        return shard_name.fullmatch(name) is not None if limits.is_sharded else name == path.name

    def name_of(number: int) -> str:
        return f"{stem}-{number:05d}{suffix}" if limits.is_sharded else path.name

    with open_outputs(path.parent, name=path.name, belongs=belongs, overwrite=overwrite) as files:
        shards = [_Shard(files.create(name_of(0)), pack())]
        for payload in payloads:
            shard = shards[-1]
            if shard.records and limits.are_passed(shard.size + FRAME_BYTES + len(payload), shard.records + 1):
                shard.finish()
                shards.append(_Shard(files.create(name_of(len(shards))), pack()))
            shards[-1].add(payload)
        shards[-1].finish()
        names = [name_of(number) for number in range(len(shards))]
        files.publish([(name, shard.file) for name, shard in zip(names, shards, strict=True)], incomplete_without=[])
    return WrittenRecords(
        paths=tuple(path.parent / name for name in names),
        records=sum(shard.records for shard in shards),
        file_bytes=sum(shard.file.size for shard in shards),
    )


def _parts(name: str) -> tuple[str, str]:
    """What stands before a shard's number, and what behind it."""
    found = re.search(r"(\.tfrecords?)?(\.(gz|zz|zlib))?$", name, re.IGNORECASE)
    cut = found.start() if found else len(name)
    return name[:cut], name[cut:] or ".tfrecord"
