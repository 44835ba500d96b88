"""Plans that the evaluator counts above the limit: the search is asked again, named plans stand by."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

import pytest

from treadle.errors import InfeasibleError
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.planning.parallelising.fabric_run import FabricRun
from treadle.planning.parallelising.mesh_search import Look, MeshSearch
from treadle.planning.parallelising.parallel_result import PricedPlan
from treadle.planning.parallelising.posed_mesh import MeshFound
from treadle.schedules.mesh import Mesh
from treadle.topologies.catalogue.graphs import ring

LIMIT = 100.0
SEARCHED = {90.0: (2,), 60.0: (3,)}
"""Plans by the limit below which a search finds them."""
SECONDS = {(1,): 1.0, (2,): 2.0, (3,): 3.0, (9,): 9.0}


class Searches:
    """Plans of which the evaluator sees so many bytes."""

    def __init__(self, bytes_of: dict[tuple[int, ...], float], limit: float = LIMIT) -> None:
        self.bytes_of, self.limit = bytes_of, limit
        self.request = SimpleNamespace(memory_bytes=LIMIT, gap=0.2)
        self.model = SimpleNamespace(name="model")

    def allowed(self, posed: Any) -> list[tuple[int, ...]]:
        return list(posed.named.values())

    def priced(self, name: str, plan: Any, costs: object) -> PricedPlan:
        held = self.bytes_of[plan]
        row = SECONDS[plan], 0.0, 0.0, 0.0, MappingProxyType(dict[str, float]())
        return PricedPlan(name, cast(ParallelPlan, plan), *row, held, held <= LIMIT)

    def with_memory(self, limit: float) -> Searches:
        return Searches(self.bytes_of, limit)

    def search(self, before: object, watch: object, *, enough_s: float) -> Any:
        assert enough_s == 0.625, "what is proven at the limit, and the gap that was asked for"
        plan = next(
            (SEARCHED[least] for least in sorted(SEARCHED, reverse=True) if least <= self.limit), None
        )
        return SimpleNamespace(found=SimpleNamespace(plan=plan))


def fitting(
    bytes_of: dict[tuple[int, ...], float], named: dict[str, tuple[int, ...]]
) -> tuple[tuple[int, ...], PricedPlan]:
    plans = Searches(bytes_of)
    problem = SimpleNamespace(tidied=lambda labels: labels, decode=lambda labels: labels)
    posed = SimpleNamespace(problem=problem, named=named, costs=None)
    rows = [plans.priced(name, plan, None) for name, plan in named.items()]
    mesh = Mesh((4,), ("0",))
    found = MeshSearch(Look(1.0, 0.5, MeshFound(cast(Any, posed), (1,))), mesh, ())
    return FabricRun(ring(4), cast(Any, plans), {})._fitting(found, rows)


def test_a_plan_that_fits_is_taken_as_it_is() -> None:
    labels, row = fitting({(1,): 100.0}, {})
    assert labels == (1,)
    assert row.name == "treadle"


def test_the_search_is_asked_under_lower_limits_until_a_plan_fits() -> None:
    assert fitting({(1,): 108.0, (2,): 130.0, (3,): 80.0}, {})[0] == (3,)
    assert fitting({(1,): 108.0, (2,): 99.0}, {})[0] == (2,)


def test_a_named_plan_stands_by() -> None:
    labels, row = fitting({(1,): 500.0, (9,): 50.0}, {"FSDP": (9,)})
    assert labels == (9,)
    assert row.name == "treadle"
    assert row.fits


def test_where_nothing_fits_that_is_said() -> None:
    with pytest.raises(InfeasibleError, match=r"model on ring\(4\), mesh 4: no plan was found that fits"):
        fitting({(1,): 500.0, (9,): 101.0}, {"FSDP": (9,)})
