"""Direct-connect prices, workloads and traces of steps, by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Traffic
from treadle.training.prices.direct_prices import (
    BinaryTreePrice,
    DirectPrices,
    baseline_fabric,
    baseline_prices,
    torus_sides,
)
from treadle.training.step_files import step_workload
from treadle.training.timeline.task import Category, Task
from treadle.training.timeline.timeline import Timeline

SUM, EXCHANGE = CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
FIGURES = DirectPrices("words", 9, Fraction(12), 5, Fraction(2), Fraction(4))


def test_kinds_without_steps() -> None:
    with pytest.raises(ScheduleError) as error:
        FIGURES.price(EXCHANGE, 0.25)
    assert str(error.value) == ("words: no price of alltoall; expected allgather, reduce-scatter, allreduce")


def test_two_binary_trees() -> None:
    """Nine nodes: three levels up and down. Without latency each half goes once over a link each way."""
    price = BinaryTreePrice(9, Fraction(4), 0.5)
    assert (price.algbw, price.delay_s) == (Fraction(4), 3.0)
    assert [price.time_s(size) for size in (0, -1)] == [0.0, 0.0]
    assert BinaryTreePrice(9, Fraction(4), 0.0).time_s(10) == 2.5
    assert price.time_s(10) > 3 + 10 / 4
    assert BinaryTreePrice(8, Fraction(4), 0.5).delay_s == 3.0
    assert BinaryTreePrice(7, Fraction(4), 0.5).delay_s == 2.0


@pytest.mark.parametrize(("nodes", "dimensions"), [(8, 2), (10, 2), (18, 3), (2, 1)])
def test_no_sides_below_three(nodes: int, dimensions: int) -> None:
    message = (
        f"^torus: {nodes} nodes do not form a grid of {dimensions} sides of at least 3; leave out torus$"
    )
    with pytest.raises(ScheduleError, match=message):
        torus_sides(nodes, dimensions)


def test_fabrics_of_baselines_have_the_bandwidth_of_a_node() -> None:
    for name, nodes, links in (("shifted-ring", 9, 36), ("double-binary-tree", 9, None), ("torus", 12, 48)):
        fabric = baseline_fabric(name, nodes, Fraction(22))
        assert fabric.n_nodes == nodes
        assert set(fabric.bandwidths.tolist()) == {5}
        assert links is None or fabric.n_links == links
    assert set(baseline_fabric("torus", 9, Fraction(3)).bandwidths.tolist()) == {1}


def test_figures_of_baselines() -> None:
    """A ring of nine: eight steps. A square torus: two a side; else half of each side, rounded down."""
    ring = baseline_prices("shifted-ring", 9, Fraction(20))
    assert (ring.nodes, ring.bandwidth, ring.steps, ring.t_b_gather, ring.t_b_reduce) == (
        9,
        Fraction(20),
        8,
        Fraction(8, 9),
        Fraction(8, 9),
    )
    assert ring.summary.endswith(", rings")
    square = baseline_prices("torus", 9, Fraction(20))
    assert (square.steps, square.t_b_gather) == (4, Fraction(8, 9))
    assert square.summary.endswith(", rings along one dimension after another")
    oblong = baseline_prices("torus", 45, Fraction(20))
    assert (oblong.steps, oblong.t_b_reduce) == (9 // 2 + 5 // 2, Fraction(44, 45))
    assert oblong.summary.endswith(", breadth-first broadcast")
    with pytest.raises(ScheduleError, match=r"^double-binary-tree: only an allreduce and an all-to-all have"):
        baseline_prices("double-binary-tree", 9, Fraction(20))


def traffic(kind: CollectiveKind | None, *axes: str) -> Traffic:
    return kind, axes


def task(
    device: int,
    size: int,
    kind: CollectiveKind | None,
    *axes: str,
    seconds: float = 1.0,
    stream: str = "moves",
) -> Task:
    category = Category.SEND if kind is None else Category(kind.value)
    return Task("moves", device, stream, seconds, (), category, traffic(kind, *axes), size)


MESH = Mesh((2, 3, 2), ("pp", "dp", "tp"))


def timeline(*tasks: Task) -> Timeline:
    return Timeline(tasks, (0.0,) * len(tasks), tuple(one.seconds for one in tasks))


def test_steps_that_are_no_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    for tasks in ((), (task(0, 8, None, "pp"),), (task(0, 0, SUM, "tp"),)):
        with pytest.raises(
            ScheduleError, match=r"^workload: the step has 0 different collectives, expected 1 to "
        ):
            step_workload(timeline(*tasks), MESH, "x")
    words = (
        "^workload: groups over pp,tp of mesh pp=2,dp=3,tp=2 are not evenly spaced, which a workload cannot"
    )
    with pytest.raises(ScheduleError, match=words):
        step_workload(timeline(task(0, 8, SUM, "pp", "tp")), MESH, "x")
    monkeypatch.setattr("treadle.training.step_files.MAX_CALLS", 2)
    some = [task(0, size, SUM, "tp") for size in (1, 2)]
    assert step_workload(timeline(*some), MESH, "x").count("[[collectives]]") == 2
    with pytest.raises(
        ScheduleError, match=r"^workload: the step has 3 different collectives, expected 1 to 2$"
    ):
        step_workload(timeline(*some, task(0, 3, SUM, "tp")), MESH, "x")
