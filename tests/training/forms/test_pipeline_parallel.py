"""Pipelines: order of the passes, cuts of a model, bubbles, sends."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from samples.training.small_steps import free_costs, mesh_of, plain_layers, small_step
from treadle.errors import ScheduleError
from treadle.training.costs import AlphaBetaCosts
from treadle.training.models.model_layer import Weight


@pytest.mark.parametrize(
    ("p", "m", "v"), [(2, 4, 1), (4, 4, 1), (4, 16, 1), (2, 2, 2), (4, 8, 2), (4, 16, 3), (8, 8, 2)]
)
def test_the_bubble_is_p_minus_1_over_v_m(p: int, m: int, v: int) -> None:
    """Free sends, equal stages: each stage works m (1 + 2) v, all of it takes (p - 1) (1 + 2) more."""
    mesh = mesh_of(pp=p)
    step = small_step(
        plain_layers(p * v), mesh, free_sends(), micro_batches=m, interleave=v, has_optimizer=False
    )
    work = 3 * m * v
    assert step.timeline.total_s == work * (1 + Fraction(p - 1, v * m))
    assert all(step.timeline.device_time(stage).compute_s == work for stage in range(p))


def free_sends() -> AlphaBetaCosts:
    class Free(AlphaBetaCosts):
        def send_s(self, axis: str, size_bytes: int) -> Fraction:
            del axis, size_bytes
            return Fraction(0)

    return Free(0, {})


def test_both_stages_wait_for_the_gradient_of_the_other() -> None:
    """Sends of 8 bytes take 8 s, of activations and gradients next to nothing: 0-1, 1-4, 4-6.

    The last stage sends its copy's gradient at 4, the first its own at 6; each updates with both.
    """
    mesh = mesh_of(pp=2)
    head = replace(plain_layers(1)[0], name="head", weights=(Weight("norm", 2),), shares="l0")
    layers = [replace(plain_layers(1)[0], boundary_elements=0), head]
    step = small_step(layers, mesh, free_costs(mesh, {None: 1}), optimizer_s=1)
    assert sorted(step.times("gradient of w", "send")) == [(4, 12), (6, 14)]
    # 8 elements on the first stage, after the other's gradient; 8 + 2 on the last.
    assert sorted(step.times("optimizer", "optimizer")) == [(12, 20), (14, 24)]


def test_a_shared_weight_of_two_stages_is_held_and_summed_twice() -> None:
    mesh = mesh_of(pp=2, dp=2)
    head = replace(plain_layers(1)[0], name="head", weights=(), shares="l0")
    step = small_step(
        [*plain_layers(2), head], mesh, free_costs(mesh), bucket_bytes=10**9, layers_per_chunk=(2, 1)
    )
    assert [(task.device, task.size_bytes) for task in step.of("allreduce")] == [(0, 16), (1, 8)]
    named = [task for task in step.of("send") if task.name == "gradient of w"]
    assert [(task.device, task.size_bytes) for task in named] == [(1, 8), (0, 8)]


def test_what_cannot_be_cut_is_refused() -> None:
    mesh = mesh_of(pp=4)
    with pytest.raises(ScheduleError, match=r"pipeline of 4 virtual stages .* 3 layers"):
        small_step(plain_layers(3), mesh, free_costs(mesh))
    with pytest.raises(ScheduleError, match=r"interleave 2: .* found 6 with pp=4"):
        small_step(plain_layers(8), mesh, free_costs(mesh), micro_batches=6, interleave=2)
    with pytest.raises(ScheduleError, match=r"3 virtual stages of 8 layers in total; expected 4 .* of 8"):
        small_step(plain_layers(8), mesh, free_costs(mesh), layers_per_chunk=(2, 2, 4))
