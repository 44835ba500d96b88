"""JSON of results, from the rows that report them."""

from __future__ import annotations

from typing import Any

import treadle
from treadle.render import building, designing
from treadle.render.problems import plan_values
from treadle.render.quantities import Rates
from treadle.render.rows import values
from treadle.render.solving import repair_rows, size_set_rows, solve_rows, tree_front_rows

plan_summary = plan_values


def solve_summary(result: Any) -> dict[str, Any]:
    return values(solve_rows(result))


def repair_summary(result: Any) -> dict[str, Any]:
    return values(repair_rows(result))


def size_set_summary(result: Any) -> dict[str, Any]:
    found = values(size_set_rows(result))
    return {key: found[key] for key in found if not key.startswith("cost_model")}


def tree_front_summary(front: Any) -> dict[str, Any]:
    problem = treadle.planning.make_problem("ring:3", "allgather")
    found = values(tree_front_rows(problem.topology, problem.collective, front))
    return {key: found[key] for key in ("optimal_algbw_bytes_per_s", "optimal_algbw_exact", "points")}


def cabling_summary(built: Any) -> dict[str, Any]:
    return values(building.cabling_rows(built))


def check_summary(report: Any) -> dict[str, Any]:
    return values(building.cabling_check_rows(report))


def growth_summary(plan: Any) -> Any:
    return building.expansion_row(plan, 0).facts["growth"]


def rewiring_summary(plan: Any) -> Any:
    return building.rewiring_row(plan).facts["rewiring"]


def resilience_summary(result: Any) -> dict[str, Any]:
    return values(building.resilience_rows(result))


def rivalry_summary(found: Any) -> dict[str, Any]:
    return values(building.reference_rows(found, "own"))


def fabric_summary(facts: Any) -> dict[str, Any]:
    return values(designing._fact_rows(treadle.parse("ring:3"), facts, Rates()))
