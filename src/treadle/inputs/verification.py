"""Plans judged: every claim recomputed, on the plan's own fabric or on one that the user trusts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from treadle.brief import brief
from treadle.errors import ScheduleError, TopologyError
from treadle.inputs.moved_plans import verified_on
from treadle.schedules.plan import Plan
from treadle.topologies import subset, topology_hash
from treadle.topologies.topology import Topology
from treadle.verification.schedules import verify_plan
from treadle.verification.violations import Report, Violation, ViolationKind

_SHOWN = 3
"""Nodes that a note names."""

_OF_CLAIMS = (ViolationKind.LOAD, ViolationKind.CLAIM, ViolationKind.BOUND)
"""Violations that say of a schedule only that it is not what is claimed of it."""


@brief("topology", "is_ok", "is_embedded", "reports", "n_absent")
@dataclass(frozen=True)
class VerifyResult:
    """What the verifier says of a plan.

    Parameters
    ----------
    topology : Topology
        The fabric that the claims were held against, without the absent nodes.
    topology_hash : str
        SHA-256 of its canonical text (absent nodes included), hex.
    is_embedded : bool
        It was the fabric inside the plan; nobody vouches for it.
    reports : tuple of Report
        One for each schedule of the plan.
    n_absent : int
        Compute nodes of the trusted fabric that the plan does not know and that were taken out; the claims
        hold for the rest.
    notes : tuple of str
        What to know of it: that the plan was made for another fabric than a part of this one.
    placed : PlacedSchedule, optional
        Of a schedule of others: its messages or trees on the fabric, and the optimum beside it.

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
        """No violation anywhere."""
        return all(report.is_ok for report in self.reports)

    @property
    def is_sound(self) -> bool:
        """All schedules do there what they are for, whether or not what the plan claims of them is true."""
        return all(
            report.algbw is not None
            and report.n_violations == len(report.violations)
            and all(violation.kind in _OF_CLAIMS for violation in report.violations)
            for report in self.reports
        )

    @property
    def report(self) -> Report:
        """Of the schedule for the largest sizes, which the plan's claims are about."""
        return self.reports[-1]

    @property
    def full_report(self) -> Report:
        """Of all schedules together: `report`, with the violations of the others before its own."""
        return full_report(self.reports)


class UnverifiedPlanError(ScheduleError):
    """A plan's schedules or claims are false, so nothing is made of it.

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
    """The last report of a plan's, with the violations of all."""
    return replace(
        reports[-1],
        violations=tuple(violation for report in reports for violation in report.violations),
        n_violations=sum(report.n_violations for report in reports),
    )


def check_plan(plan: Plan, fabric: Topology | None = None) -> VerifyResult:
    """Verify a plan on a fabric that the user trusts, else on its own."""
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
        reports = (_refused(str(error)),)
    return VerifyResult(fabric, whole_hash, False, reports, n_absent, notes)


def require_verified(plan: Plan) -> None:
    """Raise UnverifiedPlanError unless the plan's schedules and claims hold on its own fabric."""
    result = check_plan(plan)
    if not result.is_ok:
        raise UnverifiedPlanError(result)


def part_that_is_known(own: Topology, fabric: Topology) -> Topology:
    """The trusted fabric without the compute nodes that the plan's fabric lacks, the others in its order."""
    nodes = fabric.compute_nodes.tolist()
    number = {fabric.node_names[node]: place for place, node in enumerate(nodes)}
    known = (own.node_names[node] for node in own.compute_nodes.tolist())
    places = [number[name] for name in known if name in number]
    return fabric if places in ([], list(range(len(nodes)))) else subset(fabric, *places)


def _notes(own: Topology, fabric: Topology, part: Topology) -> tuple[str, ...]:
    """That nodes are taken as absent though the plan's fabric is no part of the trusted one by its name.

    Plans of some ranks are made for ``subset(FABRIC, ...)``; names such as n0 are those of many fabrics.
    """
    kept = {part.node_names[node] for node in part.compute_nodes.tolist()}
    absent = [name for node in fabric.compute_nodes.tolist() if (name := fabric.node_names[node]) not in kept]
    if not absent or own.name == part.name:
        return ()
    shown = ", ".join(absent[:_SHOWN]) + (f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else "")
    return (
        f"the plan was made for {own.name}, not for {fabric.name}: {shown}, which it does not know, "
        f"{'is' if len(absent) == 1 else 'are'} taken as absent",
    )


def _refused(message: str) -> Report:
    violation = Violation(ViolationKind.MEMBERSHIP, message)
    return Report((violation,), 1, algbw=None, bound=None, height_max=None)
