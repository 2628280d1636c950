"""The protobuf types tf.train.Example and SequenceExample, in a descriptor pool of their own.

TensorFlow registers the same names in protobuf's default pool, and a pool takes a name once. A private pool
lets both live in one process, whichever is imported first.

**Source**: TensorFlow's ``example.proto`` and ``feature.proto``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto
    from google.protobuf.message import Message

__all__ = ["example_class", "int64_list_class", "sequence_example_class"]


def example_class() -> type[Message]:
    """The message class of ``tensorflow.Example``.

    >>> message = example_class()()
    >>> message.features.feature["ndvi"].float_list.value.extend([0.5])
    >>> message.SerializeToString().hex(" ")
    '0a 12 0a 10 0a 04 6e 64 76 69 12 08 12 06 0a 04 00 00 00 3f'
    """
    return _classes()["tensorflow.Example"]


def sequence_example_class() -> type[Message]:
    """The message class of ``tensorflow.SequenceExample``."""
    return _classes()["tensorflow.SequenceExample"]


def int64_list_class() -> type[Message]:
    """The message class of ``tensorflow.Int64List``."""
    return _classes()["tensorflow.Int64List"]


@cache
def _classes() -> dict[str, type[Message]]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="geotfr/example.proto", package="tensorflow", syntax="proto3")

    lists = {"BytesList": field.TYPE_BYTES, "FloatList": field.TYPE_FLOAT, "Int64List": field.TYPE_INT64}
    for name, kind in lists.items():
        value = file.message_type.add(name=name).field.add(name="value", number=1, type=kind)
        value.label = field.LABEL_REPEATED
        if kind != field.TYPE_BYTES:
            value.options.packed = True

    def message(name: str, *fields: tuple[str, str], repeated: bool = False) -> DescriptorProto:
        made = file.message_type.add(name=name)
        for number, (field_name, type_name) in enumerate(fields, 1):
            made.field.add(
                name=field_name,
                number=number,
                type=field.TYPE_MESSAGE,
                type_name=f".tensorflow.{type_name}",
                label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
            )
        return made

    def mapping(name: str, field_name: str, type_name: str) -> None:
        entry_name = "".join(word.title() for word in field_name.split("_")) + "Entry"
        made = message(name, (field_name, f"{name}.{entry_name}"), repeated=True)
        entry = made.nested_type.add(name=entry_name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
        entry.field.add(
            name="value",
            number=2,
            type=field.TYPE_MESSAGE,
            type_name=f".tensorflow.{type_name}",
            label=field.LABEL_OPTIONAL,
        )

    feature = message("Feature", ("bytes_list", "BytesList"), ("float_list", "FloatList"), ("int64_list", "Int64List"))
    feature.oneof_decl.add(name="kind")
    for member in feature.field:
        member.oneof_index = 0
    mapping("Features", "feature", "Feature")
    message("FeatureList", ("feature", "Feature"), repeated=True)
    mapping("FeatureLists", "feature_list", "FeatureList")
    message("Example", ("features", "Features"))
    message("SequenceExample", ("context", "Features"), ("feature_lists", "FeatureLists"))

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    names = ("tensorflow.Example", "tensorflow.SequenceExample", "tensorflow.Int64List")
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names}
