"""Small-size schedules on fabrics: verified, damaged ones refused, data moved at odd sizes, few messages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from samples.table import OURS
from shortcuts.switched_ranks import in_boxes, on_a_switch
from treadle.planning import compare, run, solve
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.scheduler import Comparing
from treadle.synthesis.sizes.spanning_exchanges import mixed_radix, one_shot, rail, three_stage
from treadle.synthesis.trees.baselines.embedding import GATHERING
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

K = CollectiveKind
NAMES = ("one-shot", "rail", "rail-bruck", "rail-ring", "three-stage", "mixed-radix", "pat")
BOXED = ("rail", "rail-bruck", "rail-ring", "three-stage")
FLAT = tuple(name for name in NAMES if name not in BOXED)
ODD = [0, 4, 28, 1020, 4 * 997]


def test_they_are_registered_and_compared_at_sizes() -> None:
    records = {one.name: one for one in OURS if one.comparing in (Comparing.SIZES, Comparing.PRACTICE)}
    assert set(NAMES) <= set(records)
    assert all(records[name].collectives == GATHERING for name in NAMES)
    fabric = in_boxes(2, 2)
    assert not set(NAMES) & {row.algorithm for row in compare(fabric, "allgather").rows}
    assert set(NAMES) <= {row.algorithm for row in compare(fabric, "allgather", sizes="1K").rows}


@pytest.mark.parametrize("n", [2, 3, 5, 6, 8, 12])
def test_any_number_of_ranks_on_a_switch(n: int) -> None:
    fabric = on_a_switch(n)
    for name in FLAT:
        for kind in GATHERING:
            found = solve(fabric, kind, algorithm=name)
            assert found.report.is_ok
            assert found.algbw <= found.optimal_algbw
            assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


def damaged(schedule: ForestSchedule, seed: int) -> ForestSchedule:
    """One rank's parent in some tree exchanged for another rank."""
    forest, chance = schedule.broadcast, np.random.default_rng(seed)
    assert forest is not None
    parent = forest.parent.copy()
    tree = int(chance.integers(len(parent)))
    ranks = [rank for rank in range(forest.n_ranks) if parent[tree, rank] >= 0]
    rank = int(chance.choice(ranks))
    others = [other for other in range(forest.n_ranks) if other not in (rank, parent[tree, rank])]
    parent[tree, rank] = chance.choice(others)
    return replace(schedule, broadcast=replace(forest, parent=parent))


@pytest.mark.parametrize("name", NAMES)
def test_damaged_ones_are_refused(name: str) -> None:
    fabric = in_boxes(3, 3, 2)
    plan = solve(fabric, "allgather", algorithm=name).plan
    (entry,) = plan.entries
    assert isinstance(entry.schedule, ForestSchedule)
    for seed in range(12):
        assert not verify(plan.topology, plan.collective, damaged(entry.schedule, seed)).is_ok


def messages(topology: Topology, schedule: ForestSchedule) -> int:
    program = lower(topology, on_all_ranks(topology, K.ALLGATHER), schedule)
    return int((program.operation_kind == OperationKind.SEND).sum())


def test_messages_carry_many_shards() -> None:
    fabric = in_boxes(4, 4, 4, 4)
    collective = on_all_ranks(fabric, K.ALLGATHER)
    # 3 in the box; each carries 3 of the 12 pairs of shard and box, in runs; what it has at once goes first
    assert messages(fabric, one_shot(fabric, collective)) == 16 * 15
    assert messages(fabric, rail(fabric, collective)) == 16 * (3 + 3 + 3 * 3)
    assert messages(fabric, three_stage(fabric, collective)) == 16 * 13


def test_weighted_shards() -> None:
    fabric = in_boxes(3, 2)
    collective = on_all_ranks(fabric, K.ALLGATHER, weights=(3, 0, 1, 2, 1))
    for one in (one_shot, rail, three_stage, mixed_radix):
        schedule = one(fabric, collective)
        assert schedule.broadcast is not None
        assert schedule.broadcast.root_multiplicity.tolist() == [3, 0, 1, 2, 1]
        assert verify(fabric, collective, schedule).violations == ()
