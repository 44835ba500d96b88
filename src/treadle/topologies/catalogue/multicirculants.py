"""Digraphs with an automorphism that turns each of a few orbits of nodes: circulants with several orbits.

With orbits of equal sizes they are the k-multicirculants of Giudici, Kovacs, Li and Verret, Cubic
arc-transitive k-multicirculants (2017); smaller orbits allow every number of nodes, primes too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from treadle.arrays import Int64Array
from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import graph
from treadle.topologies.limits import MAX_LINKS, MAX_NODES, check_count, check_size
from treadle.topologies.topology import Topology

_ORBITS = re.compile(r"(?:(\d{1,7})\*)?(\d{1,7})", re.ASCII)


def multicirculant(orbits: str, d: int, *heads: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Graph of degree `d` that a turn of every orbit, such as two of five nodes, maps to itself.

    Parameters
    ----------
    orbits : str
        Sizes, each a divisor of the next: ``"1+4+12*12"`` is one node, four, and twelve orbits of twelve.
    d : int
        Degree.
    *heads : int
        Heads of links out of the first node of the first orbit that lacks links, one after another. Each link
        brings its opposite.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If the orbits or heads do not make a graph of that degree.

    Notes
    -----
    Nodes are numbered orbit by orbit. A turn takes each node to the next of its orbit, the last to the first,
    and every link brings all those that turns make of it. Links are sorted by tail, then by head.

    Examples
    --------
    >>> multicirculant("2*5", 3, 1, 5, 7)  # Petersen
    <Topology multicirculant("2*5", 3, 1, 5, 7): 10 compute, 0 switches, 30 links>
    """
    return _turned("multicirculant", orbits, d, heads, bandwidth, latency)


def directed_multicirculant(
    orbits: str, d: int, *heads: int, bandwidth: int = 1, latency: int = 0
) -> Topology:
    """Digraph of degree `d` that a turn of every orbit maps to itself.

    Parameters
    ----------
    orbits : str
        As of `multicirculant`.
    d : int
        Links out of and into each node.
    *heads : int
        Heads of links out of the first node of the first orbit that lacks links, one after another.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If the orbits or heads do not make a digraph of that degree.

    Examples
    --------
    >>> directed_multicirculant("1+3", 3, 1, 0, 2, 3)  # complete
    <Topology directed_multicirculant("1+3", 3, 1, 0, 2, 3): 4 compute, 0 switches, 12 links>
    """
    return _turned("directed_multicirculant", orbits, d, heads, bandwidth, latency)


def _turned(name: str, orbits: str, d: int, heads: Sequence[int], bandwidth: int, latency: int) -> Topology:
    sizes = _sizes(name, orbits)
    check_count(name, "d", d, most=MAX_LINKS)
    starts = list(accumulate(sizes, initial=0))
    n = starts[-1]
    check_size(name, n, n * d)
    orbit_of = np.repeat(np.arange(len(sizes)), sizes)
    lacks = [d] * len(sizes)
    arcs: list[tuple[Int64Array, Int64Array]] = []
    orbit = 0
    for head in heads:
        check_count(name, "each head", head, least=0, most=n - 1)
        while orbit < len(sizes) and lacks[orbit] == 0:
            orbit += 1
        if orbit == len(sizes):
            raise TopologyError(f"{name}: {len(heads)} heads are too many for degree {d}; leave some out")
        other = int(orbit_of[head])
        turns = np.arange(max(sizes[orbit], sizes[other]))
        tail_nodes = starts[orbit] + turns % sizes[orbit]
        head_nodes = starts[other] + (head - starts[other] + turns) % sizes[other]
        arcs.append((tail_nodes, head_nodes))
        lacks[orbit] -= len(turns) // sizes[orbit]
        is_own_opposite = other == orbit and 2 * (head - starts[orbit]) % sizes[orbit] == 0
        if name == "multicirculant" and not is_own_opposite:
            arcs.append((head_nodes, tail_nodes))
            lacks[other] -= len(turns) // sizes[other]
        if min(lacks[orbit], lacks[other]) < 0:
            raise TopologyError(f"{name}: head {head} leaves a node more than {d} links; change it or d")
    if any(lacks):
        raise TopologyError(f"{name}: {len(heads)} heads are too few for degree {d}; add heads or lower it")
    all_tails, all_heads = np.concatenate(arcs, axis=1)
    if (np.bincount(all_heads, minlength=n) != d).any():
        raise TopologyError(f"{name}: some node has not {d} links into it; change the heads")
    order = np.lexsort((all_heads, all_tails))
    ends = all_tails[order], all_heads[order]
    return graph((name, f'"{orbits}"', d, *heads), ends, n, bandwidth, latency)


def _sizes(name: str, orbits: str) -> list[int]:
    """Parse sizes such as ``1+4+12*12``."""
    sizes: list[int] = []
    for part in orbits.split("+") if isinstance(orbits, str) else ():
        found = _ORBITS.fullmatch(part)
        times, size = (int(found[1] or 1), int(found[2])) if found else (0, 0)
        if not 0 < size * times <= MAX_NODES - sum(sizes):
            expected = f"expected sizes such as '1+4+12*12', at most {MAX_NODES} nodes"
            raise TopologyError(f"{name}: orbits {orbits[:40]!r}: {expected}")
        sizes += [size] * times
    if not sizes or any(large % small for small, large in pairwise(sizes)):
        raise TopologyError(f"{name}: orbits {str(orbits)[:40]!r}: expected divisors of the next size")
    return sizes
