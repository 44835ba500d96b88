"""Routes between shardings: done on shards they give the target; no sequence of collectives is cheaper."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from treadle.parallelism.state.moves import n_shards_of
from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.transitions import Transitions
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts, Traffic

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
