"""Switches unwound into preset rings or cliques, as TACCL and TACOS do; a transform that loses bandwidth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import gcd, lcm

from treadle.errors import TopologyError
from treadle.topologies.topology import Topology, TopologyBuilder


class Shape(StrEnum):
    """What a switch becomes."""

    RING = "ring"
    CLIQUE = "clique"


@dataclass(frozen=True)
class Unwound:
    """A fabric without switches.

    Parameters
    ----------
    topology : Topology
        Link bandwidths are `scale` times the true ones: the least integers in their proportion.
    scale : Fraction
        Divide throughputs on `topology` by it.
    """

    topology: Topology
    scale: Fraction


_Arcs = dict[tuple[int, int], Fraction]


def unwind(topology: Topology, shape: Shape) -> Unwound:
    """Replace every switch by a ring or by a clique of its neighbours.

    Parameters
    ----------
    topology : Topology
    shape : Shape
        RING: in node order, half of each neighbour's ports to the next one and half to the one before.
        CLIQUE: each neighbour's ports are shared evenly among the n - 1 others.

    Returns
    -------
    Unwound

    Raises
    ------
    TopologyError
        If a switch has a neighbour that can only send to it or only receive from it, or fewer than 2.

    Notes
    -----
    Switches go in node order; one that is next to other switches leaves links between those. Parallel links
    are added up, latencies and injection caps are dropped. Appendix B.5 and figure B.1(d) of the
    dissertation: rings make the example's optimum 4 times worse, where edge splitting loses nothing.
    """
    arcs: _Arcs = {}
    columns = (topology.tails.tolist(), topology.heads.tolist(), topology.bandwidths.tolist())
    for tail, head, bandwidth in zip(*columns, strict=True):
        if tail != head:
            _add(arcs, tail, head, Fraction(bandwidth))
    for switch in topology.switches.tolist():
        ports = _take_ports(topology, arcs, switch)
        _REPLACEMENTS[shape](arcs, ports)
    common = lcm(*(bandwidth.denominator for bandwidth in arcs.values()))
    scale = Fraction(common, gcd(*(int(bandwidth * common) for bandwidth in arcs.values())))
    builder = TopologyBuilder(f"unwound({topology.name}, {shape})")
    for node in topology.compute_nodes.tolist():
        builder.compute(topology.node_names[node])
    for (tail, head), bandwidth in sorted(arcs.items()):
        builder.link(topology.node_names[tail], topology.node_names[head], int(bandwidth * scale))
    return Unwound(builder.build(), scale)


def _add(arcs: _Arcs, tail: int, head: int, bandwidth: Fraction) -> None:
    arcs[tail, head] = arcs.get((tail, head), Fraction(0)) + bandwidth


_Port = tuple[int, Fraction, Fraction]
"""Neighbour, bandwidth towards the switch, bandwidth from it."""


def _take_ports(topology: Topology, arcs: _Arcs, switch: int) -> list[_Port]:
    """Remove a switch's links and return its ports, by neighbour."""
    inward = {tail: arcs.pop((tail, head)) for tail, head in sorted(arcs) if head == switch}
    outward = {head: arcs.pop((tail, head)) for tail, head in sorted(arcs) if tail == switch}
    name = topology.node_names[switch]
    for node in sorted(inward.keys() ^ outward.keys()):
        raise TopologyError(
            f"{topology.name}: {topology.node_names[node]!r} has a link in one direction only with switch "
            f"{name!r}; unwinding needs both"
        )
    if len(inward) < 2:
        raise TopologyError(f"{topology.name}: switch {name!r} has one neighbour; leave it out")
    return [(node, inward[node], outward[node]) for node in sorted(inward)]


def _as_ring(arcs: _Arcs, ports: Sequence[_Port]) -> None:
    for one, other in zip(ports, [*ports[1:], ports[0]], strict=True):
        for (tail, sends, _), (head, _, receives) in ((one, other), (other, one)):
            _add(arcs, tail, head, min(sends, receives) / 2)


def _as_clique(arcs: _Arcs, ports: Sequence[_Port]) -> None:
    others = len(ports) - 1
    for tail, sends, _ in ports:
        for head, _, receives in ports:
            if tail != head:
                _add(arcs, tail, head, min(sends, receives) / others)


_REPLACEMENTS: dict[Shape, Callable[[_Arcs, Sequence[_Port]], None]] = {
    Shape.RING: _as_ring,
    Shape.CLIQUE: _as_clique,
}
