"""Figures of steps and phases by hand: FLOPs, tokens, bytes, and where a device's time goes."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import pytest

from samples.training.small_steps import free_costs, mesh_of
from treadle.schedules.collective import CollectiveKind
from treadle.training.compute_times import RooflineTimes
from treadle.training.devices import Accelerator
from treadle.training.models.model_layer import Attended, ModelLayer, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel
from treadle.training.serving import ServingPhase, ServingSetup, simulate_phase
from treadle.training.step import StepOutcome, TrainingSetup
from treadle.training.timeline.task import COMPUTE_STREAM, Category, Task
from treadle.training.timeline.timeline import DeviceTime, Timeline
from treadle.training.training_options import Recompute, TrainingOptions

SUM = CollectiveKind.ALLREDUCE
PLAIN = Accelerator("plain", MappingProxyType({"bf16": 1e12, "fp32": 1e11}), 2**30, 1e9, "")


def setup(**fields: Any) -> TrainingSetup:
    work = Work("w", WorkKind.MATMUL, flops=10, weight_elements=10)
    layer = ModelLayer("l", "a", weights=(Weight("w", 10),), works=(work,), boundary_elements=4)
    given: dict[str, Any] = {
        "model": TrainingModel("small", (layer, replace(layer, name="m", stream="b"))),
        "mesh": mesh_of(dp=2),
        "device": PLAIN,
        "precision": "bf16",
        "times": RooflineTimes(PLAIN, "bf16", 0.5),
        "sequences": 6,
        "tokens": {"a": 3, "b": 2},
        "options": TrainingOptions(kappa=1),
        **fields,
    }
    return TrainingSetup(**given)


def test_figures_of_a_step() -> None:
    """Six sequences of five tokens; 10 FLOPs each, three times, on two ranks for four seconds."""
    made = setup()
    assert made.flops == 6 * 3 * 10 * 5
    tasks = (Task("t", 0, COMPUTE_STREAM, 4.0, (), Category.FORWARD),)
    found = StepOutcome(made, cast(Any, None), Timeline(tasks, (0.0,), (4.0,)), None)
    assert found.mfu == pytest.approx(900 / (2 * 1e12 * 4))
    assert found.flops_per_rank_per_s == pytest.approx(900 / 8)
    assert found.tokens_per_s == pytest.approx(6 * 5 / 4)
    assert (found.iteration_s, found.compute_s, found.idle_s, found.exposed_s) == (4.0, 4.0, 0, {})


def test_how_a_step_keeps_things() -> None:
    options = TrainingOptions(
        kappa=1,
        micro_batches=2,
        prefetch=3,
        recompute=Recompute.FULL,
        has_fused_attention=False,
        weight_bytes=3,
        element_bytes=5,
        gradient_bytes=7,
        optimizer_bytes=11,
        reshard_after_forward=False,
    )
    keeping = setup(mesh=mesh_of(fsdp=3), options=options).activation_policy
    assert (keeping.weight_shards, keeping.expert_shards, keeping.prefetch, keeping.recompute) == (
        3,
        3,
        3,
        "full",
    )
    assert (keeping.weight_bytes, keeping.element_bytes, keeping.gradient_bytes, keeping.optimizer_bytes) == (
        3,
        5,
        7,
        11,
    )
    assert not keeping.reshard_after_forward
    assert keeping.keeps_whole_gradients
    assert not keeping.fused_attention
    once = setup(
        mesh=mesh_of(fsdp=3), options=replace(options, micro_batches=1, has_optimizer=False)
    ).activation_policy
    assert not once.keeps_whole_gradients
    assert once.optimizer_bytes == 0
    local = setup().local
    assert (local.sequences, local.tp, local.sequence_parallel) == (3, 1, False)


def test_parts_of_a_device_s_time() -> None:
    """Nothing until 1, work until 4, of it two seconds beside a send that lasts until 6; a sum beside it."""
    tasks = (
        Task("w", 0, COMPUTE_STREAM, 2.0, (), Category.FORWARD),
        Task("s", 0, "a", 3.0, (), Category.SEND, (None, ("pp",)), 1),
        Task("r", 0, "b", 1.0, (), Category.ALLREDUCE, (SUM, ("dp",)), 1),
        Task("other", 1, COMPUTE_STREAM, 8.0, (), Category.BACKWARD),
    )
    found = Timeline(tasks, (1.0, 2.0, 5.0, 0.0), (4.0, 6.0, 7.0, 8.0))
    assert found.devices == (0, 1)
    assert found.device_time(0) == DeviceTime(
        2.0, 1.0, {Category.SEND: 1.5, Category.ALLREDUCE: 1.5}, 1.0 + 1.0
    )
    assert found.device_time(1) == DeviceTime(8.0, 0.0, {}, 0.0)
    assert found.total_s == 8.0
    assert Timeline((), (), ()).total_s == 0


def test_bytes_of_a_served_step() -> None:
    """A prompt of five tokens for each of three sequences, or one token; two sums of four elements."""
    scores = Work("s", WorkKind.ATTENTION, flops_per_context=1, attended=Attended())
    layer = ModelLayer("l", works=(scores,), boundary_elements=4, reductions=2, cache_elements=6, kv_pieces=4)
    mesh = mesh_of(tp=2, dp=2)
    times = RooflineTimes(PLAIN, "bf16", 0.5)
    setup_of = ServingSetup(
        TrainingModel("m", (layer,)),
        mesh,
        PLAIN,
        times,
        ServingPhase.PREFILL,
        6,
        {"": 5},
        element_bytes=3,
        weight_bytes=7,
    )
    for phase, tokens in (("prefill", 5), ("decode", 1)):
        found = simulate_phase(replace(setup_of, phase=ServingPhase(phase)), free_costs(mesh))
        sums = [task for task in found.timeline.tasks if task.traffic == (SUM, ("tp",))]
        assert [task.size_bytes for task in sums] == [3 * tokens * 4 * 3] * 2
        assert found.tokens_per_s == pytest.approx(6 * tokens / float(found.seconds))
        assert found.memory.cache_bytes == 3 * 6 * 5 / 2 * 3
        assert found.setup.is_decoding == (phase == "decode")
