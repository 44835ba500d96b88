"""Random graphs by seed: regular graphs and digraphs, lifts, and fabrics with random failures.

The same arguments give the same fabric everywhere: draws come from numpy's PCG64 generator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of
from treadle.errors import TopologyError
from treadle.math.graphs import reached
from treadle.topologies.cables import NamedCable, named_cables
from treadle.topologies.catalogue.direct import Call, graph, graph_of_edges
from treadle.topologies.limits import check_count, check_size
from treadle.topologies.naming import call_expression
from treadle.topologies.properties import are_ranks_connected
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_bandwidths, with_failed_nodes

_ATTEMPTS = 10_000
_TRIES_PER_SWAP = 100
_MAX_SEED = 2**63 - 1


def jellyfish(n: int, d: int, *, seed: int = 0, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Jellyfish: random connected `d`-regular graph without parallel links.

    Parameters
    ----------
    n : int
        Nodes, at least d + 1; n d is even.
    d : int
        Degree, at least 2 (or 1 for two nodes).
    seed : int
        Not negative.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If there is no such graph.

    Notes
    -----
    Random pairing of n d ports; a pair that is a loop or repeats another exchanges an end with a random pair.
    Dense graphs (2d >= n) are complements of sparse ones, d = 2 is a random Hamiltonian cycle. Disconnected
    draws are repeated. Nearly uniform, not exactly. Links are sorted by tail, then by head.
    Singla, Hong, Popa and Godfrey, Jellyfish: networking data centers randomly (2012), section 3.

    Examples
    --------
    >>> jellyfish(20, 3, seed=7)
    <Topology jellyfish(20, 3, seed=7): 20 compute, 0 switches, 60 links>
    """
    _check_degree("jellyfish", n, d)
    if n * d % 2:
        raise TopologyError(f"jellyfish: n * d must be even, found {n} * {d}; a link has two ends")
    call, rng = _seeded("jellyfish", n, d, seed=seed)

    def draw() -> Topology:
        return graph_of_edges(call, _regular_pairs(n, d, rng, directed=False), n, bandwidth, latency)

    return _connected("jellyfish", draw)


def random_regular_digraph(
    n: int, d: int, *, seed: int = 0, bandwidth: int = 1, latency: int = 0
) -> Topology:
    """Random strongly connected digraph, `d` links into and out of every node, no loops or parallel links.

    Parameters
    ----------
    n : int
        Nodes, at least d + 1.
    d : int
        Degree, at least 1.
    seed : int
        Not negative.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If there is no such digraph.

    Notes
    -----
    As `jellyfish`, with d heads to pair with d tails of each node. Links are sorted by tail, then by head.

    Examples
    --------
    >>> random_regular_digraph(20, 3)
    <Topology random_regular_digraph(20, 3): 20 compute, 0 switches, 60 links>
    """
    _check_degree("random_regular_digraph", n, d)
    call, rng = _seeded("random_regular_digraph", n, d, seed=seed)

    def draw() -> Topology:
        tails, heads = _regular_pairs(n, d, rng, directed=True).T
        order = np.lexsort((heads, tails))
        return graph(call, (tails[order], heads[order]), n, bandwidth, latency)

    return _connected("random_regular_digraph", draw)


def xpander(d: int, lift: int, *, seed: int = 0, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Xpander: random connected `lift`-lift of the complete graph on d + 1 nodes.

    Parameters
    ----------
    d : int
        Degree, at least 3.
    lift : int
        Copies of each node, at least 1.
    seed : int
        Not negative.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Notes
    -----
    Copy i of node v is node v * lift + i; a random perfect matching joins the copies of any two nodes. Links
    are sorted by tail, then by head. Valadarsky, Shahaf, Dinitz and Schapira, Xpander: towards
    optimal-performance datacenters (2016), section 3; one lift of order k instead of repeated 2-lifts.

    Examples
    --------
    >>> xpander(4, 10)
    <Topology xpander(4, 10): 50 compute, 0 switches, 200 links>
    """
    check_count("xpander", "d", d, least=3)
    check_count("xpander", "lift", lift)
    n = (d + 1) * lift
    check_size("xpander", n, n * d)
    call, rng = _seeded("xpander", d, lift, seed=seed)
    one, other = np.triu_indices(d + 1, k=1)

    def draw() -> Topology:
        matchings = rng.permuted(np.tile(np.arange(lift), (len(one), 1)), axis=1)
        tails = one[:, None] * lift + np.arange(lift)
        edges = np.stack([tails.ravel(), (other[:, None] * lift + matchings).ravel()], axis=1)
        return graph_of_edges(call, edges, n, bandwidth, latency)

    return _connected("xpander", draw)


def punctured(topology: Topology, *, links: int = 0, nodes: int = 0, seed: int = 0) -> Topology:
    """A fabric after random failures that leave every rank able to reach every other.

    Parameters
    ----------
    topology : Topology
    links : int
        Cables to fail, of those that join two nodes: a link and the one back of equal bandwidth are one, as
        in a cabling list, and so is a link without such a partner. Of parallel cables each fails by itself.
    nodes : int
        Compute nodes to fail, with all their links; before the links.
    seed : int
        Not negative.

    Returns
    -------
    Topology
        Ranks close up. Switches that lead nowhere go, as in `with_failed_links`.

    Raises
    ------
    TopologyError
        If an argument is out of range, the fabric is not connected to begin with, or this number of failures
        in the order that the seed draws would disconnect it.

    Notes
    -----
    Candidates fail one after another in random order; one whose failure would disconnect the ranks is
    skipped.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> punctured(torus(4, 4), links=3, nodes=1, seed=5)
    <Topology punctured(torus(4, 4), links=3, nodes=1, seed=5): 15 compute, 0 switches, 50 links>
    """
    check_count("punctured", "links", links, least=0, most=topology.n_links)
    check_count("punctured", "nodes", nodes, least=0, most=max(0, len(topology.compute_nodes) - 1))
    check_count("punctured", "seed", seed, least=0, most=_MAX_SEED)
    if not are_ranks_connected(topology):
        raise TopologyError(f"punctured: {topology.name} is not strongly connected to begin with")
    rng = np.random.default_rng(seed)
    failed_nodes = _survivable_nodes(topology, nodes, rng)
    left = with_failed_nodes(topology, *failed_nodes) if failed_nodes else topology
    failed = [link for cable in _survivable_cables(left, links, rng) for link in cable.links]
    bandwidths = left.bandwidths.copy()
    bandwidths[failed] = 0
    left = with_bandwidths(left, bandwidths, left.name)[0] if failed else left
    return left.renamed(call_expression(punctured, {**locals(), "topology": topology.name}))


def failed_cables(topology: Topology, *, links: int, seed: int) -> tuple[NamedCable, ...]:
    """The cables that fail in `punctured` of as many links and no nodes, by the names of `with_failed_links`.

    Examples
    --------
    >>> from treadle.topologies.catalogue.graphs import torus
    >>> [cable.name for cable in failed_cables(torus(3, 3), links=2, seed=1)]
    ['n1_1--n1_2', 'n0_0--n0_2']
    """
    return tuple(_survivable_cables(topology, links, np.random.default_rng(seed)))


def _check_degree(function: str, n: int, d: int) -> None:
    check_count(function, "n", n, least=2)
    check_count(function, "d", d, most=n - 1)
    check_size(function, n, n * d)
    if function == "jellyfish" and d == 1 and n > 2:
        raise TopologyError(f"{function}: {n} nodes of degree 1 cannot be connected; d must be at least 2")


def _seeded(function: str, *arguments: int, seed: int) -> tuple[Call, np.random.Generator]:
    """Return the call that names a graph, with the seed where it is not 0, and the generator of its draws."""
    check_count(function, "seed", seed, least=0, most=_MAX_SEED)
    return (function, *arguments, *([f"seed={seed}"] if seed else [])), np.random.default_rng(seed)


def _connected(function: str, draw: Callable[[], Topology]) -> Topology:
    """Return the first connected draw."""
    for _ in range(_ATTEMPTS):
        graph = draw()
        if are_ranks_connected(graph):
            return graph
    raise TopologyError(f"{function}: {_ATTEMPTS} draws were disconnected; try another seed")


def _regular_pairs(n: int, d: int, rng: np.random.Generator, *, directed: bool) -> Int64Array:
    """Return distinct pairs of distinct nodes, each node `d` times in both columns or (undirected) in all."""
    if 2 * d >= n:
        pairs = _sparse_pairs(n, n - 1 - d, rng, directed=directed)
        absent = ~mask_of((n, n), (pairs[:, 0], pairs[:, 1]))
        if not directed:
            absent[pairs[:, 1], pairs[:, 0]] = False
            absent = np.triu(absent)
        np.fill_diagonal(absent, False)
        return np.argwhere(absent)
    if d == (1 if directed else 2):
        # Few draws of such a degree would be connected.
        cycle = rng.permutation(n)
        return np.stack([cycle, np.roll(cycle, -1)], axis=1)
    return _sparse_pairs(n, d, rng, directed=directed)


def _sparse_pairs(n: int, d: int, rng: np.random.Generator, *, directed: bool) -> Int64Array:
    """Same as `_regular_pairs`, for 2 d < n; connected or not."""
    ports = np.repeat(np.arange(n), d)
    for _ in range(_ATTEMPTS):
        if directed:
            pairs = np.stack([ports, rng.permutation(ports)], axis=1)
        else:
            pairs = rng.permutation(ports).reshape(-1, 2)
        if _repaired(n, pairs, rng, directed=directed):
            return pairs
    raise AssertionError("a pairing with fewer than half of all pairs can nearly always be repaired")


def _repaired(n: int, pairs: Int64Array, rng: np.random.Generator, *, directed: bool) -> bool:
    """Exchange ends, in place, until no pair is a loop or repeats another; False if that fails."""
    low, high = pairs.T if directed else np.sort(pairs, axis=1).T
    keys = low * n + high
    bad = ~mask_of(len(pairs), np.unique(keys, return_index=True)[1])
    bad |= pairs[:, 0] == pairs[:, 1]
    if not bad.any():
        return True
    present = set(keys[~bad].tolist())

    def key(one: int, other: int) -> int:
        return one * n + other if directed or one < other else other * n + one

    for place in np.flatnonzero(bad).tolist():
        one, other = pairs[place].tolist()
        for partner in rng.integers(len(pairs), size=_TRIES_PER_SWAP).tolist():
            tail, head = pairs[partner].tolist()
            first, second = key(one, head), key(tail, other)
            if bad[partner] or one == head or tail == other or first == second:
                continue
            if first in present or second in present:
                continue
            present -= {key(tail, head)}
            present |= {first, second}
            pairs[place], pairs[partner] = (one, head), (tail, other)
            bad[place] = False
            break
        else:
            return False
    return True


def _survivable_nodes(topology: Topology, count: int, rng: np.random.Generator) -> list[str]:
    """Return the names of random compute nodes without which the others stay connected."""
    keep = np.ones(topology.n_nodes, dtype=np.bool_)
    failed: list[str] = []
    for node in rng.permutation(topology.compute_nodes).tolist() if count else []:
        if len(failed) == count:
            break
        keep[node] = False
        keep[node] = not _stays_connected(topology, keep, keep[topology.tails] & keep[topology.heads])
        if not keep[node]:
            failed.append(topology.node_names[node])
    _check_failed(topology, "node", len(failed), count)
    return failed


def _survivable_cables(topology: Topology, count: int, rng: np.random.Generator) -> list[NamedCable]:
    """Return the random cables without which the ranks stay connected."""
    cables = named_cables(topology) if count else ()
    first = np.array([cable.links[0] for cable in cables], dtype=np.int64)
    of_link = np.full(topology.n_links, -1)
    for number, cable in enumerate(cables):
        of_link[list(cable.links)] = number
    everywhere = np.ones(topology.n_nodes, dtype=np.bool_)
    keep = np.ones(topology.n_links, dtype=np.bool_)
    failed: list[int] = []
    # By their ends, so that the draw does not depend on the order of the links. Batches, halved where they
    # cannot fail as a whole: the same as one after another, since what connects the ranks without all of a
    # batch does so without a part of it.
    ends = np.sort(np.stack([topology.tails[first], topology.heads[first]]), axis=0)
    waiting = [rng.permutation(np.lexsort((ends[1], ends[0])))]
    while waiting and len(failed) < count:
        batch = waiting.pop()
        if len(batch) > count - len(failed):
            waiting.append(batch[count - len(failed) :])
            batch = batch[: count - len(failed)]
        alive = keep & ~np.isin(of_link, batch)
        if _stays_connected(topology, everywhere, alive):
            keep = alive
            failed.extend(batch.tolist())
        elif len(batch) > 1:
            half = len(batch) // 2
            waiting += [batch[half:], batch[:half]]
    _check_failed(topology, "cable", len(failed), count)
    return [cables[number] for number in failed]


def _check_failed(topology: Topology, what: str, found: int, count: int) -> None:
    if found < count and not found:  # each was tried by itself, so no seed helps
        raise TopologyError(f"punctured: no {what} of {topology.name} can fail without parting the ranks")
    if found < count:
        most = f"only {found} {what}s of {topology.name} can fail, in the order drawn, before it falls apart"
        raise TopologyError(f"punctured: {most}, expected {count}; use fewer or another seed")


def _stays_connected(topology: Topology, nodes: BoolArray, links: BoolArray) -> bool:
    """Whether the compute nodes that are kept reach each other over the links that are kept."""
    ranks = np.flatnonzero(nodes & topology.is_compute)
    tails, heads = topology.tails[links], topology.heads[links]
    return len(ranks) > 0 and all(
        bool(reached(topology.n_nodes, *ends, int(ranks[0]))[ranks].all())
        for ends in ((tails, heads), (heads, tails))
    )
