"""Message classes of protobuf schemas that are given as tables of fields (protobuf comes with extras)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from treadle.errors import MissingDependencyError

_SCALARS = {
    "double": 1,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "bool": 8,
    "string": 9,
    "message": 11,
    "uint32": 13,
}

Fields = tuple[tuple[str, int, str], ...]
"""Name, number and type of each field: a scalar or another message, with a star if it is repeated."""


def message_classes(
    package: str, messages: Mapping[str, Fields], *, syntax: str, what: str, extra: str
) -> dict[str, Any]:
    """Classes by name of message.

    Parameters
    ----------
    package : str
    messages : mapping of str to Fields
    syntax : str
        ``proto2`` writes every field that is set, ``proto3`` none that is zero.
    what, extra : str
        What needs them, and the extra that brings protobuf, for the error.

    Raises
    ------
    MissingDependencyError
        If protobuf is not installed.
    """
    descriptor, pool, factory = (
        load_protobuf(name, what=what, extra=extra)
        for name in ("descriptor_pb2", "descriptor_pool", "message_factory")
    )
    file = descriptor.FileDescriptorProto(name=f"{package}.proto", package=package, syntax=syntax)
    for message, fields in messages.items():
        entry = file.message_type.add(name=message)
        for name, number, kind in fields:
            base = kind.removesuffix("*")
            scalar = "message" if base in messages else base
            added = entry.field.add(name=name, number=number, type=_SCALARS[scalar])
            added.label = 3 if kind.endswith("*") else 1
            if base in messages:
                added.type_name = f".{package}.{base}"
    found = pool.DescriptorPool()
    found.Add(file)
    return {
        name: factory.GetMessageClass(found.FindMessageTypeByName(f"{package}.{name}")) for name in messages
    }


def load_protobuf(name: str, *, what: str, extra: str) -> ModuleType:
    """A module of protobuf; MissingDependencyError without it."""
    try:
        return import_module(f"google.protobuf.{name}")
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} need protobuf ({error}): pip install 'treadle[{extra}]'"
        ) from None
