"""Step baselines send by send on few nodes, and the limits of their sizes."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import ScheduleError, TopologyError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.baselines import bidirectional as both_ways_module
from treadle.synthesis.steps.baselines.bidirectional import all_nodes_in_order, check_sends
from treadle.synthesis.steps.baselines.binary_tree_times import best_chunk_count, double_binary_tree_time_s
from treadle.synthesis.steps.baselines.binary_trees import double_binary_tree_steps
from treadle.synthesis.steps.baselines.full_exchange import _fold, bruck, recursive_doubling
from treadle.synthesis.steps.baselines.ring_algorithms import ring_steps
from treadle.synthesis.steps.baselines.roots import links_of_one_bandwidth, reduce_broadcast
from treadle.synthesis.steps.baselines.torus import torus_sides, traditional_torus
from treadle.synthesis.steps.bfb import in_links as in_links_module
from treadle.synthesis.steps.bfb.heterogeneous import _make_problem
from treadle.synthesis.steps.bfb.in_links import link_rows
from treadle.synthesis.steps.bfb.integral_loads import (
    _chunks_of_link,
    _integral_time_of_cut,
    balance,
    time_of_cut,
)
from treadle.synthesis.steps.schedule_expansions import cartesian_power_schedule, line_graph_schedule
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder

ALLGATHER, ALLREDUCE = CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE


def rows(topology: Topology, steps: Steps | None) -> list[tuple[int, ...]]:
    """Step, shard, sender and receiver of every send, sorted."""
    assert steps is not None
    columns = (steps.send_steps(), steps.shard, topology.tails[steps.link], topology.heads[steps.link])
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def gathered(serve: object, topology: Topology) -> list[tuple[int, ...]]:
    assert callable(serve)
    return rows(topology, serve(topology, on_all_ranks(topology, ALLGATHER)).broadcast)


def test_rounds_of_bruck_and_doubling_on_five() -> None:
    """Bruck: to the rank before, then two before with two shards, then four before with one."""
    five = parse("complete(5)")
    expected = [
        (step, (rank + ahead) % 5, rank, (rank - distance) % 5)
        for step, distance in enumerate((1, 2, 4))
        for rank in range(5)
        for ahead in range(min(distance, 5 - distance))
    ]
    assert gathered(bruck, five) == sorted(expected)
    # doubling: rank 1 stands in for 0; ranks 1, 2, 3, 4 exchange by their places' bits; 0 gets all in the end
    core = [1, 2, 3, 4]
    expected = [(0, 0, 0, 1)]
    held = {rank: {rank} for rank in core}
    held[1].add(0)
    for step, bit in ((1, 1), (2, 2)):
        sent = [(core[place], core[place ^ bit]) for place in range(4)]
        expected += [(step, shard, one, other) for one, other in sent for shard in held[one]]
        held = {rank: held[rank] | held[core[core.index(rank) ^ bit]] for rank in core}
    expected += [(3, shard, 1, 0) for shard in range(1, 5)]
    assert gathered(recursive_doubling, five) == sorted(expected)
    found, paired = _fold(11)
    assert (found.tolist(), paired.tolist()) == ([1, 3, 5, 6, 7, 8, 9, 10], [0, 2, 4])
    assert [part.tolist() for part in _fold(8)] == [list(range(8)), []]


def test_messages_over_several_hops_leave_copies_on_their_way() -> None:
    """On a path of three 0 and 2 are two hops apart: what passes 1 is not sent there once more."""
    path = parse("path(3)")
    found = gathered(bruck, path)
    assert sorted(row[1:] for row in found) == sorted(
        [(0, 0, 1), (0, 1, 2), (1, 1, 0), (1, 1, 2), (2, 2, 1), (2, 1, 0)]
    )
    # distance 1: 0 to 2 by 1, 1 to 0 and 2 to 1; distance 2: 0's for 1 is there, 1's goes to 2, 2's to 0
    assert found == [(0, 0, 0, 1), (0, 1, 1, 0), (0, 2, 2, 1), (1, 0, 1, 2), (2, 1, 1, 2), (3, 2, 1, 0)]


def test_a_ring_passes_on_what_came_last() -> None:
    ring = parse("uni_ring(1, 4)")
    assert gathered(ring_steps, ring) == sorted(
        (step, (node - step) % 4, node, (node + 1) % 4) for step in range(3) for node in range(4)
    )


def test_a_torus_gathers_along_one_dimension_after_another() -> None:
    """Rows of 2 and columns of 3: each way round has a part; along the rows, then the columns, and turned."""
    torus = parse("torus(2, 3)")
    made = traditional_torus(torus, on_all_ranks(torus, ALLGATHER)).broadcast
    assert made is not None
    assert made.n_chunks == 4
    assert made.n_steps == 3
    count = [len(range(*made.span(step).indices(made.n_sends))) for step in range(3)]
    # two parts first along sides of 2: 6 sends, then of 2 shards 12, 12; two along those of 3: 6, 6, 18
    assert count == [2 * 6 + 2 * 6, 2 * 12 + 2 * 6, 2 * 12 + 2 * 18]
    assert torus_sides(torus) == (2, 3)
    assert [
        torus_sides(parse(text)) for text in ("torus(3, 2)", "torus(2, 2, 5)", "ring(7)", "complete(2)")
    ] == [
        (3, 2),
        (2, 2, 5),
        (7,),
        (2,),
    ]


def test_the_best_number_of_chunks_and_its_time() -> None:
    """7 nodes: heights of 1 below the roots' children; 2 (1 + k) steps of 1 s and 8 / (2 k) s."""
    cost = {"size_bytes": 8.0, "alpha_s": 1.0, "bandwidth_bytes_per_s": 1.0}
    assert double_binary_tree_time_s(7, 1, **cost) == 4 * 5
    assert double_binary_tree_time_s(7, 2, **cost) == 6 * 3
    assert double_binary_tree_time_s(7, 4, **cost) == 10 * 2
    assert double_binary_tree_time_s(8, 2, **cost) == 8 * 3
    assert best_chunk_count(7, **cost) == 2
    assert best_chunk_count(3, **cost) == 1
    assert best_chunk_count(2, **cost) == 1
    assert best_chunk_count(7, size_bytes=1e30, alpha_s=1e-9, bandwidth_bytes_per_s=1.0) == 2**24
    message = "best_chunk_count: n must be at least 2, found 1"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        best_chunk_count(1, **cost)
    for key in cost:
        with pytest.raises(ScheduleError, match=f"^best_chunk_count: {key} must be positive, found -2.0$"):
            best_chunk_count(7, **{**cost, key: -2.0})


def test_so_many_sends(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = parse("ring(4)")
    monkeypatch.setattr(both_ways_module, "MAX_SENDS", 48)
    check_sends("it", ring, 3)
    message = "it: ring(4) would take about 64 sends, more than 48; use fewer nodes"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        check_sends("it", ring, 4)
    trees = parse("double_binary_tree(4)")
    everyone = on_all_ranks(trees, ALLREDUCE)
    most = 5 * 10**7 // 8
    message = f"double-binary-tree-steps: chunks must be from 1 to {most}, found {most + 1}"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        double_binary_tree_steps(trees, everyone, chunks=most + 1)
    assert double_binary_tree_steps(trees, everyone, chunks=1).n_steps == 4


def test_refusals_of_the_classic_algorithms() -> None:
    ring = parse("ring(4)")
    text = "serves all nodes, in order and with equal shards; use bfb or forestcoll"
    assert all_nodes_in_order(ring, on_all_ranks(ring, ALLGATHER)) is None
    assert str(all_nodes_in_order(ring, Collective(ALLGATHER, (0, 1, 3, 2)))) == text
    assert str(all_nodes_in_order(ring, Collective(ALLGATHER, (0, 1, 2, 3), weights=(1, 1, 1, 1)))) == text
    looped = from_arcs("looped", [0, 1, 1], [1, 0, 1], n=2)
    builder = TopologyBuilder("mixed")
    for name in "ab":
        builder.compute(name)
    builder.link("a", "b", 1)
    builder.link("b", "a", 2)
    mixed = builder.build()
    assert links_of_one_bandwidth(looped, on_all_ranks(looped, ALLREDUCE)) is None
    found = links_of_one_bandwidth(mixed, on_all_ranks(mixed, ALLREDUCE))
    assert str(found) == "mixed has links of different bandwidths; use bfb"
    with pytest.raises(ScheduleError, match=r"^reduce-broadcast: mixed has links of different bandwidths"):
        reduce_broadcast(mixed, on_all_ranks(mixed, ALLREDUCE))


def pair(*links: tuple[int, int]) -> Topology:
    """From a to b, and so back, links of some B/s and ns."""
    builder = TopologyBuilder("pair")
    for name in "ab":
        builder.compute(name)
    for ends in ("ab", "ba"):
        for bandwidth, latency in links:
            builder.link(ends[0], ends[1], bandwidth, latency)
    return builder.build()


def test_times_of_links_with_latencies() -> None:
    """Links of 4 B/s at once, of 2 after 1 s, of 1 after 3 s; a shard of 8 bytes."""
    second = 10**9
    problem = _make_problem(pair((4, 0), (2, second), (1, 3 * second)), 16)
    assert problem.shard_bytes == 8
    assert problem.n_steps == 1
    into_b = list(range(int(problem.instance.offset[1]), int(problem.instance.offset[2])))
    # 4 + 6 (t - 1) = 8
    assert time_of_cut(problem, into_b, 1) == Fraction(5, 3)
    # two shards: 4 + 12 at 3 s, when the third would begin
    assert time_of_cut(problem, into_b, 2) == 3
    # three: 16 and then 7 a second
    assert time_of_cut(problem, into_b, 3) == 3 + Fraction(8, 7)
    # without the first: 4 at 3 s, then 3 a second
    assert time_of_cut(problem, into_b[1:], 1) == 3 + Fraction(4, 3)
    # in chunks of 2 bytes: 0.5 s each over the first, 1 s over the second after 1 s, 2 s over the third
    for jobs, time in ((1, 2.0), (2, 3.0), (3, 4.5)):
        done = (
            [0.5 * k for k in range(1, 20)]
            + [1.0 + k for k in range(1, 20)]
            + [3.0 + 2 * k for k in range(1, 20)]
        )
        assert sorted(done)[4 * jobs - 1] == time
        assert float(_integral_time_of_cut(problem, into_b, jobs, 4)) == time
    three = time_of_cut(problem, into_b, 2)
    assert [_chunks_of_link(problem, link, three, 4) for link in into_b] == [6, 2, 0]
    assert _chunks_of_link(problem, into_b[0], 100 * three, 4) == 8  # no more than there are


def test_chunks_that_are_enough() -> None:
    """5/3 s: 20/3 and 4/3 bytes of 8 are 5/6 and 1/6 of a shard."""
    for links, chunks in (
        ([(4, 0), (2, 10**9)], 6),
        ([(4, 0)], 1),
        ([(1021, 0), (2, 0)], 1023),
        ([(1023, 0), (2, 0)], 512),  # 1025 would lose nothing, 511 lose 0.2%
        ([(2000, 0), (3, 0)], 667),  # 2003
    ):
        assert balance(_make_problem(pair(*links), 16), None)[0] == chunks
    with pytest.raises(ScheduleError, match=r"^size: expected at least 1 byte, found 0$"):
        _make_problem(pair((4, 0)), 0)
    assert _make_problem(pair((4, 0)), 1).shard_bytes == 0.5


def test_links_into_each_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of their numbers, without loops, in units of the greatest common bandwidth."""
    builder = TopologyBuilder("three")
    for name in "abc":
        builder.compute(name)
    for ends, width in (("bc", 6), ("ca", 4), ("ac", 10), ("ab", 2), ("ba", 8)):
        builder.link(ends[0], ends[1], width)
    found = link_rows(builder.build())
    assert found.offset.tolist() == [0, 2, 3, 5]
    assert (found.link.tolist(), found.tail.tolist()) == ([1, 4, 3, 0, 2], [2, 1, 0, 1, 0])
    assert (found.weight.tolist(), found.unit_bandwidth, found.n) == ([2, 4, 1, 3, 5], 2, 3)
    assert not found.is_uniform
    looped = link_rows(from_arcs("looped", [0, 0, 1], [0, 1, 0], n=2))
    assert (looped.link.tolist(), looped.is_uniform) == ([2, 1], True)
    monkeypatch.setattr(in_links_module, "MAX_WEIGHT", 11)
    assert link_rows(builder.build()).n == 3  # 5 twice
    monkeypatch.setattr(in_links_module, "MAX_WEIGHT", 10)
    with pytest.raises(TopologyError, match=r"^three: bandwidths differ too much.* units of 2 bytes/s$"):
        link_rows(builder.build())
    monkeypatch.setattr(in_links_module, "MAX_NODES", 3)
    monkeypatch.setattr(in_links_module, "MAX_WEIGHT", 11)
    assert link_rows(builder.build()).n == 3
    monkeypatch.setattr(in_links_module, "MAX_NODES", 2)
    with pytest.raises(TopologyError, match=r"^three: 3 nodes, breadth-first broadcast takes at most 2$"):
        link_rows(builder.build())
    single = TopologyBuilder("single")
    single.compute("a")
    message = "single: breadth-first broadcast needs at least 2 nodes, found 1"
    with pytest.raises(TopologyError, match=f"^{re.escape(message)}$"):
        link_rows(single.build())


def test_steps_that_do_not_fit_the_graph_that_is_expanded() -> None:
    ring = parse("uni_ring(1, 3)")
    sends = [(node, node, 0, 0, 1) for node in range(3)] + [
        ((node - 1) % 3, node, 1, 0, 1) for node in range(3)
    ]
    steps = steps_from_sends(Direction.BROADCAST, 3, 1, sends)
    assert cartesian_power_schedule(ring, steps, 1)[1].n_sends == 6
    with pytest.raises(ScheduleError, match=r"^line_graph_schedule: ring4 has 4 nodes; expected steps with"):
        line_graph_schedule(from_arcs("ring4", [0, 1, 2, 3], [1, 2, 3, 0], n=4), steps)
    nothing = steps_from_sends(Direction.BROADCAST, 3, 1, [])
    with pytest.raises(ScheduleError, match=r"^cartesian_power_schedule: the steps of .* send nothing$"):
        cartesian_power_schedule(ring, nothing, 2)
    beyond = steps_from_sends(Direction.BROADCAST, 3, 1, [*sends, (0, 3, 1, 0, 1)])
    message = f"cartesian_power_schedule: the steps use link 3; {ring.name} has 3"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        cartesian_power_schedule(ring, beyond, 2)
    with pytest.raises(
        ScheduleError, match="expected steps with shard v at home at rank v, found 3 shards on 3"
    ):
        cartesian_power_schedule(ring, steps_from_sends(Direction.BROADCAST, 3, 1, sends, homes=[1, 0, 2]), 2)
    most = steps_from_sends(
        Direction.BROADCAST, 3, 2**23, [(s, link, t, 0, 2**23) for s, link, t, *_ in sends]
    )
    assert cartesian_power_schedule(ring, most, 2)[1].n_chunks == 2**24
    message = f"the expanded schedule needs {3 * 2**23} chunks per shard, at most {2**24}"
    with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
        cartesian_power_schedule(ring, most, 3)


def test_parts_of_a_power_go_round_the_dimensions() -> None:
    """A one-way ring of three, squared: part r along dimension r first; by coordinates (x, y)."""
    ring = parse("uni_ring(1, 3)")
    sends = [(node, node, 0, 0, 1) for node in range(3)] + [
        ((node - 1) % 3, node, 1, 0, 1) for node in range(3)
    ]
    assert ring.tails.tolist() == [0, 1, 2]
    fabric, steps = cartesian_power_schedule(ring, steps_from_sends(Direction.BROADCAST, 3, 1, sends), 2)
    assert steps.n_chunks == 2
    found = set()
    for send, step in enumerate(steps.send_steps().tolist()):
        ends = (int(fabric.tails[steps.link[send]]), int(fabric.heads[steps.link[send]]))
        assert steps.high[send] == steps.low[send] + 1
        found.add(
            (step, int(steps.low[send]), divmod(int(steps.shard[send]), 3), *(divmod(end, 3) for end in ends))
        )
    expected = set()
    for part in (0, 1):
        for shard in np.ndindex(3, 3):
            first, second = part, 1 - part
            for hop in (0, 1):
                at, to = list(shard), list(shard)
                at[first], to[first] = (shard[first] + hop) % 3, (shard[first] + hop + 1) % 3
                expected.add((hop, part, shard, tuple(at), tuple(to)))
                for place in range(3):
                    at, to = list(shard), list(shard)
                    at[first] = to[first] = place
                    at[second], to[second] = (shard[second] + hop) % 3, (shard[second] + hop + 1) % 3
                    expected.add((2 + hop, part, shard, tuple(at), tuple(to)))
    assert found == expected
    assert len(found) == steps.n_sends
