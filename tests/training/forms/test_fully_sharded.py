"""Weights gathered layer by layer, gradients reduce-scattered; with replicas beside it summed as shards."""

from __future__ import annotations

from dataclasses import replace

from samples.training.small_steps import free_costs, mesh_of, plain_layers, small_step
from treadle.schedules.collective import CollectiveKind
from treadle.training.forms.layer_passes import LayerSeconds
from treadle.training.forms.stage_tasks import Turn, turns_to_gather_for
from treadle.training.timeline.task import Category

MESH = mesh_of(fsdp=4)
COSTS = free_costs(MESH, {CollectiveKind.ALLGATHER: 8, CollectiveKind.REDUCE_SCATTER: 4})
"""Of 8 bytes: 1 s to gather, 2 s to scatter."""


def test_gathers_run_beside_the_turn_before() -> None:
    """Two layers of 1 + 2 s. Both are gathered at once, 0-1 and 1-2.

    l0 1-2, l1 2-3; l1 keeps its weights for its backward pass, 3-5, beside which l0 is gathered again, 3-4.
    l0 5-7 beside the scatter of l1, 5-7; the scatter of l0 7-9.
    """
    step = small_step(plain_layers(2), MESH, COSTS)
    assert step.times("weights of l0", "allgather") == [(0, 1), (3, 4)]
    assert step.times("weights of l1", "allgather") == [(1, 2)]
    assert [step.times(f"l{k}", "forward") for k in (0, 1)] == [[(1, 2)], [(2, 3)]]
    assert [step.times(f"l{k}", "backward") for k in (1, 0)] == [[(3, 5)], [(5, 7)]]
    assert [step.times(f"gradients of l{k}", "reduce-scatter") for k in (1, 0)] == [[(5, 7)], [(7, 9)]]
    assert step.timeline.device_time(0).exposed_s == {Category.ALLGATHER: 1, Category.REDUCE_SCATTER: 2}


def test_what_is_gathered_and_scattered_are_bytes() -> None:
    """Eight elements of 3 bytes are gathered in 3 s, their gradients of 2 bytes scattered in 4 s."""
    step = small_step(plain_layers(1), MESH, COSTS, element_bytes=3, gradient_bytes=2)
    assert step.times("weights of l0", "allgather") == [(0, 3)]
    assert step.times("gradients of l0", "reduce-scatter") == [(6, 10)]


def test_without_prefetch_every_gather_is_exposed() -> None:
    """l0 gathered 0-1, runs 1-2; l1 2-3, 3-4; backward 4-6, scatter 6-8, before the gather of l0, 8-9."""
    step = small_step(plain_layers(2), MESH, COSTS, prefetch=0)
    assert step.times("weights of l1", "allgather") == [(2, 3)]
    assert step.times("weights of l0", "allgather") == [(0, 1), (8, 9)]
    assert step.times("gradients of l1", "reduce-scatter") == [(6, 8)]
    assert step.timeline.total_s == 11 + 2


def test_prefetch_is_held_back_until_memory_is_free() -> None:
    """With prefetch 1 the third layer's gather starts when the first layer's turn has ended."""
    slow = free_costs(MESH, {CollectiveKind.ALLGATHER: 8})
    step = small_step(plain_layers(3), MESH, slow, seconds=LayerSeconds((10, 20)))
    assert step.times("weights of l2", "allgather")[0] == (11, 12)
    deep = small_step(plain_layers(3), MESH, slow, seconds=LayerSeconds((10, 20)), prefetch=2)
    assert deep.times("weights of l2", "allgather")[0] == (2, 3)


def test_weights_that_stay_are_gathered_once() -> None:
    step = small_step(plain_layers(2), MESH, COSTS, reshard_after_forward=False, micro_batches=2)
    assert len(step.of("allgather")) == 2
    assert len(step.of("reduce-scatter")) == 2
    again = small_step(plain_layers(2), MESH, COSTS, micro_batches=2)
    # Forward and backward of each batch: the last layer stays for its backward, the first for the next batch.
    assert [task.name for task in again.of("allgather")] == [
        "weights of l0",
        "weights of l1",
        "weights of l0",
        "weights of l1",
        "weights of l0",
    ]
    assert len(again.of("reduce-scatter")) == 4


def test_a_shared_weight_stays() -> None:
    layers = plain_layers(2)
    tied = [*layers, replace(layers[1], name="head", weights=(), shares="l0")]
    step = small_step(tied, MESH, COSTS)
    assert [task.name for task in step.of("allgather")] == ["weights of l0", "weights of l1", "weights of l1"]


def test_replicas_of_shards_sum_them() -> None:
    mesh = mesh_of(dp=2, fsdp=4)
    step = small_step(plain_layers(1), mesh, free_costs(mesh, {CollectiveKind.ALLREDUCE: 1}))
    (total,) = step.of("allreduce")
    assert (total.traffic, total.size_bytes) == ((CollectiveKind.ALLREDUCE, ("dp",)), 2)


def test_context_parallelism_shares_the_shards() -> None:
    mesh = mesh_of(fsdp=4, cp=2)
    step = small_step(plain_layers(1), mesh, free_costs(mesh), tokens=2)
    assert {task.traffic for task in step.of("allgather")} == {(CollectiveKind.ALLGATHER, ("fsdp", "cp"))}


def test_turns_that_need_a_gather() -> None:
    turns = [Turn(0, True, 0), Turn(1, True, 0), Turn(1, False, 0), Turn(0, False, 0)]
    assert turns_to_gather_for(turns, kept=frozenset()) == [0, 1, 3]
    assert turns_to_gather_for(turns, kept=frozenset({0})) == [0, 1]
    assert turns_to_gather_for(turns, kept=frozenset({0, 1})) == [0, 1]


def test_a_stage_gathers_while_it_waits_for_the_one_before() -> None:
    """Two layers of 1 + 2 s on two stages: both gather 0-1; l0 1-2, l1 2-3, back 3-5 and 5-7."""
    mesh = mesh_of(pp=2, fsdp=4)
    step = small_step(plain_layers(2), mesh, free_costs(mesh, {CollectiveKind.ALLGATHER: 8}))
    assert step.times("weights of l0", "allgather") == step.times("weights of l1", "allgather") == [(0, 1)]
    [(start, end)] = step.times("l1", "forward")
    assert (float(start), float(end), float(step.timeline.total_s)) == (2, 3, 7)
