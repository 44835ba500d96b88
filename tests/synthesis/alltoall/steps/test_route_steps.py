"""Routes in steps, send by send, on three nodes with uneven demands: reckoned by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_algbw
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.steps.pipelined import hop_synchronous, pipelined
from treadle.synthesis.alltoall.steps.relays import RelayPath, RelayPaths, _positions, candidates
from treadle.synthesis.alltoall.steps.route_runs import route_runs
from treadle.synthesis.alltoall.steps.staggered import _turns, rounds_within, staggered
from treadle.synthesis.alltoall.steps.time_stepped import TimeSteppedFlow
from treadle.synthesis.alltoall.steps.timed_paths import chunked_exchange
from treadle.synthesis.alltoall.steps.unequal_steps import chunks_of_program, fast_enough
from treadle.topologies.topology import Topology, TopologyBuilder


def fabric(*bandwidths: int) -> Topology:
    """Links 0 from a to b, 1 from b to c, 2 from a to c, 3 from b to a."""
    builder = TopologyBuilder("three")
    for name in "abc":
        builder.compute(name)
    for ends, bandwidth in zip(("ab", "bc", "ac", "ba"), bandwidths or (1, 1, 1, 1), strict=True):
        builder.link(ends[0], ends[1], bandwidth)
    return builder.build()


def collective() -> Collective:
    """a has 1 for b and 3 for c."""
    demands = Demands(np.array([[0, 1, 3], [0, 0, 0], [0, 0, 0]]))
    return Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=demands)


def routes() -> RouteSchedule:
    """In halves of units: to b directly; to c four by b, and two directly."""
    return routes_from_paths(3, 2, [(0, 1, 2, 0, [0]), (0, 2, 4, 0, [0, 1]), (0, 2, 2, 0, [2])])


def rows(schedule: ExchangeSchedule) -> list[tuple[int, ...]]:
    """Step, shard, link, first and last chunk of every send."""
    sends = schedule.sends
    columns = (sends.send_steps(), sends.shard, sends.link, sends.low, sends.high)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_runs_of_chunks_are_as_fine_as_the_shares_or_rounded() -> None:
    runs = route_runs(fabric(), collective(), routes(), 3)
    assert (runs.n_ranks, runs.n_chunks, runs.total) == (3, 3, 3 + 2 * 2 + 1)
    assert (runs.source.tolist(), runs.target.tolist(), runs.weight.tolist()) == ([0, 0], [1, 2], [1, 3])
    assert runs.shard.tolist() == [0, 1, 1]
    assert (runs.low.tolist(), runs.high.tolist()) == ([0, 0, 2], [3, 2, 3])
    assert (runs.path.tolist(), runs.hop.tolist(), runs.link.tolist()) == (
        [0, 1, 1, 2],
        [0, 0, 1, 0],
        [0, 0, 1, 2],
    )
    half = route_runs(fabric(), collective(), routes(), 2)
    assert (half.n_chunks, half.low.tolist(), half.high.tolist()) == (2, [0, 0, 1], [2, 1, 2])
    one = route_runs(fabric(), collective(), routes(), 1)  # the direct way to c gets nothing
    assert (one.n_chunks, one.low.tolist(), one.high.tolist()) == (1, [0, 0], [1, 1])
    assert (one.path.tolist(), one.link.tolist()) == ([0, 1, 1], [0, 0, 1])
    finer = runs.in_smaller_chunks(5)
    assert (finer.n_chunks, finer.low.tolist(), finer.high.tolist()) == (15, [0, 0, 10], [15, 10, 15])


def test_hop_by_hop() -> None:
    assert rows(hop_synchronous(fabric(), collective(), routes())) == [
        (0, 0, 0, 0, 3),
        (0, 1, 0, 0, 2),
        (0, 1, 2, 2, 3),
        (1, 1, 1, 0, 2),
    ]


def test_routes_repeated_a_step_behind_each_other() -> None:
    """Twice, in sixths: halves of 6, 4 and 2 chunks."""
    assert rows(staggered(fabric(), collective(), routes(), rounds=2)) == [
        (0, 0, 0, 0, 3),
        (0, 1, 0, 0, 2),
        (0, 1, 2, 4, 5),
        (1, 0, 0, 3, 6),
        (1, 1, 0, 2, 4),
        (1, 1, 1, 0, 2),
        (1, 1, 2, 5, 6),
        (2, 1, 1, 2, 4),
    ]
    # of three chunks: in thirds, of two, and the one in a single round; where runs of few turns begin differs
    few = rows(staggered(fabric(), collective(), routes(), rounds=3, max_chunks=3))
    assert [row for row in few if row[1] == 0] == [(step, 0, 0, step, step + 1) for step in range(3)]
    # path 1 of two turns: 40503 % 3 = 0, so at the ends of 2/3 and 4/3 rounds; path 2: 81006 % 3 = 0
    assert [row for row in few if row[2] == 1] == [(2, 1, 1, 0, 1), (3, 1, 1, 1, 2)]
    assert [row for row in few if row[2] == 2] == [(2, 1, 2, 2, 3)]


def test_turns_are_in_proportion_within_the_sends() -> None:
    amounts = np.array([1, 10, 100])
    assert _turns(amounts, 8, 24).tolist() == [8, 8, 8]
    assert _turns(amounts, 8, 23).tolist() == [1, 8, 8]  # as 8 for those of 10
    assert _turns(amounts, 8, 5).tolist() == [1, 1, 8]  # as 8 for that of 100
    assert _turns(np.array([30, 10, 20]), 8, 20).tolist() == [8, 4, 8]  # as 8 for those of 20
    assert _turns(np.array([30, 10, 20]), 8, 19).tolist() == [8, 3, 6]  # as 8 for that of 30


def test_rounds_for_a_loss() -> None:
    """Hops 0 take link 0 of 2 B/s 3 s, hops 1 link 1 of 1 B/s 4 s, of which 4 are full: 3 s are extra."""
    uneven = fabric(2, 1, 4, 1)
    assert rounds_within(uneven, routes(), 0.1) == 7  # 0.75 * 9
    assert rounds_within(uneven, routes(), 0.5) == 2  # hops of the longest
    assert rounds_within(uneven, routes(), 0.3) == 2  # 1.75
    assert rounds_within(uneven, routes(), 0.21) == 3  # 0.75 * 3.76
    # b may get 1 B/s: 6 s into it, 4 out of it; 4 s of 6 are extra
    capped = replace(uneven, injection_bytes_per_s=np.array([0, 1, 0]))
    assert rounds_within(capped, routes(), 0.22) == 3  # 2/3 * 3.55
    assert rounds_within(capped, routes(), 0.11) == 6  # 2/3 * 8.1
    wide = replace(uneven, injection_bytes_per_s=np.array([0, 3, 0]))  # 2 s and 4/3 s: nothing to do with it
    assert rounds_within(wide, routes(), 0.1) == 7


def test_queues_send_what_goes_farthest_first() -> None:
    """Two rounds: 9 thirds over link 0 are 5 a step, in whole chunks of 3 to c, then of 1 to b.

    What does not fit beside all that waits before it waits too.
    """
    assert rows(pipelined(fabric(), collective(), routes(), rounds=2, max_chunks=3)) == [
        (0, 1, 0, 0, 1),
        (0, 1, 2, 2, 3),
        (1, 0, 0, 0, 2),
        (1, 1, 0, 1, 2),
        (1, 1, 1, 0, 1),
        (2, 0, 0, 2, 3),
        (2, 1, 1, 1, 2),
    ]


def test_equal_chunks_of_all_data() -> None:
    assert chunks_of_program(collective(), hop_synchronous(fabric(), collective(), routes())) == 4
    # sixths of 1 and of 3, cut at 3 of 6 and 12, 15 of 18: three sixths are a chunk
    assert chunks_of_program(collective(), staggered(fabric(), collective(), routes(), rounds=2)) == 8


def test_the_first_that_is_fast_enough_or_the_best() -> None:
    whole = collective()
    direct = routes_from_paths(3, 1, [(0, 1, 1, 0, [0]), (0, 2, 3, 0, [2])])
    around = routes_from_paths(3, 1, [(0, 1, 1, 0, [0]), (0, 2, 3, 0, [0, 1])])
    made = [hop_synchronous(fabric(), whole, one) for one in (around, direct, routes())]
    speeds = [exchange_algbw(fabric(), whole, one) for one in made]
    # 4 s and 3 s; 3 s; 3 s on link 0 and 2 s
    assert speeds == [Fraction(4, 7), Fraction(4, 3), Fraction(4, 5)]
    asked: list[int] = []

    def candidates(*order: int) -> Iterator[ExchangeSchedule]:
        for number in order:
            asked.append(number)
            yield made[number]

    assert fast_enough(fabric(), whole, candidates(0, 2, 1), 0.75) is made[2]
    assert asked == [0, 2]
    assert fast_enough(fabric(), whole, candidates(0, 1, 2), 9.0) is made[1]
    assert asked == [0, 2, 0, 1, 2]
    assert fast_enough(fabric(), whole, candidates(2, 0, 1), 0.75) is made[2]
    assert asked == [0, 2, 0, 1, 2, 2]


def timed(part: float = 1.0) -> TimeSteppedFlow:
    """To c two units by b, where they wait for a step, and one directly meanwhile; to b one at the end."""
    by_step = np.zeros((3, 3, 4))
    by_step[0, 0, 0] = 2
    by_step[1, 0, 2] = 1
    by_step[2, 0, 1] = 2
    by_step[2, 0, 0] = 1
    return TimeSteppedFlow(by_step * part, np.array([2.0, 1.0, 2.0]), True)


def test_timed_paths_become_whole_chunks() -> None:
    built = chunked_exchange(fabric(), collective(), timed())
    assert built.schedule.n_chunks == 3
    assert sorted(rows(built.schedule)) == [
        (0, 1, 0, 0, 2),
        (1, 1, 2, 2, 3),
        (2, 0, 0, 0, 3),
        (2, 1, 1, 0, 2),
    ]
    assert built.time == 5
    assert built.loss == pytest.approx(0, abs=1e-12)
    halves = chunked_exchange(fabric(), collective(), timed(), chunks=2)
    assert sorted(rows(halves.schedule)) == [
        (0, 1, 0, 0, 1),
        (1, 1, 2, 1, 2),
        (2, 0, 0, 0, 2),
        (2, 1, 1, 0, 1),
    ]
    assert halves.time == Fraction(9, 2)
    assert halves.loss == pytest.approx(-0.1)
    assert chunked_exchange(fabric(), collective(), timed(), chunks=2**24).schedule.n_chunks == 2**24
    for chunks in (0, 2**24 + 1):
        message = f"chunks: {chunks} per shard, expected 1 to 2**24"
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            chunked_exchange(fabric(), collective(), timed(), chunks=chunks)


def test_flows_may_lack_a_hundredth() -> None:
    built = chunked_exchange(fabric(), collective(), timed(0.991))
    assert built.schedule.n_chunks == 3
    message = (
        "time-stepped flow: delivers 0.980 of some demand, expected all of it; use --algorithm pipelined"
    )
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        chunked_exchange(fabric(), collective(), timed(0.98))


def boxes() -> Topology:
    """Two ranks and three, on a switch each; a0 and b2 are nearest to the spine, the others half as near."""
    builder = TopologyBuilder("boxes")
    for name in ("a0", "a1", "b0", "b1", "b2"):
        builder.compute(name)
    for name in ("sa", "sb", "spine"):
        builder.switch(name)
    for name, width in (("a0", 4), ("a1", 2), ("b0", 2), ("b1", 2), ("b2", 4)):
        builder.duplex(name, f"s{name[0]}", 8)
        builder.duplex(name, "spine", width)
    return builder.build()


def layout() -> RelayPaths:
    fabric = boxes()
    everyone = Collective(CollectiveKind.ALLTOALL, tuple(fabric.compute_nodes.tolist()))
    return RelayPaths(fabric, everyone, [(0, 1), (2, 3, 4)])


def test_relays_are_nearest_to_the_other_end() -> None:
    ways = layout()
    assert ways.box.tolist() == [0, 0, 1, 1, 1]
    assert ways.position.tolist() == [0, 1, 0, 1, 2]
    # the widest link, of 8, takes 2**20 for a byte
    assert sorted(set(ways.length.tolist())) == [2**20, 2**21, 2**22]
    assert [ways.relay_before(1, target) for target in (2, 3, 4)] == [0, 0, 0]
    assert [ways.relay_after(source, 3) for source in (0, 1)] == [4, 4]
    assert ways._stops(RelayPath.DIRECT, 1, 3) == [(1, 3)]
    assert ways._stops(RelayPath.RELAY_BEFORE, 1, 3) == [(1, 0, 3)]
    assert ways._stops(RelayPath.RELAY_AFTER, 1, 3) == [(1, 4, 3)]
    assert ways._stops(RelayPath.RELAY_BEFORE, 0, 1) == []
    # lanes from 1 + 3 on, of 3: the box of two has its second lane's rank in turn
    assert ways._stops(RelayPath.SPREAD, 1, 3) == [(1, 1, 3, 3), (1, 0, 4, 3), (1, 0, 2, 3)]
    assert ways._stops(RelayPath.SPREAD, 2, 4) == [(2, 2, 4), (2, 3, 4), (2, 4, 4)]


def test_of_equally_near_relays_that_of_the_lane() -> None:
    builder = TopologyBuilder("alike")
    for name in ("a0", "a1", "b0", "b1"):
        builder.compute(name)
    builder.switch("spine")
    for name in ("a0", "a1", "b0", "b1"):
        builder.duplex(name, "spine", 3)
    alike = builder.build()
    ways = RelayPaths(alike, Collective(CollectiveKind.ALLTOALL, (0, 1, 2, 3)), [(1, 0), (2, 3)])
    assert [ways.relay_before(0, target) for target in (2, 3)] == [1, 0]
    assert [ways.relay_after(source, 2) for source in (0, 1)] == [3, 2]


def test_paths_of_a_way_share_its_data() -> None:
    """From a1 to b1 directly by the spine; spread over three lanes, of which one is that very way."""
    ways, fabric = layout(), boxes()
    names = fabric.node_names

    def through(links: tuple[int, ...]) -> str:
        return "-".join([names[fabric.tails[links[0]]], *(names[fabric.heads[link]] for link in links)])

    def found(way: RelayPath, source: int, target: int) -> dict[str, float]:
        return {through(links): share for share, links in ways.paths(way, source, target)}

    # by the spine, or a wider link to it two hops away, at either end: all take 8 times 2**20
    assert found(RelayPath.DIRECT, 1, 3) == {
        f"{there}-spine-{here}": 0.25 for there in ("a1", "a1-sa-a0") for here in ("b1", "b2-sb-b1")
    }
    assert found(RelayPath.RELAY_BEFORE, 1, 4) == {"a1-sa-a0-spine-b2": 1.0}
    assert found(RelayPath.RELAY_AFTER, 0, 3) == {"a0-spine-b2-sb-b1": 1.0}
    assert found(RelayPath.SPREAD, 1, 3) == {
        "a1-spine-b1": pytest.approx(1 / 3),
        "a1-sa-a0-spine-b2-sb-b1": pytest.approx(1 / 3),
        "a1-sa-a0-spine-b0-sb-b1": pytest.approx(1 / 3),
    }
    assert found(RelayPath.RELAY_AFTER, 2, 4) == {}
    made = candidates(ways, [RelayPath.RELAY_BEFORE])
    # pairs of one box have no relay: they go directly
    inside = ways.box[ways.source[made.pair]] == ways.box[ways.target[made.pair]]
    order = list(RelayPath)
    assert set(made.way[inside].tolist()) == {order.index(RelayPath.DIRECT)}
    assert set(made.way[~inside].tolist()) == {order.index(RelayPath.RELAY_BEFORE)}


def test_rounds_back_to_a_node_are_left_out() -> None:
    """From a to b and back, then to c."""
    ways = RelayPaths(fabric(), collective(), [(0, 1, 2)])
    assert ways._without_loops((0, 3, 2)) == (2,)
    assert ways._without_loops((0, 3, 0, 1)) == (0, 1)
    assert ways._without_loops((0, 1)) == (0, 1)
    assert ways._without_loops((0, 3)) == ()


def test_lanes_begin_elsewhere_for_another_pair() -> None:
    assert _positions(3, 4) == [1, 2, 0]
    assert _positions(16, 15) == [15, *range(15)]
    assert _positions(20, 3) == list(range(3, 19))
    for wrong in ([(0, 1)], [(0, 1), (1, 2)], [(0, 1, 2, 3)]):
        with pytest.raises(ScheduleError, match=r"^boxes: expected each of 3 ranks in one box, once$"):
            RelayPaths(fabric(), collective(), wrong)


def test_routes_of_something_else_are_no_runs() -> None:
    with pytest.raises(ScheduleError, match=r"^chunks: expected at least 1 per shard, found 0$"):
        route_runs(fabric(), collective(), routes(), 0)
    words = "routes: they carry another all-to-all; expected exactly these demands"
    whole = collective()
    matrix = whole.pair_demands.between.copy()
    matrix[tuple(np.argwhere(matrix)[0])] += 1
    for other in (replace(whole, demands=Demands(matrix)), Collective(whole.kind, (0, 1))):
        with pytest.raises(ScheduleError, match=f"^{words}$"):
            route_runs(fabric(), other, routes(), 3)
    last = int(routes().path_links.max())
    fewer = fabric()
    fewer = replace(fewer, **{
        name: getattr(fewer, name)[:last] for name in ("tails", "heads", "bandwidths", "latencies_ns")
    })  # fmt: skip
    message = f"routes: link {last}, {fewer.name} has links 0 to {last - 1}"
    with pytest.raises(ScheduleError, match=f"^{message}$"):
        route_runs(fewer, whole, routes(), 3)
