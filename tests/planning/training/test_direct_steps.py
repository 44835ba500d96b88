"""Direct-connect prices, workloads and traces of steps, by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem
from treadle.planning import step_costs
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.topologies import parse
from treadle.topologies.topology import TopologyBuilder
from treadle.traces.timed_lanes import TraceSpan
from treadle.training.costs import Traffic
from treadle.training.prices import direct_prices
from treadle.training.prices.collective_prices import TimeModel
from treadle.training.prices.direct_prices import (
    BinaryTreePrice,
    DirectPrices,
    baseline_fabric,
    baseline_prices,
    limit_price,
    torus_sides,
)
from treadle.training.prices.schedule_prices import _farthest_s
from treadle.training.step_files import step_workload
from treadle.training.step_trace import step_trace, tracks_of
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline

GATHER, SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER
SUM, EXCHANGE = CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
FIGURES = DirectPrices("words", 9, Fraction(12), 5, Fraction(2), Fraction(4))


@pytest.mark.parametrize(("kind", "algbw", "delay"), [(GATHER, 6, 1.25), (SCATTER, 3, 1.25), (SUM, 2, 2.5)])
def test_steps_and_bandwidth_time(kind: CollectiveKind, algbw: int, delay: float) -> None:
    """12 bytes/s over T_B of 2, 4 and both; five steps of a quarter of a second, or ten."""
    price = FIGURES.price(kind, 0.25)
    assert (price.algbw, price.delay_s, price.model) == (Fraction(algbw), delay, TimeModel.ALPHA_BETA)


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


@pytest.mark.parametrize(
    ("nodes", "dimensions", "sides"),
    [
        (9, 2, (3, 3)),
        (12, 2, (4, 3)),
        (36, 2, (6, 6)),
        (48, 2, (8, 6)),
        (45, 2, (9, 5)),
        (27, 3, (3, 3, 3)),
        (60, 3, (5, 4, 3)),
        (3, 1, (3,)),
    ],
)
def test_sides_are_as_equal_as_can_be(nodes: int, dimensions: int, sides: tuple[int, ...]) -> None:
    assert torus_sides(nodes, dimensions) == sides


@pytest.mark.parametrize(("nodes", "dimensions"), [(8, 2), (10, 2), (18, 3), (2, 1)])
def test_no_sides_below_three(nodes: int, dimensions: int) -> None:
    message = f"^torus: {nodes} nodes are no grid of {dimensions} sides of at least 3; leave out torus$"
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


def test_what_no_fabric_of_as_many_links_beats() -> None:
    """Nine nodes of degree 4: 4 others at distance 1, 4 at 2. Of 36 links each pair takes 12/9 on average."""
    torus = parse("torus(3, 3, bandwidth='5B/s')")
    problem = Problem(torus, Collective(GATHER, tuple(range(9))))
    gather = limit_price(problem, Fraction(20), GATHER, 0.5)
    assert (gather.algbw, gather.delay_s) == (20 / Fraction(8, 9), 1.0)
    total = limit_price(problem, Fraction(20), SUM, 0.5)
    assert (total.algbw, total.delay_s) == (20 / Fraction(16, 9), 2.0)
    exchange = limit_price(problem, Fraction(20), EXCHANGE, 0.5)
    assert (exchange.algbw, exchange.delay_s) == (Fraction(9 * 20, 12), 1.0)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("ring(4)", "ring(4)"),
        ('line_graph(torus(3, 3, bandwidth="5GB/s", latency="1us"), 2)', "line_graph(torus(3, 3), 2)"),
        ('with_links(line_graph(diamond()), bandwidth="5GB/s")', "line_graph(diamond())"),
    ],
)
def test_names_without_units(name: str, plain: str) -> None:
    assert direct_prices._without_units(name) == plain


def test_the_farthest_rank_is_an_alpha_and_latencies_away() -> None:
    """a to b 3 ns, b to c 5 ns, a to c by a switch 4 + 2 ns: one alpha there, two by b."""
    draft = TopologyBuilder("small")
    for name in "abc":
        draft.compute(name)
    draft.switch("s")
    for one, other, latency in (("a", "b", 3), ("b", "c", 5), ("a", "s", 4), ("s", "c", 2), ("c", "a", 1)):
        draft.link(one, other, 10, latency)
    fabric = draft.build()
    problem = Problem(fabric, Collective(GATHER, (0, 1, 2)))
    for alpha_ns, far_ns in ((0, 6), (1, 7), (100, 106)):
        assert _farthest_s(problem, alpha_ns) == pytest.approx(far_ns / 1e9)
    back = Problem(fabric, Collective(GATHER, (2, 1)))
    assert _farthest_s(back, 10) == pytest.approx((1 + 3 + 20) / 1e9)
    groups = Problem(fabric, Collective(GATHER, (0, 1, 2, 2)[:2]))
    assert _farthest_s(groups, 10) == pytest.approx(13 / 1e9)


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


def test_a_workload_of_the_device_that_communicates_most() -> None:
    found = step_workload(
        timeline(
            task(0, 9, SUM, "tp"),
            task(0, 8, None, "pp"),
            task(1, 8, None, "pp"),
            task(1, 5, GATHER, "tp"),
            task(1, 6, SUM, "dp"),
            task(1, 5, GATHER, "tp"),
            task(1, 4, SUM, "dp", "tp"),
            task(1, 3, SUM, "pp", "dp", "tp"),
            Task("work", 1, COMPUTE_STREAM, 1.0, (), Category.FORWARD),
        ),
        MESH,
        'a "step" \\ b',
    )
    assert found == "\n".join(
        [
            'name = "a \\"step\\" \\\\ b"',
            "",
            "# and 2 sends from stage to stage, which are no collectives",
            "",
            "[[collectives]]",
            'kind = "allgather"',
            'size = "5B"',
            "count = 2",
            "group_size = 2",
            "stride = 1",
            "# over tp",
            "",
            "[[collectives]]",
            'kind = "allreduce"',
            'size = "6B"',
            "count = 1",
            "group_size = 3",
            "stride = 2",
            "# over dp",
            "",
            "[[collectives]]",
            'kind = "allreduce"',
            'size = "4B"',
            "count = 1",
            "group_size = 6",
            "stride = 1",
            "# over dp,tp",
            "",
            "[[collectives]]",
            'kind = "allreduce"',
            'size = "3B"',
            "count = 1",
            "# over pp,dp,tp",
            "",
        ]
    )


def test_steps_that_are_no_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    for tasks in ((), (task(0, 8, None, "pp"),), (task(0, 0, SUM, "tp"),)):
        with pytest.raises(
            ScheduleError, match=r"^workload: the step has 0 different collectives, expected 1 to "
        ):
            step_workload(timeline(*tasks), MESH, "x")
    words = (
        "^workload: groups over pp,tp of mesh pp=2,dp=3,tp=2 are not evenly apart, which a workload cannot"
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


def test_lanes_begin_with_what_computes() -> None:
    work = Task("work", 1, COMPUTE_STREAM, 1.0, (), Category.FORWARD)
    tasks = (
        task(1, 8, SUM, "tp", stream="z"),
        task(1, 8, SUM, "dp", stream="a"),
        work,
        task(0, 8, SUM, "tp", stream="z"),
        replace(work, device=0),
    )
    assert tracks_of(timeline(*tasks)) == (
        (0, "compute"),
        (0, "z"),
        (1, "compute"),
        (1, "z"),
        (1, "a"),
    )


def test_a_trace_tells_of_each_task() -> None:
    work = Task("work", 0, COMPUTE_STREAM, 2.0, (), Category.BACKWARD)
    one = Timeline((work, task(0, 8, SUM, "dp", "tp", seconds=3.0)), (0.5, 1.0), (2.5, 6.0))
    trace = step_trace(one, {"model": "small"})
    assert trace.about == {"model": "small"}
    (first,), (second,) = (lane.spans for lane in trace.lanes)
    ps = 10**12
    assert first == TraceSpan("work", ps // 2, 5 * ps // 2, {"task": 0, "alone_s": 2.0}, "backward")
    about: dict[str, str | int | float] = {
        "task": 1,
        "alone_s": 3.0,
        "communication": "allreduce along dp,tp",
        "size_bytes": 8,
    }
    assert second == TraceSpan("moves", ps, 6 * ps, about, "allreduce")


def test_axes_of_the_mesh_in_its_own_order() -> None:
    costs = step_costs("complete(12)", MESH, schedule="bound", alpha_s=0)
    assert costs._real(("tp", "dp", "other")) == ("dp", "tp")
    assert costs.send_s("other", 5) == 0
    assert costs.time_s(SUM, ("other",), 5) == 0
    assert costs.time_s(GATHER, ("tp", "dp"), 600) == costs.time_s(GATHER, ("dp", "tp"), 600) > 0
    assert [(one.kind, one.axes) for one in costs.priced] == [(GATHER, ("dp", "tp"))]
    assert costs.slowdowns((traffic(SUM, "dp"), traffic(SUM, "tp"))) == (1.0, 1.0)
    for mesh, words in (
        ("a=5", "^mesh a=5: it lays out 5 ranks, and complete\\(12\\) has 12$"),
        ("a=4", "^mesh a=4: it lays out 4 ranks, and complete\\(12\\) has 12; give one axis 3x as many$"),
        ("a=24", "^mesh a=24: it lays out 24 ranks, and complete\\(12\\) has 12$"),
    ):
        with pytest.raises(ScheduleError, match=words):
            step_costs("complete(12)", mesh)
