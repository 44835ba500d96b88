"""Ring algorithms on rings that are not alike; `test_step_baselines` judges them on equal links."""

from __future__ import annotations

from fractions import Fraction

import pytest

from samples.table import STEP_BASELINES
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import bandwidth_time
from treadle.topologies import TopologyBuilder
from treadle.topologies.catalogue.direct import from_arcs
from treadle.verification.steps.step_check import verify_steps


@pytest.mark.parametrize(
    ("name", "rings", "per_step"),
    [
        # two thirds of each shard by the ring of bandwidth 2, one third by that which has a link of 1
        ("ring-steps", [(1, 22222), (2, 31333)], [Fraction(1, 3)] * 4),
        # three quarters and a quarter: a pair of rings is as slow as its slower one
        ("shifted-bfb-ring", [(1, 33333), (4, 33333), (2, 99999), (3, 99199)], [Fraction(1, 4)] * 2),
        # of parallel links the fastest make one ring, and the fastest rings a pair
        ("ring-steps", [(1, 31313), (1, 13131)], [Fraction(1, 4)] * 4),
        ("shifted-bfb-ring", [(1, 31313), (1, 13131), (4, 11111), (4, 33333)], [Fraction(1, 4)] * 2),
    ],
)
def test_a_ring_serves_what_its_slowest_link_can(
    name: str, rings: list[tuple[int, int]], per_step: list[Fraction]
) -> None:
    builder = TopologyBuilder("uneven rings")
    nodes = [builder.compute(str(number)) for number in range(5)]
    for offset, widths in rings:
        for number, width in enumerate(str(widths)):
            builder.link(nodes[number], nodes[(number + offset) % 5], int(width))
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    schedule = STEP_BASELINES[name](topology, collective)
    assert verify_steps(topology, collective, schedule).is_ok
    assert bandwidth_time(topology, schedule) == sum(per_step) / 5


def test_a_ring_without_one_the_other_way_is_refused() -> None:
    oneway = from_arcs("oneway", [0, 1, 2, 3, 4] * 2, [1, 2, 3, 4, 0, 2, 3, 4, 0, 1], n=5)
    with pytest.raises(ScheduleError) as caught:
        STEP_BASELINES["shifted-bfb-ring"](oneway, on_all_ranks(oneway, CollectiveKind.ALLGATHER))
    assert (
        str(caught.value)
        == "shifted-bfb-ring: some ring of oneway has no ring in the opposite direction; use bfb"
    )
