"""JSON of results, from the rows that report them."""

from __future__ import annotations

from typing import Any

import treadle
from treadle.render import building, designing
from treadle.render.quantities import Rates
from treadle.render.rows import values
from treadle.render.solving import size_set_rows


def size_set_summary(result: Any) -> dict[str, Any]:
    found = values(size_set_rows(result))
    return {key: found[key] for key in found if not key.startswith("cost_model")}


def cabling_summary(built: Any) -> dict[str, Any]:
    return values(building.cabling_rows(built))


def check_summary(report: Any) -> dict[str, Any]:
    return values(building.cabling_check_rows(report))


def growth_summary(plan: Any) -> Any:
    return building.expansion_row(plan, 0).facts["growth"]


def rivalry_summary(found: Any) -> dict[str, Any]:
    return values(building.reference_rows(found, "own"))


def fabric_summary(facts: Any) -> dict[str, Any]:
    return values(designing._fact_rows(treadle.parse("ring:3"), facts, Rates()))
