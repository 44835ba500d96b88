"""Symmetries of groups on a fabric, each compared link by link: classes that need no further proof.

Colours are refined with one node told apart. Where that tells all nodes apart, a symmetry is known by where
it takes that node: nodes of equal colours correspond, and the map is kept if it carries links to equal links
and groups to groups. So few symmetries at most are found, and all of them or none beside the identity; where
there are many, colours leave few classes anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from treadle.arrays import Int64Array
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
    """A group of symmetries, with the identity first.

    Raises
    ------
    TimeLimitError
        If the deadline passed.
    """
    topology = union.topology
    identity = Symmetry(np.arange(topology.n_nodes), np.arange(topology.n_links), np.arange(union.n_types))
    if (union.copies > 1).any():
        return [identity]
    base = _base(union, colours)
    if base is None:
        return [identity]
    told, alike = base
    order = np.argsort(told)
    found = [identity]
    for node in alike[1:].tolist():
        other = _of_nodes(union, _told(union, colours, node))
        matching = np.argsort(other)
        if not np.array_equal(told[order], other[matching]):
            continue
        nodes = np.empty(topology.n_nodes, dtype=np.int64)
        nodes[order] = matching
        symmetry = _checked(union, nodes)
        if symmetry is not None:
            found.append(symmetry)
    return found


def _base(union: GroupUnion, colours: Colours) -> tuple[Hashes, Int64Array] | None:
    """Colours of all nodes, all different, with one told apart, and the nodes like that one, it first."""
    _, class_of, sizes = np.unique(_of_nodes(union, colours), return_inverse=True, return_counts=True)
    for size in np.unique(sizes[(sizes > 1) & (sizes <= _MOST)]).tolist():
        alike = np.flatnonzero(class_of.ravel() == np.flatnonzero(sizes == size)[0])
        told = _of_nodes(union, _told(union, colours, int(alike[0])))
        if len(np.unique(told)) == len(told):
            return told, alike
    return None


def _told(union: GroupUnion, colours: Colours, node: int) -> Colours:
    return separate_nodes(union, colours, union.node == node)


def _of_nodes(union: GroupUnion, colours: Colours) -> Hashes:
    """Colours of a fabric node's places in all groups, whichever those are."""
    found = np.zeros(union.topology.n_nodes, dtype=np.uint64)
    np.add.at(found, union.node, scramble(colours.places ^ TOLD_APART))
    return found


def _checked(union: GroupUnion, nodes: Int64Array) -> Symmetry | None:
    """A map of nodes with those of links and types, if it is a symmetry."""
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
    """Places, pairs, links and types that symmetries carry to each other."""
    topology = union.topology
    links = np.min([one.links for one in found], axis=0)
    kind_of_pair = np.repeat(np.arange(union.n_types), np.diff(union.offsets))
    pairs = np.min(
        [one.kinds[kind_of_pair] * topology.n_links + one.links[union.links] for one in found], axis=0
    )
    kind_of_place = np.repeat(np.arange(union.n_types), union.n_local)
    places = np.min(
        [one.kinds[kind_of_place] * topology.n_nodes + one.nodes[union.node] for one in found], axis=0
    )
    kinds = np.unique(np.min([one.kinds for one in found], axis=0), return_inverse=True)[1]
    return Colours(
        places.astype(np.uint64), pairs.astype(np.uint64), links.astype(np.uint64), kinds.ravel(), 0
    )
