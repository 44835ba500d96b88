"""Plans of two axes as plans of three: they cost what they cost, and a search that knows them may end."""

from __future__ import annotations

from itertools import combinations
from math import inf, prod

import pytest
from tests.parallelism.plan.small_models import small_model

from treadle.parallelism.problem.refining import JoinedCosts, refined
from treadle.parallelism.searching.mesh_choices import joined_meshes
from treadle.parallelism.searching.mesh_problem import MeshProblem, MeshResult
from treadle.parallelism.searching.mesh_search import Look
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.plan_search import PlanSearch
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import AlphaBetaCosts

FINE = Mesh((2, 2, 2), ("out", "mid", "in"))
GROUPS = [axes for n in (1, 2, 3) for axes in combinations(FINE.axis_names, n)]
COSTS = AlphaBetaCosts(
    1e-6,
    {
        (kind, axes): 1e9 * prod({"out": 1, "mid": 2, "in": 8}[axis] for axis in axes)
        for kind in CollectiveKind
        for axes in GROUPS
    },
)


@pytest.fixture(scope="module")
def plans() -> PlanSearch:
    return PlanSearch(small_model(t=64, h=32, f=64), parallel_request("a100", 64, {"gap": 0.1}))


@pytest.fixture(scope="module")
def fine(plans: PlanSearch) -> MeshProblem:
    return plans.make_problem(FINE, COSTS)


def test_a_plan_of_the_coarser_mesh_costs_the_same_on_the_finer_one(
    plans: PlanSearch, fine: MeshProblem
) -> None:
    """By the evaluator, which knows nothing of the search's tables; routes through parts may be cheaper."""
    *_, (mesh, parts) = joined_meshes(FINE)
    coarse = plans.make_problem(mesh, JoinedCosts(COSTS, parts))
    for name, labels in coarse.named.items():
        before = plans.estimated(coarse.problem.decode(labels), coarse.costs)
        lifted = refined(coarse.problem, fine.problem, parts, labels)
        assert lifted is not None, name
        after = plans.estimated(fine.problem.decode(lifted), fine.costs)
        assert after.peak_bytes == before.peak_bytes, name
        assert after.compute_s == pytest.approx(before.compute_s), name
        assert after.seconds <= before.seconds * (1 + 1e-9), name
    shown = coarse.problem.decode(coarse.named["FSDP"]).parts["block"][0]
    finer = fine.problem.decode(lifted_fsdp(coarse, fine, parts)).parts["block"][0]
    for path, state in shown.parameters.items():
        expected = tuple(tuple(one for axis in axes for one in parts[axis]) for axes in state.dims)
        assert finer.parameters[path].dims == expected, path


def lifted_fsdp(coarse: MeshProblem, fine: MeshProblem, parts: dict[str, tuple[str, ...]]) -> tuple[int, ...]:
    found = refined(coarse.problem, fine.problem, parts, coarse.named["FSDP"])
    assert found is not None
    return found


def test_a_search_takes_what_coarser_meshes_know_and_no_more_where_that_is_enough(
    plans: PlanSearch, fine: MeshProblem
) -> None:
    known = plans.coarser_plans(fine)
    assert known
    rows = [plans.priced("", fine.problem.decode(fine.problem.tidied(one)), COSTS) for one in known]
    best = min(rows, key=lambda row: row.seconds)
    first = Look(inf, best.seconds * 0.95, MeshResult(fine, None))
    taken = plans.search(first, known=known)
    assert taken.found.plan == known[rows.index(best)]
    assert taken.seconds == pytest.approx(best.seconds)
    assert taken.bound_s == first.bound_s
    assert list(joined_meshes(Mesh((4, 1, 2), ("a", "b", "c")))) == []
