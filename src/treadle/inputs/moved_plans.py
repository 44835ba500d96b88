"""Plans on another fabric than their own: what is missing there, what holds, and which claims go along.

A schedule goes along by the names of nodes and the ends of links; all that it lacks is told, not the first
thing only. Its claims are about its own fabric: of a witness a cut goes along, as the nodes of it that are
there; one that numbers links or nodes goes along only if those are the same, else it proves nothing there.
"""

from __future__ import annotations

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
"""Ranks that a line names."""

_LIMIT = 1000
"""Violations that are described of one schedule; all are counted."""


def moved_plan(plan: Plan, fabric: Topology) -> Plan:
    """The plan on another fabric, without what it claims to be the optimum of its own.

    Raises
    ------
    TopologyError, ScheduleError
        If the fabric lacks a node or a link that the plan uses.
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
        witness=None,
    )


def verified_on(plan: Plan, fabric: Topology, *, with_claims: bool = True) -> tuple[Report, ...]:
    """A report of each schedule of a plan on a fabric; its claims are held against the last one.

    Parameters
    ----------
    plan : Plan
    fabric : Topology
        Compute nodes that the plan's fabric lacks are violations.
    with_claims : bool
        Without, schedules are judged, and nothing that the plan says of them.
    """
    if fabric == plan.topology and with_claims:
        return verify_plan(plan, topology=fabric)
    witness, why = _moved_witness(plan, fabric) if with_claims else (None, "")
    return tuple(_judged(plan, entry, fabric, witness, why, with_claims) for entry in plan.entries)


def _judged(
    plan: Plan, entry: PlanEntry, fabric: Topology, witness: Certificate | None, why: str, with_claims: bool
) -> Report:
    has_claims = with_claims and entry is plan.entries[-1]
    optimal = plan.optimal_algbw if has_claims and witness is not None else None
    found = Findings(_LIMIT)
    report = None
    try:
        has_ranks = _add_absent_ranks(plan, fabric, found)
        _add_lost_links(plan, entry, fabric, found)
        if has_ranks and found.total:
            collective = transfer_collective(plan.collective, plan.topology, fabric)
            check_bound(fabric, collective, optimal, witness if has_claims else None, found)
        elif not found.total:
            report = verify(
                fabric,
                transfer_collective(plan.collective, plan.topology, fabric),
                transfer_schedule(entry.schedule, plan.topology, fabric),
                claimed_algbw=plan.algbw if has_claims else None,
                claimed_optimal_algbw=optimal,
                witness=witness,
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
    """One violation for all ranks and forwarders that are no compute nodes there; whether there is none."""
    compute = {fabric.node_names[node] for node in fabric.compute_nodes.tolist()}
    members = (*plan.collective.ranks, *plan.collective.forwarders)
    names = dict.fromkeys(plan.topology.node_names[node] for node in members)
    absent = [name for name in names if name not in compute]
    if not absent:
        return True
    shown = ", ".join(absent[:_SHOWN]) + (f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else "")
    found.add(
        ViolationKind.MEMBERSHIP,
        f"the plan has {plan.collective.n_ranks} ranks, {fabric.name} has {len(compute)} compute "
        f"nodes, and none called {shown}",
    )
    return False


def _add_lost_links(plan: Plan, entry: PlanEntry, fabric: Topology, found: Findings) -> None:
    """A violation for each link that the schedule uses and the fabric lacks."""
    lost = lost_links(entry.schedule, plan.topology, fabric)
    found.add_all(
        ViolationKind.MEMBERSHIP,
        lost,
        lambda link: (
            f"the schedule uses link {plan.topology.link_name(link)}, which {fabric.name} does not have"
        ),
    )


def _moved_witness(plan: Plan, fabric: Topology) -> tuple[Certificate | None, str]:
    """The witness there, and why there is none."""
    witness, source = plan.witness, plan.topology
    if isinstance(witness, BottleneckCut):
        there = {name: node for node, name in enumerate(fabric.node_names)}
        names = (source.node_names[node] for node in witness.nodes if 0 <= node < source.n_nodes)
        return BottleneckCut(tuple(sorted(there[name] for name in names if name in there))), ""
    if witness is None or _shape(fabric) == _shape(source):
        return witness, ""
    return None, (
        f"the plan's optimum is claimed for {source.name}; nodes or links of {fabric.name} differ, so the "
        f"{witness.kind} witness proves nothing there"
    )


def _shape(topology: Topology) -> tuple[object, ...]:
    return topology.node_names, topology.tails.tobytes(), topology.heads.tobytes()
