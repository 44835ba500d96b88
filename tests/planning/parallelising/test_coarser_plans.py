"""Plans of two axes as plans of three: they cost what they cost, and a search that knows them may end."""

from __future__ import annotations

from itertools import combinations
from math import inf, prod

import pytest
from tests.parallelism.plan.small_models import small_model

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
