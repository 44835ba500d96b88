"""Which price a collective is asked at: along which axes, in which order, of which size."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.errors import InfeasibleError
from treadle.parallelism.searching.fabric_matrix import IsolatedCosts, fabric_matrix
from treadle.parallelism.searching.large_costs import LargeCosts
from treadle.planning import step_costs
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.topologies.topology import Topology, TopologyBuilder

GATHER, SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER
SUM, EXCHANGE = CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL


class Prices:
    """Costs that tell what they were asked."""

    summary, is_bound = "told", True

    def __init__(self, mesh: Mesh, topology: object = None) -> None:
        self.mesh, self.topology = mesh, topology

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: float) -> Any:
        return kind, axes, size_bytes

    def send_s(self, axis: str, size_bytes: float) -> Any:
        return axis, size_bytes

    def slowdowns(self, running: tuple[Any, ...]) -> Any:
        return tuple(range(len(running)))


def pair(there: int = 8, back: int = 8, *, late: int = 5, late_back: int = 5) -> Topology:
    """Two nodes, a link each way, bytes/s and ns; and a pair of equal links to a third."""
    draft = TopologyBuilder("pair")
    for name in ("a", "b", "c"):
        draft.compute(name)
    draft.link("a", "b", there, late)
    draft.link("b", "a", back, late_back)
    draft.link("b", "c", 3, 7)
    draft.link("c", "b", 3, 7)
    return draft.build()


def large(mesh: Mesh, *, paired: bool = True) -> LargeCosts:
    costs = LargeCosts(cast(Any, Prices(mesh, pair(8, 8 if paired else 9))))

    def block(size: int) -> Any:
        return SimpleNamespace(time_s=lambda n_bytes: ("block", size, n_bytes))

    vars(costs)["_block_price"] = block
    return costs


def test_what_large_costs_leave_as_it_is() -> None:
    costs = large(Mesh((2, 3), ("x", "y")))
    assert (costs.summary, costs.is_bound) == ("told", True)
    assert costs.send_s("y", 7) == cast(Any, ("y", 7))
    assert costs.slowdowns(((GATHER, ("x",)), (SUM, ("y",)))) == (0, 1)
    assert costs.time_s(CollectiveKind.BROADCAST, ("y",), 3) == cast(
        Any, (CollectiveKind.BROADCAST, ("y",), 3)
    )


@pytest.mark.parametrize(
    ("shape", "axes", "found"),
    [
        ((3, 1, 4), ("y",), 0.0),
        ((3, 1, 4), ("z",), ("block", 4, 6)),
        ((3, 4, 1), ("y", "z"), ("block", 4, 6)),
        ((3, 2, 4), ("y", "z"), ("block", 8, 6)),
        ((3, 2, 4), ("y",), (EXCHANGE, ("y",), 6)),
        ((3, 2, 4), ("x", "z"), (EXCHANGE, ("x", "z"), 6)),
        ((2, 2, 256), ("z",), ("block", 256, 6)),
        ((2, 2, 257), ("z",), (EXCHANGE, ("z",), 6)),
        ((16, 1, 256), ("x",), (EXCHANGE, ("x",), 6)),
        ((17, 1, 256), ("x",), inf),
        ((17, 1, 256), ("z",), ("block", 256, 6)),
    ],
)
def test_alltoalls_have_a_price_within_blocks_and_of_4096_ranks(
    shape: tuple[int, ...], axes: tuple[str, ...], found: object
) -> None:
    assert large(Mesh(shape, ("x", "y", "z"))).time_s(EXCHANGE, axes, 6) == found


def test_the_first_blocks_are_priced_with_each_other() -> None:
    """Pairs of neighbours on a path of six ranks; blocks of three are two, and share no link."""
    costs = LargeCosts(step_costs("mesh(6, bandwidth='1GB/s')", "2,3", alpha_s=0, simulates=False))
    # of 3 ranks in a row the middle links carry what the outer one sends to two, a third of the buffer each
    size = 3 * 10**9
    assert costs.time_s(EXCHANGE, ("1",), size) == pytest.approx(2.0, rel=1e-6)


class Isolated(IsolatedCosts):
    """With prices by hand: seconds per byte."""

    RATES = {"x": 7.0, "y": 1.0, "z": 0.5}  # noqa: RUF012

    def _price(self, kind: CollectiveKind, axis: str) -> Any:
        return SimpleNamespace(time_s=lambda size: self.RATES[axis] * size)


def isolated(*shape: int) -> Isolated:
    return Isolated(cast(Any, Prices(Mesh(shape, ("x", "y", "z")[: len(shape)]))))


def test_gathers_take_the_best_order_of_axes() -> None:
    """The last axis has all of the buffer, the one before it the part that is left to gather."""
    assert isolated(2, 3).time_s(GATHER, ("x", "y"), 6) == min(7 * 2 + 1 * 6, 1 * 3 + 7 * 6)
    assert isolated(2, 3).time_s(SCATTER, ("y", "x"), 6) == 7 * 2 + 6
    # x by 1/15, y by 1/5, z whole: the other way round z would cost little, but x all
    assert isolated(2, 3, 5).time_s(GATHER, ("z", "x", "y"), 30) == pytest.approx(7 * 2 + 1 * 6 + 0.5 * 30)
    assert isolated(1, 3).time_s(GATHER, ("x", "y"), 6) == 6


def test_other_collectives_pass_the_whole_buffer_along_each_axis() -> None:
    for kind in (SUM, EXCHANGE):
        assert isolated(2, 3).time_s(kind, ("x", "y"), 6) == 7 * 6 + 6
        assert isolated(1, 3).time_s(kind, ("x", "y"), 6) == 6
    assert isolated(2, 3).send_s("y", 5) == cast(Any, ("y", 5))
    assert not isolated(2, 3).is_bound
    assert isolated(2, 3).slowdowns(((SUM, ("x",)), (SUM, ("y",)), (SUM, ("x",)))) == (1.0, 1.0, 1.0)


def test_ranks_of_a_group_alone_reach_each_other_through_others() -> None:
    """Ranks 0 and 3 of a ring of six: half a buffer goes both ways round. Each price is worked out once."""
    true = step_costs("ring(6, bandwidth='1GB/s')", "2,3", alpha_s=0, simulates=False, forward=True)
    costs = IsolatedCosts(true)
    assert costs.time_s(GATHER, ("0",), 4 * 10**9) == pytest.approx(1.0)
    # 0, 1, 2 in a row: the outer ones take two thirds through one link
    assert costs.time_s(GATHER, ("1",), 3 * 10**9) <= 2.0
    assert costs._price(GATHER, "0") is costs._price(GATHER, "0")


def search_on(name: str, seconds: float, cut_off: str = "") -> Any:
    """A fabric whose plans take so many seconds there, and ten times the owner's elsewhere."""
    mesh = Mesh((2,), (name,))

    def priced(owner: str, plan: tuple[str, float], costs: tuple[str, Mesh]) -> Any:
        assert owner == plan[0]
        assert costs == (name, Mesh((2,), (owner,)))
        if owner == cut_off:
            raise InfeasibleError("cut off")
        return SimpleNamespace(seconds=10 * plan[1])

    run = SimpleNamespace(
        topology=SimpleNamespace(name=name),
        plans=SimpleNamespace(priced=priced),
        costs=lambda mesh: (name, mesh),
        fabric_costs=lambda mesh: Prices(mesh),
        unawares=lambda mesh, costs: SimpleNamespace(seconds=seconds / 2) if name == "a" else None,
    )
    best = SimpleNamespace(seconds=seconds, plan=(name, seconds))
    return run, SimpleNamespace(fabric=name, mesh=mesh, best=best)


def test_plans_of_fabrics_are_priced_on_each_other() -> None:
    found = fabric_matrix([search_on("a", 2.0), search_on("b", 3.0, cut_off="a"), search_on("c", 5.0)])
    assert found.fabrics == ("a", "b", "c")
    assert found.seconds == ((2.0, None, 20.0), (30.0, 3.0, 30.0), (50.0, 50.0, 5.0))
    assert found.isolated_s == (1.0, None, None)
