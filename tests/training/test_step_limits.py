"""Texts, defaults and limits of steps' parts: at the number that is still allowed and one beyond."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any, cast

import pytest

from samples.training.small_steps import mesh_of
from treadle.errors import FormatError, ScheduleError, TreadleError
from treadle.schedules.collective import CollectiveKind
from treadle.training import compute_times, devices
from treadle.training.compute_times import (
    LocalWork,
    MeasuredLayer,
    MeasuredTimes,
    RooflineTimes,
    read_layer_times,
)
from treadle.training.costs import AlphaBetaCosts, RememberedCosts, exact, format_traffic
from treadle.training.device_memory import ActivationPolicy, MemoryParts, memory_parts, missing_bytes
from treadle.training.devices import Accelerator, read_accelerator
from treadle.training.forms.axes import ParallelLayout
from treadle.training.forms.rank_part import rank_part
from treadle.training.models.model_layer import ModelLayer, Saved, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel
from treadle.training.timeline.contention import Contention
from treadle.training.training_options import BUCKETS, TrainingOptions

GATHER = CollectiveKind.ALLGATHER
PLAIN = Accelerator("plain", MappingProxyType({"bf16": 1e12, "fp32": 1e11}), 2**30, 1e9, "")


def test_options_that_nobody_chose() -> None:
    found = TrainingOptions(kappa=1)
    assert (found.micro_batches, found.interleave, found.prefetch) == (1, 1, 1)
    assert (found.bucket_bytes, found.first_bucket_bytes, found.reshard_after_forward) == (None, None, None)
    assert (found.sequence_parallel, found.is_causal_balanced, found.alltoall_overtakes) == (
        True,
        True,
        False,
    )
    assert (found.recompute.value, found.context_exchange.value, found.streams.value) == (
        "none",
        "gather",
        "per-axis",
    )
    assert (found.element_bytes, found.gradient_bytes, found.weight_bytes) == (2, 2, 2)
    assert (found.optimizer_bytes, found.has_fused_attention, found.has_optimizer) == (12, True, True)
    assert found.capacity_factor == 1
    assert found.layers_per_chunk is None
    assert BUCKETS == (2**20, 10 * 2**20, 100 * 2**20, 2**30)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("micro_batches", 1),
        ("interleave", 1),
        ("bucket_bytes", 1),
        ("first_bucket_bytes", 1),
        ("prefetch", 0),
        ("element_bytes", 1),
        ("gradient_bytes", 1),
        ("weight_bytes", 1),
        ("optimizer_bytes", 0),
    ],
)
def test_options_begin_somewhere(name: str, least: int) -> None:
    fields: dict[str, Any] = {"kappa": 1, name: least}
    assert getattr(TrainingOptions(**fields), name) == least
    with pytest.raises(ScheduleError, match=f"^{name} {least - 1}; expected {least} or more$"):
        TrainingOptions(**{**fields, name: least - 1})


def test_kappa_is_one_to_two() -> None:
    for kappa in (1, Fraction(3, 2), 2):
        assert TrainingOptions(kappa=kappa).kappa == Contention(kappa).kappa == kappa
    for kappa in (Fraction(99, 100), Fraction(201, 100)):
        words = re.escape(f"kappa {kappa}; expected 1 (overlap is free) to 2 (it gains nothing)")
        with pytest.raises(ScheduleError, match=f"^{words}$"):
            TrainingOptions(kappa=kappa)
        with pytest.raises(ScheduleError, match=f"^contention: {words}$"):
            Contention(kappa)
    words = "^layers_per_chunk: expected at least one layer in each piece of the model$"
    for layers in ((), (2, 0)):
        with pytest.raises(ScheduleError, match=words):
            TrainingOptions(kappa=1, layers_per_chunk=layers)
    with pytest.raises(ScheduleError, match=r"^zero 3; expected 0, 1 or 2 \(stage 3 is an axis fsdp\)$"):
        TrainingOptions(kappa=1, zero=3)
    with pytest.raises(ScheduleError, match=r"^capacity factor 0; expected more than 0$"):
        TrainingOptions(kappa=1, capacity_factor=Fraction(0))
    with pytest.raises(ScheduleError, match=r"^context_exchange 'rings'; expected gather, ring$"):
        TrainingOptions(kappa=1, context_exchange="rings")  # type: ignore[arg-type]


def test_costs_say_which_number_is_wrong() -> None:
    send = (None, ("pp",))
    both = (GATHER, ("dp", "ep"))
    assert format_traffic(both) == "allgather along dp,ep"
    assert AlphaBetaCosts(0, {}).summary == "alpha and rate"
    assert not AlphaBetaCosts(0, {}).is_bound
    for fields, message in (
        ((Fraction(-1, 2), {}), "costs: alpha of -1/2 s; expected 0 or more"),
        ((0, {both: 3, send: 0}), "costs: send along pp at 0 bytes/s; expected more than 0"),
        (
            (0, {}, {(both, send): (1, Fraction(99, 100))}),
            "costs: slowdowns of allgather along dp,ep, send along pp: expected a number of at least 1 for "
            "each",
        ),
        (
            (0, {}, {(both, send): (1,)}),
            "costs: slowdowns of allgather along dp,ep, send along pp: expected a number of at least 1 for "
            "each",
        ),
    ):
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            AlphaBetaCosts(*cast(Any, fields))
    assert isinstance(exact(3), Fraction)
    assert isinstance(exact(3.0), float)


def test_the_same_is_asked_once() -> None:
    asked: list[object] = []

    class Told(AlphaBetaCosts):
        def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Fraction:
            asked.append((kind, axes, size_bytes))
            return Fraction(7)

    costs = RememberedCosts(Told(0, {(None, ("pp",)): 2}, summary="told", is_bound=True))
    assert [costs.time_s(GATHER, ("dp",), size) for size in (1, 1, 2)] == [7, 7, 7]
    assert asked == [(GATHER, ("dp",), 1), (GATHER, ("dp",), 2)]
    assert costs.send_s("pp", 3) == Fraction(3, 2)
    assert costs.slowdowns(((GATHER, ("dp",)),)) == (1,)
    assert (costs.summary, costs.is_bound) == ("told", True)


def test_what_a_roofline_says_of_itself() -> None:
    times = RooflineTimes(PLAIN, "bf16", 0.12345, 0.5)
    assert times.summary == "roofline: 0.123 of plain's bf16 peak, 0.5 of its memory's bandwidth"
    bare = replace(times, memory_efficiency=None)
    assert bare.summary == "roofline: 0.123 of plain's bf16 peak"
    assert (times.kernel_s, times.fused_attention) == (0.0, True)
    assert RooflineTimes(PLAIN, "bf16", 1.0).memory_efficiency == 0.8
    assert bare.optimizer_s(1e9) == 0
    assert times.optimizer_s(1e9) == pytest.approx(60.0)
    assert RooflineTimes(PLAIN, "bf16", 1.0, kernel_s=0.999).kernel_s == 0.999
    for change, message in (
        ({"kernel_s": 1.0}, "kernel_s 1.0: expected seconds of one launch, 0 or more and below 1"),
        ({"efficiency": 1.01}, "efficiency 1.01: expected a share of the peak, above 0 and at most 1"),
        (
            {"memory_efficiency": 0.0},
            "memory efficiency 0.0: expected a share of the peak, above 0 and at most 1",
        ),
    ):
        fields: dict[str, Any] = change
        with pytest.raises(TreadleError, match=f"^{re.escape(message)}$"):
            replace(times, **fields)


def test_elements_have_the_width_of_the_precision() -> None:
    """Ten tokens move a thousand elements, and weights of five hundred; a launch takes a millisecond."""
    layer = ModelLayer(
        "l", works=(Work("w", WorkKind.MATMUL, flops=1, moved_elements=1000, weight_elements=500),)
    )
    for precision, width in (("bf16", 2), ("fp32", 4)):
        times = RooflineTimes(PLAIN, precision, 1.0, 0.5, kernel_s=1e-3)
        (one,) = times.work_times(layer, LocalWork(2, {"": 5}))
        seconds = width * (10 * 1000 + 500) / 0.5e9
        assert one.forward_s == pytest.approx(seconds + 1e-3)
        assert one.backward_s == pytest.approx(2 * seconds + 2e-3)


def test_experts_that_few_tokens_visit() -> None:
    """Three tokens visit six of eight experts at most; on two ranks of four each, with the other's three."""
    work = Work("w", WorkKind.MATMUL, flops=1, weight_elements=8000, expert=True)
    layer = ModelLayer("l", works=(work,), experts=8, top_k=2, routed_elements=1, exchanges=2)
    times = RooflineTimes(PLAIN, "bf16", 1.0, 1.0)
    for local, read in (
        (LocalWork(3, {"": 1}), 6000),
        (LocalWork(4, {"": 1}), 8000),
        (LocalWork(1, {"": 1}, ep=2), 4000 / 2),
        (LocalWork(3, {"": 1}, ep=2), 4000),
        (LocalWork(1, {"": 1}, tp=2, sequence_parallel=True), 1000),
        (LocalWork(3, {"": 9}, is_decoding=True), 6000),
    ):
        (one,) = times.work_times(layer, local)
        assert one.forward_s == pytest.approx(2 * read / 1e9)


def test_measured_layers_are_told_and_found_in_order() -> None:
    times = MeasuredTimes((MeasuredLayer("b*", 1.0, 2.0), MeasuredLayer("*", 3.0, 4.0, 10)), 0.5)
    assert times.summary == "measured: 2 rows of layer times"
    assert times.optimizer_s(1e9) == 0.5
    layers = [ModelLayer(name, works=(Work("w", WorkKind.MATMUL, flops=1),)) for name in ("block", "head")]
    local = LocalWork(2, {"": 10})
    assert [times.work_times(layer, local)[0].forward_s for layer in layers] == [1.0, 6.0]
    assert [times.work_times(layer, local)[0].backward_s for layer in layers] == [2.0, 8.0]
    model = TrainingModel("m", tuple(replace(layers[0], name=name) for name in ("a", "b", "c", "d")))
    message = "layer times: no layer of m is called 'x': a, b, c, ..."
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        MeasuredTimes((MeasuredLayer("*", 1, 1), MeasuredLayer("x", 1, 1))).check(model)
    with pytest.raises(FormatError, match="no row for the layer 'd'; "):
        MeasuredTimes((MeasuredLayer("[abc]", 1, 1),)).check(model)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("x,1000000,1", "layer times: line 2: expected seconds, 0 or more, found '1000000'"),
        ("x,1,-0.5", "layer times: line 2: expected seconds, 0 or more, found '-0.5'"),
        (f"x,1,1,{'1' * 13}", f"layer times: line 2: tokens: expected a whole number, found '{'1' * 13}'"),
        ("x,1,1,-1", "layer times: line 2: tokens: expected a whole number, found '-1'"),
    ],
)
def test_layer_times_out_of_range(cells: str, message: str) -> None:
    header = "layer,forward_s,backward_s" + (",tokens" if cells.count(",") > 2 else "")
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        read_layer_times(f"{header}\n{cells}\n")


def test_layer_times_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    header = "layer,forward_s,backward_s,tokens"
    (row,) = read_layer_times(f"{header}\n x , 999999 ,0,{'1' * 12}\n").rows
    assert row == MeasuredLayer("x", 999999.0, 0.0, int("1" * 12))
    monkeypatch.setattr(compute_times, "_MOST_ROWS", 2)
    assert len(read_layer_times(f"{header}\nx,1,1,\ny,1,1,\n").rows) == 2
    with pytest.raises(FormatError, match=r"^layer times: expected at most 2 rows$"):
        read_layer_times(f"{header}\nx,1,1,\ny,1,1,\nz,1,1,\n")
    text = f"{header}\nx,1,1,\n"
    monkeypatch.setattr(compute_times, "_MOST_TEXT", len(text))
    read_layer_times(text)
    with pytest.raises(FormatError, match=f"^layer times: expected at most {len(text)} characters, found "):
        read_layer_times(text + "\n")
    message = (
        "layer times: line 1: expected the columns layer,forward_s,backward_s,tokens (tokens may be left "
        "out), found 'layer,tokens'"
    )
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        read_layer_times("layer,tokens\n")


def test_devices_at_their_limits() -> None:
    text = 'name="{}"\nmemory="1B"\nmemory_bandwidth="3B/s"\ntflops={{bf16={}}}\n'
    found = read_accelerator(text.format("n" * 41, "999999999.9"))
    assert (found.name, found.memory_bytes, found.memory_bytes_per_s) == ("n" * 40, 1, 3.0)
    assert found.peak("bf16") == pytest.approx(999999999.9e12)
    assert found.source == ""
    for speed in ("1e9", "0", "0.0"):
        with pytest.raises(
            FormatError,
            match=r'device file: tflops\["bf16"\]: expected a positive number less than 10\*\*9',
        ):
            read_accelerator(text.format("n", speed))
    for text, message in (
        (
            'name="x"\nmemory="1B"\ntflops={bf16=1}',
            "key 'memory_bandwidth' is missing",
        ),
        (
            'name="x"\nmemory="1B"\nmemory_bandwidth="1B/s"\ntflops={}',
            "tflops: expected a table such as {bf16 = 312, fp32 = 19.5}, found an object",
        ),
    ):
        with pytest.raises(FormatError, match=f"^device file: {re.escape(message)}$"):
            read_accelerator(text)
    assert devices.ELEMENT_BYTES == {"fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 2}
    with pytest.raises(TreadleError, match=r"^device plain has no 'fp8' products; it has bf16, fp32$"):
        PLAIN.peak("fp8")


def test_what_does_not_fit_is_said_of_the_worst_stage() -> None:
    giga = 2**30
    small, large = MemoryParts(giga, 0, 0, 0, 0, 0, 0, 0), MemoryParts(giga, 0, 2 * giga, 0, 0, 0, 0, 0)
    assert missing_bytes([small, large], 3 * giga) == ""
    assert missing_bytes([small, large, small], 3 * giga - 1) == (
        "a device needs 3.0 GB and has 3.0 GB; most of it: optimizer, 2.0 GB"
    )
    assert list(large.by_part) == [
        "weights",
        "gradients",
        "optimizer",
        "gathered",
        "activations",
        "logits",
        "buffers",
        "cache",
    ]


def test_memory_of_serving_with_a_window_and_pieces() -> None:
    """Two sequences of 100 tokens, 30 of them kept; 12 elements each in two pieces, three bytes each."""
    layer = ModelLayer(
        "l",
        saved=(Saved("x", 5), Saved("logits", 7)),
        kv_elements=4,
        cache_elements=12,
        kv_pieces=2,
        cache_window=30,
    )
    keeping = ActivationPolicy(is_training=False, element_bytes=3)
    local = LocalWork(2, {"": 100}, tp=4)
    parts = memory_parts([[layer, replace(layer, name="m", cache_window=0)]], (), local, keeping)
    assert parts.cache_bytes == 2 * 12 / 2 * 3 * (30 + 100)
    assert parts.activations_bytes == 200 * 5 / 4 * 3
    assert parts.logits_bytes == 2 * 200 * 7 / 4 * 3
    assert parts.gathered_bytes == parts.gradients_bytes == parts.optimizer_bytes == 0
    trained = memory_parts([[layer]], ((0, True), (0, False)), local, replace(keeping, is_training=True))
    assert trained.logits_bytes == 2.5 * 200 * 7 / 4 * 3
    assert trained.cache_bytes == 0


def test_keeping_by_default() -> None:
    keeping = ActivationPolicy()
    assert (keeping.weight_shards, keeping.expert_shards, keeping.prefetch) == (1, 1, 1)
    assert (keeping.weight_bytes, keeping.element_bytes, keeping.gradient_bytes) == (2, 2, 2)
    assert (keeping.optimizer_bytes, keeping.recompute) == (12, "none")
    assert keeping.reshard_after_forward
    assert keeping.fused_attention
    assert keeping.is_training
    assert not keeping.keeps_whole_gradients


def test_shares_say_what_is_no_multiple() -> None:
    layout = ParallelLayout(mesh_of(dp=2, fsdp=3, cp=2, ep=1))
    options = TrainingOptions(kappa=1, micro_batches=5)
    for batch in (0, 31):
        message = (
            f"batch of {batch}: expected a multiple of 30 (6 replicas of mesh dp=2,fsdp=3,cp=2,ep=1 x 5 "
            "micro-batches)"
        )
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            rank_part(layout, options, batch, {"": 4})
    for tokens in (0, 3):
        message = f"sequences of {tokens} tokens (encoder): expected a multiple of cp, 2"
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            rank_part(layout, options, 30, {"decoder": 4, "encoder": tokens})
    share = rank_part(layout, options, 60, {"": 4})
    layer = ModelLayer("l", weights=(Weight("w", 36), Weight("e", 18, expert=True)), experts=1)
    assert share.sequences == 2
    assert share.rank_tokens("") == 4
    assert share.activation_bytes(layer, Fraction(1, 3)) == 3
    assert layout.shard_axes(expert=False) == ("fsdp", "cp")
    assert layout.replica_axes(expert=True) == ("dp",)
    assert share.held_elements(layer) == 6 + 3
    assert share.reshards
    assert not rank_part(layout, replace(options, reshard_after_forward=False), 60, {"": 4}).reshards
    staged = ParallelLayout(mesh_of(pp=2, fsdp=3))
    assert not rank_part(staged, TrainingOptions(kappa=1), 3, {"": 1}).reshards
    assert rank_part(staged, TrainingOptions(kappa=1, reshard_after_forward=True), 3, {"": 1}).reshards
