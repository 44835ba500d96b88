"""Symmetry of an all-to-all: orbits of ranks and links under automorphisms, so that one of each suffices.

A flow of one rank, moved by all automorphisms, is one for all ranks of its orbit and loads all links of an
orbit equally. So an optimum needs one source per orbit of ranks and one capacity per orbit of links.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, frozen, positions_of
from treadle.errors import TopologyError
from treadle.math.symmetry import orbits
from treadle.synthesis.alltoall.rate.automorphisms import confirmed_maps
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance
from treadle.topologies.isomorphism import LinkMaps, UndecidedError, find_automorphism, node_kinds

DEFAULT_WORK = 20_000_000
"""Nodes and links that a search for automorphisms may visit: about half a second."""

_MAX_MISSES = 3
_ATTEMPT = 128
"""Visits per node and link that a search for one image is taken to cost."""


@dataclass(frozen=True, eq=False)
class FlowSymmetry:
    """Orbits under a group of automorphisms that keep demands and bandwidths.

    Parameters
    ----------
    node_maps : tuple of arrays of int32, shape (n,)
        Generators of the group; none for a fabric without known symmetry.
    link_maps : tuple of arrays of int32, shape (m,)
        What each does to the links, self-loops included.
    sender_orbit : array of int32, shape (S,)
        Orbit of each sender of the instance; orbits are numbered by their first members.
    representatives : array of int32, shape (R,)
        First sender of each orbit (a row of the instance, no rank).
    multiplicities : array of int64, shape (R,)
        Senders in each orbit.
    link_orbit : array of int32, shape (k,)
        Orbit of each link of the instance, self-loops left out.
    orbit_sizes : array of int64, shape (K,)
        Links in each orbit.
    orbit_bandwidths : array of int64, shape (K,)
        Bytes/s of one link of each orbit; its links are equal.
    """

    node_maps: tuple[Int32Array, ...]
    link_maps: tuple[Int32Array, ...]
    sender_orbit: Int32Array
    representatives: Int32Array
    multiplicities: Int64Array
    link_orbit: Int32Array
    orbit_sizes: Int64Array
    orbit_bandwidths: Int64Array

    @property
    def n_sources(self) -> int:
        """R, how many sources are left."""
        return len(self.representatives)

    @property
    def n_orbits(self) -> int:
        """K, how many kinds of links there are."""
        return len(self.orbit_sizes)

    @property
    def is_trivial(self) -> bool:
        """Whether every sender is an orbit of its own."""
        return len(self.representatives) == len(self.sender_orbit)


def symmetry_of(instance: FlowInstance, node_maps: Iterable[NDArray[np.integer]] = ()) -> FlowSymmetry:
    """Orbits under the group that some automorphisms generate.

    Parameters
    ----------
    instance : FlowInstance
    node_maps : iterable of arrays of int, shape (n,)
        Each must carry links to equal links and demands to equal demands.

    Raises
    ------
    TopologyError
        If one does not.

    Examples
    --------
    >>> from treadle.schedules.collective import CollectiveKind, on_all_ranks
    >>> from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
    >>> from treadle.topologies.catalogue.graphs import ring
    >>> graph = ring(5)
    >>> symmetry = symmetry_of(flow_instance(graph, on_all_ranks(graph, CollectiveKind.ALLTOALL)), [
    ...     [1, 2, 3, 4, 0]])
    >>> symmetry.representatives.tolist(), symmetry.orbit_sizes.tolist()
    ([0], [5, 5])
    """
    topology = instance.topology
    link_maps = LinkMaps(topology, topology)
    maps = [(np.asarray(node_map, dtype=np.int64), link_maps(np.asarray(node_map))) for node_map in node_maps]
    for node_map, _ in maps:
        if not _keeps_demands(instance, node_map):
            raise TopologyError(f"{topology.name}: a map of nodes changes what the ranks have for each other")
    return _symmetry(instance, maps)


def _symmetry(instance: FlowInstance, maps: Sequence[tuple[Int64Array, Int32Array]]) -> FlowSymmetry:
    """Orbits under automorphisms of nodes and links, which are right."""
    senders = orbits(instance.n_sources, [sender_images(instance, node_map) for node_map, _ in maps])
    of_link = orbits(instance.topology.n_links, [link_map for _, link_map in maps])[instance.links]
    representatives, sender_orbit, multiplicities = np.unique(
        senders, return_inverse=True, return_counts=True
    )
    _, first, link_orbit, sizes = np.unique(
        of_link, return_index=True, return_inverse=True, return_counts=True
    )
    return FlowSymmetry(
        node_maps=tuple(frozen(node_map, np.int32) for node_map, _ in maps),
        link_maps=tuple(link_map for _, link_map in maps),
        sender_orbit=frozen(sender_orbit, np.int32),
        representatives=frozen(representatives, np.int32),
        multiplicities=frozen(multiplicities, np.int64),
        link_orbit=frozen(link_orbit, np.int32),
        orbit_sizes=frozen(sizes, np.int64),
        orbit_bandwidths=frozen(instance.bandwidths[first], np.int64),
    )


def sender_images(instance: FlowInstance, node_map: NDArray[np.integer]) -> Int64Array:
    """Images of the senders under a map of nodes, -1 if not a sender."""
    row_of_node = positions_of(instance.topology.n_nodes, instance.sources)
    images: Int64Array = row_of_node[node_map[instance.sources]]
    return images


def _keeps_demands(instance: FlowInstance, node_map: Int64Array) -> bool:
    rows = sender_images(instance, node_map)
    if (rows < 0).any():
        return False
    if instance.collective.pair_demands.is_uniform:
        return True
    return bool(np.array_equal(instance.demands[rows[:, None], node_map], instance.demands))


def known_symmetry(instance: FlowInstance) -> FlowSymmetry:
    """Symmetry that the fabric's name suggests, each automorphism confirmed link by link.

    Cayley graphs, tori, hypercubes, circulants, generalized Kautz and de Bruijn graphs, and line graphs,
    degree expansions and products of those; milliseconds for a thousand nodes.
    """
    maps = confirmed_maps(instance.topology)
    return _symmetry(instance, [one for one in maps if _keeps_demands(instance, one[0])])


def find_symmetry(instance: FlowInstance, *, work_limit: int = DEFAULT_WORK) -> FlowSymmetry:
    """Known symmetry, and what a search for more automorphisms finds within a limit.

    Parameters
    ----------
    instance : FlowInstance
    work_limit : int
        Nodes and links to visit, about; the search stops there, with what it has.
    """
    symmetry = known_symmetry(instance)
    maps: list[NDArray[np.integer]] = list(symmetry.node_maps)
    attempts = work_limit // (_ATTEMPT * (instance.topology.n_nodes + instance.topology.n_links))
    try:
        kinds = node_kinds(instance.topology, work_limit=work_limit)
    except UndecidedError:
        return symmetry
    misses = 0
    while misses < min(_MAX_MISSES, symmetry.n_sources - 1):
        nodes = instance.sources[symmetry.representatives].tolist()
        found = None
        for image in nodes[misses + 1 :]:
            if kinds[image] != kinds[nodes[misses]]:
                continue
            attempts -= 1
            if attempts < 0:
                return symmetry
            found = _move(instance, nodes[misses], image, work_limit)
            if found is not None:
                break
        if found is None:
            # a node without an image, or whose search gave up: after a few of them others rarely have one
            misses += 1
        else:
            maps.append(found)
            symmetry = symmetry_of(instance, maps)
    return symmetry


def _move(instance: FlowInstance, node: int, image: int, work_limit: int) -> Int32Array | None:
    """An automorphism that takes one node to another and keeps the demands, if one is found."""
    try:
        found = find_automorphism(instance.topology, node, image, work_limit=work_limit)
    except UndecidedError:
        return None
    if found is None or not _keeps_demands(instance, found.astype(np.int64)):
        return None
    return found
