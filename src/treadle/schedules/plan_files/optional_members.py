"""Members of plan files that only some steps and routes have.

The manifest lists the numbers of the steps or routes that have them. ``ways``: steps with paths of several
links and with further owners of shards. ``operations``: steps with in-network multicast or aggregation; they
have the kind of each path. ``fresh``: steps in which sums start again; they have a flag for each send.
``rising``: routes whose virtual channel changes along a path; they have the channel of every hop.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import FormatError
from treadle.schedules.plan_files.manifest import Manifest
from treadle.schedules.plan_files.members import MemberReader, offsets_from, to_npy, write_member

_MEMBERS: Mapping[str, tuple[str, tuple[str, ...], Callable[[Any], bool]]] = MappingProxyType(
    {
        "ways": (
            "steps",
            ("way_links", "twins", "way_length"),
            lambda steps: steps.has_paths or bool(steps.twins.size),
        ),
        "operations": ("steps", ("way_kinds",), lambda steps: steps.has_operations),
        "fresh": ("steps", ("fresh",), lambda steps: steps.restarts),
        "rising": ("routes", ("hop_layer",), lambda routes: bool(routes.hop_layer.size)),
    }
)
"""Folder and members of each key of the manifest, and whether some steps or routes have them."""


def numbers_with(key: str, parts: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of the steps or routes that have the members of a key."""
    return tuple(number for number, part in enumerate(parts) if _MEMBERS[key][2](part))


def write_optional(archive: zipfile.ZipFile, keys: Sequence[str], parts: Sequence[Any]) -> None:
    """Write the members of some keys of all steps or routes."""
    for number, part in enumerate(parts):
        for folder, columns, has_members in map(_MEMBERS.__getitem__, keys):
            for column in columns if has_members(part) else ():
                values = np.diff(part.way_offset) if column == "way_length" else getattr(part, column)
                values = values.astype(np.int32) if column == "fresh" else values
                write_member(archive, f"{folder}/{number}/{column}.npy", to_npy(values))


def optional_names(manifest: Manifest) -> set[str]:
    """Return the names of these members of all steps and routes."""
    return {
        f"{folder}/{number}/{column}.npy"
        for key, (folder, columns, _) in _MEMBERS.items()
        for number in getattr(manifest, key)
        for column in columns
    }


def optional_columns(
    members: MemberReader, manifest: Manifest, folder: str, number: int
) -> dict[str, NDArray[Any]]:
    """Read these members as fields of `Steps` or `RouteSchedule`."""
    place = f"{folder}/{number}"
    found: dict[str, NDArray[Any]] = {}
    for key, (of, columns, _) in _MEMBERS.items():
        for column in columns if of == folder and number in getattr(manifest, key) else ():
            name = f"{place}/{column}.npy"
            values = members.array(name, np.int64 if column == "way_length" else np.int32)
            if column == "fresh":
                if np.any((values < 0) | (values > 1)):
                    raise FormatError(f"{name}: expected 0 and 1 only")
                values = values.astype(np.bool_)
            if column != "way_length":
                found[column] = values
            elif values.size:
                found["way_offset"] = offsets_from(values, f"{place}: {column} has", least=1)
    return found
