"""Attention that is written out: a loop over queries in which scores are never whole, found by the search."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import treadle
from parallelism.problem.settings import TIMES, without_loops
from parallelism.rediscovery.plain_attention import make_long
from parallelism.rediscovery.small_settings import GB, GLANCE, KAPPA, line_costs, searched
from reference.parallelism.legality import violations
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.loops import regions_of
from treadle.parallelism.problem.search_problem import make_problem
from treadle.parallelism.problem.values import values_of
from treadle.parallelism.search.one_plan import MemoryShortage, fastest_plan
from treadle.schedules.mesh import Mesh

FOUR = Mesh((4,), ("x",))
COSTS = line_costs(100e9)
LIMIT = 3 * GB
INSIDE = {"bmm", "mul_2", "add_1", "_to_copy", "_softmax", "_to_copy_1", "bmm_3", "_to_copy_2"}
INSIDE |= {"_softmax_backward_data", "_to_copy_3", "mul_13"}
"""Operators that make scores, weights of attention, or gradients of these: 1.1 to 2.1 GB each at a rank."""
AROUND = {"bmm_1", "bmm_2", "bmm_4", "bmm_5"}


@pytest.fixture(scope="module")
def model() -> ModelGraph:
    return treadle.capture(make_long, repeats=2)


def test_letters_of_a_loop_are_followed_from_operator_to_operator(model: ModelGraph) -> None:
    """The product with values' gradients sums over queries: they are its ``j'``, as keys are of others."""
    (part,) = model.parts
    (region,) = regions_of(values_of(part))
    graph = part.graph
    assert {graph.nodes[node].name for node in region.nodes} == INSIDE | AROUND
    tokens, samples = (
        {graph.nodes[node].name: graph.atoms[role.atom].name + "'" * role.prime for node, role in one.items()}
        for one in region.letters
    )
    assert set(samples.values()) == {"i"}
    assert tokens.pop("bmm_2") == "j'"
    assert set(tokens.values()) == {"j"}


def test_scores_larger_than_memory_are_computed_in_chunks_of_queries(model: ModelGraph) -> None:
    """Without a loop no plan fits into twice the limit; with room for scores there is none."""
    problem = make_problem(model, FOUR, COSTS, TIMES, kappa=KAPPA)
    whole = fastest_plan(problem.graph, memory_bytes=2 * LIMIT, within=without_loops(problem), effort=GLANCE)
    assert isinstance(whole, MemoryShortage)
    found = searched(model, FOUR, COSTS, memory=LIMIT, kappa=KAPPA)
    (part,) = model.parts
    operators = found.plan.plan_of(part.name).operators
    chunked = {name: one.chunk for name, one in operators.items() if one.chunk is not None}
    assert set(chunked) == INSIDE | AROUND
    assert {one.of_loop for one in chunked.values()} == {next(iter(chunked.values())).of_loop}
    assert chunked["bmm_2"].letter == "j'"
    assert all(
        operators[name].keep is ActivationPolicy.RECOMPUTED for name in ("bmm", "_softmax", "_to_copy_1")
    )
    for moment in found.result.moments:
        for one in moment.contents:
            assert one.why == "chunk" or one.tensor not in INSIDE, (moment.node, one)
    backward = next(
        one for one in found.result.moments if one.node == "bmm_4" and one.phase is Phase.BACKWARD
    )
    assert {one.tensor for one in backward.contents if one.why == "chunk"} & INSIDE
    keys = replace(operators["bmm_2"], chunk=chunked["bmm_2"]._replace(letter="j"))
    others = replace(found.plan.plan_of(part.name), operators={**operators, "bmm_2": keys})
    wrong = replace(found.plan, parts={part.name: (others,)})
    (fault,) = violations(wrong, model)
    assert "_to_copy_1 within its loop, of which no chunk is there alone" in str(fault)
    ample = searched(model, FOUR, COSTS, memory=inf, effort=GLANCE, kappa=KAPPA)
    assert not any(one.chunk for one in ample.plan.plan_of(part.name).operators.values())
    assert ample.result.seconds < found.result.seconds
