"""Buckets of gradients, beside the backward pass."""

from __future__ import annotations

import pytest

from samples.training.small_steps import free_costs, mesh_of, plain_layers, small_step
from treadle.schedules.collective import CollectiveKind
from treadle.training.forms.stage_tasks import Buckets
from treadle.training.models.model_layer import Weight
from treadle.training.timeline.task import Category

MESH = mesh_of(dp=4)
COSTS = free_costs(MESH, {CollectiveKind.ALLREDUCE: 4})


@pytest.mark.parametrize(
    ("capacity", "first", "sizes", "closed", "rest"),
    [
        (10, 10, [4, 4, 4, 4], [12], [4]),
        (10, 3, [4, 4, 4, 4], [4, 12], []),
        (4, 4, [4, 9, 1], [4, 9], [1]),
        (100, 100, [4, 4], [], [8]),
    ],
)
def test_a_bucket_closes_once_it_has_reached_its_capacity(
    capacity: int, first: int, sizes: list[int], closed: list[int], rest: list[int]
) -> None:
    buckets = Buckets(capacity, first)
    assert (buckets.add(sizes), buckets.close(), buckets.close()) == (closed, rest, [])


def test_gradients_are_summed_as_they_get_ready() -> None:
    """Forward 0-2, backward of l1 2-4 and of l0 4-6; each bucket of 8 bytes takes 2 s."""
    step = small_step(plain_layers(2), MESH, COSTS)
    assert [step.times(f"bucket {k}", "allreduce") for k in (0, 1)] == [[(4, 6)], [(6, 8)]]
    parts = step.timeline.device_time(0)
    assert (parts.compute_s, parts.exposed_s) == (6, {Category.ALLREDUCE: 2})


def test_a_large_bucket_waits_for_the_last_gradient() -> None:
    step = small_step(plain_layers(2), MESH, COSTS, bucket_bytes=16)
    assert step.times("bucket 0", "allreduce") == [(6, 10)]


def test_a_bucket_closes_within_a_layer_from_its_last_weight() -> None:
    """16 bytes from the back: 10, then 2 + 4 and what is left of the layer before."""
    weights = (Weight("a", 4), Weight("b", 2), Weight("c", 10))
    step = small_step(plain_layers(2, weights=weights), MESH, COSTS, bucket_bytes=8)
    assert [task.size_bytes for task in step.of("allreduce")] == [10, 4 + 2 + 10, 4 + 2]


def test_the_first_bucket_may_be_smaller() -> None:
    step = small_step(plain_layers(4), MESH, COSTS, bucket_bytes=16, first_bucket_bytes=1)
    assert [task.size_bytes for task in step.of("allreduce")] == [8, 16, 8]


def test_micro_batches_sum_their_gradients_once() -> None:
    step = small_step(plain_layers(2), MESH, COSTS, micro_batches=3)
    assert [task.size_bytes for task in step.of("allreduce")] == [8, 8]
    assert step.times("bucket 0", "allreduce") == [(6 + 6 + 4, 6 + 6 + 6)]


def test_the_update_waits_for_all_gradients() -> None:
    step = small_step(plain_layers(2), MESH, COSTS, optimizer_s=1)
    assert step.times("optimizer", "optimizer") == [(8, 8 + 16)]
    assert not small_step(plain_layers(2), MESH, COSTS, has_optimizer=False).of("optimizer")
    assert small_step(plain_layers(2), mesh_of(dp=1), COSTS).timeline.total_s == 6


def test_zero_shards_the_update_of_weights_over_replicas() -> None:
    """Weights are gathered before the first pass, gradients scattered, and a quarter of 16 updated."""
    for stage, reductions in ((1, 1), (2, 3)):
        step = small_step(plain_layers(2), MESH, COSTS, micro_batches=3, zero=stage, optimizer_s=1)
        assert not step.of("allreduce")
        assert [task.size_bytes for task in step.of("allgather")] == [8, 8]
        assert [task.size_bytes for task in step.of("reduce-scatter")] == [8, 8] * reductions
        assert [task.seconds for task in step.of("optimizer")] == [4]
        assert step.times("weights of l0", "allgather")[0][0] == 0
    plain = small_step(plain_layers(2), MESH, COSTS, optimizer_s=1)
    assert [task.seconds for task in plain.of("optimizer")] == [16]


def test_zero_shards_weights_of_experts_over_their_own_replicas() -> None:
    mesh = mesh_of(dp=2, ep=4)
    layers = plain_layers(1, experts=4, weights=(Weight("w", 8), Weight("experts", 64, expert=True)))
    step = small_step(layers, mesh, free_costs(mesh), zero=1, optimizer_s=1)
    for category in ("allgather", "reduce-scatter"):
        assert [(task.stream, task.size_bytes) for task in step.of(category)] == [("dp,ep", 8), ("dp", 16)]
    assert [task.seconds for task in step.of("optimizer")] == [1 + 8]
