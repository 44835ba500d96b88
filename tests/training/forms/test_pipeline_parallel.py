"""Pipelines: order of the passes, cuts of a model, bubbles, sends."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise
from random import Random

import pytest

from samples.training.small_steps import free_costs, mesh_of, plain_layers, small_step
from treadle.errors import ScheduleError
from treadle.training.costs import AlphaBetaCosts
from treadle.training.forms.axes import ParallelLayout
from treadle.training.forms.layer_passes import LayerSeconds
from treadle.training.forms.pipeline_parallel import Visit, cut_layers, stage_order
from treadle.training.forms.rank_part import RankPart
from treadle.training.forms.training_tasks import boundary_bytes
from treadle.training.models.model_layer import Attended, Weight, Work, WorkKind
from treadle.training.timeline.task import Category
from treadle.training.training_options import TrainingOptions


def order(*arguments: int) -> str:
    return " ".join(
        f"{'F' if visit.is_forward else 'B'}{visit.micro_batch}{'ab'[visit.chunk // arguments[1]]}"
        for visit in stage_order(*arguments)
    )


def test_one_forward_one_backward() -> None:
    """Narayanan et al. 2021, figure 4, below: four stages."""
    assert order(0, 4, 5) == "F0a F1a F2a F3a B0a F4a B1a B2a B3a B4a"
    assert order(3, 4, 3) == "F0a B0a F1a B1a F2a B2a"
    assert order(0, 1, 2) == "F0a B0a F1a B1a"


def test_interleaved_order() -> None:
    """Two stages of two pieces: the warm-up of Megatron-LM is 2 (p - s - 1) + (v - 1) p passes."""
    assert order(1, 2, 2, 2) == "F0a F1a F0b B0b F1b B1b B0a B1a"
    assert order(0, 2, 4, 2) == "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a"


@pytest.mark.parametrize(
    ("p", "m", "v"), [(2, 4, 1), (4, 4, 1), (4, 9, 1), (2, 2, 2), (2, 4, 3), (4, 8, 2), (3, 3, 2)]
)
def test_every_stage_passes_everything_once_and_forward_before_backward(p: int, m: int, v: int) -> None:
    for stage in range(p):
        visits = stage_order(stage, p, m, v)
        expected = {Visit(f, b, k * p + stage) for f in (False, True) for b in range(m) for k in range(v)}
        assert len(visits) == len(expected)
        assert set(visits) == expected
        place = {visit: number for number, visit in enumerate(visits)}
        assert all(place[replace(visit, is_forward=True)] <= place[visit] for visit in visits)


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


def test_sends_stand_between_stages() -> None:
    """Two stages, one micro-batch, sends of 2 s: 1 + 2 + 1 + 2 + 2 + 2."""
    mesh = mesh_of(pp=2)
    step = small_step(plain_layers(2, boundary_elements=6), mesh, free_costs(mesh, {None: 3}))
    assert step.times("activations of piece 0", "send") == [(1, 3)]
    assert step.times("l1", "forward") == [(3, 4)]
    assert step.times("gradients of piece 1", "send") == [(6, 8)]
    assert step.timeline.total_s == 10
    first = step.timeline.device_time(0)
    assert (first.compute_s, first.exposed_s, first.idle_s) == (3, {Category.SEND: 2}, 5)


def test_gradients_go_back_over_the_same_boundary() -> None:
    mesh = mesh_of(pp=3)
    layers = [replace(layer, boundary_elements=5 * (k + 1)) for k, layer in enumerate(plain_layers(3))]
    step = small_step(layers, mesh, free_costs(mesh))
    assert [(task.device, task.size_bytes) for task in step.of("send")] == [(0, 5), (1, 10), (2, 10), (1, 5)]


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


def test_what_a_later_stage_attends_to_is_handed_on() -> None:
    mesh = mesh_of(pp=3)
    encoder = plain_layers(1, stream="encoder", boundary_elements=5)
    works = (
        Work("cross", WorkKind.ATTENTION, flops_per_context=1, attended=Attended("encoder", is_causal=False)),
    )
    decoder = [
        replace(layer, name=f"d{k}", stream="", works=works) for k, layer in enumerate(plain_layers(2))
    ]
    share = RankPart(
        ParallelLayout(mesh), TrainingOptions(kappa=1, element_bytes=1), 1, {"encoder": 10, "": 2}
    )
    layers = [*encoder, *decoder]
    assert boundary_bytes(layers[:1], layers, share) == 50
    assert boundary_bytes(layers[:2], layers, share) == 50 + 2
    plain = [*encoder, *[replace(layer, works=()) for layer in decoder]]
    assert boundary_bytes(plain[:2], plain, share) == 2


@pytest.mark.parametrize("seed", range(30))
def test_cuts_are_as_even_as_any(seed: int) -> None:
    random = Random(seed)
    seconds = [Fraction(random.randint(0, 9)) for _ in range(random.randint(1, 9))]
    pieces = random.randint(1, len(seconds))
    found = cut_layers(seconds, pieces)
    assert [place for piece in found for place in piece] == list(range(len(seconds)))
    assert len(found) == pieces
    assert all(found)
    best = min(
        max(sum(seconds[start:end]) for start, end in pairwise((0, *cut, len(seconds))))
        for cut in combinations(range(1, len(seconds)), pieces - 1)
    )
    assert max(sum(seconds[place] for place in piece) for piece in found) == best


def test_what_cannot_be_cut_is_refused() -> None:
    mesh = mesh_of(pp=4)
    with pytest.raises(ScheduleError, match=r"pipeline of 4 pieces .* 3 layers"):
        small_step(plain_layers(3), mesh, free_costs(mesh))
    with pytest.raises(ScheduleError, match=r"interleave 2: .* found 6 with pp=4"):
        small_step(plain_layers(8), mesh, free_costs(mesh), micro_batches=6, interleave=2)
    with pytest.raises(ScheduleError, match=r"3 pieces of 8 layers in all; expected 4 .* of 8"):
        small_step(plain_layers(8), mesh, free_costs(mesh), layers_per_chunk=(2, 2, 4))


def test_stages_may_be_given() -> None:
    mesh = mesh_of(pp=2)
    step = small_step(
        plain_layers(4), mesh, free_costs(mesh), layers_per_chunk=(1, 3), seconds=LayerSeconds((1, 2))
    )
    assert [step.timeline.device_time(stage).compute_s for stage in (0, 1)] == [3, 9]
    assert small_step(plain_layers(4), mesh, free_costs(mesh)).timeline.device_time(0).compute_s == 6


def test_weights_of_a_stage_are_its_own() -> None:
    mesh = mesh_of(pp=2, fsdp=2)
    layers = [replace(layer, weights=(Weight("w", 8 * 2**k),)) for k, layer in enumerate(plain_layers(4))]
    step = small_step(layers, mesh, free_costs(mesh), micro_batches=2)
    scattered = sorted((task.device, task.size_bytes) for task in step.of("reduce-scatter"))
    assert scattered == [(0, 8), (0, 16), (1, 32), (1, 64)]
    # They stay while micro-batches pass.
    assert len(step.of("allgather")) == 4
