"""Rows of the table of schedules and runtimes: a plan of every kind of schedule, for 4 ranks each."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from treadle import planning
from treadle.schedules.plan import Plan

SHORT = {
    "allgather": "AG",
    "reduce-scatter": "RS",
    "allreduce": "AR",
    "broadcast": "B",
    "reduce": "R",
    "alltoall": "A2A",
}
SPANNING = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce")
PHASES = SPANNING[:3]

Key = tuple[str, str]
"""Row and collective."""
Plans = Mapping[Key, Plan]


@dataclass(frozen=True)
class Row:
    """A kind of schedule, and how plans of it are made."""

    name: str
    fabric: str
    kinds: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


ROWS = (
    Row("trees", "ring(4)", SPANNING),
    Row("trees through switches", "dgx_a100(2, 2)", SPANNING),
    Row("trees with in-network copies and sums", "dgx_h100(4, 1, sharp=True)", SPANNING, {"multicast": True}),
    Row("trees with in-network operations", "dgx_h100(1, 4, nvls=True)", SPANNING[2:], {"multicast": True}),
    Row("trees, reduce-scatter then allgather", "ring(4)", ("allreduce",), {"algorithm": "rs-ag"}),
    Row("rings", "ring(4)", PHASES, {"algorithm": "ring"}),
    Row("double binary trees", "complete(4)", ("allreduce",), {"algorithm": "double-binary-tree"}),
    Row("steps, breadth-first broadcast", "hypercube(2)", SPANNING, {"algorithm": "bfb"}),
    Row("steps, exact", "ring(4)", PHASES, {"algorithm": "exact"}),
    Row("steps, recursive doubling", "hypercube(2)", ("allreduce",), {"algorithm": "recursive-doubling"}),
    Row("exchange in steps, pipelined", "ring(4)", ("alltoall",), {"algorithm": "pipelined"}),
    Row("exchange in steps, time-stepped flow", "ring(4)", ("alltoall",), {"algorithm": "tsmcf"}),
    Row("routes", "ring(4)", ("alltoall",), {"algorithm": "routes"}),
    Row("routes in rounds", "ring(4)", ("alltoall",), {"algorithm": "routes", "max_flows": 1}),
    Row("hierarchical routes", "dgx_a100(2, 2)", ("alltoall",), {"algorithm": "hierarchical-routes"}),
)


@cache
def plans() -> Plans:
    """The plan of every row and collective; without those whose solver is not installed."""
    has_cp_sat = importlib.util.find_spec("ortools") is not None
    return {
        (row.name, kind): planning.solve(row.fabric, kind, **row.options).plan
        for row in ROWS
        for kind in row.kinds
        if has_cp_sat or row.options.get("algorithm") != "exact"
    }


def one_of_each_row() -> Plans:
    """Of every row the collective that rows above have least: together they have all."""
    chosen: dict[Key, Plan] = {}
    for row in ROWS:
        kinds = [kind for name, kind in plans() if name == row.name]
        taken = [kind for _, kind in chosen]
        if kinds:
            key = (row.name, min(kinds, key=taken.count))
            chosen[key] = plans()[key]
    return chosen


def modes(kind: str) -> tuple[bool, ...]:
    """Whether input and output are one memory: both, but for an all-to-all."""
    return (False,) if kind == "alltoall" else (False, True)
