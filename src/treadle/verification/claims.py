"""The parts of a verification that forests and steps share: members, shape, the bound, the claimed algbw.

Shares no code with the generators; `treadle.verification.schedules` is the way in.
"""

from __future__ import annotations

from fractions import Fraction

from treadle.errors import TreadleError
from treadle.schedules.collective import Collective
from treadle.schedules.schedule import Schedule
from treadle.schedules.witness import Witness
from treadle.topologies.topology import Topology
from treadle.verification.violations import Findings, ViolationKind


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


def check_bound(
    topology: Topology,
    collective: Collective,
    claimed: Fraction | None,
    witness: Witness | None,
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
    algbw: Fraction, *, claimed: Fraction | None, bound: Fraction | None, found: Findings
) -> None:
    """The algbw that the loads give must be the claimed one, and no more than the bound."""
    if claimed is not None and algbw != claimed:
        found.add(ViolationKind.CLAIM, f"algbw is {algbw} bytes/s by the loads, not {claimed} as claimed")
    if bound is not None and algbw > bound:
        found.add(
            ViolationKind.BOUND, f"algbw {algbw} bytes/s exceeds the bound {bound}, so the witness is false"
        )
