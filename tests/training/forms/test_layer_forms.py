"""What tensor, context and expert parallelism make of a layer's passes."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from samples.training.small_steps import free_costs, mesh_of, plain_layers, small_step
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts
from treadle.training.forms.axes import ParallelLayout
from treadle.training.forms.layer_forms import layer_passes, with_quicker_order
from treadle.training.forms.layer_passes import LayerAction, LayerSeconds
from treadle.training.forms.rank_part import rank_part
from treadle.training.models.model_layer import Attended, ModelLayer, Saved, Weight, Work, WorkKind
from treadle.training.models.zoo import zoo_model
from treadle.training.timeline.task import Category
from treadle.training.training_options import ExpertOrder, TrainingOptions

GATHER, SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER
SUM, EXCHANGE = CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
CAUSAL = Work("scores", WorkKind.ATTENTION, flops_per_context=1, attended=Attended())
SECONDS = LayerSeconds((4, 8), (2, 5), (3, 6))


def passes(
    mesh: Mesh,
    seconds: LayerSeconds = SECONDS,
    tokens: int = 8,
    options: dict[str, Any] | None = None,
    **fields: Any,
) -> tuple[list[str], list[str]]:
    """Forward and backward pass in words: seconds, exchanges with their bytes, or both at once."""
    (layer,) = plain_layers(1, boundary_elements=10, **fields)
    chosen = TrainingOptions(kappa=1, element_bytes=1, **(options or {}))
    share = rank_part(ParallelLayout(mesh), chosen, ParallelLayout(mesh).replicas, {"": tokens})
    found = layer_passes(layer, seconds, share)
    return [words(action) for action in found.forward], [words(action) for action in found.backward]


def words(action: LayerAction) -> str:
    exchange = action.exchange
    parts = [f"{action.seconds}"] if action.seconds else []
    if exchange is not None:
        parts.append(f"{exchange.kind or 'send'} {','.join(exchange.axes)} {exchange.size_bytes}")
    return " + ".join(parts) + (" again" if action.is_recomputed else "")


def test_tensor_parallelism_with_sequence_parallelism() -> None:
    """Two blocks, attention in the middle of the first; each begins with a gather and ends with a scatter.

    Inputs, of which memory counts a rank's part, are gathered again beside half of what a block begins with.
    """
    forward, backward = passes(mesh_of(tp=2), LayerSeconds((4, 8), (2, 5)), reductions=2)
    gather, scatter = "allgather tp 80", "reduce-scatter tp 80"
    assert forward == [gather, "1", "2", "1", scatter, gather, "2", scatter]
    again = f"2 + {gather}", "2", scatter, gather, "2", "5", f"1 + {gather}", "1"
    assert backward == [gather, *again, scatter]


def test_rows_of_a_table_need_no_input_again() -> None:
    lookup = Work("rows", WorkKind.LOOKUP, moved_elements=2)
    _, backward = passes(mesh_of(tp=2), LayerSeconds((4, 8)), works=(lookup,), reductions=1)
    assert backward == ["allgather tp 80", "8", "reduce-scatter tp 80"]


def test_tensor_parallelism_by_sums() -> None:
    """Outputs are summed after a block, gradients of inputs after its backward pass."""
    options = {"sequence_parallel": False}
    forward, backward = passes(mesh_of(tp=2), LayerSeconds((4, 8)), options=options, reductions=2)
    assert forward == ["2", "allreduce tp 80", "2", "allreduce tp 80"]
    assert backward == ["4", "allreduce tp 80", "4", "allreduce tp 80"]


def test_layers_without_reductions_send_nothing_along_tp() -> None:
    assert passes(mesh_of(tp=2), LayerSeconds((4, 8))) == (["4"], ["8"])


def test_keys_and_values_are_gathered_before_attention() -> None:
    """4 elements for each of 8 / 2 tokens of a rank."""
    forward, backward = passes(mesh_of(cp=2), LayerSeconds((4, 8), (2, 5)), kv_elements=4)
    assert forward == ["2", "allgather cp 32", "2", "2"]
    # a rank keeps its own: they are gathered again for the backward pass
    assert backward == ["4", "allgather cp 32", "5", "reduce-scatter cp 32", "4"]
    for pieces, size in ((4, 8), (2, 16), (1, 32)):
        layer: dict[str, Any] = {"kv_elements": 4, "kv_pieces": pieces}
        cut, _ = passes(mesh_of(cp=2, tp=4), LayerSeconds((4, 8), (2, 5)), **layer)
        assert f"allgather cp {size}" in cut, "heads are cut, not copied, as far as there are any"


def test_a_ring_sends_keys_and_values_while_it_attends() -> None:
    options = {"context_exchange": "ring"}
    forward, backward = passes(mesh_of(cp=4), LayerSeconds((4, 8), (2, 4)), options=options, kv_elements=4)
    assert forward == ["2", *["1/2 + send cp 8"] * 3, "1/2", "2"]
    assert backward == ["4", *["1 + send cp 16"] * 3, "1", "send cp 8", "4"]


def test_a_ring_hides_sends_behind_attention() -> None:
    """8 bytes in 4 s beside 1 s of attention: each of 3 rounds takes 4 s, the last one 1 s."""
    mesh = mesh_of(cp=4)
    layers = plain_layers(1, kv_elements=4, weights=())
    step = small_step(
        layers,
        mesh,
        free_costs(mesh, {None: 2}),
        seconds=LayerSeconds((0, 0), (4, 0)),
        tokens=8,
        context_exchange="ring",
    )
    assert step.times("l0", "forward")[-1] == (12, 13)


def test_a_ring_waits_for_attention_as_well() -> None:
    """Rounds of 4 s of attention, sends of 1 s."""
    mesh = mesh_of(cp=4)
    layers = plain_layers(1, kv_elements=4, weights=())
    seconds = LayerSeconds((0, 0), (16, 0))
    step = small_step(
        layers, mesh, free_costs(mesh, {None: 8}), seconds=seconds, tokens=8, context_exchange="ring"
    )
    assert step.times("l0", "send")[:3] == [(0, 1), (4, 5), (8, 9)]


def test_uneven_parts_of_causal_attention_take_up_to_twice_as_long() -> None:
    """The last of 2 ranks attends to 3/4 of the sequence; the mean is a half."""
    options = {"is_causal_balanced": False}
    forward, _ = passes(mesh_of(cp=2), LayerSeconds((0, 0), (2, 4)), options=options, works=(CAUSAL,))
    assert "3" in forward
    full = Work("scores", WorkKind.ATTENTION, flops_per_context=1, attended=Attended(is_causal=False))
    assert "2" in passes(mesh_of(cp=2), LayerSeconds((0, 0), (2, 4)), options=options, works=(full,))[0]


def experts(n_exchanges: int = 2, **fields: Any) -> dict[str, Any]:
    weights = (Weight("w", 8), Weight("experts", 64, expert=True))
    return {
        "experts": 4,
        "top_k": 2,
        "routed_elements": 20,
        "exchanges": n_exchanges,
        "weights": weights,
        **fields,
    }


def test_tokens_go_to_experts_and_back() -> None:
    forward, backward = passes(mesh_of(ep=4), LayerSeconds((4, 8), expert=(3, 6)), **experts())
    assert forward == ["4", "alltoall ep 160", "3", "alltoall ep 160"]
    assert backward == ["alltoall ep 160", "6", "alltoall ep 160", "8"]
    # Without the axis, experts are where the tokens are.
    assert passes(mesh_of(dp=4), LayerSeconds((4, 8), expert=(3, 6)), **experts())[0] == ["4", "3"]


def test_padding_is_sent_as_well() -> None:
    options = {"capacity_factor": Fraction(5, 4)}
    assert "alltoall ep 200" in passes(mesh_of(ep=4), options=options, **experts())[0]


def test_tables_are_exchanged_once_before_all_else() -> None:
    forward, backward = passes(mesh_of(ep=4), LayerSeconds((4, 8), expert=(3, 6)), **experts(1))
    assert forward == ["3", "alltoall ep 160", "4"]
    assert backward == ["8", "alltoall ep 160", "6"]


EXPERT_ORDERS = {
    # 160 bytes of copies, 80 of tokens, of which each of two ranks has half
    ("exchange-first", True): (
        ["alltoall ep 80", "allgather tp 160"],
        ["reduce-scatter tp 160", "alltoall ep 80"],
    ),
    ("exchange-first", False): (
        ["alltoall ep 80", "allgather tp 160"],
        ["reduce-scatter tp 160", "alltoall ep 80", "allgather tp 80"],
    ),
    ("gather-first", True): (
        ["allgather tp 80", "alltoall ep 160"],
        ["alltoall ep 160", "reduce-scatter tp 80"],
    ),
    ("gather-first", False): (["alltoall ep 160"], ["alltoall ep 160", "allreduce tp 80"]),
}


@pytest.mark.parametrize(("order", "spread"), EXPERT_ORDERS)
def test_either_the_exchange_or_the_gather_carries_all_copies(order: str, *, spread: bool) -> None:
    there, back = EXPERT_ORDERS[order, spread]
    chosen = {"expert_order": ExpertOrder(order), "sequence_parallel": spread}
    seconds = LayerSeconds((0, 0), expert=(3, 6))
    forward, backward = passes(mesh_of(ep=4, tp=2), seconds, options=chosen, **experts(reductions=1))
    assert [one for one in forward if one] == [*there, "3", *back]
    assert [one for one in backward if one] == [*there, "3 + allgather tp 160", "3", *back]


@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize(("inner", "outer"), [(1, 100), (100, 1)])
def test_the_quicker_order_of_exchange_and_gather_is_taken(inner: int, outer: int, *, spread: bool) -> None:
    """Copies along the faster axis."""
    mesh = mesh_of(ep=4, tp=2)
    options = TrainingOptions(kappa=1, sequence_parallel=spread)
    share = rank_part(ParallelLayout(mesh), options, 4, {"": 8})
    rates = {
        (kind, axes): rate for kind in CollectiveKind for axes, rate in ((("tp",), inner), (("ep",), outer))
    }
    layers = plain_layers(1, boundary_elements=10, **experts(reductions=1))
    found = with_quicker_order(share, layers, AlphaBetaCosts(0, rates)).options.expert_order
    assert found is (ExpertOrder.GATHER_FIRST if outer > inner else ExpertOrder.EXCHANGE_FIRST)
    alone = rank_part(ParallelLayout(mesh_of(ep=4)), options, 4, {"": 8})
    assert with_quicker_order(alone, layers, AlphaBetaCosts(0, {})) is alone
    assert with_quicker_order(share, plain_layers(1), AlphaBetaCosts(0, {})) is share


def test_copies_of_qwen3() -> None:
    """8 of ep with 8 sequences of 4096 tokens each: 268,435,456 bytes, and 8 copies of each token."""
    model = zoo_model("qwen3-235b-a22b")
    layer = next(layer for layer in model.layers if layer.exchanges)
    share = rank_part(ParallelLayout(mesh_of(ep=8, tp=8)), TrainingOptions(kappa=1), 64, {"": 4096})
    found = layer_passes(layer, SECONDS, share)
    moved = {(str(one.kind), one.size_bytes) for action in found.forward if (one := action.exchange)}
    tokens, copies = 8 * 4096 * 4096 * 2, 8 * 8 * 4096 * 4096 * 2
    assert moved == {
        *(("allgather", size) for size in (tokens, copies)),
        *(("reduce-scatter", size) for size in (tokens, copies)),
        ("alltoall", copies // 8),
    }


def test_recomputing_repeats_the_forward_pass_or_its_attention() -> None:
    seconds = LayerSeconds((4, 8), (2, 5))
    _, full = passes(mesh_of(cp=2), seconds, options={"recompute": "full"}, kv_elements=4)
    assert full == [
        "2 again",
        "allgather cp 32 again",
        "2 again",
        "2 again",
        "4",
        "allgather cp 32",
        "5",
        "reduce-scatter cp 32",
        "4",
    ]
    _, some = passes(mesh_of(cp=2), seconds, options={"recompute": "attention"}, kv_elements=4)
    assert some == ["4", "allgather cp 32", "2 again", "5", "reduce-scatter cp 32", "4"]


def test_only_blocks_are_computed_again() -> None:
    """The head's logits are kept, and the rows of a table were only read."""
    lookup = Work("rows", WorkKind.LOOKUP, moved_elements=2)
    for fields in ({"saved": (Saved("logits", 2),)}, {"works": (lookup,), "reductions": 1}):
        asked: dict[str, Any] = {"options": {"recompute": "full"}, **fields}
        _, full = passes(mesh_of(tp=2), LayerSeconds((4, 8)), **asked)
        assert "8" in full
        assert not [one for one in full if "again" in one]
    _, block = passes(
        mesh_of(tp=2), LayerSeconds((4, 8)), works=(lookup, CAUSAL), options={"recompute": "full"}
    )
    assert block == ["4 again", "8"]


def test_nothing_is_computed_during_an_alltoall() -> None:
    """l1's bucket, 8 bytes at 1/s, holds back the all-to-alls of l0's backward pass.

    Forward: 1 + 2 + 3 + 2 for each layer (2 s an all-to-all of 4 bytes), 0-16. Backward of l1: 16-18, 18-24
    (experts), 24-26, 26-28; its bucket 28-36; l0: all-to-all 36-38, 38-44, 44-46, 46-48; its bucket 48-56.
    """
    mesh = mesh_of(ep=4)
    costs = free_costs(mesh, {EXCHANGE: 2, SUM: 1})
    layers = plain_layers(2, **experts(routed_elements=4))
    step = small_step(layers, mesh, costs, seconds=LayerSeconds((1, 2), expert=(3, 6)))
    assert step.times("bucket 0", "allreduce") == [(28, 36)]
    assert step.times("l0", "alltoall")[2:] == [(36, 38), (44, 46)]
    assert step.times("l0", "backward") == [(38, 44), (46, 48)]
    assert step.timeline.total_s == 56
    parts = step.timeline.device_time(0)
    assert parts.exposed_s == {Category.ALLTOALL: 8 * 2, Category.ALLREDUCE: 2 * 8}
    assert {task.size_bytes for task in step.of("allreduce")} == {8}, "experts have one rank each"


def test_an_alltoall_may_overtake_buckets_that_wait() -> None:
    """Forward 0-12, backward of l1 12-14, 14-15, 15-17, 17-19, and then two buckets of it, 8 s each.

    In order of issue 19-27, 27-35, and l0's all-to-alls after them. Overtaking: all-to-all 19-21, bucket
    21-29, beside which experts compute, all-to-all 29-31, bucket 31-39.
    """
    mesh = mesh_of(ep=4)
    costs = free_costs(mesh, {EXCHANGE: 2, SUM: 1})
    fields = experts(routed_elements=4)
    fields["weights"] = (Weight("v", 8), *fields["weights"])
    layers = plain_layers(2, **fields)
    seconds = LayerSeconds((1, 2), expert=(1, 1))
    plain = small_step(layers, mesh, costs, seconds=seconds)
    quick = small_step(layers, mesh, costs, seconds=seconds, alltoall_overtakes=True)
    assert plain.times("l0", "alltoall")[2:] == [(35, 37), (38, 40)]
    assert quick.times("l0", "alltoall")[2:] == [(19, 21), (29, 31)]
    assert [quick.times(f"bucket {k}", "allreduce") for k in (0, 1)] == [[(21, 29)], [(31, 39)]]


def test_experts_of_several_replicas_are_summed_apart() -> None:
    mesh = mesh_of(dp=2, ep=4)
    step = small_step(plain_layers(1, **experts()), mesh, free_costs(mesh), seconds=SECONDS)
    found = {(task.traffic, task.size_bytes) for task in step.of("allreduce")}
    assert found == {((SUM, ("dp", "ep")), 8), ((SUM, ("dp",)), 16)}


def test_axes_without_a_meaning_are_refused_with_those_that_have_one() -> None:
    with pytest.raises(
        ScheduleError, match=r"axis 'data' has no meaning here \(dp: replicas.*; pp: layers cut"
    ):
        ParallelLayout(mesh_of(data=2))


def test_what_cannot_be_shared_is_refused() -> None:
    layout = ParallelLayout(mesh_of(dp=4, cp=4))
    options = TrainingOptions(kappa=1, micro_batches=2)
    with pytest.raises(ScheduleError, match=r"batch of 12: expected a multiple of 8 \(4 replicas"):
        rank_part(layout, options, 12, {"": 8})
    with pytest.raises(ScheduleError, match=r"sequences of 6 tokens: expected a multiple of cp, 4"):
        rank_part(layout, options, 8, {"": 6})
    assert rank_part(layout, options, 16, {"": 8}).rank_tokens("") == 4


def test_weights_that_are_not_cut_are_whole_on_every_rank() -> None:
    layer = ModelLayer("l", weights=(Weight("norm", 6, split=False), Weight("w", 8)))
    share = rank_part(ParallelLayout(mesh_of(tp=4, fsdp=2)), TrainingOptions(kappa=1), 2, {"": 1})
    assert share.layer_elements(layer, expert=False) == 6 + 2
    assert share.held_elements(layer) == 4
