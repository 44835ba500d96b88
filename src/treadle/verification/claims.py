"""Checks that all kinds of schedules share: ranks and forwarders, shape, upper bound, claimed algbw.

Shares no code with the generators. `treadle.verification.schedules.verify` is the entry point.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypedDict

from treadle.arrays import Int64Array
from treadle.errors import TreadleError
from treadle.schedules.certificate import Certificate
from treadle.schedules.collective import Collective
from treadle.schedules.schedule import Schedule
from treadle.topologies.topology import Topology
from treadle.verification.loads import add_overloads, algbw_of
from treadle.verification.violations import Findings, Report, ViolationKind


def check_members(topology: Topology, collective: Collective, found: Findings) -> None:
    """Check that the ranks and forwarders of a single group are the compute nodes of the fabric."""
    if collective.groups is not None:
        found.add(ViolationKind.SHAPE, f"the schedule is for one group, found {len(collective.groups)}")
        return
    check_compute_nodes(topology, collective, found)


def check_compute_nodes(topology: Topology, collective: Collective, found: Findings) -> None:
    """Check that the ranks (of all groups) and forwarders are the compute nodes of the fabric."""
    members = {*collective.ranks, *collective.forwarders}
    compute = set(topology.compute_nodes.tolist())
    for node in sorted(members - compute):
        name = topology.node_names[node] if 0 <= node < topology.n_nodes else node
        found.add(ViolationKind.MEMBERSHIP, f"rank or forwarder {name!r} is not a compute node of the fabric")
    for node in sorted(compute - members):
        name = topology.node_names[node]
        found.add(ViolationKind.MEMBERSHIP, f"compute node {name!r} is neither a rank nor a forwarder")


def check_shape(collective: Collective, schedule: Schedule, found: Findings) -> bool:
    """Whether the schedule has the kind and number of ranks of the collective; if not, add a violation."""
    given, expected = (f"{one.kind} of {one.n_ranks} ranks" for one in (schedule, collective))
    if given != expected:
        found.add(ViolationKind.SHAPE, f"the schedule is for {given}, not {expected}")
    return given == expected


class Claims(TypedDict, total=False):
    """Arguments of all verifiers besides the schedule; see `treadle.verification.schedules.verify`."""

    claimed_algbw: Fraction | None
    claimed_optimal_algbw: Fraction | None
    certificate: Certificate | None
    limit: int


class Verifier:
    """One verification: ranks and forwarders, upper bound, checks of the caller, claimed algbw.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    claimed_algbw, ..., limit
        As in `treadle.verification.schedules.verify`.
    check : callable
        Check of the collective; the schedule is looked at only if it adds no violation.
    unsupported : str
        Reason why the certificate does not apply to such schedules.
    """

    def __init__(
        self,
        topology: Topology,
        collective: Collective,
        *,
        claimed_algbw: Fraction | None = None,
        claimed_optimal_algbw: Fraction | None = None,
        certificate: Certificate | None = None,
        limit: int = 1000,
        check: Callable[[Topology, Collective, Findings], None] = check_members,
        unsupported: str = "",
    ) -> None:
        self.topology, self._claimed = topology, claimed_algbw
        self.found, self._bound = Findings(limit), None
        check(topology, collective, self.found)
        self._begun = not self.found.total
        if self._begun and unsupported:
            self.found.add(ViolationKind.BOUND, unsupported)
        elif self._begun:
            self._bound = check_bound(topology, collective, claimed_optimal_algbw, certificate, self.found)
        self._claims = self.found.total

    @property
    def is_sound(self) -> bool:
        """Whether all violations so far concern claims, not the schedule."""
        return self._begun and self.found.total == self._claims

    def report(self, algbw: Fraction | None = None, **facts: Any) -> Report:
        """Return the report; a given algbw (bytes/s) is first compared with the claims.

        Parameters
        ----------
        algbw : Fraction, optional
        **facts
            Further fields of `Report`.
        """
        if algbw is not None:
            reached = facts.get("pipelined_algbw")
            check_algbw(algbw, reached, claimed=self._claimed, bound=self._bound, found=self.found)
        return self.found.report(algbw=algbw, bound=self._bound, **facts)

    def report_loads(self, loads: Int64Array, total: int, **facts: Any) -> Report:
        """Return the report, as `report`, of a schedule with these link loads out of `total` units."""
        algbw = algbw_of(self.topology, loads, total)
        if self._claimed is not None and algbw != self._claimed:
            add_overloads(self.topology, loads, total, self._claimed, self.found)
        return self.report(algbw, **facts)


def check_bound(
    topology: Topology,
    collective: Collective,
    claimed: Fraction | None,
    certificate: Certificate | None,
    found: Findings,
) -> Fraction | None:
    """Return the upper bound that the certificate proves, if any; it must equal the claimed optimum."""
    if certificate is None:
        if claimed is not None:
            found.add(
                ViolationKind.BOUND, f"optimal algbw {claimed} bytes/s is claimed without a certificate"
            )
        return None
    try:
        bound = certificate.bound(topology, collective)
    except TreadleError as error:
        found.add(ViolationKind.BOUND, f"the certificate proves no bound: {error}")
        return None
    if claimed is not None and claimed != bound:
        found.add(
            ViolationKind.BOUND, f"the certificate proves {bound} bytes/s, not the claimed optimum {claimed}"
        )
    return bound


def check_algbw(
    algbw: Fraction,
    pipelined: Fraction | None = None,
    *,
    claimed: Fraction | None,
    bound: Fraction | None,
    found: Findings,
) -> None:
    """Compare the algbw of the loads with the claimed one, and the asymptotic algbw with the upper bound."""
    if claimed is not None and algbw != claimed:
        found.add(ViolationKind.CLAIM, f"algbw is {algbw} bytes/s by the loads, not {claimed} as claimed")
    reached = pipelined or algbw
    if bound is not None and reached > bound:
        found.add(
            ViolationKind.BOUND,
            f"algbw {reached} bytes/s exceeds the bound {bound}, so the certificate is false",
        )
