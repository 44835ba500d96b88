"""The named layout that a plan comes nearest to, on three blocks of two equal products and an end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallelism.evaluation.named_layouts import Cut, both, by_letter, laid_out
from parallelism.plan.small_models import small_model
from treadle.parallelism.evaluation.resimulation import NamedLayout, _ByForm, nearest_layout
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Traffic
from treadle.training.training_options import Recompute, TrainingOptions

MODEL = small_model(3, t=16, h=8, f=64)
MESH = Mesh((2, 4), ("x", "y"))


def plan(
    cut: Cut, *stored: str, model: ModelGraph = MODEL, mesh: Mesh = MESH, again: str = ""
) -> ParallelPlan:
    """Parameters of these names are stored in shards of x, others whole."""
    return laid_out(
        model,
        mesh,
        cut,
        boundary={},
        stored=lambda path, letters: Sharding(
            (("x",) if path in stored else (), *((),) * (len(letters) - 1))
        ),
        recomputed=lambda node: node.name in again.split(),
    )


def nearest(one: ParallelPlan, model: ModelGraph = MODEL) -> NamedLayout:
    found = nearest_layout(one, model)
    assert isinstance(found, NamedLayout)
    return found


def test_stages_are_an_axis_of_their_own() -> None:
    one = plan(by_letter("y", "t"), mesh=Mesh((4,), ("y",)))
    staged = replace(one, mesh=Mesh((2, 4), ("p", "y")), pipeline=Pipeline("p", (2, 2), 3))
    found = nearest(staged)
    assert list(found.axes.items()) == [("pp", ("p",)), ("dp", ("y",))]
    options = TrainingOptions(kappa=1)
    asked = found.options(staged, options)
    assert (asked.micro_batches, asked.recompute, asked.sequence_parallel) == (3, Recompute.NONE, False)
    assert asked.reshard_after_forward is True


@pytest.mark.parametrize(("letter", "is_sequence"), [("t", True), ("", False)])
def test_tensor_parallelism_is_by_sequence_where_tokens_pass_in_shards(
    letter: str, is_sequence: bool
) -> None:
    cut = both(by_letter("x", "f"), by_letter("y", "t"))
    one = laid_out(
        MODEL,
        MESH,
        cut,
        boundary={"x": letter, "y": "t"},
        stored=lambda path, letters: Sharding(((),) * len(letters)),
    )
    asked = nearest(one).options(one, TrainingOptions(kappa=1))
    assert asked.sequence_parallel is is_sequence


class Asked:
    """Costs that tell what they were asked."""

    summary, is_bound = "told", True

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> object:
        return kind, axes, size_bytes

    def send_s(self, axis: str, size_bytes: int) -> object:
        return axis, size_bytes

    def slowdowns(self, running: tuple[Traffic, ...]) -> object:
        return running


def test_costs_of_a_form_are_those_of_its_axes_in_the_order_of_the_mesh() -> None:
    own = _ByForm(Asked(), {"tp": ("y",), "fsdp": ("z", "x"), "pp": ("p",)}, ("p", "x", "y", "z"))  # type: ignore[arg-type]
    gather = CollectiveKind.ALLGATHER
    assert own.time_s(gather, ("tp", "fsdp"), 5) == (gather, ("x", "y", "z"), 5)
    assert own.send_s("pp", 7) == ("p", 7)
    assert own.slowdowns(((gather, ("fsdp",)), (gather, ("tp",)))) == ((gather, ("x", "z")), (gather, ("y",)))
    assert (own.summary, own.is_bound) == ("told", True)
