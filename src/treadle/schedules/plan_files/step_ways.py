"""Ways and further homes of steps in plan files: members beside those that all steps have.

The manifest's ``ways`` lists the numbers of the steps that have them, ``operations`` those of steps on whose
ways switches copy or add up, which have the kind of each way besides.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import offsets_of
from treadle.errors import FormatError
from treadle.schedules.plan_files.manifest_values import read_list, read_whole
from treadle.schedules.plan_files.members import MemberReader, to_npy, write_member
from treadle.schedules.steps.steps import Steps

_COLUMNS = ("way_links", "twins")
_LENGTHS = "way_length"
_KINDS = "way_kinds"


def way_members(number: int) -> set[str]:
    """Names of the members of some steps."""
    return {f"steps/{number}/{key}.npy" for key in (*_COLUMNS, _LENGTHS)}


def kinds_member(number: int) -> str:
    """Name of the member of the kinds of some steps' ways."""
    return f"steps/{number}/{_KINDS}.npy"


def has_ways(steps: Steps) -> bool:
    """Whether steps need these members."""
    return steps.has_ways or bool(steps.twins.size)


def write_ways(archive: zipfile.ZipFile, number: int, steps: Steps) -> None:
    """Write the members of some steps."""
    for key in _COLUMNS:
        write_member(archive, f"steps/{number}/{key}.npy", to_npy(getattr(steps, key)))
    write_member(archive, f"steps/{number}/{_LENGTHS}.npy", to_npy(np.diff(steps.way_offset)))
    if steps.has_operations:
        write_member(archive, kinds_member(number), to_npy(steps.way_kinds))


class WayNumbers:
    """Which steps have ways, and on whose ways switches copy or add up.

    Parameters
    ----------
    manifest : mapping
        With ``ways`` and ``operations``.
    n_steps : int

    Raises
    ------
    FormatError
        If a number is none of the steps, or given twice.
    """

    def __init__(self, manifest: Mapping[str, Any], n_steps: int) -> None:
        self._ways, self._operations = (_numbers(manifest, key, n_steps) for key in ("ways", "operations"))

    def members(self) -> set[str]:
        """Names of their members."""
        return {name for number in self._ways for name in way_members(number)} | {
            kinds_member(number) for number in self._operations
        }

    def columns(self, members: MemberReader, number: int) -> dict[str, NDArray[Any]]:
        """The fields of `Steps` that members beside those of all steps are."""
        columns = _read_ways(members, number) if number in self._ways else {}
        if number in self._operations:
            columns[_KINDS] = members.array(kinds_member(number), np.int32)
        return columns


def _numbers(manifest: Mapping[str, Any], key: str, n_steps: int) -> frozenset[int]:
    numbers = [read_whole(item, key) for item in read_list(manifest[key], key)]
    if len(set(numbers)) < len(numbers) or not all(0 <= number < n_steps for number in numbers):
        raise FormatError(f"{key}: expected numbers from 0 to {n_steps - 1}, each once")
    return frozenset(numbers)


def _read_ways(members: MemberReader, number: int) -> dict[str, NDArray[Any]]:
    found = {key: members.array(f"steps/{number}/{key}.npy", np.int32) for key in _COLUMNS}
    lengths = members.array(f"steps/{number}/{_LENGTHS}.npy", np.int64)
    if lengths.size and (lengths.min() < 1 or lengths.max() >= 2**31):
        raise FormatError(f"steps/{number}: {_LENGTHS} has a value out of range")
    if lengths.size:
        found["way_offset"] = offsets_of(lengths)
        found["way_offset"].setflags(write=False)
    return found
