"""Verification of plans on another fabric than their own: missing nodes and links, and claims.

A schedule is transferred by the names of nodes and the ends of links; all that is missing is reported, not
only the first node or link. Its claims are about its own fabric. A bottleneck cut is transferred as those of
its nodes that exist there. Other certificates have numbers of links or nodes: they are transferred only if
links and nodes are equal, and prove nothing otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle.errors import ScheduleError, TopologyError
from treadle.schedules.certificate import BottleneckCut, Certificate
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.transfer import lost_links, transfer_collective, transfer_schedule
from treadle.topologies.topology import Topology
from treadle.verification.claims import check_bound
from treadle.verification.schedules import verify, verify_plan
from treadle.verification.violations import Findings, Report, ViolationKind

_SHOWN = 3
"""Most ranks that a message names."""

_LIMIT = 1000
"""Most violations of a schedule that are described; all are counted."""


def moved_plan(plan: Plan, fabric: Topology) -> Plan:
    """Return the plan on another fabric, without its claim of an optimum.

    TopologyError or ScheduleError if the fabric lacks a node or a link that the plan uses.
    """
    source = plan.topology
    if fabric == source:
        return plan
    return replace(
        plan,
        topology=fabric,
        collective=transfer_collective(plan.collective, source, fabric),
        entries=tuple(
            replace(entry, schedule=transfer_schedule(entry.schedule, source, fabric))
            for entry in plan.entries
        ),
        optimal_algbw=None,
        certificate=None,
    )


def verified_on(plan: Plan, fabric: Topology, *, with_claims: bool = True) -> tuple[Report, ...]:
    """Return a report of each schedule of a plan on a fabric; its claims are checked with the last one.

    Parameters
    ----------
    plan : Plan
    fabric : Topology
        Compute nodes that the plan's fabric lacks are violations.
    with_claims : bool
        Whether to verify the claims as well, not only the schedules.
    """
    if fabric == plan.topology and with_claims:
        return verify_plan(plan, topology=fabric)
    certificate, why = _moved_certificate(plan, fabric) if with_claims else (None, "")
    return tuple(_verify_entry(plan, entry, fabric, certificate, why, with_claims) for entry in plan.entries)


def _verify_entry(
    plan: Plan,
    entry: PlanEntry,
    fabric: Topology,
    certificate: Certificate | None,
    why: str,
    with_claims: bool,
) -> Report:
    has_claims = with_claims and entry is plan.entries[-1]
    optimal = plan.optimal_algbw if has_claims and certificate is not None else None
    found = Findings(_LIMIT)
    report = None
    try:
        has_ranks = _add_absent_ranks(plan, fabric, found)
        found.add_all(
            ViolationKind.MEMBERSHIP,
            lost_links(entry.schedule, plan.topology, fabric),
            lambda link: (
                f"the schedule uses link {plan.topology.link_name(link)}, which {fabric.name} does not have"
            ),
        )
        if has_ranks:
            collective = transfer_collective(plan.collective, plan.topology, fabric)
        if has_ranks and found.total:
            check_bound(fabric, collective, optimal, certificate if has_claims else None, found)
        elif not found.total:
            report = verify(
                fabric,
                collective,
                transfer_schedule(entry.schedule, plan.topology, fabric),
                claimed_algbw=plan.algbw if has_claims else None,
                claimed_optimal_algbw=optimal,
                certificate=certificate,
                limit=_LIMIT,
            )
    except (TopologyError, ScheduleError) as error:
        found.add(ViolationKind.MEMBERSHIP, str(error))
    if why and has_claims:
        found.add(ViolationKind.BOUND, why)
    if report is None:
        return found.report()
    return replace(
        report,
        violations=(*report.violations, *found.kept),
        n_violations=report.n_violations + found.total,
    )


def _add_absent_ranks(plan: Plan, fabric: Topology, found: Findings) -> bool:
    """Add one violation for all ranks and forwarders that the fabric lacks; return whether it has all."""
    compute = {fabric.node_names[node] for node in fabric.compute_nodes.tolist()}
    members = (*plan.collective.ranks, *plan.collective.forwarders)
    names = dict.fromkeys(plan.topology.node_names[node] for node in members)
    absent = [name for name in names if name not in compute]
    if not absent:
        return True
    found.add(
        ViolationKind.MEMBERSHIP,
        f"the plan has {plan.collective.n_ranks} ranks, {fabric.name} has {len(compute)} compute "
        f"nodes, and none called {first_names(absent)}",
    )
    return False


def first_names(names: Sequence[str]) -> str:
    """Return the first names of a list, and the number of the others."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _moved_certificate(plan: Plan, fabric: Topology) -> tuple[Certificate | None, str]:
    """Return the certificate on that fabric, and the reason if there is none."""
    certificate, source = plan.certificate, plan.topology
    if isinstance(certificate, BottleneckCut):
        there = {name: node for node, name in enumerate(fabric.node_names)}
        names = (source.node_names[node] for node in certificate.nodes if 0 <= node < source.n_nodes)
        return BottleneckCut(tuple(sorted(there[name] for name in names if name in there))), ""
    if certificate is None or _shape(fabric) == _shape(source):
        return certificate, ""
    return None, (
        f"the plan's optimum is claimed for {source.name}; nodes or links of {fabric.name} differ, so the "
        f"{certificate.kind} certificate proves nothing there"
    )


def _shape(topology: Topology) -> tuple[object, ...]:
    return topology.node_names, topology.tails.tobytes(), topology.heads.tobytes()
