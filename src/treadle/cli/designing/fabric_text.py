"""Facts about a fabric as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from treadle.cli.quantities import Rates
from treadle.planning import DistanceFacts, FabricFacts, SizeBounds
from treadle.schedules.collective import CollectiveKind, busbw_factor
from treadle.topologies import Topology, has_uniform_links

_SHOWN = 12


def fact_lines(fabric: Topology, facts: FabricFacts, rates: Rates) -> Iterator[str]:
    """What is known of a fabric, a line or two each; only what applies."""
    if facts.degrees is not None:
        least, most = facts.degrees
        spread = f"{least} to {most}, not regular" if facts.degree is None else f"{least}, regular"
        ways = "links come in opposite pairs" if facts.is_bidirectional else "some links are one-way"
        yield f"degree     {spread}{f'; {ways}' if most else ''}"
    if facts.n_ranks > 1:
        yield from _distance_lines(facts)
        yield from _schedule_lines(facts, rates)
        if facts.distances is not None and facts.distances.pair_rate is not None:
            yield f"all-to-all {_pair_rate(fabric, facts.distances, facts.bounds, rates)}"
        if facts.is_direct:
            yield from _symmetry_lines(facts)
    for omission in facts.omissions:
        yield f"left out   {omission}"


def _distance_lines(facts: FabricFacts) -> Iterator[str]:
    if facts.diameter is not None:
        yield f"diameter   {_hops(str(facts.diameter))}{_moore(facts)}"
    elif facts.bounds is not None:
        yield f"diameter   not known{_moore(facts)}"
    distances = facts.distances
    if distances is None or distances.mean is None:
        return
    least = "" if facts.bounds is None else f", at least {float(facts.bounds.mean_distance):.4g}"
    yield f"distances  {_hops(f'{float(distances.mean):.4g}')} on average{least}"
    counts = [_count(count) for count in distances.per_node[1:]]
    shown = ", ".join(counts[:_SHOWN]) + (", ..." if len(counts) > _SHOWN else "")
    reach = _hops(f"1 to {distances.diameter}" if distances.diameter > 1 else "1")
    whose = "from every node" if distances.is_alike else "on average"
    yield f"           {shown} nodes at {reach} {whose}"


def _moore(facts: FabricFacts) -> str:
    """The Moore bounds beside the diameter."""
    if facts.bounds is None:
        return ""
    one, two = facts.bounds.steps, facts.bounds.steps_bidirectional
    if facts.is_moore_optimal:
        return "; Moore-optimal, as few as the degree allows"
    if facts.is_moore_optimal_bidirectional:
        return f"; Moore-optimal for links that come in pairs (one-way links: at least {one})"
    pairs = "" if two in (None, one) else f" ({two} if links come in pairs)"
    return f"; the degree allows {one}{pairs}"


def _schedule_lines(facts: FabricFacts, rates: Rates) -> Iterator[str]:
    gather, scatter = facts.allgather, facts.reduce_scatter
    if gather is None or scatter is None:
        return
    yield "breadth-first broadcast"
    for name, value in (("allgather", gather), ("reduce-scatter", scatter)):
        if value.node_bandwidth is None:
            algbw = 1 / value.seconds_per_byte
            scaled = algbw * busbw_factor(CollectiveKind(name), value.n_ranks)
            cost = f"algbw {rates(algbw)}, busbw {rates(scaled)}"
        else:
            best = Fraction(value.n_ranks - 1, value.n_ranks)
            optimal = "bandwidth-optimal" if value.is_bw_optimal else f"at least {best}"
            cost = f"T_B = {value.t_b} M/B = {float(value.t_b):.4f}, {optimal}"
        yield f"           {name:<14} {value.diameter} step{'s' * (value.diameter > 1)}, {cost}"


def _pair_rate(fabric: Topology, distances: DistanceFacts, bounds: SizeBounds | None, rates: Rates) -> str:
    """The bound by distances, in link bandwidths where these are equal."""
    assert distances.pair_rate is not None
    if not has_uniform_links(fabric):
        return f"at most {rates(distances.pair_rate)} for each pair of nodes, by distances"
    link = int(fabric.bandwidths[0])
    text = f"at most {float(distances.pair_rate / link):.4g} of a link's bandwidth per pair, by distances"
    if bounds is not None and bounds.pair_rate is not None:
        text += f"; the degree allows {float(bounds.pair_rate / link):.4g}"
    return text


def _symmetry_lines(facts: FabricFacts) -> Iterator[str]:
    yield (
        f"symmetries vertex-transitive: {_verdict(facts.is_vertex_transitive)}; "
        f"reverse-symmetric: {_verdict(facts.is_reverse_symmetric)}"
    )
    if facts.intersection_array is not None:
        yield f"           distance-regular, intersection array {facts.intersection_array}"


def _verdict(holds: bool | None) -> str:
    return "undecided" if holds is None else "yes" if holds else "no"


def _hops(number: str) -> str:
    return f"{number} hop{'s' * (number != '1')}"


def _count(count: Fraction) -> str:
    return str(count) if count.denominator == 1 else f"{float(count):.2f}"
