"""The topology finder as users call it: the frontier of fabrics, the best for a workload, and its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from treadle._version import __version__
from treadle.finder.build import build
from treadle.finder.construction import expression
from treadle.finder.designing.candidates import frontier_options
from treadle.finder.designing.design_result import DesignRow, Reconfiguration
from treadle.finder.designing.workload_costs import PricedFabric, least_seconds, total_seconds
from treadle.finder.evaluate import call_seconds, cheapest_sequence
from treadle.finder.measure import Option
from treadle.finder.search import FabricCandidate, Finder
from treadle.finder.workload import Call, Exchange, Network, Workload
from treadle.inputs.problem import Problem
from treadle.schedulers.solving import verified
from treadle.schedulers.step_candidates import bound_of_steps
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.plan import Plan
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.result import Result
from treadle.topologies.topology import Topology

MAX_NODES = 100_000
MAX_DEGREE = 64


def others_of(
    finder: Finder, nodes: int, degree: int, frontier: Sequence[Option]
) -> tuple[FabricCandidate, ...]:
    """Return the examined fabrics, without the frontier."""
    shown = {option.expression for option in frontier}
    return tuple(one for one in finder.candidates(nodes, degree) if expression(one.construction) not in shown)


def format_sizes(workload: Workload) -> int:
    """Return the size whose times the table shows: the largest allreduce of the workload, or 1 MiB."""
    sizes = [call.size_bytes for call in workload.calls if call.kind is Exchange.ALLREDUCE]
    return max(sizes, default=2**20)


def row_of(
    priced: PricedFabric, costs: list[float | None], workload: Workload, network: Network, shown: int
) -> DesignRow:
    """Return the table row of a fabric whose collectives have been priced."""
    option = priced.option
    bandwidth_only = replace(network, alpha_s=0.0)
    call = Call(Exchange.ALLTOALL, shown)
    return DesignRow(
        option,
        total_seconds(workload, costs),
        call_seconds(Call(Exchange.ALLREDUCE, shown), option, network),
        call_seconds(call, replace(option, flow=None), bandwidth_only),
        None if option.flow is None else call_seconds(call, option, bandwidth_only),
        least_seconds(priced, workload, network),
        priced.own_s,
    )


def worthwhile(frontier: Sequence[DesignRow], others: Sequence[DesignRow]) -> tuple[DesignRow, ...]:
    """Return the fabrics made for groups that run the workload faster than all of the frontier."""
    known = [row.seconds for row in frontier if row.seconds is not None]
    return tuple(
        row for row in others if row.seconds is not None and row.seconds < min(known, default=float("inf"))
    )


def reconfigured(
    finder: Finder,
    priced: Sequence[PricedFabric],
    costs: list[list[float | None]],
    workload: Workload,
    network: Network,
    nodes: int,
    delay_s: float,
) -> Reconfiguration | None:
    """Choose the cheapest fabric per call: one of the frontier or, for groups, a fabric of their own.

    None if the time of a call is unknown on every fabric.
    """
    own = {
        size: frontier_options(finder, size, priced[0].option.degree)
        for size in {call.group_size for call in workload.calls}
        if size is not None and size != nodes
    }
    table: list[dict[str, float]] = []
    for place, call in enumerate(workload.calls):
        count = float(call.count)
        row = {
            one.option.expression: count * cost
            for one, column in zip(priced, costs, strict=True)
            if (cost := column[place]) is not None
        }
        for option in own.get(call.group_size or nodes, ()):
            alone = call_seconds(replace(call, group_size=None), option, network)
            if alone is not None:
                row[f"{nodes // option.nodes} x {option.expression}, stride {call.stride}"] = count * alone
        table.append(row)
    if not all(table):
        return None
    fabrics, seconds = cheapest_sequence(table, delay_s)
    changes = sum(one != other for one, other in zip(fabrics, (*fabrics[1:], fabrics[0]), strict=True))
    return Reconfiguration(fabrics, seconds, changes)


def size_of(workload: Workload, kind: CollectiveKind) -> int:
    """Return the largest size of a collective of all nodes in the workload; else that of the rows' times."""
    sizes = [
        call.size_bytes
        for call in workload.calls
        if call.kind.value == kind.value and call.group_size is None
    ]
    return max(sizes, default=format_sizes(workload))


def plan_of(topology: Topology, option: Option, kind: CollectiveKind) -> Plan:
    """Return the verified plan of one collective on a designed fabric."""
    parts = {}
    for name, direction, wanted in (
        ("reduce", Direction.REDUCE, kind.reduces),
        ("broadcast", Direction.BROADCAST, kind.broadcasts),
    ):
        if wanted:
            parts[name] = build(option.candidate.construction, direction)[1]
    schedule = StepSchedule(kind, **parts)
    problem = Problem(topology, on_all_ranks(topology, kind))
    bound = bound_of_steps(problem, schedule)
    plan, _ = verified(problem, Result(schedule, bound, f"finder: {option.label}"))
    return replace(plan, provenance={"version": __version__, "construction": option.expression})
