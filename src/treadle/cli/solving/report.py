"""Results in words: the optimum, its cut, the schedule, the verification."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.cli.designing.names import describe_links, describe_nodes
from treadle.cli.output import Output
from treadle.cli.quantities import AS_THEY_COME, Rates, busbw, counted, shortfall
from treadle.planning.solving.alltoall import uniform_bandwidth
from treadle.planning.summary import factored_shape, route_shape
from treadle.schedules.alltoall.alltoall_witness import DistanceWitness
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.route_cost import route_loads
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.group_witness import GroupLengthWitness
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.allreduce_witness import CutCombinationWitness, LengthWitness
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import link_loads
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.schedules.witness import CutWitness, Witness
from treadle.topologies import Topology

if TYPE_CHECKING:
    from treadle.planning import Bound, RateResult, Shortfall, SolveResult
    from treadle.schedules.plan import Plan
    from treadle.verification.violations import Report

SHOWN_VIOLATIONS = 20


def print_problem(output: Output, topology: Topology, collective: Collective) -> None:
    """The fabric and the collective, a line each."""
    output.line(
        f"fabric      {topology.name}: {counted(len(topology.compute_nodes), 'compute node')}, "
        f"{counted(len(topology.switches), 'switch')}, {counted(topology.n_links, 'link')}"
    )
    extra = ""
    if collective.root is not None and collective.groups is not None:
        extra += f", root {collective.root} of each"
    elif collective.root is not None:
        extra += f", root {topology.node_names[collective.ranks[collective.root]]}"
    if collective.weights is not None:
        extra += ", shards of unequal size"
    if collective.forwarders:
        extra += f", {counted(len(collective.forwarders), 'forwarder')}"
    extra += ", ranks of other groups forward" if collective.ranks_forward else ""
    output.line(f"collective  {collective.kind}, {members(collective)}{extra}")


def members(collective: Collective) -> str:
    """How many ranks, and in how many groups."""
    text = counted(collective.n_ranks, "rank")
    if collective.blocks is None:
        return text
    return f"{text} in {counted(len(collective.blocks), 'group')} of {collective.group_size}"


def print_bound(output: Output, topology: Topology, collective: Collective, bound: Bound) -> None:
    """The optimum and what proves it."""
    what = "optimum" if bound.is_tight else "bound  "
    model = f"; {bound.model}" if bound.model else ""
    known = "exact" if bound.is_tight else "an upper bound, not known to be attained"
    output.line(f"{what}     {output.rates.both(bound.algbw, collective)}, {known}{model}")
    witness = describe_witness(topology, collective, bound.witness, bound.algbw, output.rates)
    output.line(f"witness     {witness}")


def print_rate(output: Output, found: RateResult) -> None:
    """The optimum of an all-to-all from both sides."""
    print_pair_rate(output, found)
    rates, algbw = output.rates, Fraction(found.algbw)
    output.line(f"algbw       {rates(algbw)} asymptotic, busbw {rates(busbw(algbw, found.collective))}")
    output.line(f"witness     link lengths; binding are {_binding(found, rates)}")


def print_pair_rate(output: Output, found: RateResult) -> None:
    """What each pair of ranks has of an all-to-all's optimum."""
    exact = "" if found.exact is None else ", exact"
    unit = "" if found.collective.demands is None else " and unit of demand"
    unit = unit if found.collective.blocks is None else " of a group"
    rates = output.rates
    output.line(f"rate        {_pair_rate(found.rate, rates)} for each pair{unit} at once{exact}")
    link = uniform_bandwidth(found)
    if link is not None:
        share = "" if found.exact is None else f" ({found.exact / link})"
        output.line(
            f"            f = {found.rate / link:.9g} of a link{share}, 1/f = {link / found.rate:.7g}"
        )
    if found.exact is None:
        late = "; the time limit was reached" if found.is_late else ""
        most = _pair_rate(float(found.upper), rates)
        output.line(f"gap         {found.gap:.3g}: the optimum is at most {most}{late}")


def _binding(found: RateResult, rates: Rates) -> str:
    """The links and the hosts' caps that set the rate."""
    links, hosts = found.binding_links(), found.binding_hosts().tolist()
    terms = [describe_links(found.topology, links, rates)] if links.size else []
    if hosts:
        terms.append(f"the injection caps of {describe_nodes(found.topology, hosts)}")
    return ", ".join(terms) or "none"


def _pair_rate(bytes_per_s: float, rates: Rates) -> str:
    """A rate that may be a small part of a link of 1 byte/s."""
    if bytes_per_s < 1000 and not rates.unit:
        return f"{bytes_per_s:.6g} B/s"
    return rates(Fraction(bytes_per_s))


def describe_witness(
    topology: Topology,
    collective: Collective,
    witness: Witness,
    algbw: Fraction,
    rates: Rates = AS_THEY_COME,
) -> str:
    """What proves the bound, in one line."""
    if isinstance(witness, CutWitness):
        return _cut(topology, collective, witness, algbw, rates)
    if isinstance(witness, LengthWitness | GroupLengthWitness):
        return f"link prices; scarce are {_scarce_links(topology, witness, rates)}"
    if isinstance(witness, CutCombinationWitness):
        cuts = sorted((*witness.broadcast_cuts, *witness.reduce_cuts), key=lambda cut: -cut[1])
        heaviest = _smaller_side(topology, collective, set(cuts[0][0]))[0] if cuts else set()
        first = describe_nodes(topology, heaviest) if cuts else "none"
        return f"{counted(len(cuts), 'cut')} together; the heaviest is {first}"
    if isinstance(witness, DistanceWitness):
        return "link lengths; by them the pairs are too far apart for more"
    return witness.kind


def _cut(
    topology: Topology, collective: Collective, witness: CutWitness, algbw: Fraction, rates: Rates
) -> str:
    """What has to cross, told from the side with fewer ranks."""
    inside = set(witness.nodes)
    total = sum(collective.shard_weights)
    demand = sum(
        weight
        for node, weight in zip(collective.ranks, collective.shard_weights, strict=True)
        if node in inside
    )
    capacity = rates(algbw * demand / total)
    smaller, is_outside = _smaller_side(topology, collective, inside)
    way = "enter" if collective.kind.reduces != is_outside else "leave"
    share = f"{demand} of {total} shards" if collective.root is None else "all data"
    return f"cut: {share} must {way} {describe_nodes(topology, smaller)} through {capacity}"


def _smaller_side(topology: Topology, collective: Collective, inside: set[int]) -> tuple[set[int], bool]:
    """The side with fewer ranks, or of as many fewer nodes; whether it is the outside."""
    outside = set(range(topology.n_nodes)) - inside
    ranks = set(collective.ranks)
    if (len(ranks & outside), len(outside)) < (len(ranks & inside), len(inside)):
        return outside, True
    return inside, False


def _scarce_links(topology: Topology, witness: LengthWitness | GroupLengthWitness, rates: Rates) -> str:
    """The links that have a price."""
    priced = (link for link, length in enumerate(witness.lengths) if length > 0)
    return describe_links(topology, priced, rates)


def saturated_links(plan: Plan) -> list[int]:
    """Links that the schedule for the largest sizes keeps busy all the time: they set its throughput."""
    schedule = plan.entries[-1].schedule
    if isinstance(schedule, ForestSchedule):
        loads, units = link_loads(plan.topology, schedule), schedule.total_units
    elif isinstance(schedule, RouteSchedule):
        loads = route_loads(plan.topology, schedule)
        units = plan.collective.pair_demands.buffer_units * schedule.n_chunks
    else:
        return []
    values, speeds = np.unique(plan.topology.bandwidths, return_inverse=True)
    # a link of b bytes/s is busy all the time with b * units / algbw; -1 where no whole number is that
    full = [Fraction(value * units) / plan.algbw for value in values.tolist()]
    whole = np.array([load.numerator if load.denominator == 1 else -1 for load in full], dtype=object)
    return [int(link) for link in np.flatnonzero(whole[speeds] == loads)]


def print_schedule(output: Output, result: SolveResult) -> None:
    """What was built and how far it is from the bound."""
    plan = result.plan
    output.line(f"schedule    {output.rates.both(plan.algbw, plan.collective)}, {_standing(result)}")
    _print_shape(output, result)
    if saturated := saturated_links(plan):
        output.line(f"saturated   {describe_links(plan.topology, saturated, output.rates)}")
    if result.traffic is not None:
        before, after = result.traffic.traffic_before, result.traffic.traffic_after
        saved = f" ({1 - after / before:.1%} less)" if before else ""
        output.line(
            f"traffic     {after:.4g} x size over all links after pruning, {before:.4g} before{saved}"
        )
    for note in result.notes:
        output.line(f"note        {note}")


def print_packing(output: Output, result: SolveResult) -> None:
    """Who packed ForestColl's trees, what became of the other packers, and how low trees can be."""
    if result.decomposition:
        output.line(f"tight cuts  {result.decomposition}")
    if isinstance(result.plan.entries[-1].schedule, FactoredSchedule):
        _print_height(output, result)
        return
    if result.packer is None:
        output.line("packer      none: this construction does not pack trees per root")
        return
    output.line(f"packer      {result.packer}")
    for attempt in result.packing:
        output.line(f"            {attempt.packer}: {attempt.outcome}")
    _print_height(output, result)


def _print_height(output: Output, result: SolveResult) -> None:
    if result.report.height_max is not None and result.height_bound is not None:
        most = "" if result.report.height_is_exact else "at most "
        output.line(
            f"height      {most}{result.report.height_max}; no forest is lower than {result.height_bound}"
        )


def _print_shape(output: Output, result: SolveResult) -> None:
    """Trees of a forest, steps and sends, or routes and rounds."""
    schedule, name = result.plan.entries[-1].schedule, result.plan.algorithm
    if isinstance(schedule, RouteSchedule | TimedRoutes):
        print_routes(output, schedule, name)
        return
    if isinstance(schedule, GroupSchedule):
        numbers = [one.total_units for one in schedule.groups]
        span = f"{min(numbers)} to {max(numbers)}" if min(numbers) < max(numbers) else f"{numbers[0]}"
        output.line(f"trees       {span} in each of {len(numbers)} groups ({name})")
        return
    if not isinstance(schedule, ForestSchedule | FactoredSchedule):
        phases = (schedule.sends,) if isinstance(schedule, ExchangeSchedule) else schedule.phases
        chunks = " and ".join(dict.fromkeys(counted(steps.n_chunks, "chunk") for steps in phases))
        output.line(
            f"steps       {schedule.n_steps}, {chunks} per shard, "
            f"{counted(schedule.n_sends, 'send')} ({name})"
        )
        return
    per_root = f"{result.trees_per_root} per root, " if result.trees_per_root is not None else ""
    output.line(f"trees       {per_root}{schedule.total_units} in all, {height_text(result.report)} ({name})")
    if isinstance(schedule, FactoredSchedule):
        print_pieces(output, schedule)


def height_text(report: Report) -> str:
    """The height of a report that has one."""
    return f"height {'' if report.height_is_exact else 'at most '}{report.height_max}"


def print_pieces(output: Output, schedule: FactoredSchedule) -> None:
    """Pieces of a factored schedule: how many, of how many kinds, nested how deep."""
    shape = factored_shape(schedule)
    layers = f" in {counted(shape['layers'], 'layer')}" if shape["layers"] > len(schedule.forests) else ""
    output.line(
        f"pieces      {shape['pieces']} of {counted(shape['piece_kinds'], 'kind')}{layers}, nested "
        f"{counted(shape['piece_levels'], 'level')} deep"
    )


def print_routes(output: Output, schedule: RouteSchedule | TimedRoutes, name: str) -> None:
    """Routes, their layers and chunks, and the rounds in which these set out."""
    routes = schedule.routes if isinstance(schedule, TimedRoutes) else schedule
    shape = route_shape(routes)
    output.line(
        f"routes      {counted(routes.n_paths, 'route')}, {shape['routes_per_pair']:.2f} a pair, at most "
        f"{counted(int(routes.hops.max()), 'hop')}, {counted(routes.n_layers, 'layer')}, "
        f"{counted(routes.n_chunks, 'chunk')} a pair ({name})"
    )
    if isinstance(schedule, TimedRoutes):
        output.line(
            f"rounds      {schedule.n_rounds}, at most {counted(schedule.max_flows, 'flow')} out of and "
            f"into a host"
        )


def _standing(result: SolveResult) -> str:
    if result.is_optimal:
        return "optimal"
    if result.bound is None:
        return "no bound known"
    what = "the optimum" if result.bound.is_tight else "the bound"
    return f"{shortfall(result.plan.algbw, result.bound.algbw)} below {what}"


def print_verification(output: Output, report: Report) -> None:
    """Every violation, or that there is none."""
    if report.is_ok:
        what = "trees span, paths hold" if report.n_steps is None else "every chunk arrives in time"
        if report.n_layers is not None:
            what = "every pair is served, no layer can deadlock"
        output.line(f"verified    yes: {what}, loads and claims are exact")
        return
    output.line(f"verified    NO: {counted(report.n_violations, 'violation')}")
    for violation in report.violations[:SHOWN_VIOLATIONS]:
        output.line(f"            {violation}")
    more = report.n_violations - SHOWN_VIOLATIONS
    if more > 0:
        output.line(f"            and {more} more (--json lists up to 1000)")


def describe_shortfall(plan: Plan, lacking: Shortfall, what: str, rates: Rates = AS_THEY_COME) -> str:
    """That `what` moves data from rank to rank where the plan counts on switches, in one line."""
    known = "by how much is not known"
    if lacking.algbw is not None:
        in_steps = any(isinstance(entry.schedule, StepSchedule) for entry in plan.entries)
        what_reaches = "its transfers, none held up by steps," if in_steps else "these trees"
        known = f"{what_reaches} reach {rates.exact(lacking.algbw)} so, each transfer along fewest links"
    return (
        f"{what} sends point to point where the plan leaves copies or sums to switches, so the plan's "
        f"{rates.exact(plan.algbw)} do not hold for it; {known}"
    )


def print_seconds(output: Output, seconds: Mapping[str, float]) -> None:
    """CPU seconds of the stages that took any."""
    stages = [f"{name} {spent:.2f}" for name, spent in seconds.items() if name != "total" and spent >= 0.005]
    total = f"total {seconds['total']:.2f}"
    output.line(f"CPU s       {', '.join([*stages, total])}")
