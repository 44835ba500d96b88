"""Layouts read from plans, and the code that is written of them, executed over gloo and ``treadle``."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from parallelism.execution.searched_plans import searched  # noqa: E402
from parallelism.exporting.exported_worker import compared  # noqa: E402
from parallelism.exporting.layouts import laid_out  # noqa: E402
from parallelism.exporting.small_model import make  # noqa: E402
from reference.parallelism.legality import violations  # noqa: E402
from treadle.errors import InfeasibleError  # noqa: E402
from treadle.parallelism.capture.joint import capture  # noqa: E402
from treadle.parallelism.execution.rank_step import RankTask  # noqa: E402
from treadle.parallelism.execution.ranks import apart  # noqa: E402
from treadle.parallelism.exporting.export_layout import (  # noqa: E402
    CutStyle,
    ExportLayout,
    RecomputeSetting,
    WeightUse,
    layout_of,
)
from treadle.parallelism.exporting.torch_code import torch_code, unsaid  # noqa: E402
from treadle.parallelism.exporting.torchtitan import torchtitan_settings  # noqa: E402
from treadle.parallelism.graph.folding.fold import folded  # noqa: E402
from treadle.parallelism.graph.model_graph import ModelGraph  # noqa: E402
from treadle.parallelism.plan.parallel_plan import ParallelPlan  # noqa: E402
from treadle.parallelism.plan.part_plan import Chunk  # noqa: E402
from treadle.schedules.mesh import Mesh  # noqa: E402

MESH = Mesh((2, 2), ("dp", "tp"))
WEIGHTS = "ehaqd"
"""Heads, inner dimension, words (of table and head); else the sequence."""


@pytest.fixture(scope="module")
def model() -> ModelGraph:
    return folded(capture(make), name="small")


@pytest.fixture(scope="module")
def plans(model: ModelGraph) -> dict[str, ParallelPlan]:
    megatron = {"dp": "c", "tp": WEIGHTS}
    return {
        "FSDP": laid_out(model, MESH, {"dp": "c", "tp": "c"}, sharded=("dp", "tp"), recompute="full"),
        "HSDP": laid_out(model, MESH, {"dp": "c", "tp": "c"}, sharded=("tp",)),
        "TP x FSDP": laid_out(model, MESH, megatron, sharded=("dp",), recompute="selective"),
        "TP x DP": laid_out(model, MESH, {"dp": "c", "tp": "ehaq"}),
    }


@pytest.fixture(scope="module")
def layouts(model: ModelGraph, plans: dict[str, ParallelPlan]) -> dict[str, ExportLayout]:
    for name, plan in plans.items():
        assert not list(map(str, violations(plan, model))), name
    return {name: layout_of(plan, model) for name, plan in plans.items()}


@pytest.fixture(scope="module")
def found() -> RankTask:
    """A plan of the search."""
    return searched(make, MESH, {"searched": 0.7})["searched"]


@pytest.fixture(scope="module")
def executed(layouts: dict[str, ExportLayout], found: RankTask):
    codes = {name: torch_code(layout) for name, layout in layouts.items()}
    codes["searched"] = torch_code(layout_of(found.plan, found.model))
    some = {name: codes[name] for name in ("TP x FSDP", "searched")}
    return apart(compared, {"gloo": codes, "treadle": some}, timeout_s=300)


def test_axes_are_read_by_what_they_cut(layouts: dict[str, ExportLayout]) -> None:
    uses = {name: [use for _, use in layout.axes.values()] for name, layout in layouts.items()}
    assert uses == {
        "FSDP": [WeightUse.SHARDED, WeightUse.SHARDED],
        "HSDP": [WeightUse.REPLICATED, WeightUse.SHARDED],
        "TP x FSDP": [WeightUse.SHARDED, WeightUse.TENSOR],
        "TP x DP": [WeightUse.REPLICATED, WeightUse.TENSOR],
    }
    assert [name for name, layout in layouts.items() if layout.cuts_sequence] == ["TP x FSDP"]


def test_weights_have_the_styles_of_megatron(layouts: dict[str, ExportLayout]) -> None:
    weights = {w.path.split(".")[-2]: w for part in layouts["TP x FSDP"].parts for w in part.weights}
    columns = {name for name, weight in weights.items() if weight.style is CutStyle.COLUMNS}
    rows = {name for name, weight in weights.items() if weight.style is CutStyle.ROWS}
    assert columns == {"wq", "wk", "wv", "w1", "w3", "head"}
    assert rows == {"wo", "w2", "embedding"}
    assert {name for name, weight in weights.items() if weight.is_gathered} == {"head"}
    assert not any(weight.is_given_whole for weight in weights.values())


def test_recomputation_is_a_policy_for_the_block(layouts: dict[str, ExportLayout]) -> None:
    blocks = {name: layout.parts[1] for name, layout in layouts.items()}
    assert [part.recompute for part in blocks.values()] == [
        RecomputeSetting.ALL, RecomputeSetting.NONE, RecomputeSetting.SOME, RecomputeSetting.NONE
    ]  # fmt: skip
    assert blocks["TP x FSDP"].saved_products == (True,) * 7
    assert "create_selective_checkpoint_contexts(policy)" in torch_code(layouts["TP x FSDP"])
    assert "context_fn" not in torch_code(layouts["FSDP"])


@pytest.mark.parametrize("backend", ["gloo", "treadle"])
def test_exported_code_gives_the_gradients_of_one_device(executed, backend: str) -> None:
    errors = {name: error for name, (error, _) in executed[backend].items()}
    assert len(errors) == (5 if backend == "gloo" else 2)
    assert max(errors.values()) < 1e-12, errors


def test_what_code_of_a_searched_plan_does_not_say_is_told(found: RankTask) -> None:
    """It cuts some operators otherwise than the rest: the code computes the same, but not so."""
    layout = layout_of(found.plan, found.model)
    assert WeightUse.SHARDED in [use for _, use in layout.axes.values()]
    lost = [str(one) for one in unsaid(layout)]
    assert any("not cut along dp as the rest is" in one for one in lost)
    assert any("norm_1.weight: is cut along tp; the code takes it whole" in one for one in lost)
    norms = [weight for part in layout.parts for weight in part.weights if "norm" in weight.path]
    assert len(norms) == 3
    assert not any(weight.style for weight in norms), "a parallel style is for products and tables"
    assert all(one in torch_code(layout) for one in (each.reason for each in layout.lost))


def test_collectives_are_seen_on_both_backends(executed) -> None:
    """FSDP2 calls those of torch.distributed, which a group written in Python gets past the dispatcher."""
    for name in executed["treadle"]:
        assert executed["treadle"][name][1] == executed["gloo"][name][1], name
    gathers = executed["gloo"]["FSDP"][1]["allgather", 4]
    # embedding, norm and head are the root's; two layers; all in the forward and in the backward pass
    assert gathers == 2 * (1 + 2)
    assert executed["gloo"]["FSDP"][1]["reduce-scatter", 4] == 1 + 2
    assert executed["gloo"]["HSDP"][1]["allreduce", 2] == 1 + 2


def test_what_is_not_said_is_listed(
    model: ModelGraph, plans: dict[str, ParallelPlan], layouts: dict[str, ExportLayout]
) -> None:
    assert [str(one) for one in unsaid(layouts["HSDP"])] == []
    lost = [str(one) for one in unsaid(layouts["TP x FSDP"])]
    assert any("head.weight" in one and "the code gathers them" in one for one in lost)
    (head,) = plans["HSDP"].parts["head"]
    name = next(name for name in head.operators if name.startswith("mm"))
    operators = {**head.operators, name: replace(head.operators[name], chunk=Chunk("d", 2))}
    plan = replace(
        plans["HSDP"], parts={**plans["HSDP"].parts, "head": (replace(head, operators=operators),)}
    )
    assert ["2 chunks of d" in one.reason for one in layout_of(plan, model).lost] == [True]


def test_what_has_no_such_structure_is_refused(model: ModelGraph, plans: dict[str, ParallelPlan]) -> None:
    twice = laid_out(model, MESH, {"dp": WEIGHTS, "tp": WEIGHTS})
    with pytest.raises(InfeasibleError, match="axes dp and tp both cut weights"):
        layout_of(twice, model)
    context = layout_of(laid_out(model, MESH, {"dp": "c", "tp": "d"}), model)
    assert context.axes["tp"][1] is WeightUse.CONTEXT
    with pytest.raises(InfeasibleError, match="context parallel along tp"):
        torch_code(context)
    turned = layout_of(laid_out(model, MESH, {"dp": "c", "tp": "c"}, sharded=("dp",)), model)
    with pytest.raises(InfeasibleError, match="the replicating axes first"):
        torch_code(turned)
    mixed = plans["HSDP"].parts["block"][0]
    layers = replace(
        plans["HSDP"], parts={**plans["HSDP"].parts, "block": (mixed, mixed)}, layers={"block": (0, 1)}
    )
    with pytest.raises(InfeasibleError, match="layers of block have 2 plans"):
        layout_of(layers, model)


def test_torchtitan_gets_degrees_and_checkpoints(
    plans: dict[str, ParallelPlan], layouts: dict[str, ExportLayout]
) -> None:
    settings = {
        name: tomllib.loads(torchtitan_settings(layouts[name], plans[name])) for name in ("FSDP", "TP x FSDP")
    }
    parallel = settings["TP x FSDP"]["parallelism"]
    assert (parallel["data_parallel_shard_degree"], parallel["tensor_parallel_degree"]) == (2, 2)
    assert settings["FSDP"]["parallelism"]["data_parallel_shard_degree"] == 4
    assert [one["activation_checkpoint"]["mode"] for one in settings.values()] == ["full", "selective"]
    text = torchtitan_settings(layouts["TP x DP"], plans["TP x DP"])
    assert "# - boundary: sequences stay whole; torchtitan cuts them along the tensor axis" in text


TORCHTITAN = {
    "parallelism": {
        *("data_parallel_replicate_degree", "data_parallel_shard_degree", "fsdp_reshard_after_forward"),
        *("tensor_parallel_degree", "pipeline_parallel_degree", "pipeline_parallel_schedule"),
        "context_parallel_degree",
    },
    "activation_checkpoint": {"mode", "selective_ac_option"},
}
"""Fields of torchtitan 0.2.2's JobConfig, whose parser refuses any other; it has read these files."""


def test_torchtitan_knows_every_setting(
    plans: dict[str, ParallelPlan], layouts: dict[str, ExportLayout]
) -> None:
    """In the file, and as options of versions that have no file."""
    for name, layout in layouts.items():
        text = torchtitan_settings(layout, plans[name])
        found = tomllib.loads(text)
        assert {section: set(values) for section, values in found.items() if section not in TORCHTITAN} == {}
        for section, values in found.items():
            assert set(values) <= TORCHTITAN[section]
        for key, value in found["parallelism"].items():
            assert f"#   --parallelism.{key} {value}\n" in text
        assert f"#   activation-checkpoint:{found['activation_checkpoint']['mode']}\n" in text


def test_torchtitan_has_an_order_of_axes(model: ModelGraph) -> None:
    mesh = Mesh((2, 2), ("tp", "dp"))
    plan = laid_out(model, mesh, {"tp": WEIGHTS, "dp": "c"}, sharded=("dp",))
    with pytest.raises(InfeasibleError, match="torchtitan's has pipeline"):
        torchtitan_settings(layout_of(plan, model), plan)
