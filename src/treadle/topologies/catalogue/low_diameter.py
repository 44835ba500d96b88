"""Graphs of low diameter from the literature on networks: SlimFly and dragonfly, routers as compute nodes."""

from __future__ import annotations

import numpy as np

from treadle.arrays import BoolArray, mask_of
from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import graph_of_edges
from treadle.topologies.catalogue.finite_field import FiniteField, finite_field, prime_power
from treadle.topologies.limits import check_count, check_counts, check_size
from treadle.topologies.topology import Topology


def slimfly(q: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """SlimFly, the McKay-Miller-Siran graph H_q of diameter 2.

    Parameters
    ----------
    q : int
        Prime power 4w + delta with delta -1, 0 or 1, from 3 to 83.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If `q` is not.

    Notes
    -----
    2 q^2 nodes, degree (3q - delta) / 2, diameter 2; slimfly(5) is the Hoffman-Singleton graph, which meets
    the bidirectional Moore bound. Node x q + y is (0, x, y), node q^2 + m q + c is (1, m, c). Links are
    sorted by tail, then by head: (0, x, y) with (0, x, y') where y - y' is in X, (1, m, c) with (1, m, c')
    where c - c' is in X', and (0, x, y) with (1, m, c) where y = m x + c. X and X' are sets of powers of a
    primitive element.

    Besta and Hoefler, Slim Fly (2014), section II-B; McKay, Miller and Siran (1998); for delta = 0 and -1
    Hafner (2004).

    Examples
    --------
    >>> slimfly(5)
    <Topology slimfly(5): 50 compute, 0 switches, 350 links>
    """
    check_count("slimfly", "q", q, least=3, most=1024)
    delta = {0: 0, 1: 1, 3: -1}.get(q % 4)
    if prime_power(q) is None or delta is None:
        raise TopologyError(f"slimfly: q must be a prime power that is 0, 1 or 3 modulo 4, found {q}")
    check_size("slimfly", 2 * q * q, q * q * (3 * q - delta))
    field = finite_field(q)
    edges = []
    for side, steps in enumerate(_generator_sets(field, delta)):
        # pairs of each of the q columns of a side whose difference is a step
        pairs = np.argwhere(np.triu(steps[field.sums[:, field.negatives]], k=1))
        edges.append((pairs[None] + q * np.arange(q)[:, None, None]).reshape(-1, 2) + side * q * q)
    x, m, c = (axis.ravel() for axis in np.indices((q, q, q)))
    y = field.sums[field.products[m, x], c]
    edges.append(np.stack([x * q + y, q * q + m * q + c], axis=1))
    return graph_of_edges(("slimfly", q), np.concatenate(edges), 2 * q * q, bandwidth, latency)


def _generator_sets(field: FiniteField, delta: int) -> tuple[BoolArray, BoolArray]:
    """Return the sets X and X' as masks of the field's elements."""
    q = field.order
    exponents = np.arange(q - 1)
    if delta == 0:
        # q - 1 is odd: the even exponents 0 to q - 2, and the odd ones 1 to q - 1, the last of which is 0.
        first, second = exponents[::2], np.append(exponents[1::2], 0)
    else:
        # The even powers below -1, whose exponent is (q - 1) / 2, and their negatives: the even ones above it
        # where -1 is an even power itself (q = 1 modulo 4), else the odd ones.
        half = (q - 1) // 2
        first = np.concatenate([np.arange(0, half, 2), np.arange(half, q - 1, 2)])
        second = (first + 1) % (q - 1)
    masks = mask_of((2, q), (0, field.powers[first]))
    masks[1, field.powers[second]] = True
    assert np.array_equal(masks, masks[:, field.negatives])
    return masks[0], masks[1]


def dragonfly(a: int, h: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Largest dragonfly of routers: complete groups, and one global link between any two of them.

    Parameters
    ----------
    a : int
        Routers per group, at least 1.
    h : int
        Global links per router, at least 1.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If an argument is out of range or the network is too large.

    Notes
    -----
    g = a h + 1 groups, a g nodes, degree a - 1 + h, diameter at most 3. Router r of group i is node i a + r.
    Group i has ports 0 to a h - 1, port k at router k // h; it leads to group i + k + 1 modulo g and its port
    a h - 1 - k (the palm-tree arrangement). Links are sorted by tail, then by head. Balanced traffic between
    h hosts per router wants a = 2h. Kim, Dally, Scott and Abts, Technology-driven, highly-scalable dragonfly
    topology (2008), section 3.1; terminals are left out, each router is a compute node.

    Examples
    --------
    >>> dragonfly(4, 2)
    <Topology dragonfly(4, 2): 36 compute, 0 switches, 180 links>
    """
    check_counts("dragonfly", a=a, h=h)
    groups = a * h + 1
    check_size("dragonfly", a * groups, a * groups * (a - 1 + h))
    starts = a * np.arange(groups)[:, None, None]
    local = np.argwhere(np.triu(np.ones((a, a), dtype=np.bool_), k=1))
    group, port = (axis.ravel() for axis in np.indices((groups, a * h)))
    peer = (group + port + 1) % groups
    ends = np.stack([group * a + port // h, peer * a + (a * h - 1 - port) // h], axis=1)
    edges = np.concatenate([(local + starts).reshape(-1, 2), ends[group < peer]])
    return graph_of_edges(("dragonfly", a, h), edges, a * groups, bandwidth, latency)
