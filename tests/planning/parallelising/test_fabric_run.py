"""Plans that the evaluator counts above the limit: the search is asked again, named plans stand by."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from treadle.errors import InfeasibleError
from treadle.inputs.problem import resolve_topology
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.mesh_problem import MeshResult
from treadle.parallelism.searching.mesh_search import Look
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.parallel_result import PricedPlan
from treadle.parallelism.searching.plan_search import PlanSearch
from treadle.schedules.mesh import Mesh
from treadle.topologies.catalogue.graphs import ring

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}
LEAST_BYTES = 3_000_000
LIMIT = 100.0
SEARCHED = {90.0: (2,), 60.0: (3,)}
"""Plans by the limit below which a search finds them."""
MESH = Mesh((4,), ("0",))
SECONDS = {(1,): 1.0, (2,): 2.0, (3,): 3.0, (9,): 9.0}


class Searches:
    """Plans of which the evaluator sees so many bytes."""

    def __init__(
        self,
        bytes_of: dict[tuple[int, ...], float],
        limit: float = LIMIT,
        enough: list[float] | None = None,
    ) -> None:
        self.bytes_of, self.limit = bytes_of, limit
        self.enough: list[float] = [] if enough is None else enough
        self.paid: list[object] = []
        self.request = SimpleNamespace(memory_bytes=LIMIT, gap=0.2)
        self.model = SimpleNamespace(name="model")

    def allowed(self, posed: Any) -> list[tuple[int, ...]]:
        return list(posed.named.values())

    def priced(self, name: str, plan: Any, costs: object) -> PricedPlan:
        held = self.bytes_of[plan]
        self.paid.append(costs)
        row = SECONDS[plan], SECONDS[plan], 0.0, 0.0, 0.0, 0.0, MappingProxyType(dict[str, float]())
        return PricedPlan(name, cast(ParallelPlan, plan), *row, held, held <= LIMIT)

    def with_memory(self, limit: float) -> Searches:
        return Searches(self.bytes_of, limit, self.enough)

    def make_problem(self, mesh: Mesh, costs: object) -> Any:
        problem = SimpleNamespace(tidied=lambda labels: labels, decode=lambda labels: labels)
        return SimpleNamespace(problem=problem, named={}, costs=costs)

    def look(self, posed: Any) -> Look[MeshResult]:
        return Look(1.0, 0.5, MeshResult(posed, (1,)))

    def search(self, before: Look[MeshResult], *, effort: SearchEffort | None = None) -> Look[MeshResult]:
        if self.limit == LIMIT:
            return before
        assert effort is not None
        self.enough.append(effort.enough)
        plan = next(
            (SEARCHED[least] for least in sorted(SEARCHED, reverse=True) if least <= self.limit), None
        )
        return Look(inf, -inf, MeshResult(before.found.posed, plan))


def fitting(
    bytes_of: dict[tuple[int, ...], float],
    named: dict[str, tuple[int, ...]],
    enough: list[float] | None = None,
) -> tuple[tuple[int, ...], PricedPlan]:
    plans = Searches(bytes_of, enough=enough)
    posed = plans.make_problem(MESH, None)
    posed.named = named
    rows = [plans.priced(name, plan, None) for name, plan in named.items()]
    return FabricRun(ring(4), cast(Any, plans), {})._fitting(plans.look(posed), MESH, rows)


def test_where_nothing_fits_that_is_said() -> None:
    with pytest.raises(InfeasibleError, match=r"model on ring\(4\), mesh 4: no plan was found that fits"):
        fitting({(1,): 500.0, (9,): 101.0}, {"FSDP": (9,)})


def test_a_search_that_has_enough_ends_early_with_a_plan_that_is_good_enough(tmp_path: Path) -> None:
    """Beside a fresh one, which goes on until its own gap is proven."""
    request = parallel_request("a100", 1024, {"gap": 0.2, "memory_bytes": LEAST_BYTES, "zero": 0})
    (tmp_path / "tiny.json").write_text(json.dumps(CONFIG))
    model, layers = as_model_graph(tmp_path / "tiny.json", tokens=1024, sequence=None, notes=[])
    plans = PlanSearch(model, request, layers)
    run = FabricRun(resolve_topology('complete(4, bandwidth="25GB/s")'), plans, {})
    start = Look(inf, -inf, MeshResult(plans.make_problem(MESH, run.costs(MESH)), None))
    fresh = plans.search(start)
    enough_s = fresh.seconds * 1.05
    early = plans.search(start, effort=SearchEffort(gap=0.2, enough=enough_s))
    assert fresh.seconds <= early.seconds <= enough_s
    assert early.bound_s <= fresh.seconds
    assert early.found.proof is not None
    assert fresh.found.proof is not None
    assert early.found.proof.n_passes < fresh.found.proof.n_passes
    never = SearchEffort(gap=0.2, enough=fresh.bound_s * 0.99)
    assert plans.search(start, effort=never).seconds == fresh.seconds


def test_a_plan_by_other_costs_fits_and_is_priced_with_the_true_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = Searches({(1,): 108.0, (2,): 99.0})
    run = FabricRun(ring(4), cast(Any, plans), {})
    monkeypatch.setattr(run, "costs", lambda mesh: "true")
    row = run.unawares(MESH, cast(Any, "others"))
    assert row is not None
    assert (row.plan, row.fits) == ((2,), True)
    assert plans.paid == ["others", "others", "true"]
    assert FabricRun(ring(4), cast(Any, Searches({(1,): 500.0})), {}).unawares(MESH, cast(Any, None)) is None
