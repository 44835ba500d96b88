"""What is proven of plans in stages, against named plans in all cuts and the plan that is found."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest

from treadle.inputs.problem import resolve_topology
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.plan.parallel_plan import Pipeline
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.pipeline_run import inner_mesh, search_staged
from treadle.parallelism.searching.plan_search import STAGES, PipelineForm, PlanSearch
from treadle.schedules.mesh import Mesh

CONFIG = {
    "model_type": "llama",
    "hidden_size": 512,
    "intermediate_size": 1408,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 4096,
    "max_position_embeddings": 512,
}
EXPERTS = {
    "model_type": "deepseek_v3",
    "hidden_size": 64,
    "intermediate_size": 512,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vocab_size": 256,
    "max_position_embeddings": 128,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "q_lora_rank": 16,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "first_k_dense_replace": 2,
}
MESH = Mesh((2, 2), (STAGES, "tp"))


def posed_run(folder: Path, config: dict[str, Any], options: dict[str, Any]) -> FabricRun:
    path = folder / "small.json"
    path.write_text(json.dumps(config))
    model, layers = as_model_graph(path, tokens=4096, sequence=None, notes=[])
    plans = PlanSearch(model, parallel_request("a100", 4096, options), layers)
    return FabricRun(resolve_topology('complete(4, bandwidth="100GB/s")'), plans, {})


@pytest.mark.parametrize(
    ("overlap", "gap", "interleave"),
    [("layer", 0.15, 1), ("layer", 0.3, 2), ("none", 0.15, 1), ("model", 0.25, 1)],
)
def test_no_estimate_in_stages_is_below_the_bound(
    tmp_path: Path, overlap: str, gap: float, interleave: int
) -> None:
    run, form = posed_run(tmp_path, CONFIG, {"gap": 0.02, "overlap": overlap}), PipelineForm(2, 4, interleave)
    plans, costs, layers = run.plans, run.costs(MESH), run.plans.model.layers
    posed = plans.make_problem(inner_mesh(MESH), costs, form)
    cuts = [
        tuple(end - start for start, end in pairwise((0, *ends, layers)))
        for ends in combinations(range(1, layers), 2 * interleave - 1)
    ]
    seconds = [
        plans.estimated(
            replace(plan, mesh=MESH, pipeline=Pipeline(STAGES, cut, 4, interleave)), costs
        ).seconds
        for labels in posed.named.values()
        for plan in [posed.problem.decode(labels)]
        for cut in cuts
    ]
    best, _, _, bound = search_staged(plans, MESH, costs, form, plans.look(posed))
    assert bound <= best.estimate_s * (1 + 1e-9)
    assert bound <= min(seconds) * (1 + 1e-9)
    # layers are cut so that the slowest piece is the quickest, which interleaved stages need not be
    assert best.estimate_s <= min(seconds) * (1.01 if interleave == 1 else 1.1)
    assert bound >= (1 - gap) * best.estimate_s


def test_layers_of_several_kinds_are_cut(tmp_path: Path) -> None:
    """Two blocks without experts, three with them, embedding and head; no other cut is quicker."""
    run, form = posed_run(tmp_path, EXPERTS, {"gap": 0.5}), PipelineForm(2, 4)
    plans, model, costs = run.plans, run.plans.model, run.costs(MESH)
    assert sum(part.repeats > 1 for part in model.parts) == 2
    look = plans.look(plans.make_problem(inner_mesh(MESH), costs, form))
    best, _, _, bound_s = search_staged(plans, MESH, costs, form, look)
    pipeline = best.plan.pipeline
    assert pipeline is not None
    assert sum(pipeline.layers) == model.layers == 7
    assert bound_s <= best.estimate_s
    for end in range(1, model.layers):
        cut = replace(pipeline, layers=(end, model.layers - end))
        other = plans.estimated(replace(best.plan, pipeline=cut), costs)
        assert best.estimate_s <= other.seconds * (1 + 1e-9)
