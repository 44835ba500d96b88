"""Shortest paths whose links come first, and messages that follow them, on a lopsided fabric."""

from __future__ import annotations

import re

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.baselines import store_forward
from treadle.synthesis.alltoall.baselines.bruck import bruck_exchange, pairwise_exchange
from treadle.synthesis.alltoall.baselines.first_paths import first_path_set, native_routes, next_links
from treadle.synthesis.alltoall.baselines.store_forward import check_size
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

#          0  1  2  3  4  5  6  7
TAILS = [0, 0, 1, 0, 2, 3, 3, 1]
HEADS = [1, 2, 3, 1, 3, 0, 3, 0]


def fabric() -> Topology:
    """From 0 to 3 by 1 (two links, 0 and 3) or 2; a loop at 3; back from 1, and from 3 to 0."""
    return from_arcs("odd", TAILS, HEADS, n=4)


def exchange(*demands: tuple[int, int, int]) -> Collective:
    """Ranks 0, 1, 2 are nodes 3, 0, 2; node 1 forwards."""
    matrix = np.zeros((3, 3), dtype=np.int64)
    for source, target, amount in demands:
        matrix[source, target] = amount
    return Collective(CollectiveKind.ALLTOALL, (3, 0, 2), forwarders=(1,), demands=Demands(matrix))


def test_the_lowest_link_of_those_that_lead_nearer() -> None:
    found = next_links(fabric(), exchange((0, 1, 1)))
    # to node 3: 0 goes by link 0; to node 0: from 1 by link 7; to node 2: all by way of 0
    assert found.tolist() == [[0, 2, 4, -1], [-1, 7, 4, 5], [1, 7, -1, 5]]


def test_paths_of_demanded_pairs_alone() -> None:
    paths = first_path_set(fabric(), exchange((1, 0, 2), (2, 1, 3), (0, 2, 1)))
    assert paths.source.tolist() == [0, 1, 2]
    assert paths.target.tolist() == [2, 0, 1]
    assert [paths.links_of(number).tolist() for number in range(3)] == [[5, 1], [0, 2], [4, 5]]
    routes = native_routes(fabric(), exchange((1, 0, 2), (2, 1, 3), (0, 2, 1)))
    assert routes.units.tolist() == [1, 2, 3]
    assert routes.n_chunks == 1
    assert routes.layer.tolist() == [0, 0, 0]


@pytest.mark.parametrize("generate", [first_path_set, pairwise_exchange])
def test_a_rank_out_of_reach_is_named_with_where_the_data_are(generate: object) -> None:
    oneway = from_arcs("oneway", [0, 1, 1], [1, 2, 0], n=3)
    collective = Collective(
        CollectiveKind.ALLTOALL, (2, 0, 1), demands=Demands(np.array([[0, 0, 0], [4, 0, 0], [0, 1, 0]]))
    )
    assert callable(generate)
    generate(oneway, collective)  # from 0 to 2 by 1, and from 1 to 0
    collective = Collective(
        CollectiveKind.ALLTOALL, (2, 0, 1), demands=Demands(np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]))
    )
    message = "oneway: no path leads from 'n2' to 'n1'; connect the fabric"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        generate(oneway, collective)


def rows(schedule: ExchangeSchedule) -> list[tuple[int, ...]]:
    """Step, shard, link, first and last chunk of every send."""
    sends = schedule.sends
    columns = (sends.send_steps(), sends.shard, sends.link, sends.low, sends.high)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_messages_go_a_hop_a_step_and_rounds_follow_each_other() -> None:
    """Offsets of 1: from rank 0 to 1, and 1 to 2; then offsets of 2: from rank 0 to 2, and 2 to 1."""
    schedule = pairwise_exchange(fabric(), exchange((0, 1, 1), (1, 2, 5), (0, 2, 2), (2, 1, 4)))
    assert schedule.targets.tolist() == [1, 2, 2, 1]
    # shards: 0: 3 to 0; 1: 3 to 2; 2: 0 to 2; 3: 2 to 0 by 3
    assert rows(schedule) == [
        (0, 0, 5, 0, 1),
        (0, 2, 1, 0, 1),
        (1, 1, 5, 0, 1),
        (1, 3, 4, 0, 1),
        (2, 1, 1, 0, 1),
        (2, 3, 5, 0, 1),
    ]


def test_a_shard_that_passes_its_target_stays_there() -> None:
    """Offset 3 of a one-way ring of 4: one hop, then by 2 to the target."""
    ring = from_arcs("ring", [0, 1, 2, 3], [1, 2, 3, 0], n=4)
    matrix = np.zeros((4, 4), dtype=np.int64)
    matrix[0, 3], matrix[1, 3] = 2, 1
    ranks = Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3), demands=Demands(matrix))
    # digit 0 of 3 moves 0 to 1; digit 1 both, of offset 2 and 3: two hops more
    assert rows(bruck_exchange(ring, ranks)) == [
        (0, 0, 0, 0, 1),
        (1, 0, 1, 0, 1),
        (1, 1, 1, 0, 1),
        (2, 0, 2, 0, 1),
        (2, 1, 2, 0, 1),
    ]
    # in base 3: digit 0 of 3 is 0, digit 1 is 1: three hops at once; offset 2 is a digit 0 of 2
    assert rows(bruck_exchange(ring, ranks, radix=3)) == [
        (0, 1, 1, 0, 1),
        (1, 1, 2, 0, 1),
        (2, 0, 0, 0, 1),
        (3, 0, 1, 0, 1),
        (4, 0, 2, 0, 1),
    ]
    # a bidirectional ring takes 0 to 3 by the way of 1 all the same, in digits; by 1 to 0 to 3 in the second
    both = from_arcs("ring", [0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3], n=4)
    assert [row[:3] for row in rows(bruck_exchange(both, ranks))] == [
        (0, 0, 0),
        (1, 0, 1),
        (1, 1, 1),
        (2, 0, 2),
        (2, 1, 2),
    ]


def test_messages_are_cut_over_as_many_links_as_all_neighbours_have() -> None:
    """Three links one way and two the other, and a loop, which counts for nothing."""
    pair = from_arcs("pair", [0, 1, 0, 0, 1, 1], [1, 0, 1, 1, 1, 0], n=2)
    ranks = Collective(CollectiveKind.ALLTOALL, (0, 1))
    schedule = pairwise_exchange(pair, ranks)
    assert schedule.n_chunks == 2
    assert rows(schedule) == [(0, 0, 0, 0, 1), (0, 0, 2, 1, 2), (0, 1, 1, 0, 1), (0, 1, 5, 1, 2)]


def test_so_many_sends_are_scheduled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_forward, "MAX_SENDS", 6)
    check_size("it", 6)
    message = "it: the schedule would have over 6 sends; use fewer ranks"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        check_size("it", 7)
    demands = exchange((0, 1, 1), (1, 2, 5), (0, 2, 2), (2, 1, 4))
    assert pairwise_exchange(fabric(), demands).sends.n_sends == 6
    monkeypatch.setattr(store_forward, "MAX_SENDS", 5)
    with pytest.raises(ScheduleError, match=r"^pairwise: .* over 5 sends; use fewer ranks$"):
        pairwise_exchange(fabric(), demands)
    pair = from_arcs("pair", [0, 1, 0, 1], [1, 0, 1, 0], n=2)
    monkeypatch.setattr(store_forward, "MAX_SENDS", 3)
    with pytest.raises(ScheduleError, match=r"^pairwise: "):  # two messages on two links each
        pairwise_exchange(pair, Collective(CollectiveKind.ALLTOALL, (0, 1)))
