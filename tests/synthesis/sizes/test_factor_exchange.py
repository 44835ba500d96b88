"""All-to-alls factor by factor: every factoring, demands, damaged ones, messages, files, data."""

from __future__ import annotations

import numpy as np
import pytest

from shortcuts.switched_ranks import factorings, on_a_switch
from treadle.errors import ScheduleError
from treadle.planning import run, solve
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.synthesis.sizes.factor_exchange import factor_exchange
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

K = CollectiveKind
ODD = [0, 4, 28, 1020, 4 * 997]


def all_right(fabric: Topology, collective: Collective, schedule: ExchangeSchedule) -> bool:
    """Moves every shard, send after send: whoever sends must have it, and it must end at its target once."""
    sends = schedule.sends
    rank_of = {node: rank for rank, node in enumerate(collective.ranks)}
    at = schedule.sources.copy()
    for step in range(sends.n_steps):
        before, moved = at.copy(), set()
        for send in range(*sends.span(step).indices(sends.n_sends)):
            links, shard = sends.path(int(sends.link[send])).tolist(), int(sends.shard[send])
            tail, head = rank_of[int(fabric.tails[links[0]])], rank_of[int(fabric.heads[links[-1]])]
            if before[shard] != tail or shard in moved or tail == schedule.targets[shard]:
                return False
            moved.add(shard)
            at[shard] = head
    return bool(np.array_equal(at, schedule.targets))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 12])
def test_every_factoring_and_bruck(n: int) -> None:
    fabric = on_a_switch(n)
    collective = on_all_ranks(fabric, K.ALLTOALL)
    for factors in (*factorings(n), (2,) * (n - 1).bit_length(), (3,) * (1 + (n > 3) + (n > 9))):
        schedule = factor_exchange(fabric, collective, factors=factors)
        assert schedule.n_steps == len(factors)
        assert verify(fabric, collective, schedule).violations == ()
        assert all_right(fabric, collective, schedule)
    for factors in (None, (2,) * (n - 1).bit_length()):
        plan = solve(fabric, "alltoall", algorithm="factor-exchange", factors=factors).plan
        assert not any(row.wrong for row in run(plan, ODD, iterations=1).rows)
        assert parse_plan(dump_plan(plan), source="test") == plan


def test_factors_of_no_use_are_refused() -> None:
    fabric = on_a_switch(6)
    collective = on_all_ranks(fabric, K.ALLTOALL)
    for factors in ((2, 2), (3, 2, 2), (0, 6), ()):
        with pytest.raises(ScheduleError, match="expected a product of 6 ranks, or the first above"):
            factor_exchange(fabric, collective, factors=factors)
    with pytest.raises(ScheduleError, match="allgather is not supported"):
        factor_exchange(fabric, on_all_ranks(fabric, K.ALLGATHER))
