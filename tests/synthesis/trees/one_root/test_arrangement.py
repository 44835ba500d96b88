"""Which box feeds which: exits go where parts are entered, and low trees begin with many exits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.synthesis.trees.one_root.arrangement import Egress, Parts, arrange
from treadle.unsupported import Unsupported


def stars(boxes: int, fan: int, switches: int = 1) -> tuple[Egress, Parts, np.ndarray]:
    """`fan` trees over boxes of one part in each, entered and left `fan` times; so is the root's box left."""
    parts = [(tree, -1 if box == 0 else tree % switches, 0) for box in range(boxes) for tree in range(fan)]
    exits = [
        (box, number % switches, box, number if box == 0 else -1, 1)
        for box in range(boxes)
        for number in range(fan)
    ]
    box, switch, rank, tree, units = (np.array(column) for column in zip(*exits, strict=True))
    return (
        Egress(
            box.astype(np.int32),
            switch.astype(np.int32),
            rank.astype(np.int64),
            tree.astype(np.int32),
            units.astype(np.int64),
            np.arange(boxes * fan).reshape(boxes, fan),
            np.zeros((boxes, fan), dtype=np.int32),
        ),
        Parts(*(np.array(column, dtype=np.int32) for column in zip(*parts, strict=True))),
        np.array([box % fan for box in range(boxes)], dtype=np.int32),
    )


@pytest.mark.parametrize("boxes", [2, 3, 9, 10, 57, 200])
@pytest.mark.parametrize("fan", [2, 3, 8])
def test_each_part_is_fed_once_and_trees_are_low(boxes: int, fan: int) -> None:
    exits, parts, favourite = stars(boxes, fan)
    arranged = arrange(exits, parts, favourite, 1)
    assert not isinstance(arranged, Unsupported)
    feeder, height = arranged
    assert np.array_equal(feeder < 0, parts.switch < 0)
    fed = feeder[feeder >= 0]
    assert len(set(fed.tolist())) == len(fed)
    # a tree leaves the root's box once, and then fans out `fan` times at every level but the last ones
    reached, levels = 1, 1
    while reached < boxes - 1:
        reached = 1 + reached * fan
        levels += 1
    assert height <= levels + 1
    # parents come before children: all parts are reached from one that holds the root
    depth = np.where(feeder < 0, 0, -1)
    for _ in range(height):
        for part in np.flatnonzero(depth < 0).tolist():
            above = exits.part_of(feeder[part], parts.tree[part])
            if depth[above] >= 0:
                depth[part] = depth[above] + 1
    assert depth.min() == 0
    assert depth.max() == height


def test_an_exit_feeds_only_what_is_entered_from_its_switch() -> None:
    exits, parts, favourite = stars(64, 4, switches=2)
    arranged = arrange(exits, parts, favourite, 2)
    assert not isinstance(arranged, Unsupported)
    feeder = arranged[0]
    fed = np.flatnonzero(feeder >= 0)
    assert np.array_equal(exits.switch[feeder[fed]], parts.switch[fed])


def test_what_no_exit_leads_to_is_said() -> None:
    exits, parts, favourite = stars(3, 2)
    elsewhere = replace(exits, switch=np.ones_like(exits.switch))
    assert arrange(elsewhere, parts, favourite, 2) == Unsupported("tree 0 does not come to all boxes")


def test_parts_that_are_tall_come_first_among_those_that_send_nothing_on() -> None:
    exits, parts, favourite = stars(2, 2)
    tall = Parts(parts.tree, parts.switch, np.array([0, 3, 2, 0], dtype=np.int32))
    arranged = arrange(exits, tall, favourite, 1)
    assert not isinstance(arranged, Unsupported)
    assert arranged[1] == 3  # the root's own part of tree 1; tree 0: a hop and 2 more


@pytest.mark.parametrize("units", [3, 2**40])
def test_units_of_a_group_are_used_like_groups_of_one(units: int) -> None:
    """A link far wider than its trees feeds as many parts as there are, and its units are not listed."""
    exits, parts, favourite = stars(5, 3, switches=3)
    wide = replace(exits, units=np.where(exits.tree < 0, units, 1))
    arranged = arrange(wide, parts, favourite, 3)
    assert not isinstance(arranged, Unsupported)
    number = np.repeat(np.arange(len(exits.box)), np.where(exits.tree < 0, 3, 1))
    listed = replace(
        exits, **{key: getattr(exits, key)[number] for key in ("box", "switch", "rank", "tree", "units")}
    )
    each = arrange(listed, parts, favourite, 3)
    assert not isinstance(each, Unsupported)
    fed = each[0] >= 0
    assert np.array_equal(arranged[0][fed], number[each[0][fed]])
    assert arranged[1] == each[1]
