"""Fixed numbers of chunks per shard (section A.5.2): exact optimum, Theorem 20's bound."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.bfb_lp import breaches_of_theorem_14, jobs
from reference.step_times import t_b
from samples.greedy_steps import with_chunks
from samples.strategies import digraphs
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.step_cost import bandwidth_time
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.bfb import BfbValue, bfb_value
from treadle.synthesis.steps.bfb.breadth_first import best_chunk_count, step_chunks
from treadle.topologies import Topology, parse


def brute_force(usable: dict[int, list[int]], chunks: int) -> int:
    """Least W of the integer program (A.11), by trying every split of every shard."""
    options = []
    for links in usable.values():
        splits = [s for s in product(range(chunks + 1), repeat=len(links)) if sum(s) == chunks]
        options.append([dict(zip(links, split, strict=True)) for split in splits])
    best = chunks * len(usable)
    for choice in product(*options):
        load: dict[int, int] = {}
        for split in choice:
            for link, amount in split.items():
                load[link] = load.get(link, 0) + amount
        best = min(best, max(load.values()))
    return best


def discrete_t_b(value: BfbValue, chunks: int) -> Fraction:
    """T_B in M/B of the best schedule with so many chunks per shard, on equal links."""
    return value.t_b * Fraction(sum(step_chunks(value, chunks)), chunks) / sum(value.loads)


def rounding_bound(value: BfbValue, chunks: int) -> Fraction:
    """Theorem 20: how far rounding the linear program may end above it, d (d^D - 1) / ((d - 1) P N) M/B."""
    assert value.node_bandwidth is not None
    degree = value.node_bandwidth // value.unit_bandwidth
    return Fraction(sum(degree**t for t in range(1, value.diameter + 1)), chunks * value.n_ranks)


@settings(max_examples=9, deadline=None, derandomize=True)
@given(topology=digraphs(compute=(2, 5), max_bandwidth=1, extra_links=5), chunks=st.integers(1, 3))
def test_integer_program_by_brute_force(topology: Topology, chunks: int) -> None:
    steps = with_chunks(topology, chunks)
    assert steps.n_chunks == chunks
    assert breaches_of_theorem_14(topology, steps) == []
    total = 0
    for t in range(1, steps.n_steps + 1):
        problems = [jobs(topology, u, t) for u in range(topology.n_nodes)]
        total += max(brute_force(usable, chunks) for usable in problems if usable)
    time = bandwidth_time(topology, StepSchedule(CollectiveKind.ALLGATHER, broadcast=steps))
    assert time == Fraction(total, chunks * topology.n_nodes)


@pytest.mark.parametrize(
    "name", ["hypercube(4)", "generalized_kautz(3, 26)", "circulant(15, 1, 4, 5)", "uni_ring(1, 6)"]
)
def test_theorem_20(name: str) -> None:
    """Theorem 20 bounds rounding; the exact optimum lies between the linear program's and that bound."""
    topology = parse(name)
    value = bfb_value(topology)
    for chunks in (1, 2, 3, 5, 7, 64):
        schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=with_chunks(topology, chunks))
        time = t_b(topology, schedule)
        assert time == discrete_t_b(value, chunks)
        assert value.t_b <= time <= value.t_b + rounding_bound(value, chunks)


def test_theorem_20_bound_as_printed() -> None:
    """d (d^D - 1) / ((d - 1) P N) for Pi_{4,1024}, D = 5, P = 3."""
    value = bfb_value(parse("generalized_kautz(4, 1024)"))
    assert rounding_bound(value, 3) == Fraction(4 * (4**5 - 1), 3 * 3 * 1024)


def test_theorem_20_for_moore_optimal_graphs() -> None:
    """Kautz graphs are Moore-optimal, so that the bound is at most d / P."""
    value = bfb_value(parse("kautz(3, 2)"))
    assert rounding_bound(value, 10) <= Fraction(3, 10)


def test_best_chunk_count_prefers_less_time_then_fewer_chunks() -> None:
    value = bfb_value(parse("hypercube(4)"))  # ceil(P) + ceil(3P/2) + ceil(P) + ceil(P/4)
    assert [best_chunk_count(value, limit) for limit in (1, 2, 3, 4, 9)] == [1, 2, 2, 4, 4]
