"""Results as JSON objects, with the keys that every command shares."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.planning.group_summary import membership_values, rates_of_groups
from treadle.planning.problem import busbw_values, model_of
from treadle.planning.solving.alltoall import rate_summary
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes, routes_in
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredSchedule, Layer
from treadle.schedules.steps.step_cost import node_bandwidth
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.schedules.witness import CutWitness, Witness
from treadle.topologies import has_switches, has_uniform_links, is_regular
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_cards import hosts_passed

if TYPE_CHECKING:
    from treadle.planning.designing.design_result import DesignResult, DesignRow
    from treadle.planning.judging.placed_schedules import PlacedSchedule
    from treadle.planning.judging.point_to_point import Shortfall
    from treadle.planning.repairing.hardening import HardenedRow
    from treadle.planning.repairing.repair import RepairResult
    from treadle.planning.repairing.repair_candidates import Contest
    from treadle.planning.solving.bounds import BoundResult
    from treadle.planning.solving.solve import SolveResult
    from treadle.planning.writing.lower import Lowered
    from treadle.schedules.plan import Plan
    from treadle.schedules.schedule import Schedule
    from treadle.synthesis.result import Alternative, Bound
    from treadle.synthesis.steps.exact import ParetoFront
    from treadle.verification.violations import Report


def exact_text(value: Fraction) -> str:
    """An exact rational as JSON has it: ``1040/3``, with a denominator even where that is 1."""
    return f"{value.numerator}/{value.denominator}"


def bound_summary(result: BoundResult) -> dict[str, object]:
    """What ``bound --json`` prints."""
    return {
        **problem_summary(result.topology, result.collective),
        **bound_values(result.bound, result.topology, result.collective),
        **({} if result.rate is None else rate_summary(result.rate)),
        **_group_rates(result),
        **_size_bounds(result),
        "seconds": dict(result.seconds),
    }


def _group_rates(result: BoundResult | SolveResult) -> dict[str, object]:
    if result.collective.blocks is None:
        return {}
    from treadle.planning.together.shared_rates import shared_rates  # here, because few commands have groups

    return rates_of_groups(shared_rates(result))


def _size_bounds(result: BoundResult) -> dict[str, object]:
    if not result.at_sizes:
        return {}
    from treadle.planning.measuring.size_bounds import size_bounds_summary  # here, as these modules are many

    return size_bounds_summary(result.at_sizes, result.cost_model)


def solve_summary(result: SolveResult) -> dict[str, object]:
    """What ``solve --json`` prints, but for the plan's path."""
    plan = result.plan
    values: dict[str, object] = {
        **problem_summary(plan.topology, plan.collective),
        "algorithm": plan.algorithm,
        **throughput(plan),
        **({} if result.bound is None else bound_values(result.bound, plan.topology, plan.collective)),
        "optimal": result.is_optimal,
        **_group_rates(result),
    }
    if result.bound is not None:
        values["gap"] = float(1 - plan.algbw / result.bound.algbw)
    values |= verification_values(result.report)
    if result.trees_per_root is not None:
        values["trees_per_root"] = result.trees_per_root
    if result.exact_trees_per_root is not None:
        values["exact_trees_per_root"] = result.exact_trees_per_root
    if result.exact_trees is not None:
        values["exact_trees"] = result.exact_trees
    if result.alternatives:
        values["alternatives"] = [_alternative(one) for one in result.alternatives]
    if result.packer is not None:
        values["packer"] = result.packer
        values["packing"] = [{"packer": str(one.packer), "outcome": one.outcome} for one in result.packing]
    if result.decomposition:
        values["decomposition"] = result.decomposition
    if result.height_bound is not None:
        values["height_lower_bound"] = result.height_bound
    values |= _shape(plan.entries[-1].schedule)
    if result.traffic is not None:
        values["traffic_before"] = result.traffic.traffic_before
        values["traffic_after"] = result.traffic.traffic_after
    values |= {"notes": list(result.notes), "time_limit_reached": result.is_late}
    return {**values, "seconds": dict(result.seconds)}


def _alternative(offer: Alternative) -> dict[str, object]:
    numbers = {"trees_per_root": offer.trees_per_root, "trees": offer.trees}
    known = {key: number for key, number in numbers.items() if number is not None}
    return {"option": offer.option, "gap": float(offer.loss), **known}


def repair_summary(result: RepairResult) -> dict[str, object]:
    """What ``repair --json`` prints, but for the plan's path."""
    old = result.old
    before: dict[str, object] = {
        "topology": old.topology.name,
        "ranks": old.collective.n_ranks,
        "algorithm": old.algorithm,
        **throughput(old),
    }
    if old.witness is not None:
        before["witness"] = _witness(old.witness, old.topology)
    if result.piece_kinds[0] is not None:
        before["piece_kinds"] = result.piece_kinds[0]
    values: dict[str, object] = {
        **solve_summary(result.solved),
        "failed_links": list(result.links),
        "failed_nodes": list(result.nodes),
        "lost_links": result.lost_links,
        "lost_ranks": list(result.lost_ranks),
        "before": before,
        "throughput_loss": float(result.throughput_loss),
    }
    values |= {} if result.optimum_loss is None else {"optimum_loss": float(result.optimum_loss)}
    if result.lone_bottleneck is not None:
        values["lone_bottleneck"] = result.lone_bottleneck
    if result.contest is not None:
        values["contest"] = _contest(result.contest)
    return {**values, "seconds": dict(result.seconds)}


def hardened_summary(row: HardenedRow, plan: str | None) -> dict[str, object]:
    """One failure of ``harden --json``; `plan` is the name of the file with the plan for it."""
    kind = "node" if row.failure.is_node else "cable"
    values: dict[str, object] = {"failure": row.failure.name, "kind": kind}
    if row.result is None or row.loss is None:
        return {**values, "refusal": row.refusal, **({"late": True} if row.is_late else {})}
    solved = row.result.solved
    values |= {**throughput(row.result.new), "optimal": solved.is_optimal, "verified": solved.report.is_ok}
    values["loss"] = float(row.loss)
    values |= {} if row.optimum_loss is None else {"optimum_loss": float(row.optimum_loss)}
    values["throughput_loss"] = float(row.result.throughput_loss)
    values["lost_ranks"] = list(row.result.lost_ranks)
    values["seconds"] = row.result.seconds["total"]
    return values if plan is None else {**values, "plan": plan}


def _contest(contest: Contest) -> dict[str, object]:
    """Who was compared, by simulated time."""
    rows: list[dict[str, object]] = []
    for one in contest.contenders:
        row: dict[str, object] = {"algorithm": one.algorithm}
        if one.seconds is not None and one.algbw is not None:
            row |= {"time_s": one.seconds, "algbw_bytes_per_s": float(one.algbw)}
        rows.append(row if not one.reason else {**row, "reason": one.reason})
    return {"size_bytes": contest.size_bytes, "time_before_s": contest.old_seconds, "contenders": rows}


def verify_summary(plan: Plan, topology: Topology, report: Report) -> dict[str, object]:
    """What ``verify --json`` prints, but for the plan's path."""
    values: dict[str, object] = {
        **problem_summary(topology, plan.collective),
        "algorithm": plan.algorithm,
        **throughput(plan),
    }
    if plan.witness is not None:
        values["witness"] = _witness(plan.witness, plan.topology)
    # below the bound of a witness nothing is known: another witness might prove less
    values["optimal"] = True if report.is_optimal else None
    if report.algbw is not None and report.bound is not None:
        values["gap"] = float(1 - report.algbw / report.bound)
    return {**values, **verification_values(report), **_shape(plan.entries[-1].schedule)}


def front_summary(front: ParetoFront) -> dict[str, object]:
    """The points and what was excluded, of ``pareto --json``."""
    return {
        "least_steps": front.least_steps,
        "least_rounds_per_chunk": exact_text(front.least_ratio),
        "points": [
            {
                "steps": point.steps,
                "rounds": list(point.rounds),
                "chunks_per_shard": point.chunks,
                "rounds_per_chunk": exact_text(point.ratio),
                "proved": point.is_proved,
            }
            for point in front.points
        ],
        "excluded": [
            {
                "steps": entry.steps,
                "total_rounds": entry.total_rounds,
                "chunks_per_shard": entry.chunks,
                "status": entry.status.value,
                "reason": entry.reason,
            }
            for entry in front.excluded
        ],
    }


def plan_summary(plan: Plan) -> dict[str, object]:
    """Throughput and shape of a plan."""
    return {"algorithm": plan.algorithm, **throughput(plan), **_shape(plan.entries[-1].schedule)}


def design_summary(result: DesignResult, chosen: DesignRow) -> dict[str, object]:
    """What ``design --json`` prints, but for files written."""
    limits = result.limits
    values: dict[str, object] = {
        "nodes": result.nodes,
        "degree": result.degree,
        "bidirectional": result.is_bidirectional,
        "alpha_s": result.network.alpha_s,
        "bandwidth_bytes_per_s": result.network.bandwidth_bytes_per_s,
        "workload": result.workload.name,
        "size_bytes": result.shown_bytes,
        "frontier": [_design_row(row) for row in result.rows],
        "best": result.best.option.expression,
        "chosen": chosen.option.expression,
        "bounds": {
            "steps": limits.steps,
            "t_b_exact": exact_text(limits.t_b),
            "mean_distance": float(limits.mean_distance),
            "alltoall_pair_rate_bound": float(limits.pair_rate),
            "allreduce_s": limits.allreduce_s,
            "alltoall_bound_s": limits.alltoall_s,
        },
    }
    if result.reconfiguration is not None:
        found = result.reconfiguration
        calls = {"fabrics": list(found.fabrics), "workload_s": found.seconds, "changes": found.changes}
        values["reconfiguration"] = calls
    if result.efforts:
        values["searched"] = [
            {"kind": effort.kind, "generator_sets": effort.tried, "found": len(effort.found)}
            for effort in result.efforts
        ]
        values["found_now"] = [row.option.expression for row in result.rows if result.is_fresh(row)]
    values |= {"kept_from_searches": list(result.kept)} if result.kept else {}
    return {**values, "seconds": dict(result.seconds)}


def _design_row(row: DesignRow) -> dict[str, object]:
    option = row.option
    values = {
        "topology": option.expression,
        "notation": option.notation,
        "steps": option.candidate.steps,
        "t_b_exact": exact_text(option.candidate.gather.t_b),
        "t_b_reduce_scatter_exact": exact_text(option.candidate.reduce.t_b),
        "allreduce_s": row.allreduce_s,
        "diameter": option.diameter,
        "mean_distance": None if option.mean_distance is None else float(option.mean_distance),
        "alltoall_pair_rate_bound": None if option.pair_rate is None else float(option.pair_rate),
        "alltoall_bound_s": row.alltoall_bound_s,
        "alltoall_pair_rate": None if option.flow is None else option.flow.rate,
        "alltoall_gap": None if option.flow is None else option.flow.gap,
        "alltoall_s": row.alltoall_s,
        "workload_s": row.seconds,
        "workload_bound_s": row.least_s,
        "workload_own_order_s": row.own_order_s,
        "node_of_rank": None if row.placement is None else list(row.placement),
        "separate_parts": option.parts if option.parts > 1 else None,
    }
    return {key: value for key, value in values.items() if value is not None}


def problem_summary(topology: Topology, collective: Collective) -> dict[str, object]:
    """Fabric and collective, in the keys that every command shares."""
    values: dict[str, object] = {
        "topology": topology.name,
        "collective": collective.kind.value,
        "ranks": collective.n_ranks,
        "nodes": topology.n_nodes,
        "links": topology.n_links,
    }
    values |= membership_values(collective)
    if collective.forwarders:
        values["forwarders"] = len(collective.forwarders)
    if collective.root is not None:
        values["root"] = collective.root
    if collective.weights is not None:
        values["weights"] = list(collective.weights)
    if model := model_of(topology, collective):
        values["model"] = model
    return values


def throughput(plan: Plan | PlacedSchedule) -> dict[str, object]:
    """The plan's claimed asymptotic throughput on the modelled fabric, and its bound where it has one."""
    values: dict[str, object] = {
        "algbw_bytes_per_s": float(plan.algbw),
        "algbw_exact": exact_text(plan.algbw),
        **busbw_values("busbw", plan.algbw, plan.collective),
    }
    topology = plan.topology
    if not has_switches(topology) and has_uniform_links(topology) and is_regular(topology):
        values["t_b_exact"] = exact_text(node_bandwidth(topology) / plan.algbw)
    if plan.collective.kind is CollectiveKind.ALLTOALL:
        rate = plan.algbw / plan.collective.pair_demands.buffer_units
        values["pair_rate_bytes_per_s"] = float(rate)
        if has_uniform_links(topology):
            values["f"] = float(rate / int(topology.bandwidths[0]))
    if plan.optimal_algbw is not None:
        values["optimal_algbw_bytes_per_s"] = float(plan.optimal_algbw)
        values["optimal_algbw_exact"] = exact_text(plan.optimal_algbw)
        values |= busbw_values("optimal_busbw", plan.optimal_algbw, plan.collective)
    return values


def shortfall_summary(lacking: Shortfall | None) -> dict[str, object]:
    """What ``lower --json`` and ``run --json`` say of copies and sums that a plan leaves to the network."""
    values: dict[str, object] = {"in_network_sends": 0 if lacking is None else lacking.n_sends}
    if lacking is not None and lacking.algbw is not None:
        values["point_to_point_algbw_bytes_per_s"] = float(lacking.algbw)
        values["point_to_point_algbw_exact"] = exact_text(lacking.algbw)
    return values


def describe_blocks(result: Lowered) -> list[str]:
    """Lines on a text's instances, and on the rate of its thread blocks where that is below the plan's."""
    # imported here, because a bound needs no formats
    from treadle.formats.selection.block_rate import BLOCK_BYTES_PER_S

    figure = f"{BLOCK_BYTES_PER_S / 1e9:g} GB/s"
    lines = []
    if result.instances > 1:
        lines.append(f"instances   {result.instances} of the schedule side by side, each on its part")
    if result.carried_algbw is not None:
        carried = float(result.carried_algbw) / 1e9
        lines.append(
            f"note        its thread blocks carry {carried:.4g} GB/s algbw at {figure} each (a channel of "
            "NCCL's slowest preset)"
        )
    return lines


def needs_card_routes(plan: Plan) -> bool:
    """Whether the ways of a plan's messages are for cards to know: routes that pass no host."""
    schedule = plan.entries[-1].schedule
    if not isinstance(schedule, RouteSchedule | TimedRoutes):
        return False
    routes = routes_in(schedule, plan.algorithm)
    return not hosts_passed(plan.topology, routes.path_offset, routes.path_links).size


def text_summary(result: Lowered) -> dict[str, object]:
    """What ``lower --json`` says of a text besides its contents: chunks, sizes, checks and loading."""
    values: dict[str, object] = {
        "judged": result.judgement.check.value,
        "checked": result.checked,
        "interpreted": result.is_executed,
    }
    if result.n_operations is not None:
        values["operations"] = result.n_operations
    if result.n_chunks is not None:
        values["chunks"] = result.n_chunks
    if result.plan_chunks is not None:
        values["plan_chunks"] = result.plan_chunks
        values["rounding_loss"] = float(result.rounding_loss)
    if result.served:
        values["served_sizes_bytes"] = list(result.served[0].sizes)
        values["served"] = [
            {"by": one.selector.value, "rule": one.rule, "sizes_bytes": list(one.sizes)}
            for one in result.served
        ]
    if result.friendlier is not None:
        better = result.friendlier
        values["friendlier_trees"] = {
            "trees_per_root": better.trees,
            "served_sizes": better.n_served,
            "loss_at_least": float(better.loss),
        }
    loading = result.loading
    if result.carried_algbw is not None:
        values["thread_blocks_algbw_bytes_per_s"] = float(result.carried_algbw)
        values["thread_blocks_algbw_exact"] = exact_text(result.carried_algbw)
    return values | {
        "cautions": list(result.cautions),
        "prepare": list(loading.prepare),
        "environment": dict(loading.environment),
        "code": list(loading.code),
        "check": loading.check,
    }


def bound_values(bound: Bound, topology: Topology, collective: Collective) -> dict[str, object]:
    """The optimum and its witness."""
    values: dict[str, object] = {
        "optimal_algbw_bytes_per_s": float(bound.algbw),
        "optimal_algbw_exact": exact_text(bound.algbw),
        **busbw_values("optimal_busbw", bound.algbw, collective),
        "witness": _witness(bound.witness, topology),
    }
    if not bound.is_tight:
        values["bound_only"] = True
    return values


def _witness(witness: Witness, topology: Topology) -> dict[str, object]:
    if isinstance(witness, CutWitness):
        # a false witness may name nodes that do not exist: the report says so, and here its numbers stand
        names = dict(enumerate(topology.node_names))
        return {"kind": witness.kind, "nodes": [names.get(node, node) for node in witness.nodes]}
    return witness.to_json()


def verification_values(report: Report) -> Mapping[str, object]:
    """What the verifier found."""
    values: dict[str, object] = {
        "verified": report.is_ok,
        "violations": [str(violation) for violation in report.violations],
        "n_violations": report.n_violations,
    }
    if report.height_max is not None:
        values["height_max"] = report.height_max
        values["height_is_exact"] = report.height_is_exact
    if report.n_steps is not None:
        values["steps"] = report.n_steps
    if report.n_layers is not None:
        values["layers"] = report.n_layers
    return values


def _shape(schedule: Schedule) -> dict[str, object]:
    if isinstance(schedule, StepSchedule):
        chunks = max(steps.n_chunks for steps in schedule.phases)
        return {"sends": schedule.n_sends, "chunks_per_shard": chunks}
    if isinstance(schedule, ExchangeSchedule):
        return {"sends": schedule.n_sends, "chunks_per_shard": schedule.n_chunks}
    if isinstance(schedule, RouteSchedule):
        return route_shape(schedule)
    if isinstance(schedule, TimedRoutes):
        return {**route_shape(schedule.routes), "flows_per_host": schedule.max_flows}
    if isinstance(schedule, GroupSchedule):
        trees = [one.total_units for one in schedule.groups]
        return {"trees": sum(trees), "trees_of_groups": trees}
    units = schedule.total_units
    values: dict[str, object] = {"trees": units, "power_of_two": units & (units - 1) == 0}
    if isinstance(schedule, FactoredSchedule):
        values |= factored_shape(schedule)
    multiplicity = schedule.root_multiplicity
    if (multiplicity == multiplicity[0]).all():
        values["chunks_per_shard"] = int(multiplicity[0])
    return values


def factored_shape(schedule: FactoredSchedule) -> dict[str, int]:
    """Numbers of layers, pieces, kinds of pieces and levels of nesting, of all forests together."""
    layers = [layer for forest in schedule.forests for layer in forest.layers]
    return {
        "layers": len(layers),
        "pieces": sum(layer.n_pieces for layer in layers),
        "piece_kinds": sum(len(layer.pieces) for layer in layers),
        "piece_levels": max(_levels(layer) for layer in layers),
    }


def _levels(layer: Layer) -> int:
    """How deep pieces nest."""
    above, levels = layer.outer, 1
    while above.max() >= 0:
        above, levels = np.where(above >= 0, layer.outer[above], -1), levels + 1
    return levels


def route_shape(schedule: RouteSchedule) -> dict[str, object]:
    """Numbers of routes, hops and chunks."""
    n_pairs = 1 + int(np.count_nonzero(np.diff(schedule.pair)))  # paths are sorted by pair
    return {
        "routes": schedule.n_paths,
        "routes_per_pair": schedule.n_paths / n_pairs,
        "hops_max": int(schedule.hops.max()),
        "chunks_per_unit": schedule.n_chunks,
    }
