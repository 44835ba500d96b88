"""The named layout that a plan comes nearest to, on three blocks of two equal products and an end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from parallelism.evaluation.named_layouts import Cut, both, by_letter, laid_out
from parallelism.plan.small_models import small_model, two_matrices
from treadle.parallelism.evaluation.resimulation import NamedLayout, _ByForm, nearest_layout
from treadle.parallelism.graph.compute_graph import Node, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Traffic
from treadle.training.training_options import Recompute, TrainingOptions
from treadle.unsupported import Unsupported

MODEL = small_model(3, t=16, h=8, f=64)
MESH = Mesh((2, 4), ("x", "y"))
BY_TOKENS = both(by_letter("x", "t"), by_letter("y", "t"))


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


def test_axes_are_named_by_the_letters_that_they_cut_in_the_order_of_train() -> None:
    named = both(by_letter("x", "f"), by_letter("y", "t"))
    found = nearest(plan(named))
    assert list(found.axes.items()) == [("dp", ("y",)), ("tp", ("x",))]
    assert (found.recompute, found.left_out) == (Recompute.NONE, ())
    assert found.shape(plan(named)) == {"dp": 4, "tp": 2}
    tokens = replace(MODEL, batch="", sequence="t")
    assert nearest(plan(named, model=tokens), tokens).axes == {"cp": ("y",), "tp": ("x",)}
    both_axes = nearest(plan(BY_TOKENS))
    assert both_axes.axes == {"dp": ("x", "y")}
    assert both_axes.shape(plan(BY_TOKENS)) == {"dp": 8}


def test_replicas_whose_weights_are_mostly_stored_in_shards_are_fsdp() -> None:
    """Three layers of twice 512 elements, and 8 more: with these 1544 of 3080 are in shards, else 1536."""
    assert nearest(plan(BY_TOKENS, "up")).axes == {"dp": ("x", "y")}
    assert nearest(plan(BY_TOKENS, "up", "w")).axes == {"fsdp": ("x",), "dp": ("y",)}
    assert list(nearest(plan(BY_TOKENS, "up", "w")).axes) == ["dp", "fsdp"]
    # of tensors cut along x the shards do not count; half of all elements is not most of them
    assert nearest(plan(both(by_letter("x", "f"), by_letter("y", "t")), "up", "down")).axes == {
        "dp": ("y",), "tp": ("x",)
    }  # fmt: skip
    alone = ModelGraph(
        "alone", (ModelPart("block", two_matrices(), 2, TensorRef(0), TensorRef(6)),), "t", tokens=16
    )
    assert nearest(plan(BY_TOKENS, "up", model=alone), alone).axes == {"dp": ("x", "y")}


def letters_of(**letters: str) -> Cut:
    """Along x operators of these names cut their letter, others nothing; y cuts tokens."""

    def cut(node: Node, own: frozenset[str]) -> Mapping[str, str]:
        mine = {"x": letters[node.name]} if node.name in letters else {}
        return {**mine, **({"y": "t"} if "t" in own else {})}

    return cut


def test_what_another_form_cuts_is_told_as_a_share_of_the_work() -> None:
    found = nearest(plan(letters_of(u="f", d="t")))
    assert (found.axes, found.left_out) == (
        {"dp": ("y",), "tp": ("x",)}, ("50% of the work along x, which is not tp's",)
    )  # fmt: skip
    assert nearest(plan(letters_of(u="f"))).left_out == ("50% of the work along x, which is not tp's",)
    for letters in ({"d": "f"}, {}):
        refused = nearest_layout(plan(letters_of(**letters)), MODEL)
        assert isinstance(refused, Unsupported)
        assert str(refused) == str(Unsupported("most of the work is done 2 times along x", "train"))


def test_layers_count_as_often_as_they_take_a_plan() -> None:
    """Two layers of replicas and one of tensors: a third of the work is cut otherwise."""
    first, second = plan(BY_TOKENS), plan(both(by_letter("x", "f"), by_letter("y", "t")))
    mixed = replace(
        first,
        parts={**first.parts, "block": (*first.parts["block"], *second.parts["block"])},
        layers={"block": (0, 1, 0)},
    )
    found = nearest(mixed)
    assert found.axes == {"dp": ("x", "y")}
    assert found.left_out == ("33% of the work along x, which is not dp's", "mixed layers of block")
    turned = nearest(replace(mixed, layers={"block": (1, 1, 0)}))
    assert turned.axes == {"dp": ("y",), "tp": ("x",)}
    assert turned.left_out == ("33% of the work along x, which is not tp's", "mixed layers of block")


def test_what_is_computed_again_is_none_of_it_or_all_by_its_work() -> None:
    """Of two equal products d is not kept at first; where both are kept and one is done again it is half."""
    assert nearest(plan(BY_TOKENS, again="a")).recompute is Recompute.NONE
    whole = nearest(plan(BY_TOKENS, again="u"))
    words = "50% of the work is not done again, as nothing reads it"
    assert (whole.recompute, whole.left_out) == (Recompute.FULL, (words,))
    one = plan(BY_TOKENS, again="u")
    block = one.parts["block"][0]
    kept = replace(
        block, operators={**block.operators, "d": replace(block.operators["d"], keep=ActivationPolicy.SAVED)}
    )
    half = nearest(replace(one, parts={**one.parts, "block": (kept,)}))
    assert half.recompute is Recompute.NONE
    assert half.left_out == ("50% of the work is done again in blocks, not none's",)


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
