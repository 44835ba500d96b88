"""Views of ``design`` and ``topology``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from treadle.inputs.problem import format_exact
from treadle.render.quantities import AS_THEY_COME, Rates, counted
from treadle.render.rows import Row, Rows, Table, facts, file_row, framed, given, labelled, rate_values, row
from treadle.schedules.collective import CollectiveKind, busbw_factor
from treadle.topologies import (
    has_uniform_links,
    is_symmetric,
    non_eulerian_nodes,
    topology_hash,
    unreachable_pair,
)
from treadle.topologies.topology import Topology
from treadle.units import format_size

if TYPE_CHECKING:
    from treadle.finder.designing.design_result import DesignResult, DesignRow
    from treadle.finder.designing.fabric_values import DistanceFacts, FabricFacts, SizeBounds
    from treadle.synthesis.steps.bfb import BfbValue
    from treadle.topologies.readers.imported import Imported

_SHOWN_RANKS, _SHOWN_DISTANCES, _SHOWN_RATES, _LONGEST_NAME = 8, 12, 8, 30


# ``design``


def design_rows(result: DesignResult, chosen: DesignRow, rates: Rates, *, with_reconfiguration: bool) -> Rows:
    """The frontier of topologies, lower bounds, and the one that was chosen."""
    network, limits, size = result.network, result.limits, format_size(result.shown_bytes)
    directions = "bidirectional links" if result.is_bidirectional else "unidirectional or bidirectional links"
    yield row(
        "requested",
        f"{result.nodes} nodes, degree {result.degree}, {directions}, no switches",
        nodes=result.nodes,
        degree=result.degree,
        bidirectional=result.is_bidirectional,
    )
    yield row(
        "assumed",
        f"{network.alpha_s * 1e6:g} us per hop; {rates(network.bandwidth_bytes_per_s)} per node in each "
        f"direction (all {result.degree} links together)",
        alpha_s=network.alpha_s,
        bandwidth_bytes_per_s=network.bandwidth_bytes_per_s,
    )
    yield row(
        "goal",
        f"shortest {result.workload.name.removeprefix('one ')}, times for {size}",
        workload=result.workload.name,
        size_bytes=result.shown_bytes,
    )
    yield from _search_rows(result)
    # for calls over all nodes the time itself is as good as the bounds in the last line
    has_bounds = any(call.group_size for call in result.workload.calls)
    yield from framed(_frontier(result, chosen, size, has_bounds=has_bounds))
    yield from _legend(result, has_bounds=has_bounds)
    yield row("best", result.best.option.expression, best=result.best.option.expression)
    yield row(
        "chosen",
        None if chosen is result.best else chosen.option.expression,
        chosen=chosen.option.expression,
        frontier=[_design_values(one) for one in result.rows],
        bounds={
            "steps": limits.steps,
            "t_b_exact": format_exact(limits.t_b),
            "mean_distance": float(limits.mean_distance),
            "alltoall_pair_rate_bound": float(limits.pair_rate),
            "allreduce_s": limits.allreduce_s,
            "alltoall_bound_s": limits.alltoall_s,
        },
    )
    yield from _reconfiguration_rows(result, is_shown=with_reconfiguration)


def _legend(result: DesignResult, *, has_bounds: bool) -> Iterator[Row]:
    """The meaning of the columns, notations that the table shortens, and the node of each rank."""
    times = "steps and bandwidth time (in M/B) of the schedule; mean of allgather and reduce-scatter"
    yield row("steps, T_B", times)
    flows = "of a flow within 0.1% of the optimum; >= is a bound from distances only"
    is_flow = any(one.option.flow for one in result.rows)
    yield row("all-to-all", flows if is_flow else "bounds from distances")
    if has_bounds:
        yield row("bound", "lower bound on the time of the workload on that topology")
    for number, one in enumerate(result.rows, start=1):
        if one.option.label != one.option.notation:
            yield row("notation", f"row {number}: {one.option.notation}")
    for number, one in enumerate(result.rows, start=1):
        if one.placement is not None and one.seconds is not None and one.own_order_s is not None:
            nodes = ", ".join(map(str, one.placement[:_SHOWN_RANKS]))
            nodes += ", ..." if len(one.placement) > _SHOWN_RANKS else ""
            yield row(
                "placement",
                f"row {number}: ranks on nodes {nodes}; in the order of node numbers the workload takes "
                f"{_microseconds(one.own_order_s)}",
            )


def _frontier(result: DesignResult, chosen: DesignRow, size: str, *, has_bounds: bool) -> Table:
    """The topologies of the frontier, and the lower bounds of their size and degree."""
    has_workload = has_bounds or any(one.seconds != one.allreduce_s for one in result.rows)
    headings = ["", "\ntopology", "\nsteps", "\nT_B", "\ndiameter", "mean\nhops"]
    headings += [f"allreduce\n{size}", f"all-to-all\n{size}"]
    headings += ["\nworkload"] * has_workload + ["\nbound"] * has_bounds
    cells = []
    for number, one in enumerate(result.rows, start=1):
        option, name = one.option, one.option.label
        name = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."
        exchange = _microseconds(one.alltoall_s)
        if one.alltoall_s is None:
            exchange = _microseconds(one.alltoall_bound_s, ">=")
        has_schedule = option.parts == 1
        cells.append(
            [
                f"{number}{'*' if one is chosen else ''}",
                name + " best" * (one is result.best),
                str(option.candidate.steps) if has_schedule else "-",
                f"{float(option.candidate.t_b_both / 2):.4f}" if has_schedule else "-",
                "-" if option.diameter is None else str(option.diameter),
                "-" if option.mean_distance is None else f"{float(option.mean_distance):.3f}",
                _microseconds(one.allreduce_s),
                exchange,
                *[_microseconds(one.seconds)] * has_workload,
                *[_microseconds(one.least_s)] * has_bounds,
            ]
        )
    limits = result.limits
    cells.append(
        [
            "",
            f"lower bound (degree {result.degree}, no switches)",
            str(limits.steps),
            f"{float(limits.t_b):.4f}",
            str(limits.steps),
            f"{float(limits.mean_distance):.3f}",
            _microseconds(limits.allreduce_s),
            _microseconds(limits.alltoall_s, ">="),
            *[""] * (has_workload + has_bounds),
        ]
    )
    least = [*["\nbound"] * has_bounds, "mean\nhops", "\ndiameter", f"all-to-all\n{size}", "\nT_B"]
    return Table(headings, cells, 2, least)


def _search_rows(result: DesignResult) -> Iterator[Row]:
    """Rows of what was searched, and what of it the library does not have."""
    for effort in result.efforts:
        usual = f" (up to about {effort.usual_s} s; --search changes it)" if effort.usual_s else ""
        yield row("searched", f"{effort.kind}: {counted(effort.tried, effort.unit)}{usual}")
    numbered = list(enumerate(result.rows, start=1))
    if result.kept:
        text = f"{_numbers([n for n, one in numbered if result.is_cached(one)])}, found by an earlier search"
        yield row("cached", f"{text} and evaluated again", kept_from_searches=list(result.kept))
    if result.efforts:
        fresh = [number for number, one in numbered if result.is_fresh(one)]
        yield row(
            "found",
            f"{_numbers(fresh)}, better than the library" if fresh else "nothing better than the library",
            searched=[
                {"kind": one.kind, "generator_sets": one.tried, "found": len(one.found)}
                for one in result.efforts
            ],
            found_now=[one.option.expression for one in result.rows if result.is_fresh(one)],
        )


def _numbers(rows: list[int]) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {', '.join(map(str, rows))}"


def _microseconds(seconds: float | None, sign: str = "") -> str:
    return "-" if seconds is None else f"{sign}{seconds * 1e6:.1f} us"


def _reconfiguration_rows(result: DesignResult, *, is_shown: bool) -> Iterator[Row]:
    found = result.reconfiguration
    if found is None:
        if is_shown:
            yield row("reconfigured", "not known: the fabrics are too large for the time of some collective")
        return
    static = result.best.seconds
    gain = "" if static is None else f", {_microseconds(static)} with one topology"
    text = f"{_microseconds(found.seconds)} per iteration with {counted(found.changes, 'change')}{gain}"
    calls = [f"{counted(n, 'call')} on {fabric}" for fabric, n in Counter(found.fabrics).most_common()]
    yield row(
        "reconfigured",
        "\n".join([text, *calls]) if is_shown else None,
        reconfiguration={
            "fabrics": list(found.fabrics),
            "workload_s": found.seconds,
            "changes": found.changes,
        },
    )


def _design_values(one: DesignRow) -> dict[str, object]:
    option = one.option
    return given(
        topology=option.expression,
        notation=option.notation,
        steps=option.candidate.steps,
        t_b_exact=format_exact(option.candidate.gather.t_b),
        t_b_reduce_scatter_exact=format_exact(option.candidate.reduce.t_b),
        allreduce_s=one.allreduce_s,
        diameter=option.diameter,
        mean_distance=None if option.mean_distance is None else float(option.mean_distance),
        alltoall_pair_rate_bound=None if option.pair_rate is None else float(option.pair_rate),
        alltoall_bound_s=one.alltoall_bound_s,
        alltoall_pair_rate=None if option.flow is None else option.flow.rate,
        alltoall_gap=None if option.flow is None else option.flow.gap,
        alltoall_s=one.alltoall_s,
        workload_s=one.seconds,
        workload_bound_s=one.least_s,
        workload_own_order_s=one.own_order_s,
        node_of_rank=None if one.placement is None else list(one.placement),
        separate_parts=option.parts if option.parts > 1 else None,
    )


# ``topology``


def topology_rows(fabric: Topology, found: FabricFacts, rates: Rates = AS_THEY_COME) -> Iterator[Row]:
    """View of ``topology show``."""
    ranks, switches = len(fabric.compute_nodes), len(fabric.switches)
    yield row(
        "topology",
        f"{fabric.name}: {counted(ranks, 'compute node')}, {counted(switches, 'switch')}",
        topology=fabric.name,
        ranks=ranks,
        switches=switches,
        nodes=fabric.n_nodes,
    )
    links = Counter(int(bandwidth) for bandwidth in fabric.bandwidths)
    shown = sorted(links.items())[:_SHOWN_RATES]
    kinds = ", ".join(f"{count} of {rates.link(rate)}" for rate, count in shown)
    more = ", ..." if len(links) > _SHOWN_RATES else ""
    yield row("links", f"{fabric.n_links} directed: {kinds}{more}", links=fabric.n_links)
    symmetric, unbalanced = is_symmetric(fabric), non_eulerian_nodes(fabric)
    yield row("symmetric", _verdict(symmetric), symmetric=symmetric)
    text = "yes"
    if unbalanced.size:
        node = int(unbalanced[0])
        ingress, egress = (int(s[node]) for s in (fabric.ingress_bytes_per_s(), fabric.egress_bytes_per_s()))
        others = f" and {unbalanced.size - 1} more nodes" if unbalanced.size > 1 else ""
        name = fabric.node_names[node]
        text = f"no: {name} receives {rates.link(ingress)} and sends {rates.link(egress)}{others}"
    yield row("Eulerian", text, eulerian=not unbalanced.size)
    names = fabric.node_names
    cut_off = unreachable_pair(fabric)
    reach = "yes" if cut_off is None else f"no: {names[cut_off[0]]} does not reach {names[cut_off[1]]}"
    yield row("connected", reach, connected=cut_off is None)
    yield row("in-network", "\n".join(_capable(fabric)) or None)
    yield from _fact_rows(fabric, found, rates)
    fingerprint = topology_hash(fabric)
    yield row("hash", fingerprint, hash=fingerprint)


def _capable(fabric: Topology) -> Iterator[str]:
    """Switches that multicast and aggregate; equal ones in one line."""
    equal: dict[str, list[str]] = {}
    for node in fabric.switches.tolist():
        able = [name for name in ("multicast", "aggregation") if getattr(fabric, name)[node]]
        if able:
            how = "returns sums itself (SHARP)" if fabric.turns_round[node] else "GPU-initiated (NVLS)"
            equal.setdefault(f"{' and '.join(able)}, {how}", []).append(fabric.node_names[node])
    for capability, names in equal.items():
        few = ", ".join(names) if len(names) < 4 else f"{names[0]} and {len(names) - 1} more"
        yield f"{few}: {capability}"


def _fact_rows(fabric: Topology, found: FabricFacts, rates: Rates) -> Iterator[Row]:
    """Rows on distances, breadth-first broadcast and symmetries, as far as they apply."""
    if found.degrees is not None:
        least, most = found.degrees
        spread = f"{least} to {most}, not regular" if found.degree is None else f"{least}, regular"
        ways = "bidirectional links" if found.is_bidirectional else "some links are unidirectional"
        degrees = {"degree": least} if least == most else {"degree_min": least, "degree_max": most}
        values = {"regular": least == most, "bidirectional": found.is_bidirectional, **degrees}
        yield Row("degree", f"{spread}{f'; {ways}' if most else ''}", values)
    for one in _distance_rows(fabric, found, rates):
        yield one if found.n_ranks > 1 else facts(one.facts)
    yield from labelled("not known", found.omissions)
    yield facts(omitted=list(found.omissions))


def _distance_rows(fabric: Topology, found: FabricFacts, rates: Rates) -> Iterator[Row]:
    distances, bounds = found.distances, found.bounds
    if found.diameter is not None or bounds is not None:
        known = "not known" if found.diameter is None else _hops(str(found.diameter))
        yield row("diameter", f"{known}{_moore(found)}", diameter=found.diameter)
    if distances is not None:
        yield facts(pairs_by_distance=list(distances.pairs))
        if (mean := distances.mean) is not None:
            least = "" if bounds is None else f", at least {float(bounds.mean_distance):.4g}"
            counts = [str(n) if n.denominator == 1 else f"{float(n):.2f}" for n in distances.per_node[1:]]
            shown = ", ".join(counts[:_SHOWN_DISTANCES]) + (", ..." if len(counts) > _SHOWN_DISTANCES else "")
            reach = _hops(f"1 to {distances.diameter}" if distances.diameter > 1 else "1")
            whose = "from every node" if distances.is_alike else "on average"
            text = f"{_hops(f'{float(mean):.4g}')} on average{least}\n{shown} nodes at {reach} {whose}"
            yield row("distances", text, mean_distance=float(mean), mean_distance_exact=format_exact(mean))
        yield facts(rate_values("alltoall_pair_rate_bound", distances.pair_rate))
    if bounds is not None:
        yield facts(
            rate_values("alltoall_pair_rate_limit", bounds.pair_rate),
            moore_steps=bounds.steps,
            least_mean_distance_exact=format_exact(bounds.mean_distance),
            t_b_bound_exact=format_exact(bounds.t_b),
            moore_steps_bidirectional=bounds.steps_bidirectional,
        )
    yield facts(
        moore_optimal=found.is_moore_optimal, moore_optimal_bidirectional=found.is_moore_optimal_bidirectional
    )
    gather, scatter = found.allgather, found.reduce_scatter
    texts = [
        f"{name:<14} {_broadcast_text(name, value, rates)}"
        for name, value in (("allgather", gather), ("reduce-scatter", scatter))
        if value is not None
    ]
    yield row(
        "BFB",
        "\n".join(texts) if gather is not None and scatter is not None else None,
        allgather_breadth_first=_broadcast_values(gather),
        reduce_scatter_breadth_first=_broadcast_values(scatter),
    )
    if distances is not None and distances.pair_rate is not None:
        yield row("all-to-all", _pair_rate_text(fabric, distances, bounds, rates))
    array = found.intersection_array
    if found.is_direct:
        transitive, reverse = found.is_vertex_transitive, found.is_reverse_symmetric
        text = f"vertex-transitive: {_verdict(transitive)}; reverse-symmetric: {_verdict(reverse)}"
        regular = "" if array is None else f"\ndistance-regular, intersection array {array}"
        yield Row(
            "symmetries", f"{text}{regular}", {"vertex_transitive": transitive, "reverse_symmetric": reverse}
        )
    yield facts(
        distance_regular=found.is_distance_regular,
        intersection_array=None if array is None else {"b": list(array.b), "c": list(array.c)},
    )


def _moore(found: FabricFacts) -> str:
    """The Moore bounds next to the diameter."""
    if found.bounds is None:
        return ""
    one, two = found.bounds.steps, found.bounds.steps_bidirectional
    if found.is_moore_optimal:
        return "; Moore-optimal (the minimum at this degree)"
    if found.is_moore_optimal_bidirectional:
        return f"; Moore-optimal for bidirectional links (unidirectional: at least {one})"
    pairs = "" if two in (None, one) else f" ({two} if links are bidirectional)"
    return f"; at least {one} at this degree{pairs}"


def _broadcast_text(name: str, value: BfbValue, rates: Rates) -> str:
    """Steps and bandwidth of breadth-first broadcast."""
    if value.node_bandwidth is None:
        algbw, factor = 1 / value.seconds_per_byte, busbw_factor(CollectiveKind(name), value.n_ranks)
        cost = f"{rates(algbw)} algbw, {rates(algbw * factor)} busbw"
    else:
        best = Fraction(value.n_ranks - 1, value.n_ranks)
        optimal = "bandwidth-optimal" if value.is_bw_optimal else f"at least {best}"
        cost = f"T_B = {value.t_b} M/B = {float(value.t_b):.4f}, {optimal}"
    return f"{counted(value.diameter, 'step')}, {cost}"


def _broadcast_values(value: BfbValue | None) -> dict[str, object] | None:
    if value is None:
        return None
    found = {"steps": value.diameter, **rate_values("algbw", 1 / value.seconds_per_byte)}
    if value.node_bandwidth is not None:
        found |= {"t_b_exact": format_exact(value.t_b), "bw_optimal": value.is_bw_optimal}
    return found


def _pair_rate_text(
    fabric: Topology, distances: DistanceFacts, bounds: SizeBounds | None, rates: Rates
) -> str:
    """The bound from distances, in link bandwidths where these are equal."""
    assert distances.pair_rate is not None
    if not has_uniform_links(fabric):
        return f"at most {rates(distances.pair_rate)} for each pair of nodes, from distances"
    link = int(fabric.bandwidths[0])
    text = f"at most {float(distances.pair_rate / link):.4g} of a link's bandwidth per pair, from distances"
    if bounds is not None and bounds.pair_rate is not None:
        text += f"; at most {float(bounds.pair_rate / link):.4g} at this degree"
    return text


def _verdict(holds: bool | None) -> str:
    return "undecided" if holds is None else "yes" if holds else "no"


def _hops(number: str) -> str:
    return f"{number} hop{'s' * (number != '1')}"


def import_rows(path: str, found: Imported, fabric: Topology, output: object = None) -> Iterator[Row]:
    """View of ``topology import``: a row for each subject and finding."""
    yield row("file", f"{path}, read as {found.format}", file=path, format=found.format)
    yield from (row(subject, text) for subject, text in found.recognised.items())
    yield from labelled("assumed", found.defaulted)
    yield from labelled("warning", found.warnings)
    nodes = counted(len(fabric.compute_nodes), "compute node"), counted(len(fabric.switches), "switch")
    yield row(
        "topology",
        f"{fabric.name}: {', '.join(nodes)}, {counted(fabric.n_links, 'link')}",
        recognised=dict(found.recognised),
        topology=fabric.name,
        ranks=len(fabric.compute_nodes),
        switches=len(fabric.switches),
        nodes=fabric.n_nodes,
        links=fabric.n_links,
        hash=topology_hash(fabric),
    )
    yield file_row("written", output, "output")
