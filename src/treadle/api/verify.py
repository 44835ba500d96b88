"""Check a plan, or a third-party schedule."""

from __future__ import annotations

from pathlib import Path
from typing import overload

from treadle.checking import checked
from treadle.errors import ScheduleError
from treadle.inputs.fabrics_and_plans import FabricLike, PlanLike, as_plan
from treadle.inputs.problem import resolve_topology
from treadle.inputs.runtime_files import FileVerification, read_runtime_file, verify_runtime_file
from treadle.inputs.verification import VerifyResult, check_plan
from treadle.schedules.plan import HasPlan, Plan
from treadle.topologies import topology_hash
from treadle.topologies.topology import Topology


@overload
def verify(plan: Plan | HasPlan, topology: FabricLike | None = None) -> VerifyResult: ...


@overload
def verify(plan: PlanLike, topology: FabricLike, *, root: int | None = None) -> VerifyResult: ...


@overload
def verify(
    plan: PlanLike, *, root: int | None = None, profile: str | None = None
) -> VerifyResult | FileVerification: ...


@checked()
def verify(
    plan: PlanLike,
    topology: FabricLike | None = None,
    *,
    root: int | None = None,
    profile: str | None = None,
) -> VerifyResult | FileVerification:
    """Check a plan's schedules and claims, or a schedule of others.

    Parameters
    ----------
    plan : Plan, str, Path or result with a plan
        Of a path the file is a plan, or a text for a runtime, told by its content.
    topology : Topology, str, Path, networkx.Graph, plan or result, optional
        The fabric to check against, matched by the names of nodes and the ends of links; default the one
        inside the plan. Compute nodes that the plan's fabric lacks are taken as absent, as `pose` does with
        those outside its ranks. A text's ranks are the fabric's by number; without a fabric it is judged for
        itself.
    root : int, optional
        Of a text of broadcast or reduce that does not name it; default 0.
    profile : Profile or str, optional
        Of MSCCL XML without a fabric: whose limits hold; default the first that fits.

    Returns
    -------
    VerifyResult
        Of a text without a fabric FileVerification.

    Raises
    ------
    FormatError, TopologyError
        If `topology` cannot be read. A fabric that does not have what the plan uses is a violation.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> treadle.verify(plan, "ring:4").is_ok
    True
    """
    if isinstance(plan, str | Path) and (text := read_runtime_file(Path(plan))) is not None:
        if topology is None:
            return verify_runtime_file(text, source=str(plan), profile=profile, root=root or 0)
        if profile is not None:
            raise ScheduleError("verify: profile: is about a text without a fabric")
        return _verify_placed(Path(plan), resolve_topology(topology), root or 0)
    if profile is not None or root is not None:
        raise ScheduleError("verify: root and profile are for texts; a plan says both itself")
    own = as_plan(plan, "verify: plan")
    return check_plan(own, None if topology is None else resolve_topology(topology))


def _verify_placed(path: Path, fabric: Topology, root: int) -> VerifyResult:
    from treadle.schedulers.third_party.placed_schedules import (
        route_file,  # which verifies plans by this module
    )

    placed = route_file(path, fabric, root=root)
    return VerifyResult(fabric, topology_hash(fabric), False, (placed.report,), placed=placed)
