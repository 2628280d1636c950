"""Data sets and streams as ``tf.data.Dataset``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.datasets.stream import Stream
from geotfr.datasets.streams.batches import Batch
from geotfr.datasets.streams.keep import Cache, Prefetch
from geotfr.datasets.streams.order import Repeat, Shuffle, Skip, Take
from geotfr.errors import UsageError
from geotfr.extras import load_extra
from geotfr.flags import checks_flags

if TYPE_CHECKING:
    from geotfr.datasets.patch_dataset import PatchDataset
    from geotfr.datasets.pixels import PixelView
    from geotfr.datasets.streams.node import Node

__all__ = ["to_tf_dataset"]

READ_AT_ONCE_BYTES = 1 << 20
"""Items of about so many bytes are read by one call, where no batch size is asked for."""


@checks_flags
def to_tf_dataset(
    source: PatchDataset | PixelView | Stream,
    *,
    batch_size: int | None = None,
    shuffle: int | None = None,
    drop_remainder: bool = False,
) -> Any:
    """A ``tf.data.Dataset`` of dicts of tensors, whose ``element_spec`` tells dtypes and shapes.

    A data set is read by its numbers, several batches at a time: TensorFlow shuffles and repeats numbers, not patches.
    A stream gives its elements as they are.

    Parameters
    ----------
    source
        What to read.
    batch_size
        Data sets: items in a batch; None gives single items. A stream has its own ``batch``.
    shuffle
        Data sets: a seed; all items are shuffled, each epoch in an order of its own.
    drop_remainder
        Data sets: leave out the last batch where it is smaller.

    Raises
    ------
    UsageError
        TensorFlow isn't installed, or an option is for data sets and ``source`` is a stream, or its elements aren't
        arrays of one make.

    Examples
    --------
    >>> train = to_tf_dataset(dataset, batch_size=32, shuffle=7).prefetch(2)  # doctest: +SKIP
    >>> train.element_spec["image"].shape  # doctest: +SKIP
    TensorShape([None, 3, 256, 256])
    """
    tf = load_extra("tensorflow", extra="tf", what="TensorFlow data sets")
    if isinstance(source, Stream):
        if batch_size is not None or shuffle is not None or drop_remainder:
            raise UsageError("to_tf_dataset: a stream has its own batch and shuffle; give their options there")
        return _of_stream(tf, source)
    return _of_items(tf, source, batch_size, shuffle, drop_remainder=drop_remainder)


def _of_items(
    tf: Any, source: PatchDataset | PixelView, batch_size: int | None, shuffle: int | None, *, drop_remainder: bool
) -> Any:
    spec = source.spec
    keys = list(spec)
    item_bytes = sum(each.dtype.itemsize * int(np.prod(each.shape, dtype=np.int64)) for each in spec.values())
    size = batch_size or max(READ_AT_ONCE_BYTES // max(item_bytes, 1), 1)

    def read(numbers: Any) -> list[Any]:
        batch = source[np.asarray(numbers)]
        return [batch[key] for key in keys]

    def shaped(numbers: Any) -> dict[str, Any]:
        arrays = tf.numpy_function(read, [numbers], [tf.as_dtype(spec[key].dtype) for key in keys])
        first = size if drop_remainder and batch_size else None
        return {key: tf.ensure_shape(array, (first, *spec[key].shape)) for key, array in zip(keys, arrays, strict=True)}

    numbers = tf.data.Dataset.range(len(source))
    if shuffle is not None:
        numbers = numbers.shuffle(max(len(source), 1), seed=shuffle, reshuffle_each_iteration=True)
    batches = numbers.batch(size, drop_remainder=drop_remainder and batch_size is not None)
    batches = batches.map(shaped, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    return batches if batch_size is not None else batches.unbatch()


def _of_stream(tf: Any, source: Stream) -> Any:
    with source.first_pass() as elements:
        first = next(elements, None)
    if not isinstance(first, Mapping) or not first:
        told = "nothing" if first is None else type(first).__name__
        raise UsageError(f"to_tf_dataset: the stream gives {told}; dicts of arrays are wanted")
    is_open = _has_open_batches(source.node)
    return tf.data.Dataset.from_generator(
        source.__iter__,
        output_signature={key: _spec_of(tf, key, value, is_open=is_open) for key, value in first.items()},
    )


def _spec_of(tf: Any, key: str, value: Any, *, is_open: bool) -> Any:
    array = np.asarray(value)
    if array.dtype.kind == "O":
        is_text = all(isinstance(each, str | bytes) for each in array.reshape(-1))
    else:
        is_text = array.dtype.kind in "US"
    if array.dtype.kind not in "biuf" and not is_text:
        raise UsageError(f"to_tf_dataset: {key!r} is {type(value).__name__}; arrays, numbers and texts are wanted")
    shape = [None, *array.shape[1:]] if is_open and array.ndim else list(array.shape)
    return tf.TensorSpec(shape, tf.string if is_text else tf.as_dtype(array.dtype))


def _has_open_batches(node: Node) -> bool:
    """Whether elements are batches, the last of which may be smaller."""
    step: Node | None = node
    while isinstance(step, Cache | Prefetch | Repeat | Shuffle | Skip | Take):
        step = step.child
    return isinstance(step, Batch) and not step.drop_remainder
