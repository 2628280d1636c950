"""Specs as Python code: what to paste into a training script."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from geotfr.errors import UsageError
from geotfr.flags import checks_flags
from geotfr.records.parse.specs import (
    Feature,
    FixedLenFeature,
    FixedLenSequenceFeature,
    RaggedFeature,
    SparseFeature,
    VarLenFeature,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Target = Literal["tf", "geotfr", "torch"]

__all__ = ["features_code", "parsing_code"]

_TF_DTYPES = {"float32": "tf.float32", "int64": "tf.int64", "int32": "tf.int32", "bytes": "tf.string"}
_NUMPY_DTYPES = {"float32": "np.float32", "int64": "np.int64", "int32": "np.int32", "bytes": "bytes"}


def features_code(features: Mapping[str, Feature], *, target: Target = "geotfr") -> str:
    """The mapping as a Python expression: of ``tf.io``'s specs, or of geotfr's.

    >>> print(features_code({"B4": FixedLenFeature([2], "float32")}, target="tf"))
    {
        "B4": tf.io.FixedLenFeature([2], tf.float32),
    }
    """
    lines = [f"    {_text(key)}: {_call(spec, target)}," for key, spec in features.items()]
    return "\n".join(["{", *lines, "}"])


@checks_flags
def parsing_code(
    features: Mapping[str, Feature], paths: Sequence[str], *, target: Target, is_gzip: bool = False
) -> str:
    """A whole script that reads ``paths`` with ``features``.

    Parameters
    ----------
    features
        Key to spec, of Examples.
    paths
        The TFRecord files.
    target
        ``tf``: a ``tf.data`` pipeline. ``geotfr``: a loop over batches. ``torch``: an iterable dataset of
        tensors.
    is_gzip
        Whether the files are compressed; TensorFlow has to be told.

    Examples
    --------
    >>> print(parsing_code({"B4": VarLenFeature("float32")}, ["a.tfrecord"], target="tf"))
    import tensorflow as tf
    <BLANKLINE>
    features = {
        "B4": tf.io.VarLenFeature(tf.float32),
    }
    dataset = tf.data.TFRecordDataset(["a.tfrecord"])
    dataset = dataset.batch(32).map(lambda batch: tf.io.parse_example(batch, features))
    <BLANKLINE>
    """
    files = ", ".join(_text(path) for path in paths)
    mapping = features_code(features, target=target)
    if target == "tf":
        compression = ', compression_type="GZIP"' if is_gzip else ""
        return (
            f"import tensorflow as tf\n\nfeatures = {mapping}\n"
            f"dataset = tf.data.TFRecordDataset([{files}]{compression})\n"
            "dataset = dataset.batch(32).map(lambda batch: tf.io.parse_example(batch, features))\n"
        )
    head = f"import numpy as np\n\nimport geotfr\n\nfeatures = {mapping}\n"
    if target == "geotfr":
        return (
            f"{head}for record in geotfr.read_records([{files}]):\n"
            "    example = geotfr.parse_single_example(record, features)\n"
        )
    if target == "torch":
        return (
            head.replace("import numpy as np\n", "import numpy as np\nimport torch\n", 1)
            + "\n\nclass Records(torch.utils.data.IterableDataset):\n"
            "    def __iter__(self):\n"
            f"        for record in geotfr.read_records([{files}]):\n"
            "            example = geotfr.parse_single_example(record, features)\n"
            "            yield {\n"
            "                key: torch.from_numpy(value)\n"
            "                for key, value in example.items()\n"
            "                if isinstance(value, np.ndarray) and value.dtype != object\n"
            "            }\n"
        )
    raise UsageError(f"no code is made for {target!r}; use tf, geotfr or torch")


def _call(spec: Feature, target: Target) -> str:
    dtypes, prefix = (_TF_DTYPES, "tf.io.") if target == "tf" else (_NUMPY_DTYPES, "geotfr.")
    dtype = dtypes[str(spec.dtype)]
    name = prefix + type(spec).__name__
    if isinstance(spec, FixedLenFeature):
        default = "" if spec.default_value is None else f", {_literal(spec.default_value)}"
        return f"{name}({list(spec.dims)}, {dtype}{default})"
    if isinstance(spec, VarLenFeature):
        return f"{name}({dtype})"
    if isinstance(spec, FixedLenSequenceFeature):
        missing = ", allow_missing=True" if spec.allow_missing else ""
        default = "" if spec.default_value is None else f", default_value={_literal(spec.default_value)}"
        return f"{name}({list(spec.dims)}, {dtype}{missing}{default})"
    if isinstance(spec, SparseFeature):
        is_one = isinstance(spec.index_key, str)
        index = _text(spec.index_key) if is_one else f"[{', '.join(_text(key) for key in spec.index_keys)}]"
        size = str(spec.sizes[0]) if is_one else str(list(spec.sizes))
        is_sorted = ", already_sorted=True" if spec.already_sorted else ""
        return f"{name}({index}, {_text(spec.value_key)}, {dtype}, {size}{is_sorted})"
    return _ragged_call(spec, name, dtype, dtypes[str(spec.row_splits_dtype)])


def _ragged_call(spec: RaggedFeature, name: str, dtype: str, splits: str) -> str:
    arguments = [dtype]
    if spec.value_key is not None:
        arguments.append(f"value_key={_text(spec.value_key)}")
    if spec.partitions:
        calls = []
        for partition in spec.partitions:
            if isinstance(partition, RaggedFeature.UniformRowLength):
                argument = str(partition.length)
            else:
                argument = _text(partition.key)
            calls.append(f"{name}.{type(partition).__name__}({argument})")
        arguments.append(f"partitions=[{', '.join(calls)}]")
    if spec.row_splits_dtype != "int32":
        arguments.append(f"row_splits_dtype={splits}")
    return f"{name}({', '.join(arguments)})"


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _literal(value: object) -> str:
    """A default as Python code; numpy's NaN and infinity have no literal of their own."""
    if isinstance(value, list):
        return f"[{', '.join(_literal(each) for each in value)}]"
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    return repr(value)
