"""Twisted tori and the twisted hypercube: a few links of a regular grid exchanged for a smaller diameter."""

from __future__ import annotations

from math import prod

import numpy as np

from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import graph_of_heads
from treadle.topologies.limits import check_count, check_size
from treadle.topologies.topology import Topology

_MAX_BITS = 20


def twisted_torus(*dims: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Torus of short (k) and long (2k) dimensions; wrapping a short one shifts by k along every long one.

    Parameters
    ----------
    *dims : int
        Two or three sizes, each k or 2k with k >= 2, both kinds present: k x 2k, k x k x 2k or k x 2k x 2k,
        in any order. The last one varies fastest in rank order.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If the sizes are not of that form.

    Notes
    -----
    Camara et al., Twisted torus topologies for enhanced interconnection networks (IEEE TPDS 21, 2010); the
    3D ones are those of TPU v4. Degree 2 per dimension, vertex-transitive. The diameter is k for
    k x 2k and floor(3k / 2) for both 3D forms; the tori have k + floor(k / 2), k + 2 floor(k / 2) and
    2k + floor(k / 2). Breadth-first broadcast is bandwidth-optimal on every such graph of at most 10^4 nodes
    (checked by computation; 3.6 of the dissertation).
    Link x * 2n + 2i of n dimensions leaves x upwards along dimension i, link x * 2n + 2i + 1 downwards.

    Examples
    --------
    >>> twisted_torus(2, 4)
    <Topology twisted_torus(2, 4): 8 compute, 0 switches, 32 links>
    """
    check_count("twisted_torus", "number of dimensions", len(dims), least=2, most=3)
    check_count("twisted_torus", "each dimension", *dims, least=2)
    k = min(dims)
    if set(dims) != {k, 2 * k}:
        found = " x ".join(map(str, dims))
        raise TopologyError(f"twisted_torus: sizes must be k and 2k, both present, found {found}")
    size, degree = prod(dims), 2 * len(dims)
    check_size("twisted_torus", size, size * degree)
    position = np.stack(np.unravel_index(np.arange(size), dims), axis=1)
    twist = np.array([k if dim == 2 * k else 0 for dim in dims])
    heads = np.empty((size, degree), dtype=np.int64)
    for axis, dim in enumerate(dims):
        for direction in (1, -1):
            moved = position.copy()
            moved[:, axis] += direction
            if dim == k:
                # k steps up and k steps down are the same along a dimension of 2k.
                wrapped = (moved[:, axis] < 0) | (moved[:, axis] == dim)
                moved[wrapped] += twist
            heads[:, 2 * axis + (direction < 0)] = np.ravel_multi_index(tuple(moved.T), dims, mode="wrap")
    names = ["n" + "_".join(map(str, place)) for place in position.tolist()]
    return graph_of_heads(("twisted_torus", *dims), heads, bandwidth, latency, names)


def twisted_hypercube(n: int, *, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Hypercube with one pair of links exchanged, which makes its diameter one less.

    Parameters
    ----------
    n : int
        Dimensions, at least 3: 2^n nodes.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Notes
    -----
    Esfahanian, Ni and Sagan, The twisted n-cube with application to multiprocessing (IEEE Transactions on
    Computers 40, 1991): two opposite edges of a shortest cycle are exchanged, here 0-1 and 2-3 of the cycle
    0, 1, 3, 2 for 0-3 and 1-2. Degree n, diameter n - 1. Bandwidth-optimal by breadth-first broadcast for
    n = 3 (A.1.1 of the dissertation) but not beyond: T_B = 17/16 for n = 4. Not vertex-transitive.
    Link x * n + i leaves x for x with bit i turned, but link i = 0 of 0, 1, 2, 3 leads to 3, 2, 1, 0.

    Examples
    --------
    >>> twisted_hypercube(3)
    <Topology twisted_hypercube(3): 8 compute, 0 switches, 24 links>
    """
    check_count("twisted_hypercube", "n", n, least=3, most=_MAX_BITS)
    check_size("twisted_hypercube", 2**n, n * 2**n)
    nodes = np.arange(2**n, dtype=np.int64)
    heads = nodes[:, None] ^ (1 << np.arange(n))
    heads[:4, 0] = nodes[:4] ^ 3
    return graph_of_heads(("twisted_hypercube", n), heads, bandwidth, latency)
