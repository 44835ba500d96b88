"""Few trees in boxes of direct links: verified, data, damaged ones refused, quicker by trees and pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes, linked_boxes
from treadle.errors import ScheduleError
from treadle.planning import solve
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction, TreeSpec, forest_from_trees
from treadle.synthesis.sizes.box_phases import steps_of_trees
from treadle.verification.schedules import verify


def test_damaged_ones_are_refused() -> None:
    fabric = linked_boxes(3, 4)
    collective = on_all_ranks(fabric, CollectiveKind.ALLREDUCE)
    (entry,) = solve(fabric, "allreduce", algorithm="box-trees", trees=1, chunks=2).plan.entries
    assert isinstance(entry.schedule, StepSchedule)
    chance = np.random.default_rng(5)
    for role in ("reduce", "broadcast"):
        steps = getattr(entry.schedule, role)
        for _ in range(20):
            send = int(chance.integers(steps.n_sends))
            columns = {key: np.delete(getattr(steps, key), send) for key in ("shard", "link", "low", "high")}
            offset = steps.step_offset - (steps.step_offset > send)
            mutant = replace(entry.schedule, **{role: replace(steps, step_offset=offset, **columns)})
            assert not verify(fabric, collective, mutant).is_ok


def test_what_it_needs() -> None:
    with pytest.raises(ScheduleError, match=r"box of box0\.gpu0 do not join them; use rail"):
        solve(in_boxes(2, 2), "allgather", algorithm="box-trees")
    with pytest.raises(ScheduleError, match="expected at least 1 part of a shard, found 0"):
        solve(linked_boxes(2, 2), "allgather", algorithm="box-trees", chunks=0)


def test_trees_that_are_no_steps() -> None:
    tree = TreeSpec(0, 1, [-1, 0], {1: [((0, 1), 1)]})
    other = TreeSpec(1, 1, [1, -1], {0: [((2,), 1)]})
    with pytest.raises(ScheduleError, match="an edge takes 2 links"):
        steps_of_trees(forest_from_trees(Direction.BROADCAST, 2, [tree, other]))
    with pytest.raises(ScheduleError, match="as many out-trees for every root"):
        steps_of_trees(forest_from_trees(Direction.BROADCAST, 2, [tree]))
