"""Ways and further homes of steps in plan files: members beside those that all steps have.

The manifest's ``ways`` lists the numbers of the steps that have them.
"""

from __future__ import annotations

import zipfile
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


def way_members(number: int) -> set[str]:
    """Names of the members of some steps."""
    return {f"steps/{number}/{key}.npy" for key in (*_COLUMNS, _LENGTHS)}


def has_ways(steps: Steps) -> bool:
    """Whether steps need these members."""
    return steps.has_ways or bool(steps.twins.size)


def write_ways(archive: zipfile.ZipFile, number: int, steps: Steps) -> None:
    """Write the members of some steps."""
    for key in _COLUMNS:
        write_member(archive, f"steps/{number}/{key}.npy", to_npy(getattr(steps, key)))
    write_member(archive, f"steps/{number}/{_LENGTHS}.npy", to_npy(np.diff(steps.way_offset)))


def read_way_numbers(value: Any, n_steps: int) -> frozenset[int]:
    """Numbers of the steps with ways; FormatError if one is none, or given twice."""
    numbers = [read_whole(item, "ways") for item in read_list(value, "ways")]
    if len(set(numbers)) < len(numbers) or not all(0 <= number < n_steps for number in numbers):
        raise FormatError(f"ways: expected numbers from 0 to {n_steps - 1}, each once")
    return frozenset(numbers)


def read_ways(members: MemberReader, number: int) -> dict[str, NDArray[Any]]:
    """The fields of `Steps` that they are."""
    found = {key: members.array(f"steps/{number}/{key}.npy", np.int32) for key in _COLUMNS}
    lengths = members.array(f"steps/{number}/{_LENGTHS}.npy", np.int64)
    if lengths.size and (lengths.min() < 1 or lengths.max() >= 2**31):
        raise FormatError(f"steps/{number}: {_LENGTHS} has a value out of range")
    if lengths.size:
        found["way_offset"] = offsets_of(lengths)
        found["way_offset"].setflags(write=False)
    return found
