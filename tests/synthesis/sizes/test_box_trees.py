"""Few trees in boxes of direct links: verified, data, damaged ones refused, quicker by trees and pieces."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes, linked_boxes
from treadle.errors import ScheduleError
from treadle.planning import run, simulate, solve
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction, TreeSpec, forest_from_trees
from treadle.synthesis.sizes.box_phases import steps_of_trees
from treadle.synthesis.trees.baselines.embedding import GATHERING
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

ODD = [0, 4, 28, 1020, 4 * 997]


@pytest.mark.parametrize(
    "fabric",
    [linked_boxes(2, 2), linked_boxes(2, 5), linked_boxes(3, 5, chords=2)],
    ids=lambda one: one.name,
)
def test_boxes_of_rings(fabric: Topology) -> None:
    for kind in GATHERING:
        for trees, chunks, parts in ((None, None, None), (1, 1, None), (2, 3, 4)):
            found = solve(fabric, kind, algorithm="box-trees", trees=trees, chunks=chunks, parts=parts)
            assert found.report.is_ok
            assert found.algbw <= found.optimal_algbw
            assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


def test_mi250() -> None:
    """Heights 5 in the box: 5 steps in, one across, 5 out; 9 us below what plain trees take at 4 MB."""
    whole = solve("mi250(2)", "allreduce", algorithm="box-trees", trees=1, chunks=1)
    assert whole.report.n_steps == 11
    best = solve("mi250(2)", "allreduce", algorithm="box-trees", trees=3, chunks=8)
    assert simulate(best.plan, "64M", cost_model="reference").rows[0].time < Fraction(420, 10**6)
    times = []
    for trees, chunks in ((3, 8), (3, 1), (1, 1)):
        found = solve(linked_boxes(2, 6), "allreduce", algorithm="box-trees", trees=trees, chunks=chunks)
        times.append(simulate(found.plan, "64M", cost_model="reference").rows[0].time)
    assert times[0] < times[1] < times[2]


def test_sums_in_parts_of_steps() -> None:
    plain = solve("mi250(2)", "reduce-scatter", algorithm="box-trees")
    parted = solve("mi250(2)", "reduce-scatter", algorithm="box-trees", chunks=12, parts=5)
    times = [simulate(one.plan, "64M", cost_model="reference").rows[0].time for one in (parted, plain)]
    assert times[0] < Fraction(210, 10**6) < Fraction(211, 10**6) < times[1]


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
