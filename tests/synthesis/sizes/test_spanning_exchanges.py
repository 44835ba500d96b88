"""Small-size schedules on fabrics: verified, damaged ones refused, data moved at odd sizes, few messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from samples.table import OURS
from shortcuts.switched_ranks import in_boxes, on_a_switch
from treadle.errors import ScheduleError
from treadle.planning import compare, run, solve
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.scheduler import Comparing
from treadle.synthesis.sizes.spanning_exchanges import mixed_radix, one_shot, rail, three_stage
from treadle.synthesis.trees.baselines.embedding import GATHERING
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import subset
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


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (1, 4, 2), (3, 3, 3), (2,) * 5], ids=str)
def test_any_boxes(sizes: tuple[int, ...]) -> None:
    fabric = in_boxes(*sizes)
    for name in NAMES:
        for kind in GATHERING:
            found = solve(fabric, kind, algorithm=name)
            assert found.report.is_ok
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


def test_heights() -> None:
    fabric = parse("dgx_a100_flat(4, gpus_per_box=4)")
    collective = on_all_ranks(fabric, K.ALLGATHER)

    def height(name: str, **options: Any) -> int | None:
        return solve(fabric, "allgather", algorithm=name, **options).report.height_max

    found = {name: height(name) for name in NAMES}
    assert found == {
        "one-shot": 1,
        "rail": 2,
        "rail-bruck": 3,
        "rail-ring": 4,
        "three-stage": 3,
        "mixed-radix": 2,
        "pat": 4,
    }
    assert height("rail-bruck", factors=(4,)) == 2
    assert height("mixed-radix", factors=(4, 2, 2)) == 3
    assert mixed_radix(fabric, collective) == rail(fabric, collective)


def test_weighted_shards() -> None:
    fabric = in_boxes(3, 2)
    collective = on_all_ranks(fabric, K.ALLGATHER, weights=(3, 0, 1, 2, 1))
    for one in (one_shot, rail, three_stage, mixed_radix):
        schedule = one(fabric, collective)
        assert schedule.broadcast is not None
        assert schedule.broadcast.root_multiplicity.tolist() == [3, 0, 1, 2, 1]
        assert verify(fabric, collective, schedule).violations == ()


def test_switches_copy_and_add_up() -> None:
    """Rail all-to-all and multimem stores: the switch makes the copies, and each GPU sends once."""
    fabric = parse("dgx_h100(2, gpus_per_box=4, nvls=True)")
    for kind in (K.ALLGATHER, K.REDUCE_SCATTER, K.ALLREDUCE):
        found = solve(fabric, kind, algorithm="rail", multicast=True)
        assert found.report.is_ok
        assert found.traffic is not None
        assert found.traffic.traffic_after < found.traffic.traffic_before


def test_what_they_need() -> None:
    flat = on_a_switch(4)
    for name in BOXED:
        with pytest.raises(ScheduleError, match="is one box; use one-shot or mixed-radix"):
            solve(flat, "allgather", algorithm=name)
    with pytest.raises(ScheduleError, match="mixed-radix: factors 3,2: expected a product of 4 ranks"):
        solve(flat, "allgather", algorithm="mixed-radix", factors=(3, 2))
    with pytest.raises(ScheduleError, match="rail-bruck: factors 1: expected one radix, at least 2"):
        solve(in_boxes(2, 2), "allgather", algorithm="rail-bruck", factors=(1,))
    with pytest.raises(ScheduleError, match="expected at most 512 ranks, found 513"):
        solve(on_a_switch(513), "allgather", algorithm="one-shot")
    with pytest.raises(ScheduleError, match="one-shot: broadcast is not supported"):
        one_shot(flat, Collective(K.BROADCAST, (0, 1, 2, 3), root=0))


def test_ranks_and_forwarders() -> None:
    fabric = parse("path(3)")
    collective = Collective(K.ALLREDUCE, (0, 2), forwarders=(1,))
    assert verify(fabric, collective, one_shot(fabric, collective)).violations == ()
    part = subset(in_boxes(4, 4), *range(7))
    assert verify(part, on_all_ranks(part, K.ALLGATHER), rail(part, on_all_ranks(part, K.ALLGATHER))).is_ok
