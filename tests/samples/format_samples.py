"""For every format of the table, plug-ins' too, plans that it takes and what it cannot do without."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from treadle import planning
from treadle.errors import InfeasibleError
from treadle.formats.format import Format, all_formats, find_format
from treadle.planning import Lowered
from treadle.schedules.plan import Plan

NAMES: Sequence[str] = [record.name for record in all_formats()]
CASES = (
    ("ring(4)", "allgather", {"algorithm": "ring"}),
    ("torus(3, 3)", "alltoall", {"algorithm": "routes"}),
    ("dgx_a100(2)", "allreduce", {"algorithm": "ring"}),
    ("hypercube(2)", "broadcast", {"root": 1}),
)
"""Fabric, collective and options of plans; every format takes one of them at least."""


@cache
def plans() -> tuple[Plan, ...]:
    return tuple(planning.solve(fabric, collective, **how).plan for fabric, collective, how in CASES)


def needed(record: Format, plan: Plan) -> dict[str, Any]:
    """What the format cannot do without."""
    options: dict[str, Any] = {"size_bytes": 2**20} if "size_bytes" in record.options else {}
    if "accept_any_root" in record.options and plan.collective.root is not None:
        options["accept_any_root"] = True
    return options


def words(record: Format, plan: Plan) -> list[str]:
    """The same as on the command line."""
    spelt = {"size_bytes": ["--size", "1MB"], "accept_any_root": ["--accept-any-root"]}
    return [word for option in needed(record, plan) for word in spelt[option]]


@cache
def taken(name: str) -> list[tuple[Plan, Lowered]]:
    """The plans that the format takes, and what became of them."""
    record, found = find_format(name), []
    for plan in plans():
        try:
            found.append((plan, planning.lower(plan, to=name, **needed(record, plan))))
        except InfeasibleError:
            continue
    return found
