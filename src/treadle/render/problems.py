"""Rows that several commands share: problem, bound, bottleneck, shape of a schedule, verification."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.arrays import BoolArray, mask_of
from treadle.inputs.problem import busbw_values, format_exact, model_of
from treadle.render.names import describe_links, describe_nodes
from treadle.render.quantities import AS_THEY_COME, Rates, busbw, counted, microseconds
from treadle.render.rows import Later, Row, Table, facts, fields_of, file_row, framed, given, rate_values, row
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.route_cost import route_loads
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.certificate import BottleneckCut, Certificate
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredSchedule, Layer
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.steps.step_cost import node_bandwidth
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate, DualCertificate
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import link_loads
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies import has_switches, has_uniform_links, is_regular
from treadle.topologies.topology import Topology
from treadle.units import format_fraction, format_size

if TYPE_CHECKING:
    from treadle.schedulers.alone_rates import AloneRate
    from treadle.schedulers.expectations import Expectations
    from treadle.schedulers.shared_rates import SharedRates
    from treadle.schedulers.third_party.placed_schedules import PlacedSchedule
    from treadle.schedules.plan import Plan
    from treadle.schedules.schedule import Schedule
    from treadle.simulation.simulated_plans import SimulatedRow
    from treadle.synthesis.alltoall import RateResult
    from treadle.synthesis.result import Bound
    from treadle.verification.violations import Report

SHOWN_VIOLATIONS = 20
_ALMOST_OPTIMAL = 1 - Fraction(1, 10**4)
"""Share of the optimum above which the two sides of a bracket look the same."""
_SHOWN_RATES = 3


def format_topology(topology: Topology) -> str:
    """A fabric's name and size."""
    nodes = counted(len(topology.compute_nodes), "compute node")
    switches = counted(len(topology.switches), "switch")
    return f"{topology.name}: {nodes}, {switches}, {counted(topology.n_links, 'link')}"


def problem_rows(
    topology: Topology, collective: Collective, mesh: str | None = None, axes: str | None = None
) -> Iterator[Row]:
    """The fabric, the collective, and the mesh that was given."""
    yield row(
        "topology",
        format_topology(topology),
        topology=topology.name,
        collective=collective.kind.value,
        ranks=collective.n_ranks,
        nodes=topology.n_nodes,
        links=topology.n_links,
    )
    root, text = collective.root, counted(collective.n_ranks, "rank")
    groups: dict[str, Any] = {}
    if collective.blocks is not None:
        groups = {"groups": len(collective.blocks), "group_size": collective.group_size}
        text += f" in {counted(len(collective.blocks), 'group')} of {collective.group_size}"
    if root is not None:
        of_all = topology.node_names[collective.ranks[root]]
        text += f", root {of_all if collective.groups is None else f'{root} of each'}"
    text += ", shards of unequal size" if collective.weights is not None else ""
    text += f", {counted(len(collective.forwarders), 'forwarder')}" if collective.forwarders else ""
    text += ", ranks of other groups forward" if collective.ranks_forward else ""
    model = model_of(topology, collective)
    yield row(
        "collective",
        f"{collective.kind}, {text}{f'; {assumption(model)}' if assumption(model) else ''}",
        key=True,
        **groups,
        ranks_forward=True if collective.ranks_forward else None,
        forwarders=len(collective.forwarders) or None,
        root=root,
        weights=None if collective.weights is None else list(collective.weights),
        model=model or None,
    )
    yield from mesh_rows(mesh, axes)


def assumption(model: str) -> str:
    """Describe a model's assumption about switches; "" where the collective's line has it."""
    _, without, what = model.partition("without in-network ")
    if without:
        return f"no in-network {'multicast' if what == 'multicast' else 'reduction (SHARP, NVLS)'}"
    _, found, what = model.partition("with in-network ")
    how = what.replace(", for ranks that ask", ", GPU-initiated (NVLS)")
    how = how.replace(", by themselves or for ranks that ask", ", partly GPU-initiated")
    return f"in-network {how}" if found else ""


def mesh_rows(mesh: str | None, axes: str | None) -> Iterator[Row]:
    """The mesh that was given, and the groups that it makes."""
    if mesh is not None and axes is not None:
        from treadle.inputs.meshes import as_axes, as_mesh  # here, because few commands have a mesh

        meant, over = as_mesh(mesh), list(as_axes(axes))
        groups = meant.groups(over)
        many = f"{counted(len(groups), 'group')} of {len(groups[0])} ranks"
        text = f"{meant.notation}, over {', '.join(over)}: {many}{', concurrent' if len(groups) > 1 else ''}"
        yield row("mesh", text, mesh=meant.notation, axes=over, groups=len(groups), group_size=len(groups[0]))


def bound_values(bound: Bound, topology: Topology, collective: Collective) -> dict[str, object]:
    """The optimum and its certificate, for JSON."""
    found = both_values(bound.algbw, collective, "optimal_")
    found["witness"] = certificate_values(bound.certificate, topology)
    return found if bound.is_tight else {**found, "bound_only": True}


def both_values(algbw: Fraction, collective: Collective, key: str = "") -> dict[str, object]:
    """A throughput and what nccl-tests calls busbw, for JSON, under keys that begin with `key`."""
    return {**rate_values(f"{key}algbw", algbw), **busbw_values(f"{key}busbw", algbw, collective)}


def bound_rows(
    topology: Topology,
    collective: Collective,
    bound: Bound,
    rates: Rates,
    shared: SharedRates | None = None,
) -> Iterator[Row]:
    """The optimum and what proves it; with `shared` what several groups reach."""
    if shared is not None:
        yield facts(bound_values(bound, topology, collective))
        yield from group_rows(topology, collective, shared, rates, bound.model)
        return
    model = assumption(bound.model)
    known = f"({rates.is_exact(bound.algbw)})" if bound.is_tight else "(may not be tight)"
    more = f"; {model}" if model and bound.model != model_of(topology, collective) else ""
    yield Row(
        "optimum" if bound.is_tight else "upper bound",
        f"{rates.both(bound.algbw, collective)} {known}{more}",
        Later(bound_values, bound, topology, collective),
        is_key=True,
    )
    yield row("bottleneck", describe_certificate(topology, collective, bound.certificate, bound.algbw, rates))


def certificate_values(certificate: Certificate, topology: Topology) -> dict[str, object]:
    """Return a certificate for JSON."""
    if not isinstance(certificate, BottleneckCut):
        return certificate.to_json()
    # a false certificate may name nodes that do not exist: the verifier reports them, and they stay numbers
    names = dict(enumerate(topology.node_names))
    return {"kind": certificate.kind, "nodes": [names.get(node, node) for node in certificate.nodes]}


def describe_certificate(
    topology: Topology,
    collective: Collective,
    certificate: Certificate,
    algbw: Fraction,
    rates: Rates = AS_THEY_COME,
) -> str:
    """The bottleneck that a certificate proves, in one line."""
    if isinstance(certificate, BottleneckCut):
        # a false certificate may name nodes that do not exist
        nodes = [node for node in certificate.nodes if 0 <= node < topology.n_nodes]
        inside = mask_of(topology.n_nodes, nodes)
        weights = np.array(collective.shard_weights)
        total, demand = int(weights.sum()), int(weights[inside[list(collective.ranks)]].sum())
        smaller, is_outside = _smaller_side(topology, collective, inside)
        way = "enter" if collective.kind.reduces != is_outside else "leave"
        share = f"{demand} of {total} shards" if collective.root is None else "all data"
        where = describe_nodes(topology, smaller)
        return f"cut: {share} must {way} {where} over {rates(algbw * demand / total)}"
    if isinstance(certificate, GroupDualCertificate):
        return describe_links(topology, certificate.priced(), rates)
    if isinstance(certificate, DualCertificate):
        priced = (link for link, length in enumerate(certificate.lengths) if length > 0)
        return describe_links(topology, priced, rates)
    if isinstance(certificate, CutCombinationCertificate):
        cuts = sorted((*certificate.broadcast_cuts, *certificate.reduce_cuts), key=lambda cut: -cut[1])
        inside = mask_of(topology.n_nodes, list(cuts[0][0]) if cuts else [])
        heaviest = _smaller_side(topology, collective, inside)[0] if cuts else []
        return f"{counted(len(cuts), 'cut')} together; the heaviest is {describe_nodes(topology, heaviest)}"
    if isinstance(certificate, FlowDualCertificate):
        return "distances: shortest paths of all pairs use up the links"
    return str(certificate.kind)


def _smaller_side(
    topology: Topology, collective: Collective, inside: BoolArray
) -> tuple[Sequence[int], bool]:
    """The side with fewer ranks, or of as many fewer nodes; whether it is the outside."""
    ranks, nodes = int(inside[list(collective.ranks)].sum()), int(inside.sum())
    is_outside = (collective.n_ranks - ranks, topology.n_nodes - nodes) < (ranks, nodes)
    return np.flatnonzero(inside != is_outside).tolist(), is_outside


def group_rows(
    topology: Topology, collective: Collective, found: SharedRates, rates: Rates, model: str = ""
) -> Iterator[Row]:
    """Rows of each group's rate alone and with all others, and the links that limit it."""
    lower, upper = found.lower, found.upper
    scaled = rates(busbw(lower, collective))
    text = f"{rates(lower)} algbw of each group, {scaled} busbw ({rates.is_exact(lower)})"
    known = rate_values("together", lower)
    if not found.is_exact:
        known |= {**rate_values("together_upper", upper), "gap": float(1 - lower / upper)}
        text = f"between {rates.exact(lower)} and {rates.exact(upper)} algbw of each group"
        if lower > upper * _ALMOST_OPTIMAL:
            gap = f"{float(1 - lower / upper):.1e}"
            text = f"{rates(lower)} algbw of each group, {scaled} busbw, at most {gap} below the optimum"
    yield Row("optimum", text, known, is_key=True)
    if found.rs_ag is not None:
        text = f"{rates.exact(found.rs_ag)} with reduce-scatter, then allgather"
        if found.rs_ag == upper:
            text = "reduce-scatter, then allgather is optimal"
        yield Row("", text, rate_values("rs_ag", found.rs_ag))
    if found.alone:
        alone = [
            {
                **rate_values("algbw", one.algbw),
                "groups": len(one.groups),
                "first_group": one.groups[0],
                **({} if one.is_exact else {"bound_only": True}),
            }
            for one in found.alone
        ]
        first = rate_values("alone", found.alone[0].algbw)
        yield Row("", format_alone(found.alone, rates), {**first, "alone_rates": alone})
    links = describe_links(topology, found.bottleneck, rates)
    yield row("bottleneck", links, binding_links=list(found.bottleneck))
    if assumption(model) and model != model_of(topology, collective):
        yield row("assumed", assumption(model))


def format_alone(alone: Sequence[AloneRate], rates: Rates) -> str:
    """The lowest rate of a group that runs alone, and how many groups have which others."""
    shown = [f"{'' if one.is_exact else 'at most '}{rates.exact(one.algbw)}" for one in alone]
    if len(alone) == 1:
        return f"{shown[0]} algbw of a group that runs alone"
    terms = [
        f"{text} for {counted(len(one.groups), 'group')}" for text, one in zip(shown, alone, strict=True)
    ]
    if (more := len(alone) - _SHOWN_RATES) > 0:
        terms = [*terms[:_SHOWN_RATES], f"{more} more up to {shown[-1]}"]
    return f"alone: {', '.join(terms)}"


def rate_rows(found: RateResult, rates: Rates, *, is_alone: bool) -> Iterator[Row]:
    """The optimum of an all-to-all from both sides; with `is_alone` its throughput and bottleneck too."""
    # here, as few commands need the module
    from treadle.schedulers.alltoall import rate_summary, uniform_bandwidth

    def pair(bytes_per_s: float) -> str:
        """A rate that may be a small part of a link of 1 byte/s."""
        small = bytes_per_s < 1000 and not rates.unit
        return f"{bytes_per_s:.6g} B/s" if small else rates(Fraction(bytes_per_s))

    is_exact = found.exact is not None
    unit = "" if found.collective.demands is None else " and unit of demand"
    unit = unit if found.collective.blocks is None else " of a group"
    text = f"{pair(found.rate)} for each pair{unit}, concurrently"
    if is_alone:
        best = "(exact)" if is_exact else "(attained)"
        yield row("optimum", f"{rates.both(Fraction(found.algbw), found.collective)} {best}", key=True)
    yield Row("" if is_alone else "rate", text, Later(rate_summary, found))
    if (link := uniform_bandwidth(found)) is not None:
        share = "" if found.exact is None else f" ({found.exact / link})"
        yield row("", f"f = {found.rate / link:.9g} of a link{share}, 1/f = {link / found.rate:.7g}")
    if not is_exact:
        late = "; the time limit was reached" if found.is_late else ""
        most = pair(float(found.upper))
        yield row("upper bound", f"{most} for each pair{unit} (gap {found.gap:.3g}){late}")
    if is_alone:
        links, hosts = found.binding_links(), found.binding_hosts().tolist()
        terms = [describe_links(found.topology, links, rates)] if links.size else []
        terms += [f"injection caps of {describe_nodes(found.topology, hosts)}"] if hosts else []
        yield row("bottleneck", "; ".join(terms) or "none")


def throughput(plan: Plan | PlacedSchedule, pipelined: Fraction | None = None) -> dict[str, object]:
    """The claimed throughput at large sizes on the modelled fabric, and its bound where it has one.

    Of steps that is as one waits for another; `pipelined` is what sliced messages reach.
    """
    topology, collective = plan.topology, plan.collective
    found = both_values(plan.algbw, collective) | rate_values("pipelined_algbw", pipelined)
    if not has_switches(topology) and has_uniform_links(topology) and is_regular(topology):
        found["t_b_exact"] = format_exact(node_bandwidth(topology) / plan.algbw)
    if collective.kind is CollectiveKind.ALLTOALL:
        pair = plan.algbw / collective.pair_demands.buffer_units
        found["pair_rate_bytes_per_s"] = float(pair)
        if has_uniform_links(topology):
            found["f"] = float(pair / int(topology.bandwidths[0]))
    if (best := plan.optimal_algbw) is not None:
        found |= both_values(best, collective, "optimal_")
    return found


def throughput_rows(
    collective: Collective,
    algbw: Fraction,
    pipelined: Fraction | None,
    rates: Rates,
    found: Mapping[str, object],
    *,
    gap: str = "",
    known: str = "",
) -> Iterator[Row]:
    """The throughput at large sizes; of steps that of sliced messages, then that of steps in turn."""
    if pipelined is None or pipelined == algbw:
        yield Row("schedule", f"{rates.both(algbw, collective)}, {gap or known}", found, is_key=True)
        return
    sliced, in_turn = (rates(busbw(one, collective)) for one in (pipelined, algbw))
    text = (
        f"{rates.exact(pipelined)} pipelined, {gap};" if gap else f"asymptotic {rates(pipelined)} pipelined,"
    )
    yield Row("schedule", f"{text} {rates(algbw)} step by step", found, is_key=True)
    yield row("", f"{sliced} busbw pipelined, {in_turn} step by step{known and f'; {known}'}")


def range_of_set(number: int, algbws: Sequence[Fraction | float], rates: Rates, *shares: float) -> str:
    """The range of a set by size: of its throughput, and of its shares of the bound of each size."""
    low, most = (rates(Fraction(value)) for value in (min(algbws), max(algbws)))
    text = f"{counted(number, 'schedule')} by size, {low if low == most else f'{low} to {most}'} algbw"
    span = dict.fromkeys(f"{share:.0%}" for share in (min(shares), max(shares))) if shares else ()
    return f"{text}, {' to '.join(span)} of each size's bound" if shares else text


def shape_row(
    schedule: Schedule, name: str, *, report: Report | None = None, per_root: int | None = None
) -> Row:
    """Numbers of trees, sends or routes of a schedule."""
    if isinstance(schedule, TimedRoutes):
        routes = shape_row(schedule.routes, name)
        flows = counted(schedule.max_flows, "flow")
        text = f"{routes.text}\n{counted(schedule.n_rounds, 'round')}, at most {flows} into and out of a host"
        return Row("routes", text, {**routes.facts, "flows_per_host": schedule.max_flows})
    if isinstance(schedule, RouteSchedule):
        n_pairs = 1 + int(np.count_nonzero(np.diff(schedule.pair)))  # paths are sorted by pair
        per_pair, hops = schedule.n_paths / n_pairs, int(schedule.hops.max())
        text = (
            f"{counted(schedule.n_paths, 'route')}, {per_pair:.2f} per pair, at most {counted(hops, 'hop')}, "
            f"{counted(schedule.n_layers, 'layer')}, {counted(schedule.n_chunks, 'chunk')} per pair ({name})"
        )
        values = {"routes": schedule.n_paths, "routes_per_pair": per_pair, "hops_max": hops}
        return Row("routes", text, {**values, "chunks_per_unit": schedule.n_chunks})
    if isinstance(schedule, StepSchedule | ExchangeSchedule):
        phases = (schedule.sends,) if isinstance(schedule, ExchangeSchedule) else schedule.phases
        chunks = [steps.n_chunks for steps in phases]
        shown = " and ".join(dict.fromkeys(counted(number, "chunk") for number in chunks))
        text = f"{schedule.n_steps}, {shown} per shard, {counted(schedule.n_sends, 'send')} ({name})"
        return Row("steps", text, {"sends": schedule.n_sends, "chunks_per_shard": max(chunks)})
    if isinstance(schedule, GroupSchedule):
        trees = [one.total_units for one in schedule.groups]
        span = f"{min(trees)} to {max(trees)}" if min(trees) < max(trees) else f"{trees[0]}"
        text = f"{span} in each of {len(trees)} groups ({name})"
        return Row("trees", text, {"trees": sum(trees), "trees_of_groups": trees})
    units, multiplicity = schedule.total_units, schedule.root_multiplicity
    found: dict[str, object] = {"trees": units, "power_of_two": units & (units - 1) == 0}
    text = f"{f'{per_root} per root, ' if per_root is not None else ''}{units} in total"
    if report is not None and report.height_max is not None:
        text += f", height {'' if report.height_is_exact else 'at most '}{report.height_max}"
    text += f" ({name})"
    if isinstance(schedule, FactoredSchedule):
        layers = [layer for forest in schedule.forests for layer in forest.layers]
        subproblems, levels = sum(layer.n_subproblems for layer in layers), max(map(_levels, layers))
        classes = sum(len(layer.pieces) for layer in layers)
        text += f"\n{counted(subproblems, 'subproblem')} of {classes} classes in "
        text += f"{counted(len(layers), 'component')}, nested {counted(levels, 'level')} deep"
        found |= {"layers": len(layers), "pieces": subproblems}
        found |= {"piece_kinds": classes, "piece_levels": levels}
    if (multiplicity == multiplicity[0]).all():
        found["chunks_per_shard"] = int(multiplicity[0])
    return Row("trees", text, found)


def plan_values(plan: Plan) -> dict[str, object]:
    """Throughput and shape of a plan, for JSON."""
    shape = shape_row(plan.entries[-1].schedule, plan.algorithm)
    return {"algorithm": plan.algorithm, **throughput(plan), **shape.facts}


def _levels(layer: Layer) -> int:
    """Depth of nested subproblems."""
    above, levels = layer.outer, 1
    while above.max() >= 0:
        above, levels = np.where(above >= 0, layer.outer[above], -1), levels + 1
    return levels


def saturated_links(plan: Plan) -> list[int]:
    """Saturated links of the schedule for the largest sizes: they set its throughput."""
    schedule = plan.entries[-1].schedule
    if isinstance(schedule, ForestSchedule):
        loads, units = link_loads(plan.topology, schedule), schedule.total_units
    elif isinstance(schedule, RouteSchedule):
        loads = route_loads(plan.topology, schedule)
        units = plan.collective.pair_demands.buffer_units * schedule.n_chunks
    else:
        return []
    values, speeds = np.unique(plan.topology.bandwidths, return_inverse=True)
    # a link of b bytes/s is busy all the time with b * units / algbw; -1 where that is not an integer
    full = [Fraction(value * units) / plan.algbw for value in values.tolist()]
    integral = np.array([load.numerator if load.denominator == 1 else -1 for load in full], dtype=object)
    return [int(link) for link in np.flatnonzero(integral[speeds] == loads)]


def simulated_values(one: SimulatedRow) -> dict[str, object]:
    """The simulated time of a schedule at a size, for JSON."""
    # here, because few commands simulate
    from treadle.simulation.size_bounds.problem_bounds import size_bound_values

    return {
        "size_bytes": one.size_bytes,
        "slices": one.slices,
        "time_s": float(one.time),
        **({"protocol": one.protocol} if one.protocol else {}),
        **fields_of(one, "algbw_bytes_per_s", "busbw_bytes_per_s"),
        **given(efficiency=one.efficiency),
        **size_bound_values(one.bound),
        "busiest_link": one.busiest,
        "utilisation": one.utilisation,
    }


def below(value: Fraction, limit: Fraction | None, *, is_tight: bool = True) -> str:
    """Describe the optimality gap of a throughput."""
    if limit is None:
        return "no bound known"
    if value == limit:
        return "optimal"
    return f"{format_fraction(1 - value / limit)} below the {'optimum' if is_tight else 'upper bound'}"


def verification_values(report: Report) -> dict[str, object]:
    """Result of the verifier, for JSON."""
    found: dict[str, object] = {
        "verified": report.is_ok,
        "violations": [str(violation) for violation in report.violations],
        "n_violations": report.n_violations,
    }
    if report.height_max is not None:
        found |= {"height_max": report.height_max, "height_is_exact": report.height_is_exact}
    return found | given(steps=report.n_steps, layers=report.n_layers)


def verified_row(report: Report) -> Row:
    """Rows of the violations, or of none."""
    if not report.is_ok:
        return violations_row(report.violations, report.n_violations, verification_values(report))
    what = "all trees span, all paths exist" if report.n_steps is None else "every chunk arrives in time"
    if report.n_layers is not None:
        what = "every pair is connected, no layer can deadlock"
    text = f"yes: {what}, link loads and claims are exact"
    return Row("verified", text, verification_values(report))


def violations_row(violations: Iterable[object], number: int, found: Mapping[str, object]) -> Row:
    """The first violations."""
    shown = [str(one) for one in violations][:SHOWN_VIOLATIONS]
    more = [f"and {number - len(shown)} more (--json lists up to 1000)"] if number > len(shown) else []
    return Row(
        "verified", "\n".join([f"NO: {counted(number, 'violation')}", *shown, *more]), found, is_key=True
    )


def seconds_row(seconds: Mapping[str, float], *, explain: bool = False) -> Row:
    """CPU seconds, which only `explain` prints, of the stages that took any."""
    stages = [f"{name} {spent:.2f}" for name, spent in seconds.items() if name != "total" and spent >= 0.005]
    text = ", ".join([*stages, f"total {seconds.get('total', 0.0):.2f}"]) if explain else None
    return row("CPU s", text, seconds=dict(seconds))


def written_row(path: object, seconds: Mapping[str, float]) -> Row:
    """The plan that was written."""
    return file_row("plan", path, "plan", more=f" ({seconds.get('total', 0.0):.2f} CPU s)")


def expectation_rows(
    topology: Topology, collective: Collective, rates: Rates, *, nvls: bool = True
) -> Iterator[Row]:
    """Rows of what real machines achieve at 1 GB, the library's choice, the optimum with NVLS."""
    # here, as bounds of fabrics without a machine need none of it
    from treadle.schedulers.expectations import LARGE_BYTES, Expectations, expectations_of

    found = expectations_of(topology, collective)
    if not isinstance(found, Expectations):
        return
    at, large = f"at {format_size(LARGE_BYTES)}", Fraction(LARGE_BYTES)
    if found.in_network is not None and nvls:
        best = found.in_network.algbw
        text = f"{rates.both(best, collective)} with NVLink SHARP, which NCCL uses by default"
        yield Row("optimum", text, both_values(best, collective, "nvls_optimal_"))
    for one in found.achievable:
        reached = rates.both(large / Fraction(one.time_s), collective)
        least, most = (rates(large / Fraction(time_s)) for time_s in (one.high_s, one.low_s))
        span = f"{least.split()[0]} to {most} algbw"
        yield row("achievable", f"{reached} {at}; 90% within {span}\n{_from(one.source)}")
    if found.model is not None:
        (pick,) = found.picks
        reached = rates.both(large / Fraction(pick.time_s), collective)
        yield row(found.model.name, f"{pick}: {reached} {at}; predicted by {found.model}")
    yield _expectation_values(found)


def _from(source: str) -> str:
    """Rows that a time was fitted on, or how it is estimated."""
    return source if source.startswith("estimated") else f"fitted on {source}"


def _expectation_values(found: Expectations) -> Row:
    """Achievable rate, and the library's version, assumed channels and picks, for JSON."""
    values: dict[str, object] = {}
    if found.achievable:
        values["achievable"] = [
            fields_of(one, "size_bytes", "time_s", "low_s", "high_s", "source", "error")
            for one in found.achievable
        ]
    if found.model is not None:
        picks = [
            {"size_bytes": size, **fields_of(pick, "algorithm", "protocol", "channels", "time_s")}
            for size, pick in zip(found.sizes, found.picks, strict=True)
        ]
        stated = {**fields_of(found.model, "name", "version"), "graph": str(found.model.graph)}
        values["library"] = {**stated, "picks": picks}
    return facts(values)


def library_rows(
    topology: Topology,
    collective: Collective,
    sizes: Sequence[int],
    simulated: Callable[[str, int], float | None] | None = None,
    cost_model: str = "",
) -> Iterator[Row | Table]:
    """Achievable times and the library's choices; `simulated`: seconds of its schedules by `cost_model`."""
    from treadle.schedulers.expectations import Expectations, expectations_of

    found = expectations_of(topology, collective, sizes)
    if not isinstance(found, Expectations) or not (found.achievable or found.picks):
        return
    columns: list[list[str]] = [["size", *map(format_size, sizes)]]
    if found.achievable:
        reached = [(one.time_s, one.low_s, one.high_s) for one in found.achievable]
        texts = ["{} ({} to {})".format(*map(microseconds, times)) for times in reached]
        columns.append(["achievable (us)", *texts])
    if found.model is not None:
        name = found.model.name.upper()
        columns.append([f"{name} picks", *map(str, found.picks)])
        columns.append([f"{name}'s model (us)", *(microseconds(pick.time_s) for pick in found.picks)])
        if simulated is not None:
            own = [simulated(pick.algorithm, size) for size, pick in zip(sizes, found.picks, strict=True)]
            columns.append(["simulated (us)", *("-" if one is None else microseconds(one) for one in own)])
    headings, *cells = zip(*columns, strict=True)
    yield from framed(Table(headings, cells, 1))
    if found.achievable:
        yield row("achievable", f"with the band of 90%; {_from(found.achievable[-1].source)}")
    if found.model is not None:
        yield row(found.model.name, f"choice and time predicted by {found.model}")
        if simulated is not None:
            preset = found.model.system.cost_preset
            # groups in single boxes of several have the network's preset
            is_other = preset is not None and cost_model not in (preset, f"{preset}-boxes")
            hint = f"; --cost-model {preset} has {name}'s latencies" if is_other else ""
            yield row("simulated", f"Treadle's simulation of the schedule that {name} picks{hint}")
    yield _expectation_values(found)
