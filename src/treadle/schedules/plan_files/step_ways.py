"""Ways and further homes of steps in plan files: members beside those that all steps have.

The manifest's ``ways`` lists the numbers of the steps that have them, ``operations`` those of steps on whose
ways switches copy or add up, which have the kind of each way besides, and ``fresh`` those of steps in which
sums begin anew, which have for each send whether they do.
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
_FRESH = "fresh"


def way_members(number: int) -> set[str]:
    """Names of the members of some steps."""
    return {f"steps/{number}/{key}.npy" for key in (*_COLUMNS, _LENGTHS)}


def kinds_member(number: int) -> str:
    """Name of the member of the kinds of some steps' ways."""
    return f"steps/{number}/{_KINDS}.npy"


def fresh_member(number: int) -> str:
    """Name of the member that says of some steps' sends where sums begin anew."""
    return f"steps/{number}/{_FRESH}.npy"


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


def write_fresh(archive: zipfile.ZipFile, number: int, steps: Steps) -> None:
    """Write the member of some steps in which sums begin anew."""
    write_member(archive, fresh_member(number), to_npy(steps.fresh.astype(np.int32)))


class WayNumbers:
    """Which steps have ways, on whose ways switches copy or add up, and in which sums begin anew.

    Parameters
    ----------
    manifest : mapping
        With ``ways``, ``operations`` and ``fresh``.
    n_steps : int

    Raises
    ------
    FormatError
        If a number is none of the steps, or given twice.
    """

    def __init__(self, manifest: Mapping[str, Any], n_steps: int) -> None:
        keys = ("ways", "operations", "fresh")
        self._ways, self._operations, self._fresh = (_numbers(manifest, key, n_steps) for key in keys)

    def members(self) -> set[str]:
        """Names of their members."""
        names = {name for number in self._ways for name in way_members(number)}
        names |= {kinds_member(number) for number in self._operations}
        return names | {fresh_member(number) for number in self._fresh}

    def columns(self, members: MemberReader, number: int) -> dict[str, NDArray[Any]]:
        """The fields of `Steps` that members beside those of all steps are."""
        columns = _read_ways(members, number) if number in self._ways else {}
        if number in self._operations:
            columns[_KINDS] = members.array(kinds_member(number), np.int32)
        if number in self._fresh:
            columns[_FRESH] = _read_flags(members, fresh_member(number))
        return columns


def _numbers(manifest: Mapping[str, Any], key: str, n_steps: int) -> frozenset[int]:
    numbers = [read_whole(item, key) for item in read_list(manifest[key], key)]
    if len(set(numbers)) < len(numbers) or not all(0 <= number < n_steps for number in numbers):
        raise FormatError(f"{key}: expected numbers from 0 to {n_steps - 1}, each once")
    return frozenset(numbers)


def _read_flags(members: MemberReader, name: str) -> NDArray[Any]:
    flags = members.array(name, np.int32)
    if flags.size and (flags.min() < 0 or flags.max() > 1):
        raise FormatError(f"{name}: expected 0 and 1 only")
    return flags.astype(np.bool_)


def _read_ways(members: MemberReader, number: int) -> dict[str, NDArray[Any]]:
    found = {key: members.array(f"steps/{number}/{key}.npy", np.int32) for key in _COLUMNS}
    lengths = members.array(f"steps/{number}/{_LENGTHS}.npy", np.int64)
    if lengths.size and (lengths.min() < 1 or lengths.max() >= 2**31):
        raise FormatError(f"steps/{number}: {_LENGTHS} has a value out of range")
    if lengths.size:
        found["way_offset"] = offsets_of(lengths)
        found["way_offset"].setflags(write=False)
    return found
