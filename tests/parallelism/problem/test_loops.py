"""Loops over chunks: large tensors that are never there as a whole, where memory asks for it."""

from __future__ import annotations

from parallelism.problem.settings import COSTS, MESH, NUMBERS, TIMES, without_loops
from reference.parallelism.legality import violations
from treadle.parallelism.evaluation.evaluation import Evaluation, evaluate
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.search_problem import SearchProblem, make_problem
from treadle.parallelism.search.branching import Incumbent, SearchEffort
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan
from treadle.training.models.zoo import zoo_model

EFFORT = SearchEffort(gap=0.03, n_parts=40)


def planned(problem: SearchProblem, memory_bytes: float) -> tuple[ParallelPlan, Evaluation]:
    """A plan within a limit that none without loops keeps to."""
    short = fastest_plan(
        problem.graph, memory_bytes=memory_bytes, within=without_loops(problem), effort=EFFORT
    )
    assert isinstance(short, MemoryShortage)
    found = fastest_plan(problem.graph, memory_bytes=memory_bytes, effort=EFFORT)
    assert isinstance(found, Incumbent)
    assert found.plan is not None
    plan = problem.decode(problem.tidied(found.plan))
    assert violations(plan, problem.model) == ()
    result = evaluate(plan, problem.model, COSTS, NUMBERS)
    # the evaluator counts moments that the search leaves out
    assert result.peak_bytes <= 1.05 * memory_bytes
    return plan, result


def test_the_loss_of_an_8b_model_runs_in_chunks_where_whole_logits_do_not_fit() -> None:
    """128K words: logits and their gradient, 32 tokens' worth of activations each, need 2 GB more."""
    model = model_graph(zoo_model("llama-3-8b"), batch=8, sequence=8192)
    plan, result = planned(make_problem(model, MESH, COSTS, TIMES), 25.5e9)
    head = plan.plan_of("head").operators
    chunks = {name: one.chunk for name, one in head.items() if one.chunk is not None}
    assert set(chunks) == {"logits", "word_sums", "d_logits", "d_normed", "d_output_weight"}
    assert len(set(chunks.values())) == 1
    assert head["logits"].keep is ActivationPolicy.RECOMPUTED
    moment = next(one for one in result.moments if one.node == "d_logits")
    assert {(one.why, one.tensor) for one in moment.contents} >= {("chunk", "logits"), ("chunk", "d_logits")}
