"""The parts of a verification that forests and steps share: members, shape, the bound, the claimed algbw.

Shares no code with the generators; `treadle.verification.schedules` is the way in.
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
    """One group's ranks and forwarders must be the compute nodes of the fabric."""
    if collective.groups is not None:
        found.add(ViolationKind.SHAPE, f"the schedule is for one group, found {len(collective.groups)}")
        return
    check_compute_nodes(topology, collective, found)


def check_compute_nodes(topology: Topology, collective: Collective, found: Findings) -> None:
    """Ranks, of all groups if there are some, and forwarders must be the compute nodes of the fabric."""
    members = {*collective.ranks, *collective.forwarders}
    compute = set(topology.compute_nodes.tolist())
    if members == compute:
        return
    for node in sorted(members - compute):
        name = topology.node_names[node] if 0 <= node < topology.n_nodes else node
        found.add(ViolationKind.MEMBERSHIP, f"rank or forwarder {name!r} is no compute node of the fabric")
    for node in sorted(compute - members):
        name = topology.node_names[node]
        found.add(ViolationKind.MEMBERSHIP, f"compute node {name!r} is neither a rank nor a forwarder")


def check_kind(collective: Collective, schedule: Schedule, found: Findings) -> bool:
    """The schedule must be for the collective's kind."""
    if schedule.kind is not collective.kind:
        found.add(ViolationKind.SHAPE, f"the schedule is for {schedule.kind}, not {collective.kind}")
        return False
    return True


class Claims(TypedDict, total=False):
    """What all verifiers take besides the schedule; `treadle.verification.schedules.verify` explains them."""

    claimed_algbw: Fraction | None
    claimed_optimal_algbw: Fraction | None
    witness: Certificate | None
    limit: int


class Verifier:
    """One verification: members, then the bound, then what the caller finds, then the claimed algbw.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    claimed_algbw, claimed_optimal_algbw, witness, limit
        As in `treadle.verification.schedules.verify`.
    check : callable
        Whether the schedule can be looked at at all.
    refused : str
        Why the witness proves nothing of such schedules.
    """

    def __init__(
        self,
        topology: Topology,
        collective: Collective,
        *,
        claimed_algbw: Fraction | None = None,
        claimed_optimal_algbw: Fraction | None = None,
        witness: Certificate | None = None,
        limit: int = 1000,
        check: Callable[[Topology, Collective, Findings], None] = check_members,
        refused: str = "",
    ) -> None:
        self.topology, self._claimed = topology, claimed_algbw
        self.found, self._bound = Findings(limit), None
        check(topology, collective, self.found)
        self._begun = not self.found.total
        if self._begun and refused:
            self.found.add(ViolationKind.BOUND, refused)
        elif self._begun:
            self._bound = check_bound(topology, collective, claimed_optimal_algbw, witness, self.found)
        self._claims = self.found.total

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong so far but claims."""
        return self._begun and self.found.total == self._claims

    def report(self, algbw: Fraction | None = None, **facts: Any) -> Report:
        """What was found; with the algbw, bytes/s, that a sound schedule has, which must be as claimed.

        Parameters
        ----------
        algbw : Fraction, optional
        **facts
            Of `Report`.
        """
        if algbw is not None:
            reached = facts.get("pipelined_algbw")
            check_algbw(algbw, reached, claimed=self._claimed, bound=self._bound, found=self.found)
        return self.found.report(algbw=algbw, bound=self._bound, **facts)

    def report_loads(self, loads: Int64Array, total: int, **facts: Any) -> Report:
        """What was found, as `report`, where `total` units in all load the links so."""
        algbw = algbw_of(self.topology, loads, total)
        if self._claimed is not None and algbw != self._claimed:
            add_overloads(self.topology, loads, total, self._claimed, self.found)
        return self.report(algbw, **facts)


def check_bound(
    topology: Topology,
    collective: Collective,
    claimed: Fraction | None,
    witness: Certificate | None,
    found: Findings,
) -> Fraction | None:
    """The bound that the witness proves, if any; it must be the claimed optimum."""
    if witness is None:
        if claimed is not None:
            found.add(ViolationKind.BOUND, f"optimal algbw {claimed} bytes/s is claimed without a witness")
        return None
    try:
        bound = witness.bound(topology, collective)
    except TreadleError as error:
        found.add(ViolationKind.BOUND, f"the witness proves no bound: {error}")
        return None
    if claimed is not None and claimed != bound:
        found.add(
            ViolationKind.BOUND, f"the witness proves {bound} bytes/s, not the claimed optimum {claimed}"
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
    """The algbw that the loads give must be the claimed one, and what slices reach no more than the bound."""
    if claimed is not None and algbw != claimed:
        found.add(ViolationKind.CLAIM, f"algbw is {algbw} bytes/s by the loads, not {claimed} as claimed")
    reached = pipelined or algbw
    if bound is not None and reached > bound:
        found.add(
            ViolationKind.BOUND, f"algbw {reached} bytes/s exceeds the bound {bound}, so the witness is false"
        )
