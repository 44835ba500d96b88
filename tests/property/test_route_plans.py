"""Routes of random fabrics from solving to moved data: saved, loaded, verified, lowered, run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from reference.program_check import check_program
from samples import route_samples as samples
from samples.strategies import digraphs, symmetric_topologies
from treadle import planning
from treadle.errors import InfeasibleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.program.any_schedule import lower
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify_plan


@st.composite
def requests(draw: Any) -> dict[str, int]:
    """Some of the limits that routes keep."""
    limits = {"max_layers": (1, 3), "max_routes": (1, 2), "max_flows": (1, 3), "chunks": (1, 4)}
    chosen = draw(st.sets(st.sampled_from(sorted(limits))))
    return {key: draw(st.integers(*limits[key])) for key in sorted(chosen)}


def solved(
    topology: Topology, demands: Demands | None, request: dict[str, Any]
) -> tuple[planning.SolveResult | None, str]:
    """A plan, or why there is none."""
    try:
        return planning.solve(topology, "alltoall", algorithm="routes", demands=demands, **request), ""
    except InfeasibleError as error:
        return None, str(error)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(data=st.data())
def test_from_a_fabric_to_moved_data(data: st.DataObject) -> None:
    topology = data.draw(st.one_of(symmetric_topologies(compute=(2, 5)), digraphs(compute=(2, 5))))
    n = len(topology.compute_nodes)
    demands = data.draw(st.none() | st.integers(0, 99).map(lambda seed: samples.random_demands(n, seed)))
    request = data.draw(requests())
    result, reason = solved(topology, demands, request)
    if result is None:
        assert "enough" in reason
        assert "max_layers" in request
        return
    with tempfile.TemporaryDirectory() as folder:
        save_plan(Path(folder) / "plan", result.plan)
        plan = load_plan(Path(folder) / "plan")
    assert plan == result.plan
    (report,) = verify_plan(plan)
    assert report.is_ok
    assert report.algbw is not None
    assert report.bound is not None
    assert report.algbw <= report.bound
    schedule = plan.entries[0].schedule
    assert isinstance(schedule, TimedRoutes if "max_flows" in request else RouteSchedule)
    _check_limits(schedule, request)
    assert samples.is_correct(topology, plan.collective, schedule)
    assert samples.slow_algbw(topology, plan.collective, schedule) == plan.algbw
    program = lower(topology, plan.collective, schedule)
    assert check_program(program) == ()
    if demands is None:
        assert interpret_msccl_xml(emit_msccl_xml(program), fifo_depth=2).violations == ()
    assert planning.run(plan, [0, 4 * n, 1000], iterations=1).wrong == 0


def _check_limits(schedule: RouteSchedule | TimedRoutes, request: dict[str, int]) -> None:
    routes = schedule.routes if isinstance(schedule, TimedRoutes) else schedule
    assert routes.n_layers <= request.get("max_layers", 99)
    assert np.bincount(routes.pair).max() <= request.get("max_routes", 99)
    assert routes.n_chunks == request.get("chunks", routes.n_chunks)
    if isinstance(schedule, TimedRoutes):
        assert schedule.max_flows <= request["max_flows"]
