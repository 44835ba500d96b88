"""By which model a collective is priced, at the size where that changes, and who shares links with whom."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.errors import FormatError, ScheduleError
from treadle.inputs.problem import Problem, make_problem, resolve_topology
from treadle.planning import step_costs, write_step_chakra
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.topologies.topology import TopologyBuilder
from treadle.training import step_files
from treadle.training.prices import schedule_prices
from treadle.training.prices.collective_prices import TimeModel
from treadle.training.prices.message_costs import MessageCosts, message_costs
from treadle.training.prices.schedule_prices import (
    baseline_price,
    spread_price,
)
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import Timeline

GATHER, SUM, EXCHANGE = CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
FREE = MessageCosts(alpha_ns=0)


@pytest.mark.parametrize(
    ("fabric", "mesh"),
    [
        ("dgx_h100:2", "dp=2,tp=8"),
        ("dgx_h100:5", "dp=5,tp=8"),
        ("dgx_a100:4", "dp=4,fsdp=2,tp=4"),
        ("rail_optimized:4", "dp=4,tp=8"),
        ("leaf_spine:4,2,gpus_per_leaf=8,oversubscription=4", "dp=4,tp=8"),
        ("leaf_spine:3,2,gpus_per_leaf=4", "dp=6,tp=2"),
        ("torus:4x4", "dp=4,tp=4"),
        ("torus:6x4", "dp=6,tp=4"),
        ("mi300x:2", "dp=2,tp=8"),
    ],
)
@pytest.mark.parametrize("messages", ["model", "alpha"])
def test_rings_cost_what_their_schedule_does(
    fabric: str, mesh: str, messages: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rate and latency of every kind along every set of axes, from links alone and from verified trees."""
    topology, names = resolve_topology(fabric), [part.partition("=")[0] for part in mesh.split(",")]
    costs = message_costs(topology) if messages == "model" else MessageCosts(alpha_ns=1000)
    for axes in (*((name,) for name in names), tuple(names)):
        for kind in (GATHER, CollectiveKind.REDUCE_SCATTER, SUM):
            check_rings(make_problem(topology, kind, mesh=mesh, axes=axes), costs, monkeypatch)


@pytest.mark.parametrize("axes", ["dp", "tp"])
def test_rings_of_1024_ranks_cost_what_their_schedule_does(
    axes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = make_problem(resolve_topology("dgx_h100:128"), SUM, mesh="dp=128,tp=8", axes=axes)
    check_rings(asked, MessageCosts(alpha_ns=1000), monkeypatch)


def check_rings(asked: Problem, costs: MessageCosts, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = baseline_price(asked, "ring", costs, simulates=False)
    with monkeypatch.context() as patch:
        patch.setattr(schedule_prices, "MOST_PLANNED", 0)
        direct = baseline_price(asked, "ring", costs, simulates=False)
    assert (planned.model, direct.model) == (TimeModel.ALPHA_BETA, TimeModel.RINGS)
    assert direct.algbw == planned.algbw
    for size in (1, 10**6, 10**10):
        assert direct.time_s(size) == pytest.approx(planned.time_s(size), rel=1e-9)


def test_rings_through_other_ranks_need_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of three of four nodes in a ring closes through the fourth."""
    monkeypatch.setattr(schedule_prices, "MOST_PLANNED", 0)
    line = make_problem("ring(6, bandwidth='1GB/s')", GATHER, mesh="2,3", axes="1")
    with pytest.raises(ScheduleError, match="use treadle, bound, or rings that pass no other rank"):
        baseline_price(line, "ring", FREE, simulates=False)


def test_rings_of_thousands_of_ranks() -> None:
    costs = step_costs("dgx_h100:256", "dp=256,tp=8", schedule="ring")
    within, across = (costs.price((SUM, (axis,))) for axis in ("tp", "dp"))
    assert within.model is across.model is TimeModel.RINGS
    small = step_costs("dgx_h100:64", "dp=64,tp=8", schedule="ring", simulates=False)
    assert within.algbw == small.price((SUM, ("tp",))).algbw
    assert float(across.algbw) == pytest.approx(float(small.price((SUM, ("dp",))).algbw), rel=0.02)


def test_messages_on_shortest_paths_of_unequal_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """a and b 1 byte/s apart, c between them with 4; c has twice as much for a as others have."""
    draft = TopologyBuilder("odd")
    for name in "abc":
        draft.compute(name)
    draft.duplex("a", "b", 1)
    draft.duplex("a", "c", 4)
    draft.duplex("c", "b", 4)
    fabric = draft.build()
    demands = Demands(np.array([[0, 1, 1], [1, 0, 1], [2, 1, 0]], dtype=np.int64))
    odd = Problem(fabric, Collective(EXCHANGE, (0, 1, 2), demands=demands))
    price = spread_price(odd, FREE)
    assert price.model is TimeModel.SPREAD
    units = odd.collective.pair_demands.buffer_units
    assert price.algbw == units, "straight on: a unit of 1 byte/s each way between a and b"
    capped = replace(fabric, injection_bytes_per_s=np.array([0, 0, 1], dtype=np.int64))
    slow = spread_price(Problem(capped, odd.collective), FREE)
    assert slow.algbw == Fraction(units, 3), "three units leave c"
    monkeypatch.setattr(schedule_prices, "MOST_ROUTED", 6)
    spread_price(odd, FREE)
    monkeypatch.setattr(schedule_prices, "MOST_ROUTED", 5)
    with pytest.raises(
        ScheduleError, match=r"^odd: an all-to-all of 6 messages, of which at most 5 are routed; "
    ):
        spread_price(odd, FREE)


def chakra(n_ranks: int, n_tasks: int, devices: int = 1) -> tuple[Any, Any]:
    tasks = tuple(
        Task("t", number % devices, COMPUTE_STREAM, 1.0, (), Category.FORWARD) for number in range(n_tasks)
    )
    starts = tuple(float(number) for number in range(n_tasks))
    timeline = Timeline(tasks, starts, tuple(start + 1 for start in starts))
    mesh = Mesh((n_ranks,), ("dp",))
    return SimpleNamespace(mesh=mesh), SimpleNamespace(outcome=SimpleNamespace(timeline=timeline))


def test_folders_of_traces_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_files, "MOST_TRACED_RANKS", 3)
    monkeypatch.setattr(step_files, "_MOST_NODES", 6)
    assert len(write_step_chakra(tmp_path / "a", *chakra(3, 2))) == 4
    for ranks, tasks in ((4, 1), (3, 3)):
        message = f"^Chakra: {ranks} ranks with {tasks} tasks; expected at most 3 ranks and 6 nodes in total$"
        with pytest.raises(ScheduleError, match=message):
            write_step_chakra(tmp_path / "b", *chakra(ranks, tasks))
    assert not (tmp_path / "b").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(FormatError, match=r"file: is a file; expected a folder, or a name that is free$"):
        write_step_chakra(tmp_path / "file", *chakra(1, 1))


def test_nodes_of_a_rank_and_what_it_receives() -> None:
    """Two stages of two ranks: work, a sum beside it, a send; the second stage works once it has arrived."""
    mesh = Mesh((2, 2), ("pp", "dp"))
    tasks = (
        Task("work", 0, COMPUTE_STREAM, 2.0, (), Category.FORWARD),
        Task("sum", 0, "net", 1.0, (0,), Category.ALLREDUCE, (SUM, ("dp",)), 8),
        Task("send", 0, "net", 1.0, (0,), Category.SEND, (None, ("pp",)), 16),
        Task("next", 1, COMPUTE_STREAM, 3.0, (2,), Category.FORWARD),
        Task("more", 1, COMPUTE_STREAM, 4.0, (), Category.BACKWARD),
    )
    timeline = Timeline(tasks, (0.0, 2.0, 3.0, 4.0, 7.0), (2.0, 3.0, 4.0, 7.0, 11.0))
    groups: dict[str, list[int]] = {}
    nodes = list(step_files._rank_traces(mesh, timeline, groups))
    first = [
        (one.name, one.seconds, one.waits_for, one.size_bytes, one.source, one.target) for one in nodes[1]
    ]
    assert [one[:4] for one in first] == [
        ("work", 2.0, (), 0),
        ("sum", 0.0, (0,), 8),
        ("send", 0.0, (0, 1), 16),
    ]
    assert first[2][4:] == (1, 3)
    received = nodes[3]
    assert [(one.name, one.seconds, one.waits_for) for one in received] == [
        ("send (receive)", 0.0, ()),
        ("next", 3.0, (0,)),
        ("more", 4.0, (1,)),
    ]
    assert (received[0].source, received[0].target, received[0].size_bytes, received[0].tag) == (1, 3, 16, 2)
    assert groups == {"0": [0, 1], "1": [2, 3]}
    assert (nodes[0][1].group, nodes[1][1].group) == ("0", "0")
