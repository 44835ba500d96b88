"""Verification of plans: every claim is recomputed, on the plan's own fabric or on a trusted one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from treadle.brief import brief
from treadle.errors import ScheduleError, TopologyError
from treadle.inputs.moved_plans import first_names, verified_on
from treadle.schedules.plan import Plan
from treadle.topologies import subset, topology_hash
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify_plan
from treadle.verification.violations import Report, Violation, ViolationKind

_OF_CLAIMS = (ViolationKind.LOAD, ViolationKind.CLAIM, ViolationKind.BOUND)
"""Violations of claims about a schedule; the schedule itself may be correct."""


@brief("topology", "is_ok", "is_embedded", "reports", "n_absent")
@dataclass(frozen=True)
class VerifyResult:
    """Result of the verification of a plan.

    Parameters
    ----------
    topology : Topology
        Fabric on which the claims were checked, without the absent nodes.
    topology_hash : str
        SHA-256 of its canonical text (absent nodes included), hex.
    is_embedded : bool
        Whether it was the fabric in the plan file, which is not trusted.
    reports : tuple of Report
        One for each schedule of the plan.
    n_absent : int
        Compute nodes of the trusted fabric that the plan lacks and that were removed; the claims are about
        the other nodes.
    notes : tuple of str
        Warning that the plan was computed for a fabric that is not a part of this one.
    placed : PlacedSchedule, optional
        For a third-party schedule: its messages or trees on the fabric, and the optimum for comparison.

    Examples
    --------
    >>> import treadle
    >>> found = treadle.verify(treadle.solve("ring:4", "allgather"), "ring:4")
    >>> found.is_ok, found.is_embedded, found.report.algbw
    (True, False, Fraction(8, 3))
    """

    topology: Topology
    topology_hash: str
    is_embedded: bool
    reports: tuple[Report, ...]
    n_absent: int = 0
    notes: tuple[str, ...] = ()
    placed: Any = None

    @property
    def is_ok(self) -> bool:
        """Whether no violation was found."""
        return all(report.is_ok for report in self.reports)

    @property
    def is_sound(self) -> bool:
        """Whether all schedules are correct; the claims about them may be false."""
        return all(
            report.algbw is not None
            and report.n_violations == len(report.violations)
            and all(violation.kind in _OF_CLAIMS for violation in report.violations)
            for report in self.reports
        )

    @property
    def report(self) -> Report:
        """Report of the schedule for the largest sizes, to which the claims apply."""
        return self.reports[-1]

    @property
    def full_report(self) -> Report:
        """Report of all schedules: `report`, with the violations of the others before its own."""
        return full_report(self.reports)


class UnverifiedPlanError(ScheduleError):
    """Error for a plan whose schedules or claims are false, and which is not used.

    Parameters
    ----------
    result : VerifyResult

    Examples
    --------
    >>> import dataclasses
    >>> import treadle
    >>> plan = treadle.solve("ring:4", "allgather").plan
    >>> try:
    ...     treadle.lower(dataclasses.replace(plan, algbw=2 * plan.algbw))
    ... except treadle.planning.UnverifiedPlanError as error:
    ...     print(str(error)[:46])
    the plan fails verification, so it is not used
    """

    def __init__(self, result: VerifyResult) -> None:
        found = [violation for report in result.reports for violation in report.violations]
        first = f" (first: {found[0]})" if found else ""
        super().__init__(
            f"the plan fails verification, so it is not used{first}; treadle verify lists every violation"
        )
        self.result = result


def full_report(reports: Sequence[Report]) -> Report:
    """Return the last report of a plan, with the violations of all."""
    return replace(
        reports[-1],
        violations=tuple(violation for report in reports for violation in report.violations),
        n_violations=sum(report.n_violations for report in reports),
    )


def check_plan(plan: Plan, fabric: Topology | None = None) -> VerifyResult:
    """Verify a plan on a fabric that the user trusts, or else on its own."""
    if fabric is None:
        return VerifyResult(plan.topology, topology_hash(plan.topology), True, verify_plan(plan))
    whole_hash, n_absent = topology_hash(fabric), 0
    notes: tuple[str, ...] = ()
    try:
        part = part_that_is_known(plan.topology, fabric)
        n_absent = len(fabric.compute_nodes) - len(part.compute_nodes)
        notes = _notes(plan.topology, fabric, part)
        fabric = part
        reports = verified_on(plan, fabric)
    except (TopologyError, ScheduleError) as error:
        violation = Violation(ViolationKind.MEMBERSHIP, str(error))
        reports = (Report((violation,), 1, algbw=None, bound=None, height_max=None),)
    return VerifyResult(fabric, whole_hash, False, reports, n_absent, notes)


def require_verified(plan: Plan) -> VerifyResult:
    """Verify a plan on its own fabric; raise UnverifiedPlanError unless its schedules and claims hold."""
    result = check_plan(plan)
    if not result.is_ok:
        raise UnverifiedPlanError(result)
    return result


def part_that_is_known(own: Topology, fabric: Topology) -> Topology:
    """Return the trusted fabric without compute nodes that the plan's fabric lacks, in the plan's order."""
    nodes = fabric.compute_nodes.tolist()
    number = {fabric.node_names[node]: place for place, node in enumerate(nodes)}
    known = (own.node_names[node] for node in own.compute_nodes.tolist())
    places = [number[name] for name in known if name in number]
    return fabric if places in ([], list(range(len(nodes)))) else subset(fabric, *places)


def _notes(own: Topology, fabric: Topology, part: Topology) -> tuple[str, ...]:
    """Return a warning if nodes count as absent although the plan's fabric has another name.

    Plans of some ranks are for ``subset(FABRIC, ...)``; names such as n0 occur in many fabrics.
    """
    kept = {part.node_names[node] for node in part.compute_nodes.tolist()}
    absent = [name for node in fabric.compute_nodes.tolist() if (name := fabric.node_names[node]) not in kept]
    if not absent or own.name == part.name:
        return ()
    return (
        f"the plan is for {own.name}, not for {fabric.name}: {first_names(absent)}, which it lacks, "
        f"{'counts' if len(absent) == 1 else 'count'} as absent",
    )
