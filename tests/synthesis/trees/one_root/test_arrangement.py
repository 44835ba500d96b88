"""Which box feeds which: exits go where parts are entered, and low trees begin with many exits."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.refusal import Refusal
from treadle.synthesis.trees.one_root.arrangement import Exits, Parts, arrange


def stars(boxes: int, fan: int, switches: int = 1) -> tuple[Exits, Parts, np.ndarray]:
    """`fan` trees over boxes of one part in each, entered and left `fan` times; so is the root's box left."""
    parts = [(tree, -1 if box == 0 else tree % switches, 0) for box in range(boxes) for tree in range(fan)]
    exits = [
        (box, number % switches, [box * fan + tree for tree in range(fan)], number if box == 0 else -1)
        for box in range(boxes)
        for number in range(fan)
    ]
    return (
        Exits(
            np.array([one[0] for one in exits], dtype=np.int32),
            np.array([one[1] for one in exits], dtype=np.int32),
            np.array([one[2] for one in exits], dtype=np.int64),
            np.zeros((len(exits), fan), dtype=np.int32),
            np.array([one[3] for one in exits], dtype=np.int32),
        ),
        Parts(*(np.array(column, dtype=np.int32) for column in zip(*parts, strict=True))),
        np.array([box % fan for box in range(boxes)], dtype=np.int32),
    )


@pytest.mark.parametrize("boxes", [2, 3, 9, 10, 57, 200])
@pytest.mark.parametrize("fan", [2, 3, 8])
def test_each_part_is_fed_once_and_trees_are_low(boxes: int, fan: int) -> None:
    exits, parts, favourite = stars(boxes, fan)
    arranged = arrange(exits, parts, favourite, 1)
    assert not isinstance(arranged, Refusal)
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
            above = exits.part[feeder[part], parts.tree[part]]
            if depth[above] >= 0:
                depth[part] = depth[above] + 1
    assert depth.min() == 0
    assert depth.max() == height


def test_an_exit_feeds_only_what_is_entered_from_its_switch() -> None:
    exits, parts, favourite = stars(64, 4, switches=2)
    arranged = arrange(exits, parts, favourite, 2)
    assert not isinstance(arranged, Refusal)
    feeder = arranged[0]
    fed = np.flatnonzero(feeder >= 0)
    assert np.array_equal(exits.switch[feeder[fed]], parts.switch[fed])


def test_what_no_exit_leads_to_is_said() -> None:
    exits, parts, favourite = stars(3, 2)
    elsewhere = Exits(exits.box, np.ones_like(exits.switch), exits.part, exits.depth, exits.tree)
    assert arrange(elsewhere, parts, favourite, 2) == Refusal("tree 0 does not come to all boxes")


def test_parts_that_are_tall_come_first_among_those_that_send_nothing_on() -> None:
    exits, parts, favourite = stars(2, 2)
    tall = Parts(parts.tree, parts.switch, np.array([0, 3, 2, 0], dtype=np.int32))
    arranged = arrange(exits, tall, favourite, 1)
    assert not isinstance(arranged, Refusal)
    assert arranged[1] == 3  # the root's own part of tree 1; tree 0: a hop and 2 more
