"""Routes between shardings: done on shards they give the target; no sequence of collectives is cheaper."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from parallelism.state.shards_on_ranks import (
    all_shardings,
    check_state,
    follow,
    lay_out,
    single_collectives,
)
from treadle.parallelism.problem.prices import seconds_between
from treadle.parallelism.state.moves import n_shards_of
from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.transitions import Transitions
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts, Costs, RememberedCosts, Traffic

KINDS = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)
ITEM_BYTES = 2


class DrawnCosts:
    """Whole seconds for each kind, axes and size, in no order: of no network."""

    summary, is_bound = "drawn", False

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> int:
        drawn = np.random.default_rng([self.seed, KINDS.index(kind), size_bytes, *map(ord, "".join(axes))])
        return int(drawn.integers(1, 100))

    def send_s(self, axis: str, size_bytes: int) -> int:
        raise NotImplementedError

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[int, ...]:
        raise NotImplementedError


MESHES = [
    (Mesh((2, 2), ("a", "b")), (8, 8)),
    (Mesh((2, 4), ("a", "b")), (8, 16)),
    (Mesh((3, 2), ("a", "b")), (6, 6, 6)),
    (Mesh((2, 2, 2), ("a", "b", "c")), (8, 8)),
    (Mesh((2, 3, 2), ("a", "b", "c")), (12, 12)),
    (Mesh((2, 1, 2), ("a", "idle", "b")), (4, 2)),
    (Mesh((2, 2), ("a", "b")), (3,)),
    (Mesh((2, 2, 2, 2), ("a", "b", "c", "d")), (16, 16)),
]


@pytest.mark.parametrize(("mesh", "shape"), MESHES, ids=lambda value: getattr(value, "text", None))
def test_routes_done_on_shards_give_the_target(mesh: Mesh, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(shape) + mesh.n_ranks)
    whole = rng.integers(-1000, 1000, shape).astype(float)
    for seed in range(3):
        transitions = Transitions(mesh, DrawnCosts(seed), shape, ITEM_BYTES)
        states = all_shardings(shape, transitions.sizes)
        for _ in range(40):
            source, target = (states[at] for at in rng.integers(len(states), size=2))
            route = transitions.cheapest(source, target)
            held = lay_out(whole, source, transitions.sizes, seed)
            check_state(held, whole, source, transitions.sizes)
            held = follow(route, held, shape, transitions.sizes, ITEM_BYTES)
            check_state(held, whole, target, transitions.sizes)


def brute_force(
    costs: Costs, shape: tuple[int, ...], sizes: dict[str, int]
) -> tuple[list[Sharding], list[list[int]]]:
    """Least seconds between all shardings: each collective that index sets allow, then Floyd and Warshall."""
    states = all_shardings(shape, sizes)
    least = [[10**9] * len(states) for _ in states]
    for i, before in enumerate(states):
        for j, after in enumerate(states):
            for kind, axes, elements, times in single_collectives(before, after, shape, sizes):
                one = 0 if kind is None else times * costs.time_s(kind, axes, elements * ITEM_BYTES)
                least[i][j] = min(least[i][j], one)
    for via in range(len(states)):
        for row in least:
            first = row[via]
            for j, second in enumerate(least[via]):
                if first + second < row[j]:
                    row[j] = first + second
    return states, least


@pytest.mark.parametrize(("mesh", "shape", "seed"), [
    *((Mesh((2, 2), ("a", "b")), (8, 8), seed) for seed in range(4)),
    (Mesh((2, 4), ("a", "b")), (8, 16), 4),
    (Mesh((2, 2), ("a", "b")), (2, 3), 5),
    (Mesh((2, 2), ("a", "b")), (3,), 6),
    (Mesh((3, 2), ("a", "b")), (6, 2, 6), 5),
    (Mesh((2, 2, 2), ("a", "b", "c")), (8, 8), 6),
])  # fmt: skip
def test_no_sequence_of_collectives_is_cheaper(mesh: Mesh, shape: tuple[int, ...], seed: int) -> None:
    costs = RememberedCosts(DrawnCosts(seed))
    transitions = Transitions(mesh, costs, shape, ITEM_BYTES)
    states, least = brute_force(costs, shape, transitions.sizes)
    table = seconds_between(
        states, states, shape=shape, element_bytes=ITEM_BYTES, sizes=transitions.sizes, costs=costs
    )
    step = 1 if len(states) < 50 else 3
    for i in range(0, len(states), step):
        assert table[i].tolist() == pytest.approx([float(seconds) for seconds in least[i]], rel=1e-12)
        for j in range(i % step, len(states), step**3):
            route = transitions.cheapest(states[i], states[j])
            assert route.seconds == least[i][j] == sum(one.seconds for one in route.steps)


def dgx_rates() -> dict[tuple[CollectiveKind, tuple[str, ...]], Fraction]:
    """Bytes/s by groups of dgx_h100:16, 16 boxes x 8: between boxes, in the box, over all 128 ranks."""
    by_axes = {("ib",): Fraction("53.33"), ("nv",): Fraction("571.43"), ("ib", "nv"): Fraction("426.67")}
    halves = {CollectiveKind.ALLREDUCE: 2}
    return {
        (kind, axes): rate * 10**9 / halves.get(kind, 1) for kind in KINDS for axes, rate in by_axes.items()
    }


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER])
def test_one_group_over_all_axes_is_cheaper_than_axis_after_axis(kind: CollectiveKind) -> None:
    mesh, shape = Mesh((16, 8), ("ib", "nv")), (8192, 28672)
    cut, whole = Sharding((("nv", "ib"), ())), Sharding(((), ()))
    ends = (
        (cut, whole)
        if kind is CollectiveKind.ALLGATHER
        else (Sharding(((), ()), frozenset(("ib", "nv"))), cut)
    )
    fused = Transitions(mesh, AlphaBetaCosts(0, dgx_rates()), shape, 2).cheapest(*ends)
    assert [(step.kind, step.axes) for step in fused.collectives] == [(kind, ("ib", "nv"))]
    assert fused.seconds == Fraction(8192 * 28672 * 2) / (Fraction("426.67") * 10**9)
    slow = {traffic: rate if len(traffic[1]) == 1 else Fraction(1) for traffic, rate in dgx_rates().items()}
    single = Transitions(mesh, AlphaBetaCosts(0, slow), shape, 2).cheapest(*ends)
    order = [("ib",), ("nv",)] if kind is CollectiveKind.ALLGATHER else [("nv",), ("ib",)]
    assert [(step.kind, step.axes) for step in single.collectives] == [(kind, axes) for axes in order]
    assert round(float(single.seconds / fused.seconds), 2) == 1.75


def test_an_allreduce_over_slow_links_gets_smaller_first() -> None:
    """Found, not declared: reduce-scatter in the box, allreduce between boxes, allgather in the box."""
    rates = {traffic: rate if len(traffic[1]) == 1 else Fraction(1) for traffic, rate in dgx_rates().items()}
    rates[CollectiveKind.ALLREDUCE, ("ib",)] = Fraction(40 * 10**9)
    transitions = Transitions(Mesh((16, 8), ("ib", "nv")), AlphaBetaCosts(0, rates), (1024, 1024), 4)
    route = transitions.cheapest(Sharding(((), ()), frozenset(("ib", "nv"))), Sharding(((), ())))
    assert [(step.kind, step.axes) for step in route.collectives] == [
        (CollectiveKind.REDUCE_SCATTER, ("nv",)),
        (CollectiveKind.ALLREDUCE, ("ib",)),
        (CollectiveKind.ALLGATHER, ("nv",)),
    ]
    assert [step.size_bytes for step in route.collectives] == [2**22, 2**19, 2**22]


def test_shards_in_another_order_are_another_state() -> None:
    transitions = Transitions(Mesh((2, 4), ("a", "b")), DrawnCosts(1), (64,), 4)
    route = transitions.cheapest(Sharding((("a", "b"),)), Sharding((("b", "a"),)))
    assert route.collectives
    assert route.seconds > 0
    assert all(n_shards_of(step.before, transitions.sizes) >= 1 for step in route.steps)
