"""The part of the Chakra schema that traces use, as protobuf classes (extra ``chakra``)."""

from __future__ import annotations

from functools import cache
from typing import Any

from treadle.protobuf_messages import load_protobuf, message_classes

_MESSAGES = {
    "AttributeProto": (
        ("name", 1, "string"),
        ("int32_val", 7, "int32"),
        ("int64_val", 9, "int64"),
        ("bool_val", 27, "bool"),
        ("string_val", 29, "string"),
    ),
    "GlobalMetadata": (("version", 1, "string"), ("attr", 2, "AttributeProto*")),
    "Node": (
        ("id", 1, "uint64"),
        ("name", 2, "string"),
        ("type", 3, "int32"),
        ("ctrl_deps", 4, "uint64*"),
        ("data_deps", 5, "uint64*"),
        ("duration_micros", 7, "uint64"),
        ("attr", 10, "AttributeProto*"),
    ),
}
"""The part of the schema (MLCommons Chakra, schema/protobuf/et_def.proto) that these traces use."""
_WHAT = "Chakra traces"


@cache
def schema() -> dict[str, Any]:
    """Return the message classes of the schema by name; MissingDependencyError without protobuf."""
    return message_classes("ChakraProtoMsg", _MESSAGES, syntax="proto3", what=_WHAT, extra="chakra")


def decode_error() -> type[Exception]:
    """Return the exception that protobuf raises for malformed bytes."""
    found: type[Exception] = load_protobuf("message", what=_WHAT, extra="chakra").DecodeError
    return found
