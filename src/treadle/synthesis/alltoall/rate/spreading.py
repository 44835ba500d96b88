"""Flows of all senders from those of one per orbit, in double precision; thousands of senders."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Float64Array, Int64Array, positions_of
from treadle.errors import ScheduleError
from treadle.math.symmetry import join_orbits
from treadle.synthesis.alltoall.rate.flow_instance import FlowInstance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry, sender_images

_BATCH = 32
_MAX_ENTRIES = 2**27
"""Senders times links at most, half a gigabyte."""

_EVEN = 1e-12


def spread_flow(instance: FlowInstance, symmetry: FlowSymmetry, flows: Float64Array) -> Float64Array:
    """Each rank's flow over each link, with equal loads over the orbits of links.

    Parameters
    ----------
    instance : FlowInstance
    symmetry : FlowSymmetry
    flows : array of float64, shape (R, m)
        Of the representatives, by link of the fabric.

    Returns
    -------
    array of float64, shape (N, m)
        As even as the automorphisms that fix a representative make it; see `expansion`.

    Raises
    ------
    ScheduleError
        If there are too many senders and links.
    """
    by_source = np.zeros((instance.collective.n_ranks, instance.topology.n_links))
    if symmetry.is_trivial:
        by_source[instance.senders] = flows
        by_source.setflags(write=False)
        return by_source
    moves = sender_moves(instance, symmetry)
    even = even_loads(instance, symmetry, flows)
    for labels in averaging_labels(instance, symmetry, moves):
        averaged = np.array([_averaged(flow, label) for flow, label in zip(flows, labels, strict=True)])
        for row, (rank, orbit) in enumerate(
            zip(instance.senders.tolist(), symmetry.sender_orbit.tolist(), strict=True)
        ):
            by_source[rank, moves[row]] = averaged[orbit]
        # part of the stabiliser may be enough: what counts is that the loads are even
        if (by_source.sum(axis=0) <= even * (1 + _EVEN)).all():
            break
    by_source.setflags(write=False)
    return by_source


def even_loads(instance: FlowInstance, symmetry: FlowSymmetry, flows: Float64Array) -> Float64Array:
    """Loads of all senders together, made even over the orbits of links, shape (m,).

    Parameters
    ----------
    instance : FlowInstance
    symmetry : FlowSymmetry
    flows : array of float64, shape (R, m)
        Of the representatives, by link of the fabric.
    """
    return even_in_orbits(instance, symmetry, symmetry.multiplicities @ flows)


def even_in_orbits(instance: FlowInstance, symmetry: FlowSymmetry, loads: Float64Array) -> Float64Array:
    """The same loads by link of the fabric, each link of an orbit with the mean of them; shape (m,)."""
    loads = loads[instance.links]
    totals = np.bincount(symmetry.link_orbit, weights=loads, minlength=symmetry.n_orbits)
    even = np.zeros(instance.topology.n_links)
    even[instance.links] = (totals / symmetry.orbit_sizes)[symmetry.link_orbit]
    return even


def _averaged(flow: Float64Array, label: Int64Array) -> Float64Array:
    """The flow with equal amounts on all links that bear one label."""
    mean: Float64Array = np.bincount(label, weights=flow) / np.maximum(np.bincount(label), 1)
    return mean[label]


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
    images = [sender_images(instance, node_map) for node_map in symmetry.node_maps]
    for row in reached:
        for image, links in zip(images, symmetry.link_maps, strict=True):
            if moves[image[row], 0] < 0:
                moves[image[row]] = links[moves[row]]
                reached.append(int(image[row]))
    assert len(reached) == n
    return moves


def averaging_labels(
    instance: FlowInstance, symmetry: FlowSymmetry, moves: NDArray[np.int32]
) -> Iterator[list[Int64Array]]:
    """Orbits of links under growing parts of each representative's stabiliser, none first."""
    m = instance.topology.n_links
    labels = [np.arange(m, dtype=np.int64) for _ in symmetry.representatives]
    yield labels
    images = [sender_images(instance, node_map) for node_map in symmetry.node_maps]
    work = [(row, number) for row in range(instance.n_sources) for number in range(len(images))]
    # in random order a few of Schreier's generators mostly generate the whole stabiliser
    order = np.random.default_rng(0).permutation(len(work)).tolist()
    for first in range(0, len(order), _BATCH):
        for row, number in (work[place] for place in order[first : first + _BATCH]):
            home = int(symmetry.sender_orbit[row])
            back = positions_of(m, moves[images[number][row]])
            labels[home] = join_orbits(labels[home], back[symmetry.link_maps[number][moves[row]]])
        yield labels
