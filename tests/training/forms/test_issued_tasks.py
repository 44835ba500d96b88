"""Tasks that are issued, by hand: names, streams, what waits for what; pieces, turns and buckets."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from samples.training.small_steps import free_costs, mesh_of, plain_layers, small_step
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import AlphaBetaCosts
from treadle.training.forms.issue import Chain, Issue
from treadle.training.forms.layer_passes import (
    Communication,
    LayerAction,
    LayerPart,
    LayerSeconds,
    computing,
    passes_of,
)
from treadle.training.forms.pipeline_parallel import cut_layers, stage_order
from treadle.training.forms.stage_tasks import Buckets, PipelineCut, Turn, turns_to_gather_for
from treadle.training.models.model_layer import ModelLayer, Weight
from treadle.training.timeline.task import Category, Task
from treadle.training.training_options import TrainingOptions

SUM, EXCHANGE = CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL
COSTS = AlphaBetaCosts(1, {(SUM, ("dp", "cp")): 2, (EXCHANGE, ("ep",)): 4, (None, ("pp",)): 8})


def issue(**options: Any) -> Issue:
    return Issue(COSTS, TrainingOptions(kappa=1, **options))


def test_what_is_issued_waits_for_what_is_before_it_on_its_chain() -> None:
    found, chain = issue(streams="one"), Chain(3)
    actions = [
        LayerAction(5),
        LayerAction(exchange=Communication(SUM, ("dp", "cp"), 8)),
        LayerAction(7, Communication(None, ("pp",), 16), is_recomputed=True),
        LayerAction(0),
        LayerAction(exchange=Communication(SUM, ("dp", "cp"), 0)),
        LayerAction(9),
    ]
    found.act(chain, "x", actions, Category.BACKWARD)
    traffic = (SUM, ("dp", "cp"))
    assert found.tasks == [
        Task("x", 3, "compute", 5, (), Category.BACKWARD),
        Task("x", 3, "communication", 1 + Fraction(8, 2), (0,), Category.ALLREDUCE, traffic, 8),
        Task("x", 3, "communication", 1 + Fraction(16, 8), (1,), Category.SEND, (None, ("pp",)), 16),
        Task("x", 3, "compute", 7, (1,), Category.RECOMPUTE),
        Task("x", 3, "compute", 9, (2, 3), Category.BACKWARD),
    ]
    assert chain.tail == (4,)


def test_streams_are_named_after_axes_where_each_has_its_own() -> None:
    found = issue(alltoall_overtakes=True)
    exchange = Communication(EXCHANGE, ("ep",), 4)
    assert found.communicate(0, "a", Communication(SUM, ("dp", "cp"), 8), (7, 8)) == (0,)
    assert found.communicate(0, "b", exchange, ()) == (1,)
    assert found.communicate(0, "c", replace(exchange, size_bytes=0), ()) == ()
    first, second = found.tasks
    assert (first.stream, first.waits_for, first.is_urgent) == ("dp,cp", (7, 8), False)
    assert (second.stream, second.seconds, second.is_urgent) == ("ep", 2, True)
    plain = issue()
    plain.communicate(0, "b", exchange, ())
    assert not plain.tasks[0].is_urgent


def test_parts_run_backward_from_the_last() -> None:
    one, other = (
        computing((1, 2)),
        LayerPart((LayerAction(3), LayerAction(4)), (LayerAction(5), LayerAction(6))),
    )
    found = passes_of([one, other])
    assert [action.seconds for action in found.forward] == [1, 3, 4]
    assert [action.seconds for action in found.backward] == [5, 6, 2]
    assert LayerSeconds((1, 2), (4, 8), (16, 32)).total_s == 63


@pytest.mark.parametrize(
    ("seconds", "pieces", "cuts"),
    [
        ((5,), 1, (1,)),
        ((1, 1, 1), 3, (1, 1, 1)),
        ((0, 0, 0, 0), 3, (2, 1, 1)),
        ((4, 1, 1, 1), 2, (1, 3)),
        ((1, 1, 1, 4), 2, (3, 1)),
        ((2, 2, 2, 2, 2), 2, (3, 2)),
        ((1, 2, 3, 4, 5), 3, (3, 1, 1)),
        ((5, 4, 3, 2, 1), 3, (1, 1, 3)),
    ],
)
def test_cuts_fill_early_pieces_first(seconds: tuple[int, ...], pieces: int, cuts: tuple[int, ...]) -> None:
    found = cut_layers(seconds, pieces)
    assert tuple(map(len, found)) == cuts
    assert [place for piece in found for place in piece] == list(range(len(seconds)))


def test_more_pieces_than_layers_are_refused() -> None:
    many = r"^pipeline of 3 pieces \(pp x interleave\): the model has 2 layers; use fewer pieces$"
    with pytest.raises(ScheduleError, match=many):
        cut_layers((1, 1), 3)
    for stages, batches in ((1, 4), (3, 4)):
        words = "interleave 2: expected micro-batches in multiples of pp, above 1; found"
        message = f"^{words} {batches} with pp={stages}$"
        with pytest.raises(ScheduleError, match=message):
            stage_order(0, stages, batches, 2)


def test_few_micro_batches_never_fill_a_pipeline() -> None:
    """The first of five stages would begin four ahead; there are two."""
    found = [(visit.is_forward, visit.micro_batch) for visit in stage_order(0, 5, 2)]
    assert found == [(True, 0), (True, 1), (False, 0), (False, 1)]
    third = [(visit.is_forward, visit.micro_batch) for visit in stage_order(3, 5, 3)]
    assert third == [(True, 0), (True, 1), (False, 0), (True, 2), (False, 1), (False, 2)]


def test_layers_of_stages() -> None:
    placed = PipelineCut((range(2), range(2, 3), range(3, 6), range(6, 7)), 2)
    assert [placed.stage_of(place) for place in range(7)] == [0, 0, 1, 0, 0, 0, 1]
    assert [placed.stage_layers(stage) for stage in (0, 1)] == [[0, 1, 3, 4, 5], [2, 6]]


def turns(*layers: int) -> list[Turn]:
    return [Turn(layer, True, place) for place, layer in enumerate(layers)]


@pytest.mark.parametrize(
    ("layers", "kept", "places"),
    [
        ((), (), []),
        ((0, 0, 0), (), [0]),
        ((0, 1, 0, 1), (), [0, 1, 2, 3]),
        ((0, 1, 0, 1), (0, 1), [0, 1]),
        ((0, 1, 0, 1), (1,), [0, 1, 2]),
        ((0, 1, 1, 0, 0, 1), (), [0, 1, 3, 5]),
    ],
)
def test_turns_that_need_weights(layers: tuple[int, ...], kept: tuple[int, ...], places: list[int]) -> None:
    assert turns_to_gather_for(turns(*layers), kept=frozenset(kept)) == places


def test_buckets_count_what_they_closed() -> None:
    buckets = Buckets(10, 3)
    assert (buckets.filled, buckets.closed) == (0, 0)
    assert buckets.add([2]) == []
    assert buckets.add([1, 9]) == [3]
    assert (buckets.filled, buckets.closed) == (9, 1)
    assert buckets.add([1, 10, 9]) == [10, 10]
    assert buckets.close() == [9]
    assert buckets.closed == 3


def test_weights_of_experts_are_gathered_and_scattered_along_their_own_axes() -> None:
    """12 elements along fsdp and ep, 24 of experts, half of them here, along fsdp; replicas sum a third."""
    mesh = mesh_of(dp=2, fsdp=3, ep=2)
    weights = (Weight("w", 12), Weight("e", 24, expert=True))
    layers = plain_layers(1, weights=weights, experts=2, top_k=1, routed_elements=1, exchanges=2)
    step = small_step(layers, mesh, free_costs(mesh), element_bytes=3, gradient_bytes=5)

    def moved(category: str) -> list[tuple[str, tuple[str, ...], int]]:
        return [(task.name, task.traffic[1], task.size_bytes) for task in step.of(category) if task.traffic]

    assert moved("allgather") == [
        ("weights of l0", ("fsdp", "ep"), 36),
        ("weights of l0", ("fsdp",), 36),
    ]
    assert moved("reduce-scatter") == [
        ("gradients of l0", ("fsdp", "ep"), 60),
        ("gradients of l0", ("fsdp",), 60),
    ]
    assert moved("allreduce") == [("gradients of l0", ("dp",), 10), ("gradients of l0", ("dp",), 20)]


def test_micro_batches_are_told_apart_by_name() -> None:
    mesh = mesh_of(dp=2)
    one = small_step(plain_layers(1), mesh, free_costs(mesh))
    assert {task.name for task in one.of("forward")} == {"l0"}
    two = small_step(plain_layers(1), mesh, free_costs(mesh), micro_batches=2)
    assert [task.name for task in two.of("backward")] == ["l0, micro-batch 0", "l0, micro-batch 1"]


def test_buckets_are_numbered_and_rounded_up() -> None:
    """Three ranks of tensor parallelism have a third each of ten elements of two bytes, rounded up."""
    mesh = mesh_of(dp=2, tp=3)
    layers = plain_layers(2, weights=(Weight("a", 10), Weight("b", 4, split=False)))
    step = small_step(layers, mesh, free_costs(mesh), gradient_bytes=2, bucket_bytes=1)
    assert [(task.name, task.size_bytes) for task in step.of("allreduce")] == [
        ("bucket 0", 8),
        ("bucket 1", 7),
        ("bucket 2", 8),
        ("bucket 3", 7),
    ]
    assert ModelLayer("l").parameters == 0
