"""Members of plan files that only some steps and routes have, beside those that all have.

The manifest's ``ways`` lists the numbers of the steps that have ways and further homes, ``operations`` those
of steps on whose ways switches copy or add up, which have the kind of each way besides, and ``fresh`` those
of steps in which sums begin anew, which have for each send whether they do. ``rising`` lists the routes whose
layer changes on the way, which have the layer of every hop.
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
"""By key of the manifest: folder, members, and whether some steps or routes have them."""


def numbers_with(key: str, parts: Sequence[Any]) -> tuple[int, ...]:
    """Numbers of the steps or routes that have the members of a key."""
    return tuple(number for number, part in enumerate(parts) if _MEMBERS[key][2](part))


def write_optional(archive: zipfile.ZipFile, key: str, number: int, part: Any) -> None:
    """Write the members of a key that some steps or routes have."""
    folder, columns, has_members = _MEMBERS[key]
    for column in columns if has_members(part) else ():
        values = np.diff(part.way_offset) if column == "way_length" else getattr(part, column)
        values = values.astype(np.int32) if column == "fresh" else values
        write_member(archive, f"{folder}/{number}/{column}.npy", to_npy(values))


def optional_names(manifest: Manifest) -> set[str]:
    """Names of the members of all steps and routes that have some."""
    return {
        f"{folder}/{number}/{column}.npy"
        for key, (folder, columns, _) in _MEMBERS.items()
        for number in getattr(manifest, key)
        for column in columns
    }


def optional_columns(
    members: MemberReader, manifest: Manifest, folder: str, number: int
) -> dict[str, NDArray[Any]]:
    """The fields of `Steps` or `RouteSchedule` that they are."""
    place = f"{folder}/{number}"
    found: dict[str, NDArray[Any]] = {}
    for key, (of, columns, _) in _MEMBERS.items():
        for column in columns if of == folder and number in getattr(manifest, key) else ():
            name = f"{place}/{column}.npy"
            if column == "way_length":
                lengths = members.array(name, np.int64)
                if lengths.size:
                    found["way_offset"] = offsets_from(lengths, f"{place}: {column} has", least=1)
                continue
            found[column] = members.array(name, np.int32)
            if column == "fresh":
                if found[column].size and (found[column].min() < 0 or found[column].max() > 1):
                    raise FormatError(f"{name}: expected 0 and 1 only")
                found[column] = found[column].astype(np.bool_)
    return found
