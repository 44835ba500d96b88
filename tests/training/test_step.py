"""Steps from setups: figures of the outcome, the best bucket, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from samples.training.small_steps import free_costs, mesh_of
from treadle.errors import TreadleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.costs import AlphaBetaCosts
from treadle.training.devices import accelerator
from treadle.training.models.model_layer import Attended, ModelLayer, Saved, Weight, Work, WorkKind
from treadle.training.models.training_model import TrainingModel
from treadle.training.step import MOST_PASSES, StepOutcome, TrainingSetup, simulate_step
from treadle.training.training_options import BUCKETS, TrainingOptions

N = 2**20
WORK = Work("w", WorkKind.MATMUL, flops=2 * N, weight_elements=N)
A100 = accelerator("a100")


def setup(mesh: Mesh, layer: dict[str, Any] | None = None, n: int = 4, **fields: Any) -> TrainingSetup:
    layers = [
        ModelLayer(
            f"l{place}",
            **{"weights": (Weight("w", N),), "works": (WORK,), "boundary_elements": 64, **(layer or {})},
        )
        for place in range(n)
    ]
    given: dict[str, Any] = {
        "device": A100,
        "precision": "bf16",
        "times": RooflineTimes(A100, "bf16", 0.5, memory_efficiency=None),
        "sequences": mesh.n_ranks,
        "tokens": {"": 1000},
        "options": TrainingOptions(kappa=1, has_optimizer=False),
        **fields,
    }
    return TrainingSetup(TrainingModel("small", tuple(layers)), mesh, **given)


def outcome(mesh: Mesh, rate: float = 1e30, **fields: Any) -> StepOutcome:
    kinds = dict.fromkeys([None, *CollectiveKind], rate)
    return simulate_step(setup(mesh, **fields), free_costs(mesh, kinds))


def test_without_communication_mfu_is_the_efficiency() -> None:
    """2 FLOPs forward and 4 backward for each of 4 N weights and 8000 tokens."""
    found = outcome(mesh_of(dp=8))
    assert found.setup.flops == 6 * 4 * N * 8000
    assert found.mfu == pytest.approx(0.5)
    assert float(found.iteration_s) == pytest.approx(6 * 4 * N * 1000 / (0.5 * 312e12))
    assert found.tokens_per_s == pytest.approx(8000 / float(found.iteration_s))
    assert found.flops_per_rank_per_s == pytest.approx(156e12)


def test_what_is_computed_again_does_not_count() -> None:
    """8 FLOPs where 6 count."""
    options = TrainingOptions(kappa=1, has_optimizer=False, recompute="full")  # type: ignore[arg-type]
    assert outcome(mesh_of(dp=8), options=options).mfu == pytest.approx(0.5 * 6 / 8)


def test_parts_of_the_time_add_up() -> None:
    mesh = mesh_of(pp=2, fsdp=2)
    options = TrainingOptions(kappa=Fraction(3, 2), micro_batches=4)
    found = outcome(mesh, 1e9, options=options, sequences=8)
    parts = [found.compute_s, found.contention_s, found.idle_s, *found.exposed_s.values()]
    assert float(sum(parts)) == pytest.approx(float(found.iteration_s))
    assert min(parts) > 0
    assert set(found.exposed_s) == {"allgather", "reduce-scatter", "send"}
    assert len(found.device_times) == 2


def test_the_best_bucket_is_taken() -> None:
    mesh = mesh_of(dp=8)
    # 8 MB in all. Latencies favour large buckets, rates small ones.
    for alpha, best in ((1e-2, BUCKETS[1]), (0.0, BUCKETS[0])):
        costs = AlphaBetaCosts(alpha, {(CollectiveKind.ALLREDUCE, ("dp",)): 4e9})
        free = setup(mesh)
        found = simulate_step(free, costs)
        times = []
        for size in BUCKETS:
            one = simulate_step(replace(free, options=replace(free.options, bucket_bytes=size)), costs)
            assert one.bucket_bytes == size
            times.append(one.iteration_s)
        assert (found.bucket_bytes, found.iteration_s) == (best, min(times))
    assert outcome(mesh_of(fsdp=8)).bucket_bytes is None
    sharded = TrainingOptions(kappa=1, bucket_bytes=7)
    assert outcome(mesh_of(fsdp=8), options=sharded).bucket_bytes is None


def test_replicas_at_kappa_2_gain_nothing_from_overlap() -> None:
    mesh = mesh_of(dp=8)
    options = TrainingOptions(kappa=2, has_optimizer=False, bucket_bytes=1)
    found = outcome(mesh, 1e10, options=options)
    moved = 4 * 2 * N / 1e10
    assert float(found.iteration_s) == pytest.approx(float(found.compute_s) + moved)


@pytest.mark.parametrize(
    ("mesh", "fields", "message"),
    [
        (mesh_of(data=8), {}, "axis 'data' has no meaning here"),
        (mesh_of(dp=8), {"sequences": 12}, "batch of 12: expected a multiple of 8"),
        (mesh_of(dp=8), {"tokens": {"decoder": 5}}, "tokens of the stream ''"),
        (mesh_of(ep=8), {}, "small has no experts to spread over ep"),
        (mesh_of(dp=8), {"precision": "fp8"}, "has no 'fp8' products"),
    ],
)
def test_setups_that_do_not_fit_are_refused(mesh: Mesh, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        setup(mesh, **fields)


def test_experts_are_spread_evenly_or_not_at_all() -> None:
    layer = {"weights": (Weight("w", 6 * N, expert=True),), "experts": 6, "top_k": 1}
    setup(mesh_of(ep=3), layer={**layer, "works": (), "routed_elements": 1, "exchanges": 2})
    with pytest.raises(TreadleError, match="expected ep to divide the 6 experts of small"):
        setup(mesh_of(ep=4), layer={**layer, "works": (), "routed_elements": 1, "exchanges": 2})


def test_context_parallelism_shares_attention() -> None:
    scores = Work("scores", WorkKind.ATTENTION, flops_per_context=64, attended=Attended())
    fields: dict[str, Any] = {"layer": {"works": (WORK, scores), "kv_elements": 8}, "sequences": 8}
    alone = outcome(mesh_of(dp=1), **fields)
    shared = outcome(mesh_of(cp=8), **fields)
    assert float(shared.compute_s) == pytest.approx(float(alone.compute_s) / 8)


def test_memory_is_that_of_each_stage() -> None:
    """Two stages of two layers, shards of two ranks: of each layer half a weight, gradient and Adam state.

    The first stage has two micro-batches in flight, the last one.
    """
    saved = {"saved": (Saved("x", 10),)}
    options = TrainingOptions(kappa=1, micro_batches=4)
    found = outcome(mesh_of(pp=2, fsdp=2), layer=saved, options=options, sequences=8).memory
    assert [one.weights_bytes for one in found] == [2 * N, 2 * N]
    assert [one.optimizer_bytes for one in found] == [12 * N, 12 * N]
    # Not dropped after the forward pass, so that all of the stage is there, and its gradients are added up.
    assert [one.gathered_bytes for one in found] == [2 * 2 * N + 2 * 2 * N] * 2
    once = replace(options, micro_batches=1)
    found_once = outcome(mesh_of(pp=2, fsdp=2), layer=saved, options=once, sequences=8).memory
    assert [one.gathered_bytes for one in found_once] == [2 * 2 * N + 2 * N] * 2
    assert [one.activations_bytes for one in found] == [2 * 2 * 10 * 1000 * 2, 2 * 10 * 1000 * 2]
    free = replace(options, reshard_after_forward=True, prefetch=0, has_optimizer=False)
    dropped = outcome(mesh_of(pp=2, fsdp=2), options=free, sequences=8).memory
    assert [(one.gathered_bytes, one.optimizer_bytes) for one in dropped] == [(2 * N + 2 * N, 0)] * 2


def test_interleaved_pieces_are_counted_apart() -> None:
    """Two stages of two pieces, four micro-batches; only the first layer saves anything.

    F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a ...: all four are in flight before the first comes back.
    """
    options = TrainingOptions(kappa=1, micro_batches=4, interleave=2)
    small = setup(mesh_of(pp=2), sequences=4, options=options)
    first = replace(small.model.layers[0], saved=(Saved("x", 10),))
    model = replace(small.model, layers=(first, *small.model.layers[1:]))
    found = simulate_step(replace(small, model=model), free_costs(small.mesh)).memory
    assert [one.activations_bytes for one in found] == [4 * 10 * 1000 * 2, 0]


def test_shards_of_experts_are_along_fewer_axes() -> None:
    """Of 4 N elements of a layer's experts, 1/2 along ep and 1/2 along fsdp; of its N others, a quarter."""
    experts = {"experts": 2, "top_k": 1, "routed_elements": 1, "exchanges": 2}
    weights = (Weight("w", N), Weight("e", 4 * N, expert=True))
    work = replace(WORK, name="e", expert=True)
    layer = {**experts, "weights": weights, "works": (WORK, work)}
    found = outcome(mesh_of(fsdp=2, ep=2), layer=layer, n=1)
    assert found.memory[0].weights_bytes == 2 * (N + N // 4)


def test_more_passes_than_can_be_simulated_are_refused() -> None:
    most = MOST_PASSES // (2 * 4)
    options = TrainingOptions(kappa=1, micro_batches=most + 1)
    with pytest.raises(TreadleError, match="use fewer micro-batches"):
        setup(mesh_of(dp=2), sequences=2 * (most + 1), options=options)
    setup(mesh_of(dp=2), sequences=2 * most, options=replace(options, micro_batches=most))
