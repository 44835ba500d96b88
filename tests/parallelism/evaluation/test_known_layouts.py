"""Layouts that people know, on a block of Llama: each collective and its bytes, derived by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from parallelism.evaluation.named_layouts import both, by_letter, laid_out
from reference.parallelism.legality import violations
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.part_times import PartTimes
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.plan.part_plan import Boundary
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts
from treadle.training.models.zoo import zoo_model

GATHER, SCATTER, REDUCE, EXCHANGE = (
    CollectiveKind.ALLGATHER,
    CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALLREDUCE,
    CollectiveKind.ALLTOALL,
)
BATCH, TOKENS, HIDDEN, INNER, HEADS, KEY_HEADS, SIZE = 16, 8192, 4096, 14336, 32, 8, 128
MODEL = model_graph(zoo_model("llama-3-8b"), batch=BATCH, sequence=TOKENS)
DEVICE = DeviceNumbers(5e14, 2.5e12)
WEIGHTS = {
    "layers.*.attention.wq.weight": HIDDEN * HIDDEN,
    "layers.*.attention.wk.weight": HIDDEN * KEY_HEADS * SIZE,
    "layers.*.attention.wv.weight": HIDDEN * KEY_HEADS * SIZE,
    "layers.*.attention.wo.weight": HIDDEN * HIDDEN,
    "layers.*.feed_forward.w1.weight": HIDDEN * INNER,
    "layers.*.feed_forward.w2.weight": HIDDEN * INNER,
    "layers.*.feed_forward.w3.weight": HIDDEN * INNER,
    "layers.*.attention_norm.weight": HIDDEN,
    "layers.*.ffn_norm.weight": HIDDEN,
}
"""Elements of a block's parameters."""


def costs(*axes: str) -> AlphaBetaCosts:
    groups = [some for n in range(1, len(axes) + 1) for some in combinations(axes, n)]
    return AlphaBetaCosts(1e-6, {(kind, some): 100e9 for kind in CollectiveKind for some in groups})


def whole(path: str, letters: tuple[str, ...]) -> Sharding:
    del path
    return Sharding(((),) * len(letters))


def evaluated(plan: ParallelPlan, overlap: str = "layer") -> Evaluation:
    assert not violations(plan, MODEL)
    return evaluate(plan, MODEL, costs(*plan.mesh.axis_names), DEVICE, overlap=overlap)


def block_of(found: Evaluation) -> PartTimes:
    return next(one for one in found.parts if one.part == "block")


def moved(times: PartTimes, *phases: Phase) -> Counter[tuple[CollectiveKind, tuple[str, ...], int]]:
    return Counter(
        {
            key: sum(
                one.count
                for one in times.movements
                if (one.collective.kind, one.collective.axes, one.collective.size_bytes) == key
                and one.phase in phases
            )
            for key in {
                (one.collective.kind, one.collective.axes, one.collective.size_bytes)
                for one in times.movements
                if one.phase in phases
            }
        }
    )


def data_parallel(store: object = whole, axis: str = "dp") -> ParallelPlan:
    return laid_out(
        MODEL,
        Mesh((8,), (axis,)),
        by_letter(axis, "b"),
        boundary={axis: "b"},
        stored=store,  # type: ignore[arg-type]
    )


def test_replicas_add_each_gradient_once() -> None:
    times = block_of(evaluated(data_parallel()))
    assert moved(times, Phase.FORWARD) == Counter()
    assert moved(times, Phase.BACKWARD) == Counter((REDUCE, ("dp",), 2 * n) for n in WEIGHTS.values())
    assert times.communication_s == pytest.approx(9e-6 + 2 * sum(WEIGHTS.values()) / 100e9)


def test_sharded_weights_are_gathered_twice_and_their_gradients_scattered() -> None:
    plan = data_parallel(lambda path, letters: Sharding((("dp",), *((),) * (len(letters) - 1))))
    times = block_of(evaluated(plan))
    gathers = Counter((GATHER, ("dp",), 2 * n) for n in WEIGHTS.values())
    assert moved(times, Phase.FORWARD) == gathers
    assert moved(times, Phase.BACKWARD) == gathers + Counter(
        (SCATTER, ("dp",), 2 * n) for n in WEIGHTS.values()
    )


def tensor_parallel() -> ParallelPlan:
    def stored(path: str, letters: tuple[str, ...]) -> Sharding:
        del path
        cut = next((letter for letter in letters if letter in "kfv"), None)
        return Sharding(tuple(("tp",) if letter == cut else () for letter in letters))

    cut = by_letter("tp", "k", "f", "v", "s")
    return laid_out(MODEL, Mesh((8,), ("tp",)), cut, boundary={"tp": "s"}, stored=stored)


def test_tensor_and_sequence_parallelism_gather_and_scatter_tokens_around_each_half() -> None:
    """Korthikanti et al. 2022; what is saved in shards is gathered once more for the weights' gradients."""
    times = block_of(evaluated(tensor_parallel()))
    tokens = 2 * BATCH * TOKENS * HIDDEN
    assert moved(times, Phase.FORWARD) == {(GATHER, ("tp",), tokens): 2, (SCATTER, ("tp",), tokens): 2}
    assert moved(times, Phase.BACKWARD) == {
        (GATHER, ("tp",), tokens): 4,
        (SCATTER, ("tp",), tokens): 2,
        (REDUCE, ("tp",), 2 * HIDDEN): 2,
    }


def test_context_parallelism_gathers_keys_and_values() -> None:
    plan = laid_out(MODEL, Mesh((8,), ("cp",)), by_letter("cp", "s"), boundary={"cp": "s"}, stored=whole)
    times = block_of(evaluated(plan))
    one = 2 * BATCH * TOKENS * KEY_HEADS * SIZE
    assert moved(times, Phase.FORWARD) == {(GATHER, ("cp",), one): 2}
    gradients = Counter((REDUCE, ("cp",), 2 * n) for n in WEIGHTS.values())
    assert moved(times, Phase.BACKWARD) == gradients + Counter(
        {(GATHER, ("cp",), one): 2, (SCATTER, ("cp",), one): 2}
    )


def test_a_mesh_of_both_gathers_along_each_axis_its_own() -> None:
    def stored(path: str, letters: tuple[str, ...]) -> Sharding:
        del path
        cut = next((letter for letter in letters if letter in "kfv"), None)
        rest = next(letter for letter in letters if letter != cut)
        return Sharding(tuple(("tp",) if one == cut else ("dp",) if one == rest else () for one in letters))

    cut = both(by_letter("dp", "b"), by_letter("tp", "k", "f", "v", "s"))
    plan = laid_out(MODEL, Mesh((4, 2), ("dp", "tp")), cut, boundary={"dp": "b", "tp": "s"}, stored=stored)
    found = evaluated(plan)
    times = block_of(found)
    forward = moved(times, Phase.FORWARD)
    tokens = 2 * BATCH * TOKENS * HIDDEN // 4
    assert forward[GATHER, ("tp",), tokens] == forward[SCATTER, ("tp",), tokens] == 2
    for path, n in WEIGHTS.items():
        assert forward[GATHER, ("dp",), 2 * n // (1 if "norm" in path else 2)] >= 1
    counts = {axes: count for axes, (count, _, _) in found.by_axes.items()}
    # a block's seven matrices three times, its norms' weights twice (gradients are reduced over both axes);
    # likewise the embedding without its gather in the backward pass, and the head
    assert counts["dp",] == 32 * (7 * 3 + 2 * 2) + 2 + 5
    assert sum(found.collectives.values()) == sum(counts.values())


def test_compute_is_flops_over_the_rate_or_bytes_over_the_memorys() -> None:
    """Products of a block: 6 operations for each weight and token; attention 2 + 5 halves of products."""
    found = evaluated(data_parallel())
    tokens = BATCH * TOKENS // 8
    products = 6 * sum(n for path, n in WEIGHTS.items() if "norm" not in path) * tokens
    scores = BATCH // 8 * HEADS * TOKENS * TOKENS * SIZE
    attention = (4 * scores + 2.5 * 4 * scores) / 2
    times = block_of(found)
    flops_s = (products + attention) / DEVICE.flops_per_s
    # norms, rotations, activation and sums reach memory; their tensors by hand
    assert flops_s < times.forward_s + times.backward_s < 1.2 * flops_s
    assert times.optimizer_s == pytest.approx(30 * sum(WEIGHTS.values()) / DEVICE.memory_bytes_per_s)


def test_bytes_of_a_norm_are_what_it_reads_and_writes() -> None:
    light = replace(DEVICE, flops_per_s=1e30)
    plan = data_parallel()
    found = evaluate(plan, MODEL, costs("dp"), light)
    by_hand = 0
    block = MODEL.part("block")
    for number, node in enumerate(block.graph.nodes):
        own = [one.tensor for one in node.operands]
        own += [type(own[0])(number, slot) for slot in range(len(node.results))] if node.operands else []
        if node.kind in (OperatorKind.PLACEHOLDER, OperatorKind.OUTPUT):
            continue
        for tensor in own:
            by_hand += block.graph.nbytes(tensor) // (1 if "b" not in _letters(block.graph, tensor) else 8)
    times = block_of(found)
    # fused: sums of gradients that only a norm's gradient reads
    assert 0.85 * by_hand < (times.forward_s + times.backward_s) * light.memory_bytes_per_s <= by_hand


def _letters(graph: object, tensor: object) -> set[str]:
    dims = graph.result(tensor).dims  # type: ignore[attr-defined]
    return {graph.atoms[index.atom].name for dim in dims for index in dim}  # type: ignore[attr-defined]


def test_overlap_is_counted_per_layer_nowhere_or_over_all() -> None:
    plan = tensor_parallel()
    layer, none, model = (evaluated(plan, one) for one in ("layer", "none", "model"))
    pairs = [(one.runs, one.serial_s(), one.overlapped_s()) for one in layer.parts]
    assert layer.seconds == pytest.approx(sum(n * max(c, w) for n, c, w in pairs))
    assert none.seconds == pytest.approx(sum(n * (c + w) for n, c, w in pairs))
    assert model.seconds == pytest.approx(
        max(sum(n * c for n, c, _ in pairs), sum(n * w for n, _, w in pairs))
    )
    # a block waits for its gathers and scatters of tokens, but for two gathers of what it saved in shards
    block = block_of(layer)
    gather_s = 1e-6 + 2 * BATCH * TOKENS * HIDDEN / 100e9
    norms_s = 2 * (1e-6 + 2 * HIDDEN / 100e9)
    assert block.serial_s() == pytest.approx(block.compute_s + 8 * gather_s)
    assert block.overlapped_s() == pytest.approx(2 * gather_s + norms_s)
    with pytest.raises(ScheduleError, match="overlap 'some'"):
        evaluate(plan, MODEL, costs("tp"), DEVICE, overlap="some")


def test_mixed_layers_are_counted_one_by_one_and_switches_are_paid() -> None:
    """Half of the layers cut samples, half tensors: two switches of the activation and of its gradient."""
    mesh = Mesh((8,), ("x",))
    data = data_parallel(axis="x")
    cut = by_letter("x", "k", "f", "v", "s")
    tensor = laid_out(MODEL, mesh, cut, boundary={"x": "s"}, stored=whole)
    own = replace(tensor.parts["block"][0], boundary=tensor.boundary)
    mixed = replace(
        data,
        parts={**data.parts, "block": (data.parts["block"][0], own)},
        layers={"block": (0,) * 8 + (1,) * 16 + (0,) * 8},
    )
    first, second, found = evaluated(data), evaluated(tensor), evaluated(mixed)
    tokens = 2 * BATCH * TOKENS * HIDDEN // 8
    assert [(one.collective.kind, one.collective.size_bytes) for one in found.switches] == [
        (EXCHANGE, tokens)
    ] * 4
    ends = sum(max(one.serial_s(), one.overlapped_s()) for one in first.parts if one.part != "block")
    layers = [max(block_of(one).serial_s(), block_of(one).overlapped_s()) for one in (first, second)]
    assert found.seconds == pytest.approx(
        ends + 16 * layers[0] + 16 * layers[1] + 4 * (1e-6 + tokens / 100e9)
    )
    # a layer's own boundary is that of the plan where it names none
    same = replace(mixed, boundary=Boundary(own.boundary.activation, own.boundary.gradient))
    assert evaluated(replace(same, layers={"block": (1,) * 31 + (0,)})).switches == ()


def test_stages_take_their_layers_and_hold_what_is_in_flight() -> None:
    mesh = Mesh((2, 8), ("pp", "dp"))
    one = data_parallel()
    plan = replace(one, mesh=mesh, pipeline=Pipeline("pp", (17, 17), 4))
    alone, found = evaluated(one), evaluated_in_stages(plan)
    first, block, last = (max(times.serial_s(4), times.overlapped_s(4)) for times in alone.parts)
    stages = [first + 16 * block, 16 * block + last]
    assert found.seconds == pytest.approx(4 * max(stages) + min(stages))
    # the first stage has two micro-batches in flight: saved tensors of 16 layers, twice, against 32 once
    held = {held.tensor: held.n_bytes for held in alone.peak.contents if held.why == "saved"}
    staged = next(m for m in found.moments if m.part == "block" and m.phase is Phase.BACKWARD)
    for held_now in staged.contents:
        if held_now.why == "saved" and held_now.tensor.startswith("block/"):
            assert held_now.n_bytes in (held[held_now.tensor], held[held_now.tensor] // 2)


def evaluated_in_stages(plan: ParallelPlan) -> Evaluation:
    rates = {
        **costs(*plan.mesh.axis_names).rates,
        (None, ("pp",)): 50e9,
    }
    return evaluate(plan, MODEL, AlphaBetaCosts(1e-6, rates), DEVICE)
