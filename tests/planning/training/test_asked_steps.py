"""What may be asked of a step, each option for itself, and prices by hand."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from samples.training.small_steps import mesh_of
from treadle.api.serve import _replicas
from treadle.errors import FormatError, ScheduleError, TreadleError
from treadle.inputs.problem import Problem
from treadle.options.keywords import TrainKeywords
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.topologies import parse
from treadle.training import train_options
from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import Accelerator, accelerator
from treadle.training.models.model_layer import ModelLayer, Weight
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.zoo import zoo_model
from treadle.training.prices import calibrated_efficiency as calibration
from treadle.training.prices.calibrated_efficiency import calibrated_efficiency
from treadle.training.prices.collective_prices import CollectivePrice, QuickestPrice, TimeModel
from treadle.training.prices.contention_presets import PRESETS, contention_of
from treadle.training.prices.efficiency_presets import roofline_times
from treadle.training.prices.measured_network import NetworkEfficiency, as_network_efficiency
from treadle.training.prices.message_costs import message_costs
from treadle.training.step_inputs import costs_of_rows, slow_links
from treadle.training.train_options import as_accelerator, check_options_matter, step_request
from treadle.training.training_options import CommunicationStreams, ContextExchange, Recompute

GPT = zoo_model("gpt2")
ALL = mesh_of(pp=2, fsdp=3, tp=2, cp=2)


def asked(model: TrainingModel = GPT, mesh: Mesh = ALL, gpu: str = "a100", **options: Any) -> Any:
    return step_request(model, mesh, gpu, cast(TrainKeywords, {"efficiency": 0.5, **options}))


def test_what_nobody_asked_for() -> None:
    found = asked(efficiency=None)
    options = found.options
    assert (options.kappa, options.micro_batches, options.interleave, options.prefetch) == (1.5, 1, 1, 1)
    assert (options.bucket_bytes, options.reshard_after_forward) == (None, None)
    assert (options.sequence_parallel, options.alltoall_overtakes) == (True, False)
    assert options.context_exchange is ContextExchange.GATHER
    assert options.recompute is Recompute.NONE
    assert options.streams is CommunicationStreams.PER_AXIS
    assert (options.element_bytes, options.gradient_bytes, options.capacity_factor) == (2, 2, 1)
    assert isinstance(found.times, RooflineTimes)
    assert found.times == roofline_times(found.device, "bf16")
    assert (found.times.memory_efficiency, found.precision) == (0.8, "bf16")
    assert (found.sequences, found.tokens) == (3, {"": 1024})
    assert found.notes == (
        "sequences of 1024 tokens, as gpt2 was made for (--sequence)",
        "batch of 3 sequences: one for each replica and micro-batch (--batch)",
    )


def test_each_option_goes_where_it_belongs() -> None:
    found = asked(
        micro_batches=4,
        interleave=2,
        prefetch=3,
        reshard=True,
        sequence_parallel=False,
        context_exchange="Ring",
        recompute="attention",
        fused_attention=False,
        precision="fp32",
        gradients="bf16",
        efficiency=0.25,
        memory_efficiency=0.75,
        contention=1.5,
        streams="One",
        sequence=512,
        batch=24,
    )
    options = found.options
    assert (options.micro_batches, options.interleave, options.prefetch) == (4, 2, 3)
    assert (options.reshard_after_forward, options.sequence_parallel) == (True, False)
    assert options.context_exchange is ContextExchange.RING
    assert options.recompute is Recompute.ATTENTION
    assert (options.has_fused_attention, found.times.fused_attention) == (False, False)
    assert options.streams is CommunicationStreams.ONE
    assert (options.kappa, options.element_bytes, options.gradient_bytes) == (1.5, 4, 2)
    assert (found.times.efficiency, found.times.memory_efficiency) == (0.25, 0.75)
    assert (found.precision, found.times.precision, found.device.name) == ("fp32", "fp32", "a100")
    assert (found.sequences, found.tokens, found.notes) == (24, {"": 512}, ())
    moe = asked(
        zoo_model("mixtral-8x7b"),
        mesh_of(dp=2, ep=4),
        bucket_bytes=7,
        alltoall_overtakes=True,
        capacity_factor=1.1,
    )
    assert (moe.options.bucket_bytes, moe.options.alltoall_overtakes) == (7, True)
    assert moe.options.capacity_factor == Fraction(11, 10)
    assert moe.sequences == 8


@pytest.mark.parametrize(
    ("gpu", "precision", "widths"),
    [
        ("a100", "bf16", (2, 2, 2, 12)),
        ("a100", "fp16", (2, 2, 2, 12)),
        ("h100", "fp8", (2, 2, 2, 12)),
        ("a100", "tf32", (4, 4, 4, 8)),
        ("a100", "fp32", (4, 4, 4, 8)),
    ],
)
def test_a_weight_of_32_bits_is_its_own_master(gpu: str, precision: str, widths: tuple[int, ...]) -> None:
    """16 bytes a parameter with its gradient and Adam's state: a copy in fp32 only beside narrower ones."""
    options = asked(gpu=gpu, precision=precision).options
    found = (options.weight_bytes, options.element_bytes, options.gradient_bytes, options.optimizer_bytes)
    assert found == widths
    assert sum((found[0], *found[2:])) == 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sequence": 2**30 + 1}, "--sequence 1073741825: expected from 1 to 1073741824 tokens"),
        ({"sequence": "0"}, "--sequence 0: expected from 1 to 1073741824 tokens"),
        (
            {"sequence": "1" * 12},
            f"--sequence '{'1' * 12}': expected a number of tokens up to 1073741824, for each stream of gpt2",
        ),
        ({"sequence": "1,1"}, "--sequence 1,1: gpt2 has 1 stream of tokens, found 2 numbers"),
        ({"sequence": {"x": 5}}, "--sequence: expected tokens of the streams '', found x"),
        ({"batch": 0}, "--batch 0: expected at least 1"),
        ({"capacity_factor": 1000.5}, "--capacity-factor 1000.5: expected a number above 0, at most 1000"),
        ({"capacity_factor": -1}, "--capacity-factor -1: expected a number above 0, at most 1000"),
        ({"precision": "fp7"}, "unknown precision 'fp7'"),
        ({"gradients": "half"}, "unknown precision 'half'"),
        ({"recompute": "most"}, "unknown recompute 'most'"),
        ({"streams": "axes"}, "unknown streams 'axes'"),
        ({"context_exchange": "rign"}, "unknown context exchange 'rign'"),
        ({"calibrate_s": 1.0}, "--efficiency is what --calibrate finds; leave one of them out"),
        (
            {"layer_times": "x.csv", "efficiency": None, "calibrate_s": 1.0},
            "--layer-times are measured: --calibrate (of a roofline) does not apply; leave one of them out",
        ),
        (
            {"layer_times": "x.csv"},
            "--layer-times are measured: --efficiency (of a roofline) does not apply; leave one of them out",
        ),
    ],
)
def test_what_is_refused_is_told_in_full(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TreadleError, match=f"^{re.escape(message)}"):
        asked(**options)


def test_numbers_at_their_limits() -> None:
    assert asked(sequence=2**30).tokens == {"": 2**30}
    assert asked(sequence=" 1 ", batch=1).tokens == {"": 1}
    assert train_options._capacity(1000) == 1000
    assert train_options._capacity(0.1) == Fraction(1, 10)


def test_long_contexts_have_shorter_sequences_by_default() -> None:
    found = asked(replace(GPT, max_tokens=4097))
    assert found.tokens == {"": 4096}
    assert found.notes[0] == "sequences of 4096 tokens; gpt2 takes up to 4097 (--sequence)"
    assert asked(replace(GPT, max_tokens=4096)).notes[0].startswith("sequences of 4096 tokens, as gpt2")


def test_models_that_say_nothing_of_their_sequences() -> None:
    mute, mesh = replace(GPT, max_tokens=0), mesh_of(dp=2)
    with pytest.raises(
        FormatError, match=r"^--sequence: gpt2 does not define the number of tokens of a sequence; give it$"
    ):
        asked(mute, mesh)
    images = zoo_model("resnet-18")
    assert asked(images, mesh, batch=4).tokens == {"": 1}
    with pytest.raises(
        FormatError, match=r"^--sequence: resnet-18 is trained on samples, which have no tokens$"
    ):
        asked(images, mesh, batch=4, sequence=1)
    with pytest.raises(
        TreadleError,
        match=r"^--batch: resnet-18 is trained on samples; give the number of samples of a step$",
    ):
        asked(images, mesh)


def test_the_precision_is_the_first_of_three_that_there_is() -> None:
    def own(*precisions: str) -> Accelerator:
        return Accelerator("own", MappingProxyType(dict.fromkeys(precisions, 1e12)), 2**30, 1e9, "")

    for there, taken in (
        (("fp32", "fp16", "bf16"), "bf16"),
        (("fp32", "fp16"), "fp16"),
        (("tf32", "fp32"), "fp32"),
    ):
        assert train_options._precision(None, own(*there)) == taken
    with pytest.raises(FormatError, match=r"^precision: own has none of bf16, fp16 and fp32; name one$"):
        train_options._precision(None, own("tf32"))
    assert train_options._precision("TF32", own("tf32")) == "tf32"
    assert as_accelerator(own("tf32")) == own("tf32")
    assert as_accelerator("H100") is accelerator("h100")


@pytest.mark.parametrize(
    ("device", "kappa", "words"),
    [
        ("h100", 1.5, "llm-foundry-h100 (fitted on MPT's"),
        ("h200", 1.5, "llm-foundry-h100, the nearest one measured for h200 (fitted"),
        ("a100", 1.5, "llm-foundry-a100 (fitted on MPT's"),
        ("v100", 1.5, "llm-foundry-a100, the nearest one measured for v100 (fitted"),
        ("mi250", 1.0, "free: nothing was measured for mi250; --contention serial is the other end"),
    ],
)
def test_contention_by_device(device: str, kappa: float, words: str) -> None:
    found = contention_of(None, device)
    assert (found.kappa, found.is_given) == (kappa, False)
    assert found.words.startswith(words)


def test_contention_as_given() -> None:
    for asked_for, kappa in ((1, 1.0), ("2", 2.0), (1.5, 1.5)):
        found = contention_of(asked_for, "h100")
        assert (found.kappa, found.words, found.is_given) == (kappa, "as given", True)
    serial = contention_of("SERIAL", "h100")
    assert (serial.kappa, serial.words) == (2.0, f"serial ({PRESETS['serial'].source})")
    for wrong in (0.999, "2.001", "nan"):
        with pytest.raises(FormatError, match=f"^contention {wrong}: expected a number from 1 .* to 2 "):
            contention_of(wrong, "h100")
    with pytest.raises(FormatError, match=r"^unknown contention 'sereal'.*, or a number from 1 to 2$"):
        contention_of("sereal", "h100")


def test_efficiencies_at_the_ends_of_their_range() -> None:
    def seconds(share: float) -> float:
        return 1 + 1 / share

    assert calibrated_efficiency(seconds, 2.0, "row").efficiency == pytest.approx(1.0, rel=1e-4)
    assert calibrated_efficiency(seconds, 1001.0, "row").efficiency == pytest.approx(1e-3, rel=1e-4)
    for measured, message in (
        (1.99, "calibrate: row: even at the peak the step takes 2 s, measured 1.99 s; check the model, the"),
        (1002, "calibrate: row: even at 0.1% of the peak the step takes 1001 s, measured 1002 s; check the"),
    ):
        with pytest.raises(TreadleError, match=f"^{re.escape(message)}"):
            calibrated_efficiency(seconds, measured, "row")


def test_a_line_in_the_inverse_is_met_at_once() -> None:
    """Both ends, and one guess between them."""
    shares = []

    def seconds(share: float) -> float:
        shares.append(share)
        return 2 + 3 / share

    found = calibrated_efficiency(seconds, 14.0, "row")
    assert (found.measured_s, found.row) == (14.0, "row")
    assert found.efficiency == pytest.approx(0.25)
    assert shares == pytest.approx([1.0, 1e-3, 0.25])
    flat = calibrated_efficiency(lambda share: 5.0, 5.0, "row")
    assert flat.efficiency == 1.0
    assert calibration._CLOSE == 1e-5


@pytest.mark.parametrize("hidden", [0.3, 0.9, 4.0])
def test_bends_of_the_time_are_met(hidden: float) -> None:
    def seconds(share: float) -> float:
        return max(hidden, 0.1 / share) + 0.2 / share

    for share in (0.05, 0.2, 0.7):
        found = calibrated_efficiency(seconds, seconds(share), "")
        assert seconds(found.efficiency) == pytest.approx(seconds(share), rel=2e-5)


@pytest.mark.parametrize(
    ("axes", "options"),
    [
        ({"fsdp": 2}, {"prefetch": 2, "reshard_after_forward": False}),
        ({"tp": 2}, {"sequence_parallel": False}),
        ({"cp": 2}, {"context_exchange": "ring", "bucket_bytes": 1}),
        ({"ep": 2}, {"capacity_factor": Fraction(2), "alltoall_overtakes": True, "bucket_bytes": 1}),
        ({"dp": 2, "fsdp": 1}, {"bucket_bytes": 1, "zero": 1}),
        ({"dp": 1}, {"recompute": "attention", "has_fused_attention": False}),
    ],
)
def test_options_matter_where_their_axis_has_ranks(axes: dict[str, int], options: dict[str, Any]) -> None:
    from treadle.training.training_options import TrainingOptions

    check_options_matter(GPT, mesh_of(**axes), TrainingOptions(kappa=1, **options))
    alone = dict.fromkeys(axes, 1)
    if "recompute" in options:
        plain = TrainingModel("plain", (ModelLayer("l", weights=(Weight("w", 1),)),))
        with pytest.raises(FormatError, match=r"plain has no attention: leave it out, or use full$"):
            check_options_matter(plain, mesh_of(**axes), TrainingOptions(kappa=1, **options))
        with pytest.raises(
            FormatError, match=r"^--no-fused-attention: plain has no attention: leave it out$"
        ):
            check_options_matter(plain, mesh_of(**axes), TrainingOptions(kappa=1, has_fused_attention=False))
        with pytest.raises(
            FormatError, match=r"a fused kernel saves no scores .* or use --no-fused-attention$"
        ):
            check_options_matter(
                GPT, mesh_of(**axes), TrainingOptions(kappa=1, recompute=Recompute.ATTENTION)
            )
        return
    for name, value in options.items():
        with pytest.raises(FormatError, match=f"which mesh {mesh_of(**alone).notation} lacks; leave it out$"):
            check_options_matter(GPT, mesh_of(**alone), TrainingOptions(kappa=1, **{name: value}))


def test_what_is_reached_of_modelled_rates() -> None:
    gather = CollectiveKind.ALLGATHER
    own = NetworkEfficiency(0.5, {gather: ((10, 3.0), (20, 5.0))})
    assert own.time_s(CollectiveKind.ALLREDUCE, 10, 7.0, is_bound=False) == 14.0
    assert own.time_s(None, 10, 7.0, is_bound=False) == 14.0
    assert own.time_s(gather, 10, 7.0, is_bound=True) == 7.0
    assert own.time_s(gather, 0, 7.0, is_bound=False) == 7.0
    times = [own.time_s(gather, size, 7.0, is_bound=False) for size in (1, 10, 12.5, 20, 30)]
    assert times == [3.0, 3.0, 3.5, 5.0, 7.5]
    for share in (0, 1.001, -1):
        with pytest.raises(
            ScheduleError, match=f"^network efficiency {share}: expected more than 0 and at most 1$"
        ):
            NetworkEfficiency(share)
    assert as_network_efficiency(None).share == 1
    assert as_network_efficiency(own) is own
    assert [as_network_efficiency(one).share for one in (1, 0.25, "0.5", ["0.75"], ())] == [
        1,
        0.25,
        0.5,
        0.75,
        1,
    ]
    assert as_network_efficiency("0.5").words == "0.5 of modelled rates"
    with pytest.raises(TreadleError, match="network efficiency"):
        as_network_efficiency(True)


def price(
    rate: int, delay: float, model: TimeModel = TimeModel.ALPHA_BETA, *curve: tuple[int, float]
) -> CollectivePrice:
    return CollectivePrice(Fraction(rate), delay, model, curve)


def test_the_quickest_protocol_of_each_size() -> None:
    both = QuickestPrice(((1.0, price(10, 2.0)), (4.0, price(20, 0.5))))
    assert (both.algbw, both.delay_s, both.model) == (Fraction(20), 3.0, TimeModel.ALPHA_BETA)
    assert [both.time_s(size) for size in (0, -1, 10, 30, 100)] == [0.0, 0.0, 4.0, 6.0, 9.5]


def test_prices_that_cannot_be() -> None:
    for rate, delay in ((0, 1.0), (1, -0.5)):
        with pytest.raises(
            ScheduleError, match=f"^price: {rate} bytes/s after {delay} s, expected more than 0$"
        ):
            price(rate, delay)
    with pytest.raises(ScheduleError, match=r"^price: alpha-beta with 1 points$"):
        price(1, 0.0, TimeModel.ALPHA_BETA, (1, 1.0))
    bound = price(4, 2.0, TimeModel.BOUND)
    assert [bound.time_s(size) for size in (0, 4, 8, 12)] == [0.0, 2.0, 2.0, 3.0]
    curve = price(4, 2.0, TimeModel.SIMULATED, (10, 5.0), (20, 6.0))
    assert [curve.time_s(size) for size in (5, 10, 15, 20, 28)] == [3.5, 5.0, 5.5, 6.0, 8.0]


def test_an_alpha_is_whole_nanoseconds() -> None:
    ring = parse("ring(4)")
    for alpha_s, alpha_ns in ((1e-6, 1000), (1.6e-9, 2), (0.0, 0)):
        found = message_costs(ring, alpha_s=alpha_s)
        assert (found.alpha_ns, found.model) == (alpha_ns, None)
    assert message_costs(ring).alpha_ns == 0
    assert message_costs(ring).model is not None
    with pytest.raises(
        FormatError,
        match=r"^cost_model \(--cost-model\) and alpha_s \(--alpha\): both were given, and a cost model has",
    ):
        message_costs(ring, alpha_s=0.0, cost_model="reference")
    problem = Problem(ring, Collective(CollectiveKind.ALLGATHER, (0, 1, 2, 3)))
    asked_for = message_costs(ring, alpha_s=3e-9)
    assert asked_for.quickest(problem, lambda one, alpha: cast(Any, (one, alpha))) == cast(Any, (problem, 3))


def test_ranks_with_sequences_of_their_own() -> None:
    assert _replicas(mesh_of(dp=3, tp=5, ep=2)) == 6
    assert _replicas(mesh_of(tp=5)) == 1


def test_slow_links_are_those_of_graphs() -> None:
    def costs(name: str, *bandwidths: int) -> Any:
        return SimpleNamespace(
            topology=SimpleNamespace(name=name, bandwidths=np.array(bandwidths, dtype=np.int64))
        )

    notes = slow_links([costs("a", 1, 999_999), costs("b", 1, 1_000_000), costs("c"), costs("a", 1, 999_999)])
    assert notes == ['a: its links carry 1000 kB/s at most; graphs take bandwidth="25GB/s"']


def test_rows_are_fabrics_by_schedules() -> None:
    step = cast(Any, SimpleNamespace(network=as_network_efficiency(0.5)))
    options: TrainKeywords = {"alpha_s": 2e-9, "forward": True, "simulates": False}
    mesh = mesh_of(dp=4)
    rows = costs_of_rows(["ring(4)", "complete(4)"], ["treadle", "Bound"], mesh, step, options)
    assert [(one.topology.name, one.scheduler.name) for one in rows] == [
        ("ring(4)", "treadle"),
        ("ring(4)", "bound"),
        ("complete(4)", "treadle"),
        ("complete(4)", "bound"),
    ]
    for one in rows:
        assert (one.forward, one.simulates, one.messages.alpha_ns, one.network.share) == (True, False, 2, 0.5)
    (plain,) = costs_of_rows("ring(4)", "ring", mesh, step, {})
    assert (plain.forward, plain.simulates) == (False, True)
    for fabrics, schedules, word in (([], ["ring"], "fabrics"), (["ring(4)"], [], "schedules")):
        with pytest.raises(FormatError, match=f"^{word}: expected at least one$"):
            costs_of_rows(cast(Any, fabrics), schedules, mesh, step, {})


def test_demands_are_no_direct_collective() -> None:
    from treadle.training.prices.direct_prices import node_bandwidth

    ring = parse("ring(4, bandwidth='3B/s')")
    ranks = (0, 1, 2, 3)
    whole = Collective(CollectiveKind.ALLTOALL, ranks)
    assert node_bandwidth(Problem(ring, whole)) == 6
    some = Collective(CollectiveKind.ALLTOALL, ranks, demands=Demands(np.eye(4, k=1, dtype=np.int64)))
    for problem in (
        Problem(ring, some),
        Problem(ring, Collective(CollectiveKind.ALLGATHER, (0, 1, 2))),
        Problem(ring, Collective(CollectiveKind.ALLGATHER, ranks, groups=((0, 1), (2, 3)))),
        Problem(parse("path(4)"), Collective(CollectiveKind.ALLGATHER, ranks)),
        Problem(parse("leaf_spine(2, 1, gpus_per_leaf=2)"), Collective(CollectiveKind.ALLGATHER, ranks)),
    ):
        assert node_bandwidth(problem) is None
