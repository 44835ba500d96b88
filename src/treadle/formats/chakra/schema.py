"""The part of the Chakra schema that traces use, as protobuf classes (extra ``chakra``)."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from treadle.errors import MissingDependencyError

_SCALARS = {"string": 9, "int32": 5, "int64": 3, "uint64": 4, "bool": 8, "enum": 14, "message": 11}
_FIELDS = {
    "AttributeProto": (
        ("name", 1, "string"),
        ("int32_val", 7, "int32"),
        ("int64_val", 9, "int64"),
        ("bool_val", 27, "bool"),
        ("string_val", 29, "string"),
    ),
    "GlobalMetadata": (("version", 1, "string"), ("attr", 2, "AttributeProto")),
    "Node": (
        ("id", 1, "uint64"),
        ("name", 2, "string"),
        ("type", 3, "int32"),
        ("ctrl_deps", 4, "uint64s"),
        ("data_deps", 5, "uint64s"),
        ("duration_micros", 7, "uint64"),
        ("attr", 10, "AttributeProto"),
    ),
}
"""The part of the schema (MLCommons Chakra, schema/protobuf/et_def.proto) that these traces use."""


@cache
def schema() -> dict[str, Any]:
    """Message classes of the schema by name.

    Raises
    ------
    MissingDependencyError
        If protobuf is not installed.
    """
    descriptor, pool, factory = (
        _load(f"google.protobuf.{name}") for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    file = descriptor.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    for message, fields in _FIELDS.items():
        entry = file.message_type.add(name=message)
        for name, number, kind in fields:
            is_message = kind in _FIELDS
            scalar = "message" if is_message else kind.removesuffix("s")
            added = entry.field.add(name=name, number=number, type=_SCALARS[scalar])
            added.label = 3 if is_message or kind.endswith("s") else 1
            if is_message:
                added.type_name = f".ChakraProtoMsg.{kind}"
    found = pool.DescriptorPool()
    found.Add(file)
    return {
        name: factory.GetMessageClass(found.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in _FIELDS
    }


def decode_error() -> type[Exception]:
    """What protobuf raises for bytes that are no message."""
    found: type[Exception] = _load("google.protobuf.message").DecodeError
    return found


def _load(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependencyError(
            f"Chakra traces need protobuf ({error}): pip install 'treadle[chakra]'"
        ) from None
