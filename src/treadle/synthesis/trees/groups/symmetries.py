"""Symmetries of groups on a fabric, each compared link by link: classes that need no further proof.

Colours are refined with one node separated. Where that separates all nodes, a symmetry is determined by where
it takes that node: nodes of equal colours correspond, and the map is kept if it carries links to equal links
and groups to groups. So few symmetries at most are found, and all of them or none besides the identity; where
there are many, colours leave few classes anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.errors import TopologyError
from treadle.math.symmetry import Hashes, scramble
from treadle.synthesis.trees.groups.group_colours import TOLD_APART, Colours, separate_nodes
from treadle.synthesis.trees.groups.union import GroupUnion
from treadle.topologies.isomorphism import link_map

_MOST = 64
"""Symmetries that are looked for."""


@dataclass(frozen=True, eq=False)
class Symmetry:
    """A map of nodes that carries links to equal links and groups to groups.

    Parameters
    ----------
    nodes : array of int64, shape (n,)
    links : array of int64, shape (m,)
    kinds : array of int64, shape (T,)
        Of the union's types, each of which is one group.
    """

    nodes: Int64Array
    links: Int64Array
    kinds: Int64Array


def symmetries(union: GroupUnion, colours: Colours) -> list[Symmetry]:
    """Return a group of symmetries, with the identity first.

    Raises
    ------
    TimeLimitError
        If the deadline passed.
    """
    topology = union.topology
    identity = Symmetry(np.arange(topology.n_nodes), np.arange(topology.n_links), np.arange(union.n_types))
    base = None if (union.copies > 1).any() else _base(union, colours)
    if base is None:
        return [identity]
    separated, equivalent = base
    order = np.argsort(separated)
    found = [identity]
    for node in equivalent[1:].tolist():
        other = _of_nodes(union, separate_nodes(union, colours, union.node == node))
        matching = np.argsort(other)
        if np.array_equal(separated[order], other[matching]):
            symmetry = _checked(union, matching[np.argsort(order)])
            found += [] if symmetry is None else [symmetry]
    return found


def _base(union: GroupUnion, colours: Colours) -> tuple[Hashes, Int64Array] | None:
    """Return all-different colours of nodes with one separated, and its equivalent nodes, itself first."""
    _, class_of, sizes = np.unique(_of_nodes(union, colours), return_inverse=True, return_counts=True)
    for size in np.unique(sizes[(sizes > 1) & (sizes <= _MOST)]).tolist():
        equivalent = np.flatnonzero(class_of.ravel() == np.flatnonzero(sizes == size)[0])
        separated = _of_nodes(union, separate_nodes(union, colours, union.node == equivalent[0]))
        if len(np.unique(separated)) == len(separated):
            return separated, equivalent
    return None


def _of_nodes(union: GroupUnion, colours: Colours) -> Hashes:
    """Return for each fabric node a colour of its positions in all groups."""
    return sums_of(union.topology.n_nodes, union.node, scramble(colours.places ^ TOLD_APART), np.uint64)


def _checked(union: GroupUnion, nodes: Int64Array) -> Symmetry | None:
    """Return a map of nodes with those of links and types, if it is a symmetry."""
    topology, collective = union.topology, union.collective
    if not np.array_equal(topology.is_compute, topology.is_compute[nodes]):
        return None
    prompt = replace(topology, latencies_ns=np.zeros_like(topology.latencies_ns))  # which do not matter here
    try:
        links = link_map(prompt, prompt, nodes.astype(np.int32)).astype(np.int64)
    except TopologyError:
        return None
    # members keep their part: the root goes to a root, and shards to equal shards
    part = np.zeros(topology.n_nodes, dtype=np.int64)
    part[union.nodes] = np.arange(1, union.nodes.shape[1] + 1) == (
        -1 if collective.root is None else collective.root + 1
    )
    if collective.weights is not None:
        part[union.nodes] = np.array(collective.weights)
    if not np.array_equal(part, part[nodes]):
        return None
    kind_at = np.full(topology.n_nodes, -1, dtype=np.int64)
    kind_at[union.nodes] = union.type_of[:, None]
    images = kind_at[nodes[union.nodes[union.first]]]
    if (images != images[:, :1]).any() or (images < 0).any():
        return None
    return Symmetry(nodes, links, images[:, 0])


def orbit_colours(union: GroupUnion, found: Sequence[Symmetry]) -> Colours:
    """Return colours of the positions, pairs, links and types that symmetries carry to each other."""
    n, m = union.topology.n_nodes, union.topology.n_links
    of_place = np.repeat(np.arange(union.n_types), union.n_local)
    # every orbit has the colour of its least image
    places, pairs, links = (
        np.min(images, axis=0).astype(np.uint64)
        for images in (
            [each.kinds[of_place] * n + each.nodes[union.node] for each in found],
            [each.kinds[union.kind_of_pair] * m + each.links[union.links] for each in found],
            [each.links for each in found],
        )
    )
    kinds = np.unique(np.min([each.kinds for each in found], axis=0), return_inverse=True)[1]
    return Colours(places, pairs, links, kinds.ravel(), 0)
