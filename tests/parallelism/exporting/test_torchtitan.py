"""Settings of torchtitan for layouts by hand, word for word; weights whose products follow each other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from parallelism.plan.plain_plans import plain_plan
from parallelism.plan.small_models import Drafted, small_model
from treadle.errors import InfeasibleError
from treadle.parallelism.exporting.export_layout import (
    CutStyle,
    ExportedWeight,
    ExportLayout,
    PartLayout,
    RecomputeSetting,
    WeightUse,
    in_parts,
    next_weights,
)
from treadle.parallelism.exporting.torchtitan import torchtitan_settings, unsaid_by_settings
from treadle.parallelism.graph.compute_graph import OperatorKind, Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelPart
from treadle.parallelism.plan.parallel_plan import Pipeline
from treadle.schedules.mesh import Mesh
from treadle.unsupported import Unsupported

PLAN = plain_plan(small_model(), Mesh((2, 2), ("pp", "x")))
STAGED = replace(PLAN, pipeline=Pipeline("pp", (2, 2), 4))


def part(name: str, repeats: int, recompute: RecomputeSetting, *saved: bool) -> PartLayout:
    return PartLayout(name, repeats, (), recompute, saved, False)


BLOCK = part("block", 3, RecomputeSetting.NONE, True, False, True)
HEAD = part("head", 1, RecomputeSetting.ALL, False)
AXES = {
    "pp": (2, WeightUse.PIPELINE),
    "idle": (1, WeightUse.NONE),
    "pod": (3, WeightUse.REPLICATED),
    "dp": (5, WeightUse.SHARDED),
    "ep": (7, WeightUse.SHARDED),
    "cp": (11, WeightUse.CONTEXT),
    "tp": (13, WeightUse.TENSOR),
}
LAYOUT = ExportLayout("small", AXES, True, True, (BLOCK, HEAD), ())


def test_settings_word_for_word() -> None:
    assert (
        torchtitan_settings(LAYOUT, STAGED)
        == """# Layout of small, written by treadle.
# What the plan says beyond these settings:
# nothing
# For torchtitan up to 0.2 (--job.config_file). Later ones have no such file, but options:
#   --parallelism.pipeline_parallel_degree 2
#   --parallelism.data_parallel_replicate_degree 3
#   --parallelism.data_parallel_shard_degree 35
#   --parallelism.context_parallel_degree 11
#   --parallelism.tensor_parallel_degree 13
#   --parallelism.fsdp_reshard_after_forward always
#   --parallelism.pipeline_parallel_schedule 1F1B
#   activation-checkpoint:none

[parallelism]
pipeline_parallel_degree = 2
data_parallel_replicate_degree = 3
data_parallel_shard_degree = 35
context_parallel_degree = 11
tensor_parallel_degree = 13
fsdp_reshard_after_forward = "always"
pipeline_parallel_schedule = "1F1B"

[activation_checkpoint]
mode = "none"
"""
    )


def test_settings_of_a_plan_without_stages_that_keeps_what_it_gathers() -> None:
    axes = {"dp": (4, WeightUse.SHARDED)}
    lost = (Unsupported("are in chunks", "head: loss"),)
    layout = replace(LAYOUT, axes=axes, gathers_again=False, lost=lost)
    told = torchtitan_settings(layout, PLAN).split("\n")
    assert told[2] == "# - head: loss: are in chunks"
    assert "pipeline_parallel_degree = 1" in told
    assert "data_parallel_shard_degree = 4" in told
    assert "tensor_parallel_degree = 1" in told
    assert 'fsdp_reshard_after_forward = "never"' in told
    assert not any("1F1B" in line for line in told)


@pytest.mark.parametrize(
    ("parts", "mode"),
    [
        ((BLOCK, HEAD), "none"),
        ((replace(BLOCK, repeats=1), HEAD), "selective"),
        ((replace(BLOCK, recompute=RecomputeSetting.ALL), HEAD), "full"),
        ((HEAD, replace(HEAD, name="tail")), "full"),
        ((BLOCK, replace(BLOCK, name="other", recompute=RecomputeSetting.ALL)), "selective"),
        ((replace(BLOCK, recompute=RecomputeSetting.SOME), HEAD), "selective"),
    ],
)
def test_checkpoints_are_those_of_repeated_parts(parts: tuple[PartLayout, ...], mode: str) -> None:
    """Of all parts where none is repeated; mixed ones are selective, by operators."""
    told = torchtitan_settings(replace(LAYOUT, parts=parts), PLAN)
    assert f'[activation_checkpoint]\nmode = "{mode}"\n' in told
    assert ('selective_ac_option = "op"' in told) == (mode == "selective")


def test_axes_stand_in_the_order_of_torchtitan() -> None:
    wrong = {"tp": (2, WeightUse.TENSOR), "one": (1, WeightUse.NONE), "dp": (3, WeightUse.REPLICATED)}
    with pytest.raises(InfeasibleError) as caught:
        torchtitan_settings(replace(LAYOUT, axes=wrong), PLAN)
    assert str(caught.value) == (
        "export: the mesh is tp (tensor parallel), one (nothing), dp (data parallel, parameters replicated); "
        "torchtitan's has pipeline, replicating, sharding, context and tensor axes in this order"
    )


def test_what_settings_leave_unsaid() -> None:
    weights = (
        ExportedWeight("wq", False, CutStyle.COLUMNS, 0),
        ExportedWeight("wo", False, CutStyle.ROWS, 1),
    )
    some = replace(BLOCK, recompute=RecomputeSetting.SOME, weights=weights)
    lost = Unsupported("is lost", "here")
    layout = replace(LAYOUT, parts=(some, HEAD), cuts_sequence=False, lost=(lost,))
    assert [str(one) for one in unsaid_by_settings(layout)] == [
        "here: is lost",
        "boundary: sequences stay whole; torchtitan cuts them along the tensor axis",
        "block: 2 of 3 products are kept; the option 'op' keeps every second one and attention",
        "block: wo: is sharded by its second dimension",
    ]
    assert unsaid_by_settings(LAYOUT) == ()
    no_tensor = {name: use for name, use in AXES.items() if name != "tp"}
    assert unsaid_by_settings(replace(LAYOUT, axes=no_tensor, cuts_sequence=False)) == ()


def test_which_products_come_next() -> None:
    """q and k into scores, whose product with v goes into o; the norm between is no product of a weight."""
    draft = Drafted(t=4, h=8, s=4)
    draft.placeholder("x", "th", Source.INPUT)
    for name in ("wq", "wk", "wo"):
        draft.placeholder(name, "hs", Source.PARAMETER)
    draft.placeholder("g", "s", Source.PARAMETER)
    draft.operator("q", "ts", OperatorKind.EINSUM, "x", "wq")
    draft.operator("k", "ts", OperatorKind.EINSUM, "wk", "x")
    draft.operator("n", "ts", OperatorKind.ELEMENTWISE, "q", "g")
    draft.operator("p", "t", OperatorKind.EINSUM, "n", "k")
    draft.operator("o", "th", OperatorKind.EINSUM, "p", "wo")
    draft.operator("y", "th", OperatorKind.ELEMENTWISE, "o", "x")
    draft.operator("late", "ts", OperatorKind.EINSUM, "y", "wk", backward=True)
    graph = draft.graph({}, {}, "y", "late")
    found = next_weights(ModelPart("p", graph, 1, None, None))
    assert found == {"wq": frozenset({"wo"}), "wk": frozenset({"wo"}), "wo": frozenset()}
    assert graph.spelled(TensorRef(0)) == "x"


@pytest.mark.parametrize(
    ("following", "columns", "rows", "expected"),
    [
        ({"a": {"b"}, "b": set()}, {"a"}, {"b"}, {"a", "b"}),
        # what also goes elsewhere, or nowhere, is gathered, and so are those rows that only it feeds
        ({"a": {"b", "c"}, "b": set()}, {"a"}, {"b"}, set()),
        ({"a": set(), "b": set()}, {"a"}, {"b"}, set()),
        ({"a": {"b"}, "c": {"b"}}, {"a"}, {"b"}, set()),
        ({"a": {"b"}, "c": {"b"}}, {"a", "c"}, {"b"}, {"a", "b", "c"}),
        ({"a": {"b"}, "c": {"d", "e"}}, {"a", "c"}, {"b", "d"}, {"a", "b"}),
        # one that falls out takes others with it
        ({"a": {"b"}, "c": {"b", "d"}, "e": {"d"}}, {"a", "c"}, {"b", "d"}, set()),
    ],
)
def test_weights_between_which_tensors_stay_in_parts(
    following: dict[str, set[str]], columns: set[str], rows: set[str], expected: set[str]
) -> None:
    given = {path: frozenset(paths) for path, paths in following.items()}
    assert in_parts(given, columns, rows) == expected
