"""Forests of concurrent groups as members of a plan's archive: one table of columns for all groups.

Columns are those of a forest, group after group, with paths numbered within the group. Two more columns have
the numbers of trees and paths of each group. So a file of 512 groups has eleven members instead of 4608.
"""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import FormatError
from treadle.schedules.plan_files.members import to_npy, write_member
from treadle.schedules.trees.forest import Direction, Forest

FOREST_COLUMNS = (
    "root_multiplicity",
    "tree_root",
    "tree_multiplicity",
    "parent",
    "entry_path",
    "entry_units",
    "path_links",
)
FOREST_COUNTS = {"entry_count": "entry_offset", "path_length": "path_offset"}
"""Members, and those that hold the differences of an offset array."""

GROUP_COUNTS = {**FOREST_COUNTS, "tree_count": "tree_start", "path_count": "path_start"}
"""Also the numbers of trees and paths of each group."""

_Columns = Mapping[str, NDArray[Any]]


def write_group_forests(archive: zipfile.ZipFile, number: int, forests: Sequence[Forest]) -> None:
    """Add the members of the forests of all groups of one direction."""
    columns = {key: np.concatenate([getattr(one, key) for one in forests]) for key in FOREST_COLUMNS}
    columns |= {
        key: np.concatenate([np.diff(getattr(one, offset)) for one in forests])
        for key, offset in FOREST_COUNTS.items()
    }
    columns["tree_count"] = np.array([one.n_trees for one in forests])
    columns["path_count"] = np.array([one.n_paths for one in forests])
    for key in (*FOREST_COLUMNS, *GROUP_COUNTS):
        write_member(archive, f"groups/{number}/{key}.npy", to_npy(columns[key]))


def split_group_forests(
    columns: _Columns, number: int, direction: Direction, *, n_groups: int, group_size: int
) -> tuple[Forest, ...]:
    """Return the forests of the groups, in their order, from the table of all.

    Parameters
    ----------
    columns : mapping
        `FOREST_COLUMNS` as read, and the offsets that `GROUP_COUNTS` names.
    number : int
        For messages.
    direction : Direction
    n_groups, group_size : int

    Raises
    ------
    FormatError, ScheduleError
        If the columns do not fit together, or those of a group are not a forest.
    """
    place = f"groups {number}"
    tree, path = columns["tree_start"], columns["path_start"]
    entry, link = columns["entry_offset"], columns["path_offset"]
    n_trees = int(tree[-1])
    lengths = {
        "tree_start": n_groups + 1,
        "path_start": n_groups + 1,
        "root_multiplicity": n_groups * group_size,
        "tree_root": n_trees,
        "tree_multiplicity": n_trees,
        "entry_offset": n_trees * group_size + 1,
        "entry_path": int(entry[-1]),
        "entry_units": int(entry[-1]),
        "path_offset": int(path[-1]) + 1,
        "path_links": int(link[-1]),
    }
    wrong = [key for key, length in lengths.items() if columns[key].shape != (length,)]
    if wrong or columns["parent"].shape != (n_trees, group_size):
        raise FormatError(
            f"{place}: its columns do not fit {n_groups} groups of {group_size} ranks with {n_trees} trees"
        )
    forests: list[Forest] = []
    for group in range(n_groups):
        trees = slice(int(tree[group]), int(tree[group + 1]))
        cells = entry[trees.start * group_size : trees.stop * group_size + 1]
        entries = slice(int(cells[0]), int(cells[-1]))
        ends = link[int(path[group]) : int(path[group + 1]) + 1]
        forests.append(
            Forest(
                direction=direction,
                root_multiplicity=columns["root_multiplicity"][group * group_size : (group + 1) * group_size],
                tree_root=columns["tree_root"][trees],
                tree_multiplicity=columns["tree_multiplicity"][trees],
                parent=columns["parent"][trees],
                entry_offset=cells - cells[0],
                entry_path=columns["entry_path"][entries],
                entry_units=columns["entry_units"][entries],
                path_offset=ends - ends[0],
                path_links=columns["path_links"][int(ends[0]) : int(ends[-1])],
            )
        )
    return tuple(forests)
