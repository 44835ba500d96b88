"""Work of operators, and times of parts and of pipelines, by hand, with sizes that all differ."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from types import MappingProxyType

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import Drafted, small_model, two_matrices
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.evaluation import _seconds, evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers, operations, operator_seconds, unmoved
from treadle.parallelism.evaluation.part_times import Movement, PartTimes, Role
from treadle.parallelism.evaluation.reshardings import PricedCollective
from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, Source, TensorRef
from treadle.parallelism.plan.parallel_plan import Pipeline
from treadle.parallelism.plan.part_plan import Chunk, OperatorPlan
from treadle.parallelism.problem.operator_work import (
    flops_of,
    fused_tensors,
    local_bytes,
    seconds_of,
)
from treadle.parallelism.state.sharding import Sharding, replicated
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.costs import AlphaBetaCosts
from treadle.training.devices import Accelerator

T, H, F = 16, 8, 32


def attention(*, is_causal: bool = False) -> ComputeGraph:
    """Queries of 5 heads over keys of 6 places: 3 letters within a head, values of 7."""
    draft = Drafted(b=2, n=5, s=4, k=6, x=3, y=7)
    for name, word in (("q", "bnsx"), ("keys", "bnkx"), ("values", "bnky")):
        draft.placeholder(name, word, Source.INPUT)
    draft.operator("o", "bnsy", OperatorKind.ATTENTION, "q", "keys", "values")
    draft.placeholder("do", "bnsy", Source.TANGENT)
    draft.operator("dq", "bnsx", OperatorKind.ATTENTION, "do", "q", "keys", "values", "o", backward=True)
    if is_causal:
        draft.nodes = [replace(node, arguments={"is_causal": True}) for node in draft.nodes]
    return draft.graph({"q": "dq"}, {"o": "do"}, "o")


def test_operations_of_products_and_of_attention() -> None:
    graph = two_matrices(T, H, F)
    of = {node.name: operations(graph, node) for node in graph.nodes}
    products = {"u", "d", "da", "ddown", "dup", "dxu"}
    assert {name for name, count in of.items() if count} == products
    assert {of[name] for name in products} == {2.0 * T * H * F}
    heads = attention()
    by_name = {node.name: node for node in heads.nodes}
    both = 2.0 * (2 * 5 * 4 * 6 * 3 + 2 * 5 * 4 * 6 * 7)
    assert operations(heads, by_name["o"]) == both
    assert operations(heads, by_name["dq"]) == 2.5 * both
    causal = attention(is_causal=True)
    assert operations(causal, causal.nodes[3]) == both / 2
    assert operations(causal, causal.nodes[5]) == 2.5 * both / 2
    three = Drafted(a=3, b=5, c=7)
    for name in ("ab", "bc", "ca"):
        three.placeholder(name, name, Source.INPUT)
    three.operator("all", "a", OperatorKind.EINSUM, "ab", "bc", "ca")
    three.operator("one", "b", OperatorKind.EINSUM, "ab")
    graph = three.graph({}, {}, "all", "one")
    assert [operations(graph, node) for node in graph.nodes[3:5]] == [2.0 * 2 * 105, 2.0 * 15]
    assert [flops_of(graph, node) for node in graph.nodes[3:5]] == [2.0 * 2 * 105, 2.0 * 15]


def test_the_search_counts_the_same_products() -> None:
    graph = two_matrices(T, H, F)
    assert [flops_of(graph, node) for node in graph.nodes] == [
        operations(graph, node) for node in graph.nodes
    ]
    assert fused_tensors(graph) == unmoved(graph)
    for heads in (attention(), attention(is_causal=True)):
        found = [flops_of(heads, node) for node in heads.nodes]
        assert found == [operations(heads, node) for node in heads.nodes]


def test_what_pointwise_operators_hand_on_moves_no_bytes() -> None:
    """Of chains e1 -> e2 and r -> e3: e1 and r; what leaves, or a product or another phase reads, moves."""
    draft = Drafted(t=T, h=H)
    draft.placeholder("x", "th", Source.INPUT)
    draft.operator("e1", "th", OperatorKind.ELEMENTWISE, "x")
    draft.operator("e2", "th", OperatorKind.ELEMENTWISE, "e1", "x")
    draft.operator("r", "t", OperatorKind.REDUCTION, "e2")
    draft.operator("p", "h", OperatorKind.EINSUM, "e2", "r")
    draft.operator("late", "th", OperatorKind.ELEMENTWISE, "e1", backward=True)
    draft.operator("e4", "th", OperatorKind.ELEMENTWISE, "x")
    draft.operator("e5", "th", OperatorKind.ELEMENTWISE, "e4")
    draft.operator("e6", "th", OperatorKind.ELEMENTWISE, "e5", "e4")
    graph = draft.graph({}, {}, "p", "late", "e6")
    names = {graph.spelled(tensor) for tensor in unmoved(graph)}
    assert names == {"e4", "e5"}
    assert fused_tensors(graph) == unmoved(graph)


def test_seconds_of_an_operator() -> None:
    """x up: 2 T H F operations; 2 bytes of each element of both, and of what is made, over their shards."""
    graph = two_matrices(T, H, F)
    number = next(at for at, node in enumerate(graph.nodes) if node.name == "u")
    sizes = {"a": 2, "b": 4}
    plan = OperatorPlan(
        "u",
        (Sharding((("b",), ())), Sharding(((), ("a",)))),
        (Sharding((("b",), ("a",))),),
        8,
    )
    moved = 2 * (T * H // 4 + H * F // 2 + T * F // 8)
    work = 2.0 * T * H * F / 8

    def seconds(flops: float, rate: float, kernel: float = 0.0, fused: frozenset[TensorRef] = frozenset(),
                chunk: Chunk | None = None) -> float:  # fmt: skip
        numbers = DeviceNumbers(flops, rate, kernel)
        return operator_seconds(
            graph, number, replace(plan, chunk=chunk), sizes=sizes, numbers=numbers, fused=fused
        )

    assert seconds(4.0, inf) == work / 4
    assert seconds(1e9, 4.0) == moved / 4
    assert seconds(4.0, inf, 3.0) == work / 4 + 3
    assert seconds(4.0, inf, 3.0, chunk=Chunk("t", 5)) == work / 4 + 15
    assert seconds(1e9, 1.0, fused=frozenset([TensorRef(0)])) == moved - 2 * T * H // 4
    assert seconds(1e9, 1.0, fused=frozenset([TensorRef(number)])) == moved - 2 * T * F // 8
    assert local_bytes(graph, TensorRef(number), plan.outputs[0], sizes) == 2 * T * F // 8


def test_attention_takes_its_own_rate() -> None:
    graph = attention()
    number = next(at for at, node in enumerate(graph.nodes) if node.kind is OperatorKind.ATTENTION)
    node = graph.nodes[number]
    whole = [replicated(len(operand.roles)) for operand in node.operands]
    made = [replicated(len(roles)) for roles in node.all_roles[len(whole) :]]
    plan = OperatorPlan(node.name, tuple(whole), tuple(made))

    def seconds(own: float | None) -> float:
        numbers = DeviceNumbers(4.0, inf, attention_flops_per_s=own)
        return operator_seconds(graph, number, plan, sizes={}, numbers=numbers, fused=frozenset())

    assert seconds(None) == operations(graph, node) / 4
    assert seconds(2.0) == operations(graph, node) / 2


def test_numbers_of_a_device() -> None:
    assert DeviceNumbers(1.0, 2.0) == DeviceNumbers(1.0, 2.0, 0.0, 30, 16)
    assert DeviceNumbers(1.0, 2.0, 0.0, 0, 0).stored_bytes == 0
    for flops, rate in ((0.0, 1.0), (1.0, 0.0), (-1.0, 1.0)):
        with pytest.raises(ScheduleError) as caught:
            DeviceNumbers(flops, rate)
        assert str(caught.value) == "device: expected FLOP/s and bytes/s above 0"
    for more in ((-1.0, 0, 0), (0.0, -1, 0), (0.0, 0, -1)):
        with pytest.raises(ScheduleError) as caught:
            DeviceNumbers(1.0, 1.0, *more)
        assert str(caught.value) == "device: expected seconds and bytes of 0 or more"
    device = Accelerator("d", MappingProxyType({"bf16": 80.0}), 10**9, 50.0, "guessed")
    times = RooflineTimes(device, "bf16", 0.25)
    found = DeviceNumbers.of(replace(times, memory_efficiency=0.5, kernel_s=0.5))
    assert (found.flops_per_s, found.memory_bytes_per_s, found.kernel_s) == (20, 25, 0.5)
    assert DeviceNumbers.of(replace(times, memory_efficiency=None)).memory_bytes_per_s == inf
    attending = replace(times, attention_efficiency=0.125)
    assert DeviceNumbers.of(attending).attention_flops_per_s == 10
    assert DeviceNumbers.of(times).attention_flops_per_s == 20
    # as the search prices them
    assert [seconds_of(attending, 40.0, 0.0, one) for one in (False, True)] == [2, 4]
    slow = replace(times, memory_efficiency=0.5, kernel_s=0.5)
    assert [seconds_of(slow, *work) for work in ((40.0, 25.0), (10.0, 100.0))] == [2 + 0.5, 4 + 0.5]
    assert seconds_of(replace(slow, memory_efficiency=None), 40.0, 1e9) == 2 + 0.5


GATHER = PricedCollective(CollectiveKind.ALLGATHER, ("x",), 10)


def part(compute: float, optimizer: float = 0.0, **moved: float) -> PartTimes:
    """Compute half forward, and collectives by role."""
    movements = tuple(
        Movement(GATHER, 1, seconds, "p", 0, "t", Phase.BACKWARD, "why", Role(role))
        for role, seconds in moved.items()
    )
    return PartTimes("p", 0, 1, compute / 2, compute / 2, optimizer, movements)


def test_times_of_a_part_add_up() -> None:
    one = part(10, 4, wait=16, saved=32, weight=64, gradient=128, sum=256)
    assert (one.compute_s, one.communication_s) == (14, 496)
    # the optimizer and the sums of gradients once for all micro-batches
    assert (one.serial_s(), one.overlapped_s()) == (30, 480)
    assert (one.serial_s(4), one.overlapped_s(4)) == (27, 288)


@pytest.mark.parametrize(
    ("overlap", "seconds"),
    [
        # pieces of (8 + 100 + 4), (100), (100 + 2), (1): stages of 214 and 101, and of 1 / 2 each of 4 once
        ("layer", 4 * 214 + 101 / 2),
        ("none", 4 * (5 + 1 + 8 + 4 + 100 + 1 + 100 + 1 + 2) + (1 + 100 + 1 + 1) / 2),
        # totals by piece: what lies beside is longer but in the last
        ("model", 4 * 208 + 101 / 2),
    ],
)
def test_a_pipeline_takes_its_slowest_stage_for_each_micro_batch_and_the_others_once(
    overlap: str, seconds: float
) -> None:
    """Two stages of two pieces; a switch counts with the piece that it leads into."""
    layers = [
        part(5, 4, weight=8),
        part(1, saved=100),
        part(1, sum=400),
        part(1, gradient=100),
        part(1, weight=0.5, sum=2),
    ]
    pipeline = Pipeline("pp", (2, 1, 1, 1), 4, 2)
    assert _seconds(layers, [0.0, 4.0, 0.0, 2.0, 0.0], overlap, pipeline, 1) == pytest.approx(seconds)


def test_contention_adds_a_share_of_the_shorter_of_computing_and_communicating() -> None:
    layers = [part(5, 4, weight=8, wait=7), part(1, saved=100)]
    assert _seconds(layers, [0.0, 2.0], "layer", None, 1.25) == 16 + 8 / 4 + 100 + 1 / 4 + 2
    assert _seconds(layers, [0.0, 2.0], "none", None, 1.25) == 16 + 8 + 1 + 100 + 2
    assert _seconds(layers, [0.0, 2.0], "model", None, 1.25) == 108 + (16 + 1 + 2) / 4


MODEL = small_model(3, T, H, F)


def test_what_a_plan_holds_and_does_throughout() -> None:
    """Three blocks and a head whose weights lie in halves; the step's optimizer moves 6 bytes each."""
    mesh = Mesh((2,), ("x",))
    plan = plain_plan(MODEL, mesh)
    block = plan.parts["block"][0]
    stored = {"up": Sharding((("x",), ())), "down": replicated(2)}
    plan = replace(plan, parts={**plan.parts, "block": (replace(block, parameters=stored),)})
    costs = AlphaBetaCosts(0, {(kind, ("x",)): 10 for kind in CollectiveKind})
    numbers = DeviceNumbers(1.0, 2.0, 0.0, 6, 5)
    found = evaluate(plan, MODEL, costs, numbers)
    elements = H * F // 2 + F * H
    times = {one.part: one for one in found.parts}
    assert times["block"].optimizer_s == 6 * elements / 2
    assert times["block"].runs == 3
    held = {(one.why, one.tensor): one.n_bytes for one in found.peak.contents}
    assert held["parameters, gradients and optimizer", "block"] == 3 * 5 * elements
    assert held["parameters, gradients and optimizer", "head"] == 5 * H
    assert held["between layers", "block"] == 3 * 2 * T * H
    # `up` is gathered for both passes, its gradient cut without anybody
    gathered = PricedCollective(CollectiveKind.ALLGATHER, ("x",), 2 * H * F)
    moved = [(one.collective, one.count, one.phase) for one in times["block"].movements]
    assert moved == [(gathered, 1, Phase.FORWARD), (gathered, 1, Phase.BACKWARD)]
    seconds = float(costs.time_s(CollectiveKind.ALLGATHER, ("x",), 2 * H * F))
    assert [one.seconds for one in times["block"].movements] == [seconds, seconds]
    assert found.communication_s == 6 * seconds
    assert dict(found.collectives) == {(CollectiveKind.ALLGATHER, ("x",), 2 * H * F): 6}
    assert found.by_axes[("x",)] == (6, 6 * 2 * H * F, pytest.approx(6 * seconds))
