"""Small plans and texts that are damaged; made when they are first needed."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np

from treadle import planning
from treadle.formats.routes.writer import emit_route_json
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import dump_plan, parse_plan
from treadle.topologies import parse
from treadle.topologies.files import dump_topology

PLANS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "trees": ("dgx1_v100()", "allgather", {}),
    "weights": ("star(4)", "reduce-scatter", {"weights": [1, 2, 0, 1]}),
    "both": ("complete(3)", "allreduce", {}),
    "rooted": ("torus(3, 3)", "broadcast", {"root": 4}),
    "factored": ("dgx_a100_flat(2)", "allgather", {"form": "factored"}),
    "factored boxes": ("leaf_spine(3, 2)", "allreduce", {"form": "factored"}),
    "steps": ("kautz(2, 1)", "allgather", {"algorithm": "bfb"}),
    "two phases": ("ring(4)", "allreduce", {"algorithm": "bfb"}),
    "exchange": ("hypercube(3)", "alltoall", {}),
    "demands": ("ring(4)", "alltoall", {"demands": [[0, 2, 0, 0], [1, 0, 0, 5], [0, 0, 0, 0], [1, 1, 1, 0]]}),
    "routes": ("generalized_kautz(2, 5)", "alltoall", {"algorithm": "routes"}),
    "rounds": ("generalized_kautz(2, 5)", "alltoall", {"algorithm": "routes", "max_flows": 1}),
}
"""Fabric, collective and options of each, one for each form that a plan may have."""


@cache
def plan_bytes(name: str) -> bytes:
    """A sound plan file's content."""
    fabric, collective, how = PLANS[name]
    if "demands" in how:
        how = {**how, "demands": Demands(np.array(how["demands"]))}
    return dump_plan(planning.solve(fabric, collective, **how).plan)


@cache
def plan(name: str) -> Plan:
    """A sound plan."""
    return parse_plan(plan_bytes(name), source=name)


TEXTS = {
    "msccl trees": ("trees", "msccl-xml"),
    "msccl both": ("both", "msccl-xml"),
    "msccl exchange": ("exchange", "msccl-xml"),
    "mscclpp both": ("both", "mscclpp-json"),
    "mscclpp trees": ("trees", "mscclpp-json"),
    "cpu both": ("both", "cpu-xml"),
    "cpu rooted": ("rooted", "cpu-xml"),
    "cpu exchange": ("exchange", "cpu-xml"),
}
"""Plan and format of each text that is executed."""


@cache
def text(name: str) -> str:
    """A sound text for a runtime."""
    made, to = TEXTS[name]
    return planning.lower(plan(made), to=to).text


@cache
def input_text(name: str) -> str:
    """A sound text of one of the formats that are read but not executed."""
    match name:
        case "topology":
            return dump_topology(parse("dgx_a100_flat(1)"))
        case "routes":
            found = plan("routes")
            schedule = found.entries[0].schedule
            assert isinstance(schedule, RouteSchedule)
            return emit_route_json(found.topology, found.collective, schedule)
        case "demands csv":
            return "0,2,0\n1,0,0\n3,1,0\n"
        case "demands json":
            return "[[0, 2, 0],\n [1, 0, 0],\n [3, 1, 0]]\n"
        case "measurements":
            rows = [{"size_bytes": size, "time_s": 1e-5 + size / 1e9} for size in (1024, 2048, 4096)]
            return json.dumps({"collective": "allgather", "ranks": 4, "rows": rows}, indent=1)
        case "measured table":
            return _TABLE
        case "workload":
            return _WORKLOAD
        case "nccl graph":
            return planning.lower(_rings(), to="nccl-graph").text
        case _:
            raise KeyError(name)


def _rings() -> Plan:
    """A plan whose trees are the chains of rings."""
    return planning.solve("dgx_a100_flat(1)", "allgather", algorithm="ring").plan


_TABLE = """\
# nThread 1 nGpus 4 minBytes 1024 maxBytes 4096 step: 2(factor)
# Collective test starting: all_gather_perf
#  Rank  0 Group  0 Pid  7 on host device  0 [0x07] GPU
#  Rank  1 Group  0 Pid  7 on host device  1 [0x0f] GPU
#   size  count   type  redop  root   time  algbw  busbw #wrong   time  algbw  busbw #wrong
#    (B)                              (us) (GB/s) (GB/s)          (us) (GB/s) (GB/s)
    1024    128  float   none    -1  12.10   0.08   0.04      0  12.00   0.09   0.04      0
    2048    256  float   none    -1  13.30   0.15   0.08      0  13.10   0.16   0.08      0
    4096    512  float   none    -1  15.20   0.27   0.13      0  15.00   0.27   0.14      0
"""

_WORKLOAD = """\
name = "a step"

[network]
alpha = "10us"
bandwidth = "25GB/s"

[[collectives]]
kind = "allreduce"
size = "64MB"
count = 2.5

[[collectives]]
kind = "alltoall"
size = "1MB"
group_size = 4
stride = 2
"""
