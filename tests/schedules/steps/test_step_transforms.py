"""Transforms keep schedules correct, keep their costs, and are their own inverses where they should be."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from samples import step_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.step_cost import bandwidth_time, t_b
from treadle.schedules.steps.step_transforms import (
    aligned,
    allreduce_from,
    bidirectional,
    combine,
    concatenate,
    expand_by_transpose,
    merge_sends,
    reduce_chunks,
    relabel,
    reverse,
    reverse_by_symmetry,
    reverse_by_transpose,
    subdivide,
)
from treadle.schedules.steps.steps import Send, Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_allgather
from treadle.topologies import parse
from treadle.topologies.isomorphism import link_map, transpose_isomorphism
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify

ALLGATHER, REDUCE_SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER
SEEDS = range(25)


def random_allgather(seed: int, *, n_chunks: int | None = None) -> tuple[Topology, Steps]:
    """A random fabric of 2 to 5 ranks with links of many bandwidths, and an allgather on it."""
    rng = random.Random(seed)
    topology = samples.random_fabric(rng, rng.randint(2, 5))
    return topology, random_steps(rng, topology, n_chunks=n_chunks)


def random_steps(rng: random.Random, topology: Topology, *, n_chunks: int | None = None) -> Steps:
    collective = on_all_ranks(topology, ALLGATHER)
    homes = list(range(collective.n_ranks))
    return samples.random_phase(
        rng, Direction.BROADCAST, topology, collective, homes, is_frugal=True, n_chunks=n_chunks
    )


def kind_of(steps: Steps) -> CollectiveKind:
    return ALLGATHER if steps.direction is Direction.BROADCAST else REDUCE_SCATTER


def time_of(topology: Topology, steps: Steps) -> Fraction:
    return bandwidth_time(topology, samples.schedule_of(kind_of(steps), steps))


def assert_correct(topology: Topology, steps: Steps) -> None:
    kind = kind_of(steps)
    schedule = samples.schedule_of(kind, steps)
    assert samples.is_correct(topology, on_all_ranks(topology, kind), schedule)
    assert not verify(topology, on_all_ranks(topology, kind), schedule).violations


def loads(steps: Steps) -> set[tuple[int, int, int, Fraction]]:
    """What is sent, element by element: (shard, link, step, place in the shard), once for each chunk."""
    return {
        (shard, link, step, Fraction(chunk, steps.n_chunks))
        for shard, link, step, low, high in samples.sends_of(steps)
        for chunk in range(low, high)
    }


def transposing(links: dict[tuple[int, int], int]) -> list[int]:
    """For graphs with simple links both ways, the identity from G^T to G: link u->w becomes link w->u."""
    return [links[head, tail] for tail, head in links]


def link_numbers(topology: Topology) -> dict[tuple[int, int], int]:
    return {(int(topology.tails[e]), int(topology.heads[e])): e for e in range(topology.n_links)}


# --- reversal (A.2) ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_reverse_is_a_reduce_scatter_on_the_transpose(seed: int) -> None:
    """Definition 5, Theorem 1."""
    topology, steps = random_allgather(seed)
    back = reverse(steps)
    assert sorted(samples.sends_of(back)) == sorted(
        (v, link, steps.n_steps - 1 - t, low, high) for v, link, t, low, high in samples.sends_of(steps)
    )
    assert_correct(topology.transpose(), back)
    assert back.n_steps == steps.n_steps
    assert time_of(topology.transpose(), back) == time_of(topology, steps)
    assert reverse(back) == steps


@pytest.mark.parametrize("seed", SEEDS)
def test_reduce_scatter_of_any_graph(seed: int) -> None:
    """Corollaries 1.1 and 1.2."""
    rng = random.Random(seed)
    topology = samples.random_fabric(rng, 4)
    steps = reverse_by_transpose(topology, lambda graph: random_steps(rng, graph))
    assert_correct(topology, steps)
    same, finer = expand_by_transpose(topology, steps, lambda graph, part: (graph, subdivide(part, 2)))
    assert (same, finer) == (topology, subdivide(steps, 2))


def test_reduce_scatter_by_reverse_symmetry() -> None:
    """Theorem 2: on K_{2,2} by the identity, on the unidirectional ring by v -> -v."""
    topology, steps = samples.k22_allgather()
    opposite = transposing(link_numbers(topology))
    back = reverse_by_symmetry(steps, range(4), opposite)
    assert_correct(topology, back)
    assert t_b(topology, samples.schedule_of(REDUCE_SCATTER, back)) == Fraction(3, 4)
    assert reverse_by_symmetry(back, range(4), opposite) == steps
    topology, steps = samples.ring_allgather(5)
    # link v of the transpose runs from v + 1 to v; f makes it -v - 1 -> -v, which is link -v - 1
    back = reverse_by_symmetry(steps, [-v % 5 for v in range(5)], [(-v - 1) % 5 for v in range(5)])
    assert_correct(topology, back)
    assert back.homes.tolist() == [0, 1, 2, 3, 4]


def test_allreduce_from_its_phases() -> None:
    topology, steps = samples.k22_allgather()
    back = reverse_by_symmetry(steps, range(4), transposing(link_numbers(topology)))
    schedule = allreduce_from(subdivide(back, 3), steps)
    collective = on_all_ranks(topology, CollectiveKind.ALLREDUCE)
    assert samples.is_correct(topology, collective, schedule)
    report = verify(topology, collective, schedule)
    assert report.is_ok
    assert (report.n_steps, t_b(topology, schedule)) == (4, Fraction(3, 2))
    with pytest.raises(ScheduleError, match="the other way"):
        allreduce_from(steps, back)


@pytest.mark.parametrize(
    "name", ["uni_ring(2,5)", "directed_circulant(8,1,3)", "torus(3,3)", "kautz(2,2)", "de_bruijn(2,3)"]
)
def test_found_isomorphisms_give_both_directions_and_bidirectional_graphs(name: str) -> None:
    """Theorem 2 and section A.1.6 with the isomorphism found: T_L and T_B stay."""
    topology = parse(name)
    steps = bfb_allgather(topology)
    found = transpose_isomorphism(topology)
    assert found is not None
    links = link_map(topology.transpose(), topology, found)
    back = reverse_by_symmetry(steps, found, links)
    assert_correct(topology, back)
    both, halves = bidirectional(topology, steps, np.argsort(found), np.argsort(links))
    assert_correct(both, halves)
    costs = {
        (part.n_steps, t_b(graph, samples.schedule_of(kind_of(part), part)))
        for graph, part in ((topology, steps), (topology, back), (both, halves))
    }
    assert len(costs) == 1


# --- isomorphisms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_relabelled_schedule_fits_the_relabelled_graph(seed: int) -> None:
    """Definition 7."""
    topology, steps = random_allgather(seed)
    rng = random.Random(seed)
    n, m = topology.n_nodes, topology.n_links
    nodes, links = rng.sample(range(n), n), rng.sample(range(m), m)
    place = np.argsort(links)
    moved = replace(
        topology,
        tails=np.array(nodes)[topology.tails][place],
        heads=np.array(nodes)[topology.heads][place],
        bandwidths=topology.bandwidths[place],
    )
    image = relabel(steps, nodes, links)
    assert sorted(samples.sends_of(image)) == sorted(
        (nodes[v], links[e], t, low, high) for v, e, t, low, high in samples.sends_of(steps)
    )
    assert image.homes.tolist() == list(range(n))
    assert_correct(moved, image)
    assert time_of(moved, image) == time_of(topology, steps)
    assert relabel(image, np.argsort(nodes), np.argsort(links)) == steps


def test_relabel_keeps_the_numbers_of_shards_in_no_order() -> None:
    steps = steps_from_sends(Direction.BROADCAST, 3, 1, [(0, 1, 0, 0, 1), (1, 0, 0, 0, 1)], homes=[2, 0])
    image = relabel(steps, [1, 0, 2], [5, 7])
    assert image.homes.tolist() == [2, 1]
    assert samples.sends_of(image) == [(0, 7, 0, 0, 1), (1, 5, 0, 0, 1)]


def test_relabel_of_several_shards_at_a_rank() -> None:
    steps = steps_from_sends(Direction.REDUCE, 2, 1, [(s, 0, 0, 0, 1) for s in range(3)], homes=[0, 0, 1])
    image = relabel(steps, [1, 0], [0])
    assert image.homes.tolist() == [0, 1, 1]
    assert [send[0] for send in samples.sends_of(image)] == [1, 2, 0]


@pytest.mark.parametrize(
    ("nodes", "links", "message"),
    [
        ([0, 1, 1], [0, 1, 2], "node_map must be a permutation of 0 to 2"),
        ([0, 1], [0, 1, 2], "node_map must be a permutation"),
        ([0.0, 1.0, 2.0], [0, 1, 2], "node_map: expected integers"),
        ([0, 1, 2], [0, 1], "link_map has 2 links, but link 2 is used"),
        ([0, 1, 2], [0, 1, 1], "link_map must hold different"),
        ([0, 1, 2], [0, 1, -1], "link_map must hold different"),
        ([0, 1, 2], [0, 1, 2**40], "link_map must hold different"),
        ([0, 1, 2], [[0, 1, 2]], "link_map: expected integers in one dimension"),
    ],
)
def test_maps_that_are_none(nodes: list[int], links: list[int], message: str) -> None:
    _, steps = samples.ring_allgather(3)
    with pytest.raises(ScheduleError, match=message):
        relabel(steps, nodes, links)


# --- unidirectional to bidirectional -----------------------------------------------------------------------


def test_ring_becomes_bidirectional() -> None:
    """Section A.1.6: as many steps, the same T_B; halves of a shard go round both ways."""
    n = 5
    topology, steps = samples.ring_allgather(n)
    topology = replace(topology, latencies_ns=np.arange(n))
    # g(v) = -v takes link v (v -> v + 1) to -v -> -v - 1, the transpose's link -v - 1
    both, halves = bidirectional(
        topology, steps, [-v % n for v in range(n)], [(-v - 1) % n for v in range(n)]
    )
    assert_correct(both, halves)
    assert halves.n_steps == steps.n_steps
    assert t_b(both, samples.schedule_of(ALLGATHER, halves)) == t_b(
        topology, samples.schedule_of(ALLGATHER, steps)
    )
    assert both.tails.tolist() == [0, 1, 2, 3, 4, 1, 2, 3, 4, 0]
    assert both.heads.tolist() == [1, 2, 3, 4, 0, 0, 1, 2, 3, 4]
    assert both.latencies_ns.tolist() == [*range(n), *range(n)]
    assert both.name == "bidirectional(sample)"
    with pytest.raises(ScheduleError, match="4 links, expected 5"):
        bidirectional(topology, steps, range(n), range(4))


def test_bidirectional_bipartite_graph_has_parallel_links() -> None:
    topology, steps = samples.k22_allgather()
    numbers = link_numbers(topology)
    both, halves = bidirectional(topology, steps, range(4), transposing(numbers))
    assert_correct(both, halves)
    assert (both.n_links, halves.n_chunks) == (16, 4)
    assert t_b(both, samples.schedule_of(ALLGATHER, halves)) == Fraction(3, 4)
    back = reverse(steps)
    both, halves = bidirectional(topology.transpose(), back, range(4), transposing(numbers))
    assert_correct(both, halves)


# --- chunks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_finer_and_coarser_chunks(seed: int) -> None:
    topology, steps = random_allgather(seed)
    coarsest = reduce_chunks(steps)
    assert reduce_chunks(coarsest) == coarsest
    assert steps.n_chunks % coarsest.n_chunks == 0
    for factor in (1, 2, 3):
        finer = subdivide(steps, factor)
        assert finer.n_chunks == steps.n_chunks * factor
        assert_correct(topology, finer)
        assert time_of(topology, finer) == time_of(topology, steps)
        assert reduce_chunks(finer) == coarsest
        assert subdivide(coarsest, finer.n_chunks // coarsest.n_chunks) == finer


def test_reduce_chunks_of_nothing() -> None:
    assert reduce_chunks(steps_from_sends(Direction.REDUCE, 2, 6, [])).n_chunks == 1


@pytest.mark.parametrize("chunks", [(0, 3), (3, 6), (2, 3)])
def test_reduce_chunks_minds_both_ends(chunks: tuple[int, int]) -> None:
    steps = steps_from_sends(Direction.BROADCAST, 2, 6, [(0, 0, 0, *chunks)])
    found = reduce_chunks(steps)
    assert loads(subdivide(found, 6 // found.n_chunks)) == loads(steps)
    assert found.n_chunks == (6 if chunks == (2, 3) else 2)


def test_too_many_chunks() -> None:
    _, steps = samples.k22_allgather()
    with pytest.raises(ScheduleError, match="33554432 chunks per shard"):
        subdivide(steps, 2**24)
    with pytest.raises(ScheduleError, match="at least 1, found 0"):
        subdivide(steps, 0)
    with pytest.raises(ScheduleError, match="more than 2"):
        aligned(subdivide(steps, 2**20 + 1), subdivide(steps, 2**20 - 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_merge_joins_what_is_adjacent(seed: int) -> None:
    topology, steps = random_allgather(seed, n_chunks=7)
    single = [
        (shard, link, step, chunk, chunk + 1)
        for shard, link, step, low, high in samples.sends_of(steps)
        for chunk in range(low, high)
    ]
    random.Random(seed).shuffle(single)
    merged = merge_sends(samples.with_sends(steps, single))
    assert merged == merge_sends(steps)
    assert merge_sends(merged) == merged
    assert merged.n_sends <= steps.n_sends
    assert loads(merged) == loads(steps)
    assert merged.n_steps == steps.n_steps
    ends = {(shard, link, step, high) for shard, link, step, _, high in samples.sends_of(merged)}
    assert not any((shard, link, step, low) in ends for shard, link, step, low, _ in samples.sends_of(merged))
    assert_correct(topology, merged)


def test_merge_keeps_steps_empty_steps_and_repetitions_apart() -> None:
    sends: list[Send] = [(0, 0, 1, 0, 1), (0, 0, 1, 1, 2), (0, 0, 3, 2, 3), (0, 0, 3, 2, 3), (0, 1, 3, 3, 4)]
    merged = merge_sends(steps_from_sends(Direction.BROADCAST, 2, 4, sends, n_steps=6))
    assert samples.sends_of(merged) == [(0, 0, 1, 0, 2), *sends[2:]]
    assert merged.step_offset.tolist() == [0, 0, 1, 1, 4, 4, 4]
    nothing = steps_from_sends(Direction.BROADCAST, 2, 4, [], n_steps=2)
    assert merge_sends(nothing) == nothing


def test_merge_with_keys_beyond_an_int64() -> None:
    sends: list[Send] = [
        (s, link, 0, low, low + 1) for s in (1000, 0) for link in (2**31 - 1, 3) for low in (1, 0)
    ]
    big = steps_from_sends(Direction.BROADCAST, 2, 2**24, sends, homes=[0] * 2**10)
    assert [send[:2] + send[3:] for send in samples.sends_of(merge_sends(big))] == [
        (s, link, 0, 2) for s in (0, 1000) for link in (3, 2**31 - 1)
    ]


# --- putting together --------------------------------------------------------------------------------------


def test_aligned_phases_have_equally_many_chunks() -> None:
    _, steps = samples.k22_allgather()
    one, other = aligned(subdivide(steps, 2), subdivide(steps, 3))
    assert one == other == subdivide(steps, 6)


@pytest.mark.parametrize("seed", SEEDS)
def test_side_by_side(seed: int) -> None:
    """Parts of any number of chunks and steps share the links; `reverse` commutes."""
    rng = random.Random(seed)
    topology = samples.random_fabric(rng, 4)
    parts = [random_steps(rng, topology) for _ in range(rng.randint(1, 3))]
    shares = [rng.randint(1, 4) for _ in parts]
    whole = combine(parts, shares=shares)
    assert_correct(topology, whole)
    assert whole.n_steps == max(part.n_steps for part in parts)
    worst = sum(
        (
            Fraction(share, sum(shares)) * time_of(topology, part)
            for share, part in zip(shares, parts, strict=True)
        ),
        Fraction(0),
    )
    assert time_of(topology, whole) <= worst
    # every element of a part's share goes the way of the part
    start = Fraction(0)
    for share, part in zip(shares, parts, strict=True):
        size = Fraction(share, sum(shares))
        for shard, link, step, low, high in samples.sends_of(part):
            begin = (start + size * Fraction(low, part.n_chunks)) * whole.n_chunks
            end = (start + size * Fraction(high, part.n_chunks)) * whole.n_chunks
            assert (shard, link, step, begin, end) in samples.sends_of(whole)
        start += size
    back = combine([reverse(part) for part in parts], shares=shares)
    assert merge_sends(back) == merge_sends(reverse(whole))
    assert_correct(topology.transpose(), back)


def test_equal_parts_by_default() -> None:
    topology, steps = samples.k22_allgather()
    assert merge_sends(combine([steps])) == merge_sends(steps)
    twice = combine([steps, steps])
    assert twice.n_chunks == combine([steps, steps], shares=[2, 2]).n_chunks == 4
    assert time_of(topology, twice) == time_of(topology, steps)
    for parts, shares in (([], None), ([steps], [0]), ([steps], [1, 1])):
        with pytest.raises(ScheduleError):
            combine(parts, shares=shares)


def test_one_after_another() -> None:
    """The first step of Figure 3.1, then the second."""
    topology, steps = samples.k22_allgather()
    sends = samples.sends_of(steps)
    first = steps_from_sends(Direction.BROADCAST, 4, 2, [send for send in sends if send[2] == 0])
    then = steps_from_sends(
        Direction.BROADCAST, 4, 2, [(v, link, 0, low, high) for v, link, t, low, high in sends if t == 1]
    )
    joined = concatenate(reduce_chunks(first), then)
    assert joined == steps
    assert_correct(topology, joined)
    assert concatenate(steps) == steps
    with pytest.raises(ScheduleError, match="alike in direction"):
        concatenate(steps, reverse(steps))
    with pytest.raises(ScheduleError, match="same homes"):
        concatenate(steps, replace(steps, homes=steps.homes[::-1]))


def test_transforms_leave_their_argument_alone() -> None:
    _, steps = samples.k22_allgather()
    before = samples.sends_of(steps)
    for result in (
        reverse(steps),
        relabel(steps, range(4), range(8)),
        subdivide(steps, 2),
        reduce_chunks(steps),
        merge_sends(steps),
        combine([steps, steps]),
        concatenate(steps, steps),
    ):
        assert not any(
            column.flags.writeable for column in (result.shard, result.link, result.low, result.high)
        )
    assert samples.sends_of(steps) == before


def test_a_send_without_chunks_is_refused() -> None:
    """Each bound lies in its own range; together they name nothing."""
    with pytest.raises(ScheduleError, match="a send carries no chunk"):
        steps_from_sends(Direction.BROADCAST, 2, 4, [(0, 0, 0, 2, 1)])
