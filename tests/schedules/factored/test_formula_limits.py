"""Trees by formula as values: refusals word for word."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from samples.factored.formula_stars import plane_sample, relay_sample
from treadle.errors import ScheduleError
from verification.factored.test_factored_mutants import outermost

MOST = 2**61 - 1
NONE = np.zeros(0)
PLACES = "places of a child must be 0, 1, ..., once each"
relays, planes = cache(relay_sample), cache(plane_sample)
RELAY: dict[str, Any] = {"relay_root": [0], "relay_block": [0], "relay_child": [1], "relay_by": [2]}
"""Tree 0 of child 0 reaches child 1 by child 2."""


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"block": 2}, "3 children with blocks of 2 unit trees make no such trees"),
        ({"block": 0}, "3 children with blocks of 0 unit trees make no such trees"),
        ({"native_units": [3, 1, -2]}, f"native_units: found -2, expected 0 to {MOST}"),
        (
            {"native_units": [2**61 // 3 - 1, 1, 0]},
            "native_units sum to 2**59 or more; use a smaller number of trees",
        ),
        ({"in_links": np.zeros((3, 0))}, "0 links for each of 3 children are none or too many"),
        ({"out_links": [[0], [2]]}, "out_links has shape (2, 1), expected (3, 1)"),
        ({"in_first": [[0, 3], [0, 5]]}, "in_first has shape (2, 2), expected (3, 2)"),
        ({"out_offset": [[0], [2**61], [0]]}, f"out_offset: found {2**61}, expected 0 to {MOST}"),
        ({"in_first": [[0, 3], [1, 5], [0, 4]]}, "in_first must rise from 0 in each row"),
        ({"in_first": [[0, 3], [0, 5], [0, 5]]}, "child 2 has 5 ingress units, its trees take 4"),
        ({"out_first": [[0, 5], [0, 2], [0, 4]]}, "child 1 has 2 egress units, its trees take 3"),
        ({"relay_child": [1, 2]}, "relay_child has 2 rows, expected 1"),
        ({"relay_root": [3]}, "relay_root: found 3, expected 0 to 2"),
        ({"relay_count": [0]}, "relay_count: found 0, expected 1 to 2"),
        ({"relay_count": [2]}, "a block gives away more than n - 2 = 1 deliveries"),
        ({"relay_block": [3]}, "relay_block: a root has no block of that number"),
        ({"relay_child": [0]}, "relays of a block must be different children, not its root"),
        (
            {
                key: [value] * 2
                for key, value in zip(("root", "block", "child", "count"), (0, 0, 1, 1), strict=True)
            },
            "relays of a block must be different children, not its root",
        ),
        (
            {"root": [2, 0], "block": [0, 0], "child": [1, 1], "count": [1, 1]},
            "rows of relays must rise by (root, block)",
        ),
    ],
)
def test_what_are_no_relay_trees(changes: dict[str, Any], text: str) -> None:
    _, _, trees = relays()
    if "root" in changes:
        changes = {f"relay_{key}": value for key, value in changes.items()}
    with pytest.raises(ScheduleError) as caught:
        replace(trees, **changes)
    assert str(caught.value) == f"relay trees: {text}"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"block": 3}, "4 children of 2 unit trees in blocks of 3 make no such trees"),
        ({"place": NONE}, "4 children of 0 unit trees in blocks of 1 make no such trees"),
        ({"place": [1, 1]}, "place must hold 0 to r - 1 = 1, once each"),
        (
            {"native_units": [2**60 - 2, 2, 0, 0]},
            "native_units sum to 2**59 or more; use a smaller number of trees",
        ),
        ({"relay_root": [0]}, "relay_block has 0 rows, expected 1"),
        ({"group": [2, 1, 1]}, "group has 3 rows, expected 4"),
        ({"group": [2, 1, 1, 3]}, "group: found 3, expected 0 to 2"),
        (
            {"group": [2, 1, 1, 2]},
            "group_units has shape (3, 3, 2), expected two axes of groups that all have children, and one "
            "of planes",
        ),
        ({"native_units": [2, 2, 4, 2]}, "children of a group have different numbers of unit trees"),
        ({"pair_root": [0, 0, 1, 2, 3]}, "pair_child has 6 rows, expected 5"),
        ({"pair_child": [1, 2, 2, 1, 1, 4]}, "pair_child: found 4, expected 0 to 3"),
        ({"pair_units": [[9, 0]] * 6}, "pair_units: found 9, expected 0 to 8"),
        ({"pair_units": [[2]] * 6}, "pair_units has 1 columns, group_units 2 planes"),
        ({"pair_child": [2, 2, 2, 1, 1, 2]}, "pairs must rise and be of different children"),
        ({"pair_child": [0, 2, 2, 1, 1, 2]}, "pairs must rise and be of different children"),
        (
            {"pair_units": [[2, 0]] * 5 + [[2, 1]]},
            "rows of pair_units must sum to what children send each other",
        ),
        ({"in_first": [[0, 4, 6]] * 3 + [[0, 2, 7]]}, "child 3 has 7 ingress units, its trees take 6"),
        ({"out_first": [[0, 4, 6]] * 2 + [[0, 4, 5]] * 2}, "child 2 has 5 egress units, its trees take 6"),
        (RELAY | {"relay_block": [2]}, "relay_block: a root has no block of that number"),
        (RELAY | {"relay_by": [1]}, "a relay must differ from the root and from the child"),
        (RELAY | {"relay_by": [0]}, "a relay must differ from the root and from the child"),
        (RELAY | {"relay_child": [0]}, "a relay must differ from the root and from the child"),
        (RELAY, "rows of pair_units must sum to what children send each other"),
        (
            RELAY | {"relay_child": [3], "relay_by": [1]},
            "the pairs of relays must be given",
        ),
        (
            {"relay_root": [0, 0], "relay_block": [0, 0], "relay_child": [1, 2], "relay_by": [2, 3]},
            "a root must send to its relays itself",
        ),
        (
            {"relay_root": [0, 0], "relay_block": [1, 0], "relay_child": [1, 1], "relay_by": [2, 2]},
            "rows of relays must rise by (root, child, block)",
        ),
    ],
)
def test_what_are_no_plane_trees(changes: dict[str, Any], text: str) -> None:
    _, _, trees = planes()
    with pytest.raises(ScheduleError) as caught:
        replace(trees, **changes)
    assert str(caught.value) == f"plane trees: {text}"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"block": 0}, "5 children on 2 planes make no such trees"),
        ({"plane_units": np.zeros((0, 5))}, "5 children on 0 planes make no such trees"),
        ({"plane_units": [[3], [1]]}, "1 children on 2 planes make no such trees"),
        ({"plane_units": [[-1] * 5] * 2}, f"plane_units: found -1, expected 0 to {MOST}"),
        (
            {"plane_units": [[2**58] * 5] * 2},
            "plane_units sum to 2**58 or more; use a smaller number of trees",
        ),
        ({"relay_count": [1] * 9}, "relay_count has 9 rows, expected 10"),
        ({"relay_plane": [0] * 9 + [2]}, "relay_plane: found 2, expected 0 to 1"),
        ({"relay_plane": [0, 1] * 5}, "rows of relays must rise by planes"),
        ({"place": [0] * 13}, "place has 13 rows, expected 14"),
        ({"place": [0, 1, 2, 2, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1]}, PLACES),
        ({"place": [0, 1, 2, 4, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1]}, PLACES),
        ({"relay_root": [5, 0, 0, 2, 3, 0, 1, 1, 4, 4]}, "relay_root: found 5, expected 0 to 4"),
        ({"relay_child": [1, 4, 4, 4, 5, 2, 0, 2, 2, 3]}, "relay_child: found 5, expected 0 to 4"),
        ({"out_first": [[0, 5, 10]] * 5}, "child 1 has 10 egress units, its trees take 11"),
    ],
)
def test_what_are_no_relay_planes(changes: dict[str, Any], text: str) -> None:
    """Five children on two planes, of four, three, two, three and two trees."""
    with pytest.raises(ScheduleError) as caught:
        replace(outermost("relay planes"), **changes)
    assert str(caught.value) == f"relay planes: {text}"
