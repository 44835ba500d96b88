"""Flows of all senders from those of one per orbit, by the automorphisms that move one to another.

The average of an optimal flow over all automorphisms is as good and looks alike from all ranks of an orbit,
so a program for one sender of each is enough; this module writes out the others' flows.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import ScheduleError
from treadle.synthesis.alltoall.rate.exact_rate import ExactRate
from treadle.synthesis.alltoall.rate.flow import ConcurrentFlow
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry, orbits

_BATCH = 32
_MAX_ENTRIES = 2**27
"""Senders times links at most, half a gigabyte."""


def expanded_units(instance: FlowInstance, exact: ExactRate) -> tuple[list[dict[int, int]], int]:
    """What each sender's flow takes over each link at one unit of rate, exactly; for small fabrics.

    Parameters
    ----------
    instance : FlowInstance
    exact : ExactRate

    Returns
    -------
    flows : list of dicts, length S
        Link -> numerator.
    denominator : int
        The loads of all together are at most 1 / F on every link.

    Raises
    ------
    ScheduleError
        If there are too many senders and links.

    Notes
    -----
    A representative's flow is first averaged over the automorphisms that fix it (Schreier's generators, as
    many as it takes), then moved by one automorphism per sender of its orbit.
    """
    moves = sender_moves(instance, exact.symmetry)
    for merged in averaging_labels(instance, exact.symmetry, moves):
        averaged = [_averaged(flow, label) for flow, label in zip(exact.units, merged, strict=True)]
        denominator = lcm(*(value.denominator for flow in averaged for value in flow.values()))
        flows: list[dict[int, int]] = []
        for row, orbit in enumerate(exact.symmetry.sender_orbit.tolist()):
            move = moves[row].tolist()
            flows.append({move[e]: int(v * denominator) for e, v in averaged[orbit].items()})
        loads: dict[int, int] = {}
        for flow in flows:
            for link, amount in flow.items():
                loads[link] = loads.get(link, 0) + amount
        scale = denominator * exact.denominator
        bandwidths = instance.topology.bandwidths.tolist()
        if all(load * exact.rate <= scale * bandwidths[link] for link, load in loads.items()):
            return flows, scale
    raise ScheduleError(f"{instance.topology.name}: the flows do not spread evenly over the orbits of links")


def expanded_flow(instance: FlowInstance, exact: ExactRate) -> ConcurrentFlow:
    """The flows of all ranks as float64; see `expanded_units`."""
    flows, denominator = expanded_units(instance, exact)
    by_source = np.zeros((instance.collective.n_ranks, instance.topology.n_links))
    for rank, flow in zip(instance.senders.tolist(), flows, strict=True):
        for link, amount in flow.items():
            by_source[rank, link] = amount / denominator
    return ConcurrentFlow(by_source)


def sender_moves(instance: FlowInstance, symmetry: FlowSymmetry) -> NDArray[np.int32]:
    """For each sender the map of links by which its representative's flow becomes its own, shape (S, m)."""
    n, m = instance.n_sources, instance.topology.n_links
    if n * m > _MAX_ENTRIES:
        raise ScheduleError(
            f"{instance.topology.name}: flows of {n} senders over {m} links do not fit; use the "
            f"representatives' flows"
        )
    moves = np.full((n, m), -1, dtype=np.int32)
    moves[symmetry.representatives] = np.arange(m)
    reached = symmetry.representatives.tolist()
    images = _images(instance, symmetry)
    for row in reached:
        for image, links in zip(images, symmetry.link_maps, strict=True):
            if moves[image[row], 0] < 0:
                moves[image[row]] = links[moves[row]]
                reached.append(int(image[row]))
    assert len(reached) == n
    return moves


def _images(instance: FlowInstance, symmetry: FlowSymmetry) -> list[Int64Array]:
    """What each generator does to the senders."""
    row_of_node = np.full(instance.topology.n_nodes, -1, dtype=np.int64)
    row_of_node[instance.sources] = np.arange(instance.n_sources)
    return [row_of_node[node_map[instance.sources]] for node_map in symmetry.node_maps]


def averaging_labels(
    instance: FlowInstance, symmetry: FlowSymmetry, moves: NDArray[np.int32]
) -> Iterator[list[Int64Array]]:
    """Orbits of links under growing parts of each representative's stabiliser, none first."""
    m = instance.topology.n_links
    labels = [np.arange(m, dtype=np.int64) for _ in symmetry.representatives]
    yield labels
    images = _images(instance, symmetry)
    work = [(row, number) for row in range(instance.n_sources) for number in range(len(images))]
    order = np.random.default_rng(0).permutation(len(work)).tolist()
    for first in range(0, len(order), _BATCH):
        for row, number in (work[place] for place in order[first : first + _BATCH]):
            home = int(symmetry.sender_orbit[row])
            there = symmetry.link_maps[number][moves[row]]
            back = np.empty(m, dtype=np.int64)
            back[moves[images[number][row]]] = np.arange(m)
            labels[home] = _merged(labels[home], back[there])
        yield labels


def _merged(label: Int64Array, link_map: Int64Array) -> Int64Array:
    """Orbits that also join what a further permutation joins."""
    while True:
        before = label
        label = np.minimum(label, label[orbits_of(link_map)])
        lowest = np.full(len(label), len(label), dtype=np.int64)
        np.minimum.at(lowest, before, label)
        label = lowest[before]
        if np.array_equal(before, label):
            return label


def orbits_of(link_map: Int64Array) -> Int64Array:
    """Smallest member of each thing's cycle."""
    return orbits(len(link_map), [link_map])


def _averaged(flow: dict[int, int], label: Int64Array) -> dict[int, Fraction]:
    """The flow with equal amounts on all links of an orbit."""
    sizes = np.bincount(label)
    totals: dict[int, int] = {}
    for link, amount in flow.items():
        orbit = int(label[link])
        totals[orbit] = totals.get(orbit, 0) + amount
    members: dict[int, list[int]] = {}
    for link in np.flatnonzero(np.isin(label, list(totals))).tolist():
        members.setdefault(int(label[link]), []).append(link)
    return {
        link: Fraction(total, int(sizes[orbit])) for orbit, total in totals.items() for link in members[orbit]
    }
