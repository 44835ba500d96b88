"""Times of a roofline by hand, and what must hold of all of them; times as measured."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType

import pytest

from treadle.errors import FormatError, TreadleError
from treadle.training import compute_times
from treadle.training.compute_times import (
    ADAM_BYTES_PER_PARAMETER,
    LocalWork,
    RooflineTimes,
    layer_times,
    read_layer_times,
)
from treadle.training.devices import Accelerator
from treadle.training.models.model_layer import Attended, ModelLayer, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel

DEVICE = Accelerator("plain", MappingProxyType({"bf16": 1e12}), 2**30, 1e9, "")
"""1000 FLOPs for a byte."""
PRODUCT = Work("product", WorkKind.MATMUL, flops=2_000_000, moved_elements=100, weight_elements=1_000_000)
NORM = Work("norm", WorkKind.ELEMENTWISE, flops=0, moved_elements=1000, split=False)
SCORES = Work(
    "scores", WorkKind.ATTENTION, flops_per_context=4000, moved_per_context=500, attended=Attended()
)
EXPERT = Work("expert", WorkKind.MATMUL, flops=400_000, weight_elements=8_000_000, expert=True)
LAYER = ModelLayer(
    "block",
    weights=(Weight("dense", 1_000_000), Weight("experts", 8_000_000, expert=True)),
    works=(NORM, PRODUCT, SCORES, EXPERT),
    experts=8,
    top_k=2,
    routed_elements=20,
    exchanges=2,
)
LOCAL = LocalWork(4, {"": 1024})
ROOFLINE = RooflineTimes(DEVICE, "bf16", 0.5, memory_efficiency=0.8)


def forward(local: LocalWork = LOCAL, times: RooflineTimes = ROOFLINE) -> list[float]:
    return [one.forward_s for one in times.work_times(LAYER, local)]


def test_by_hand() -> None:
    tokens = 4 * 1024
    norm, product, scores, expert = ROOFLINE.work_times(LAYER, LOCAL)
    assert norm.forward_s == pytest.approx(tokens * 1000 * 2 / 0.8e9)
    assert norm.backward_s == pytest.approx(2 * norm.forward_s)
    assert product.forward_s == pytest.approx(tokens * 2e6 / 0.5e12)
    assert product.backward_s == pytest.approx(2 * product.forward_s)
    assert scores.forward_s == pytest.approx(tokens * 4000 * 512 / 0.5e12)  # half of the scores are masked
    assert scores.backward_s == pytest.approx(2.5 * scores.forward_s)
    assert expert.forward_s == pytest.approx(max(tokens * 4e5 / 0.5e12, 8e6 * 2 / 0.8e9))


def test_plain_attention_computes_what_is_masked() -> None:
    plain = replace(ROOFLINE, fused_attention=False).work_times(LAYER, LOCAL)[2]
    fused = ROOFLINE.work_times(LAYER, LOCAL)[2]
    assert plain.forward_s == pytest.approx(2 * fused.forward_s)
    assert plain.backward_s == pytest.approx(2 * plain.forward_s)


def test_plain_attention_moves_its_scores() -> None:
    """Of 3 and 5 elements per token and token attended, 4096 x 1024 of them: more than products take here."""
    layer = ModelLayer("plain", works=(replace(SCORES, score_elements=(3, 5)),))
    times = replace(ROOFLINE, fused_attention=False, attention_efficiency=0.1)
    (found,) = times.work_times(layer, LOCAL)
    assert found.forward_s == pytest.approx(4096 * 4000 * 1024 / 0.5e12)
    (found,) = replace(times, efficiency=1.0, memory_efficiency=0.1).work_times(layer, LOCAL)
    pairs = 4096 * 1024
    seconds = [pairs * 3 * 2 / 1e8, pairs * 5 * 2 / 1e8]
    assert [found.forward_s, found.backward_s] == pytest.approx(seconds)


def test_attention_has_an_efficiency_of_its_own() -> None:
    own = replace(ROOFLINE, attention_efficiency=0.25)
    before, after = forward(), forward(times=own)
    assert after == pytest.approx([before[0], before[1], 2 * before[2], before[3]])
    assert own.with_efficiency(0.25).attention_efficiency == pytest.approx(0.125)
    assert replace(own, efficiency=0.1).with_efficiency(0.8).attention_efficiency == 1.0
    assert own.summary == (
        "roofline: plain bf16: products 50.0%, attention 25.0% of the peak, 0.8 of its memory's bandwidth"
    )
    assert replace(own, source="why").summary.endswith("bandwidth\nwhy")
    assert own.with_efficiency(0.25).source == ""


def test_casts_to_fp8_pass_over_operands_before_a_product() -> None:
    narrow = replace(ROOFLINE, device=replace(DEVICE, peak_flops={"fp8": 1e12}), precision="fp8")
    norm, product, scores, _ = narrow.work_times(LAYER, LOCAL)
    moved = (4096 * 100 + 1e6) * 2 / 0.8e9
    assert product.forward_s == pytest.approx(4096 * 2e6 / 0.5e12 + moved)
    assert [norm.forward_s, scores.forward_s] == [forward()[0], forward()[2]]


def test_parts_of_a_layer() -> None:
    norm, product, scores, expert = ROOFLINE.work_times(LAYER, LOCAL)
    parts = layer_times(ROOFLINE, LAYER, LOCAL)
    assert parts.forward_s == pytest.approx(norm.forward_s + product.forward_s + scores.forward_s)
    assert parts.backward_s == pytest.approx(norm.backward_s + product.backward_s + scores.backward_s)
    assert (parts.expert_forward_s, parts.expert_backward_s) == (expert.forward_s, expert.backward_s)
    assert (parts.attention_forward_s, parts.attention_backward_s) == (scores.forward_s, scores.backward_s)


def test_shards() -> None:
    norm, product, scores, expert = forward()
    by_tensor = forward(replace(LOCAL, tp=4))
    assert by_tensor[0] == norm
    assert by_tensor[1:] == pytest.approx([product / 4, scores / 4, expert / 4])
    assert forward(replace(LOCAL, tp=4, sequence_parallel=True))[0] == pytest.approx(norm / 4)
    by_context = forward(replace(LOCAL, cp=2))
    assert by_context[:3] == pytest.approx([norm / 2, product / 2, scores / 2])
    # Weights of an expert bound its time here: on eight ranks each reads one eighth of them.
    assert expert == pytest.approx(0.02)
    assert forward(replace(LOCAL, ep=8))[3] == pytest.approx(max(0.02 / 8, 4096 * 4e5 / 0.5e12))


def test_decoding_reads_weights_and_the_cache() -> None:
    local = LocalWork(2, {"": 4096}, is_decoding=True)
    norm, product, scores, expert = forward(local)
    assert norm == pytest.approx(2 * 1000 * 2 / 0.8e9)
    assert product == pytest.approx((2 * 100 + 1e6) * 2 / 0.8e9)
    assert scores == pytest.approx(max(2 * 4000 * 4096 / 0.5e12, 2 * 500 * 4096 * 2 / 0.8e9))
    assert expert == pytest.approx(8e6 * 2 / 0.8e9 * 4 / 8)  # two tokens visit at most four of the eight


def test_what_a_decoded_token_costs_may_differ() -> None:
    layer = ModelLayer("latent", works=(replace(SCORES, flops_per_cached=9_000_000),))
    (time,) = ROOFLINE.work_times(layer, LocalWork(1, {"": 1000}, is_decoding=True))
    assert time.forward_s == pytest.approx(9_000_000 * 1000 / 0.5e12)
    (time,) = ROOFLINE.work_times(layer, LocalWork(1, {"": 1000}))
    assert time.forward_s == pytest.approx(1000 * 4000 * 500 / 0.5e12)


def test_ranks_beyond_the_heads_read_the_same_cache() -> None:
    reading = replace(SCORES, flops_per_context=1)
    for pieces, share in ((1, 1), (2, 2), (8, 4)):
        layer = ModelLayer("latent", works=(reading,), kv_pieces=pieces)
        local = LocalWork(1, {"": 1000}, tp=4, is_decoding=True)
        (time,) = ROOFLINE.work_times(layer, local)
        assert time.forward_s == pytest.approx(500 * 1000 * 2 / 0.8e9 / share)


def test_a_window_bounds_what_is_attended() -> None:
    near = replace(SCORES, attended=Attended(window=256))
    layer = ModelLayer("near", works=(near,))
    (time,) = ROOFLINE.work_times(layer, LOCAL)
    assert time.forward_s == pytest.approx(4096 * 4000 * (256 - 256**2 / 2048) / 0.5e12)
    (time,) = ROOFLINE.work_times(layer, LocalWork(1, {"": 1024}, is_decoding=True))
    assert time.forward_s == pytest.approx(500 * 256 * 2 / 0.8e9)


def test_keys_of_another_stream_are_made_of_its_tokens() -> None:
    keys = replace(PRODUCT, name="cross keys", stream="encoder")
    cross = replace(SCORES, attended=Attended("encoder", is_causal=False))
    layer = ModelLayer("cross", stream="decoder", works=(PRODUCT, keys, cross))
    local = LocalWork(1, {"encoder": 3000, "decoder": 1000})
    own, of_others, scores = (one.forward_s for one in ROOFLINE.work_times(layer, local))
    assert of_others == pytest.approx(3 * own)
    assert scores == pytest.approx(1000 * 4000 * 3000 / 0.5e12)


@pytest.mark.parametrize("memory", [None, 0.1, 0.8])
def test_no_time_rises_with_the_efficiency(memory: float | None) -> None:
    times = replace(ROOFLINE, memory_efficiency=memory, kernel_s=1e-5, attention_efficiency=0.3)
    last: list[float] | None = None
    for efficiency in (0.01, 0.1, 0.3, 0.31, 0.7, 1.0):
        found = times.with_efficiency(efficiency).work_times(LAYER, LOCAL)
        seconds = [second for one in found for second in (one.forward_s, one.backward_s)]
        assert last is None or all(new <= old for new, old in zip(seconds, last, strict=True))
        assert last is None or sum(seconds) < sum(last)
        last = seconds


def test_without_memory_only_flops_count() -> None:
    times = replace(ROOFLINE, memory_efficiency=None)
    assert forward(times=times)[0] == 0
    assert sum(forward(times=times)) == pytest.approx(4 * float(LAYER.forward_flops({"": 1024})) / 0.5e12)


def test_launches_cost_on_top() -> None:
    base, more = ROOFLINE.work_times(LAYER, LOCAL), replace(ROOFLINE, kernel_s=1e-4).work_times(LAYER, LOCAL)
    for one, other in zip(base, more, strict=True):
        assert other.forward_s - one.forward_s == pytest.approx(1e-4)
        assert other.backward_s - one.backward_s == pytest.approx(2e-4)


def test_weights_of_blocks_may_be_read_narrower() -> None:
    """A product of so few tokens is bound by its weights: 1e6 of them at 1e9 bytes/s."""
    work = Work("w", WorkKind.MATMUL, flops=2, weight_elements=10**6)
    few, times = LocalWork(1, {"": 1}), replace(ROOFLINE, memory_efficiency=1.0)
    for layer, widths in (
        (ModelLayer("block", works=(work,), cache_elements=8), (1, 2, 4)),
        (ModelLayer("head", works=(work,)), (2, 2, 2)),
    ):
        for given, width in zip((1, None, 4), widths, strict=True):
            (found,) = replace(times, block_weight_bytes=given).work_times(layer, few)
            assert found.forward_s == pytest.approx(width * 1e6 / 1e9)


def test_the_optimizer_is_bound_by_memory() -> None:
    assert ROOFLINE.optimizer_s(1e9) == pytest.approx(1e9 * ADAM_BYTES_PER_PARAMETER / 0.8e9)
    assert "0.5 of plain's bf16 peak" in ROOFLINE.summary


@pytest.mark.parametrize(("precision", "moved"), [("bf16", 30), ("fp8", 30), ("tf32", 28), ("fp32", 28)])
def test_only_masters_beside_narrower_weights_are_copied(precision: str, moved: int) -> None:
    device = Accelerator("own", {precision: 1e12}, 2**30, 1e9, "")
    assert RooflineTimes(device, precision, 0.5, 1.0).optimizer_s(1e9) == moved


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"efficiency": 0.0}, "efficiency 0.0: expected a share"),
        ({"efficiency": 1.5}, "efficiency 1.5: expected a share"),
        ({"efficiency": float("nan")}, "efficiency nan: expected a share"),
        ({"memory_efficiency": 2.0}, "memory efficiency 2.0"),
        ({"kernel_s": -1.0}, "kernel_s -1.0"),
        ({"kernel_s": 1.0}, "kernel_s 1.0: expected seconds of one launch, 0 or more and below 1"),
        ({"precision": "fp8"}, "device plain has no 'fp8' products; it has bf16"),
    ],
)
def test_rooflines_that_cannot_be(change: dict[str, object], message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        replace(ROOFLINE, **change)  # type: ignore[arg-type]


def test_measured_times_are_dealt_out_by_flops() -> None:
    times = read_layer_times("layer,forward_s,backward_s\nbl*,0.03,0.07\n")
    found = times.work_times(LAYER, LOCAL)
    assert sum(one.forward_s for one in found) == pytest.approx(0.03)
    assert sum(one.backward_s for one in found) == pytest.approx(0.07)
    assert found[0].forward_s == 0
    flops = [0, 2_000_000, 4000 * 512, 400_000]
    assert [one.forward_s for one in found] == pytest.approx([0.03 * one / sum(flops) for one in flops])
    lookups = ModelLayer("blank", works=(NORM, replace(NORM, name="other")))
    assert [one.forward_s for one in times.work_times(lookups, LOCAL)] == pytest.approx([0.015, 0.015])


def test_measured_times_scale_with_tokens_where_they_say_of_how_many() -> None:
    times = read_layer_times("layer,forward_s,backward_s,tokens\nblock,0.03,0.07,2048\n*,1,1,\n")
    assert sum(one.forward_s for one in times.work_times(LAYER, LOCAL)) == pytest.approx(0.06)
    half = replace(LOCAL, sequences=Fraction(1, 2))
    assert sum(one.forward_s for one in times.work_times(LAYER, half)) == pytest.approx(0.0075)
    other = replace(LAYER, name="other")
    assert sum(one.forward_s for one in times.work_times(other, half)) == pytest.approx(1)


def test_measured_times_and_layers_must_fit() -> None:
    model = TrainingModel("m", (LAYER, replace(LAYER, name="head")))
    read_layer_times("layer,forward_s,backward_s\n*,1,1\n").check(model)
    with pytest.raises(FormatError, match="no row for the layer 'head'"):
        read_layer_times("layer,forward_s,backward_s\nblock,1,1\n").check(model)
    with pytest.raises(FormatError, match="no layer of m is called 'tail'"):
        read_layer_times("layer,forward_s,backward_s\n*,1,1\ntail,1,1\n").check(model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected the columns"),
        ("layer,forward\nx,1", "line 1: expected the columns"),
        ("layer,forward_s,backward_s", "expected a row per layer"),
        ("layer,forward_s,backward_s\nx,1", "line 2: expected 3 cells, found 2"),
        ("layer,forward_s,backward_s\n\nx,1,-1", "line 3: expected seconds, 0 or more, found '-1'"),
        ("layer,forward_s,backward_s\nx,nan,1", "line 2: expected seconds"),
        ("layer,forward_s,backward_s\nx,1ms,1", "line 2: expected seconds"),
        ("layer,forward_s,backward_s,tokens\nx,1,1,1e3", "line 2: tokens: expected a whole number"),
        ("layer,forward_s,backward_s,tokens\nx,1,1,1234567890123", "tokens: expected a whole number, found"),
        ("layer,forward_s,backward_s\nx,1,1e6", "line 2: expected seconds, 0 or more, found '1e6'"),
        ('layer,forward_s,backward_s\n"x,1,1', "no CSV"),
        ("layer,forward_s,backward_s\n" + "x,1,1\n" * 100_001, "at most 100000 rows"),
    ],
)
def test_layer_times_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read_layer_times(text)


def test_rooflines_and_layer_times_at_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    best = RooflineTimes(DEVICE, "bf16", 1.0, memory_efficiency=1.0, kernel_s=0.75)
    assert best.summary == "roofline: 1 of plain's bf16 peak, 1 of its memory's bandwidth"
    free = replace(ROOFLINE, memory_efficiency=None)
    assert free.summary == "roofline: 0.5 of plain's bf16 peak"
    assert (free.optimizer_s(1e9), best.optimizer_s(1e9)) == (0, ADAM_BYTES_PER_PARAMETER)
    assert (ROOFLINE.kernel_s, ROOFLINE.fused_attention) == (0.0, True)
    head = "layer,forward_s,backward_s,tokens\n"
    (row,) = read_layer_times(f"{head} x ,0,999999,123456789012\n").rows
    assert (row.pattern, row.forward_s, row.backward_s, row.tokens) == ("x", 0, 999_999, 123_456_789_012)
    with pytest.raises(FormatError, match=r"expected at most 10000000 characters, found 10000001$"):
        read_layer_times("x" * 10_000_001)
    monkeypatch.setattr(compute_times, "_MOST_ROWS", 2)
    text = f"{head}x,1,1,\ny,1,1,0\n"
    monkeypatch.setattr(compute_times, "_MOST_TEXT", len(text))
    assert len(read_layer_times(text).rows) == 2
    with pytest.raises(FormatError, match=f"at most {len(text)} characters, found {len(text) + 1}$"):
        read_layer_times(text + "\n")


def test_the_first_row_that_matches_counts_and_says_for_how_many_tokens() -> None:
    times = read_layer_times("layer,forward_s,backward_s,tokens\nbl*,1,3,0\nblock,5,7,\n")
    assert times.summary == "measured: 2 rows of layer times"
    assert times.optimizer_s(9) == 0.0
    found = times.work_times(LAYER, LOCAL)
    assert [sum(one.forward_s for one in found), sum(one.backward_s for one in found)] == [
        pytest.approx(1), pytest.approx(3)
    ]  # fmt: skip
    # a work over another stream counts by that stream's tokens
    keys = replace(PRODUCT, name="keys", stream="encoder")
    layer = ModelLayer("block", stream="decoder", works=(PRODUCT, keys))
    own, others = times.work_times(layer, LocalWork(1, {"encoder": 3000, "decoder": 1000}))
    assert (own.forward_s, others.forward_s) == pytest.approx((0.25, 0.75))


def test_decoded_tokens_choose_experts_and_read_caches_in_parts() -> None:
    """A token of each of two ranks visits 2 of 8 experts: half of those of a rank are read, in parts."""
    local = LocalWork(1, {"": 4096}, tp=2, ep=2, is_decoding=True)
    assert forward(local)[3] == pytest.approx(8e6 * 2 / 0.8e9 * (4 / 8) / 2 / 2)
    by_context = LocalWork(2, {"": 4096}, cp=4, is_decoding=True)
    assert by_context.tokens_here("") == 2
    assert forward(by_context)[2] == pytest.approx(2 * 500 * 1024 * 2 / 0.8e9)
