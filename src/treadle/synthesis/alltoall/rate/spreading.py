"""Flows of all senders from those of one per orbit, in double precision; thousands of senders."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.synthesis.alltoall.rate.flow_instance import FloatArray, FlowInstance
from treadle.synthesis.alltoall.rate.flow_symmetry import FlowSymmetry
from treadle.synthesis.alltoall.rate.orbit_flows import averaging_labels, sender_moves

_EVEN = 1e-12


def spread_flow(instance: FlowInstance, symmetry: FlowSymmetry, flows: FloatArray) -> FloatArray:
    """What each rank's flow takes over each link, the loads even over the orbits of links.

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
    return by_source


def even_loads(instance: FlowInstance, symmetry: FlowSymmetry, flows: FloatArray) -> FloatArray:
    """Loads of all senders together, made even over the orbits of links, shape (m,).

    Parameters
    ----------
    instance : FlowInstance
    symmetry : FlowSymmetry
    flows : array of float64, shape (R, m)
        Of the representatives, by link of the fabric.
    """
    loads = symmetry.multiplicities @ flows[:, instance.links]
    totals = np.bincount(symmetry.link_orbit, weights=loads, minlength=symmetry.n_orbits)
    even = np.zeros(instance.topology.n_links)
    even[instance.links] = (totals / symmetry.orbit_sizes)[symmetry.link_orbit]
    return even


def _averaged(flow: FloatArray, label: Int64Array) -> FloatArray:
    """The flow with equal amounts on all links that bear one label."""
    mean: FloatArray = np.bincount(label, weights=flow) / np.maximum(np.bincount(label), 1)
    return mean[label]
