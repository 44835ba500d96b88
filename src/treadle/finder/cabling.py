"""Cables of a fabric: which ports of which nodes they join, and which are added or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from treadle.topologies.cables import partners
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class Cable:
    """One cable.

    Parameters
    ----------
    tail, head : int
        Nodes.
    tail_port, head_port : int
        Numbered from 0 at each node.
    is_duplex : bool
        True: one link each way over the same ports. False: one link, from the sending side of `tail_port`
        to the receiving side of `head_port`.
    link : int
        Number of the link from tail to head.
    """

    tail: int
    tail_port: int
    head: int
    head_port: int
    is_duplex: bool
    link: int


@dataclass(frozen=True)
class CableMove:
    """A cable that is added or removed.

    Parameters
    ----------
    is_added : bool
    tail, tail_port, head, head_port : int
    stage : int
        Of an expansion plan, from 1: it removes one cable and adds two, or adds one between two new nodes.
    """

    is_added: bool
    tail: int
    tail_port: int
    head: int
    head_port: int
    stage: int = 0


def cables(topology: Topology) -> tuple[Cable, ...]:
    """Return a cable for each pair of opposite links, and one for each link without a partner.

    Ports are assigned in the order of the links: first those of duplex cables, which take the same port in
    both directions; then a node's k-th lone link out and its k-th lone link in share a port (transmit and
    receive side). A self-loop joins the two sides of one port.
    """
    ends = list(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    rates = topology.bandwidths.tolist()
    partner = partners((tail, head, rate) for (tail, head), rate in zip(ends, rates, strict=True))
    ports = Counter[int]()
    found: list[Cable] = []
    for link, (tail, head) in enumerate(ends):
        if partner[link] > link:
            found.append(Cable(tail, ports[tail], head, ports[head], True, link))
            ports.update((tail, head))
    lone = [link for link, other in enumerate(partner) if other < 0]
    found += number_ports([Cable(ends[link][0], 0, ends[link][1], 0, False, link) for link in lone], ports)
    return tuple(sorted(found, key=lambda cable: (cable.tail, cable.tail_port, cable.head)))


def number_ports(wires: Iterable[Cable], taken: Mapping[int, int]) -> list[Cable]:
    """Number the ports of unidirectional links in this order, after those that duplex cables take."""
    out, into = Counter(taken), Counter(taken)
    found = []
    for wire in wires:
        found.append(replace(wire, tail_port=out[wire.tail], head_port=into[wire.head]))
        out[wire.tail] += 1
        into[wire.head] += 1
    return found


def unidirectional_cables(wires: Iterable[Cable]) -> list[Cable]:
    """Return a cable for each link; both directions of a duplex cable take the same ports."""
    found = []
    for wire in wires:
        found.append(replace(wire, is_duplex=False))
        if wire.is_duplex:
            found.append(Cable(wire.head, wire.head_port, wire.tail, wire.tail_port, False, wire.link))
    return found
