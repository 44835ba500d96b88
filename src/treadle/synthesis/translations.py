"""Groups of automorphisms that move every rank, such as the translations of a torus, element by element.

Under such a group all orbits of ranks are as large as the group, and a problem that it leaves as it is may be
solved for one rank of each orbit, the others by translation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, positions_of
from treadle.errors import TreadleError
from treadle.synthesis.alltoall.rate.automorphisms import proposed_automorphisms
from treadle.topologies.isomorphism import link_map
from treadle.topologies.topology import Topology

_MAX_POWER = 64
"""Powers of an automorphism that are tried where it does not keep the demands itself."""


@dataclass(frozen=True, eq=False)
class Translations:
    """A group of which no element but the identity leaves a rank where it is.

    Parameters
    ----------
    nodes : array of int32, shape (G, n)
        [g, v]: where g takes node v; the identity first.
    links : array of int32, shape (G, m)
    """

    nodes: Int32Array
    links: Int32Array


def translations_of(topology: Topology, ranks: Int64Array, demands: Int64Array | None = None) -> Translations:
    """A group from the automorphisms that the fabric's name suggests, each confirmed link by link.

    Parameters
    ----------
    topology : Topology
    ranks : array of int64, shape (N,)
        Nodes that are mapped to one another.
    demands : array of int64, shape (N, N), optional
        What the group keeps, by rank.
    """
    n, table = topology.n_nodes, np.arange(topology.n_nodes + topology.n_links, dtype=np.int32)[None]
    generators: list[Int32Array] = []
    for proposal in proposed_automorphisms(topology):
        kept = _keeping_power(proposal, positions_of(n, ranks), ranks, demands)
        if kept is None or np.any(kept[ranks] == ranks):
            continue
        try:
            links = link_map(topology, topology, kept.astype(np.int32))
        except TreadleError:
            continue
        one = np.concatenate([kept, n + links.astype(np.int64)]).astype(np.int32)
        grown = _generated(table, [*generators, one], ranks)
        if grown is not None:
            table = grown
            generators.append(one)
    return Translations(table[:, :n], table[:, n:] - np.int32(n))


def _keeping_power(
    node_map: Int64Array, rank_of: Int64Array, ranks: Int64Array, demands: Int64Array | None
) -> Int64Array | None:
    """The least power of a map that keeps all demands and is not the identity."""
    power = node_map
    for _ in range(_MAX_POWER):
        images = rank_of[power[ranks]]
        if np.any(images < 0) or np.array_equal(power, np.arange(len(power))):
            return None
        if demands is None or np.array_equal(demands[images[:, None], images], demands):
            return power
        power = node_map[power]
    return None


def _generated(subgroup: Int32Array, generators: list[Int32Array], ranks: Int64Array) -> Int32Array | None:
    """The group of these, with its subgroup by all but the last; None if some element fixes a rank."""
    first = int(ranks[0])
    cosets, leaders = [subgroup], [subgroup[0]]
    place = np.full(subgroup.shape[1], -1, dtype=np.int64)  # row of the element by the first rank's image
    place[subgroup[:, first]] = np.arange(len(subgroup))
    for leader in leaders:
        for generator in generators:
            product = generator[leader]
            row = int(place[product[first]])
            if row >= 0:
                if not np.array_equal(cosets[row // len(subgroup)][row % len(subgroup)], product):
                    return None
                continue
            coset = product[subgroup]
            if np.any(place[coset[:, first]] >= 0):
                return None
            place[coset[:, first]] = len(cosets) * len(subgroup) + np.arange(len(subgroup))
            cosets.append(coset)
            leaders.append(product)
    table = np.concatenate(cosets)
    return None if np.any(table[1:, ranks] == ranks) else table
