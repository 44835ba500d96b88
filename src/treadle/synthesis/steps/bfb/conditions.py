"""Conditions for a breadth-first-broadcast schedule to have the least possible T_B (section A.5.1)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from treadle.engine import core, run_watched
from treadle.errors import TopologyError
from treadle.schedules.steps.step_cost import node_bandwidth, step_loads
from treadle.schedules.steps.steps import Steps
from treadle.synthesis.core_values.step_values import DistanceExtremes
from treadle.synthesis.steps.bfb.in_links import OK, VIOLATED, InLinkRows, link_rows, unreachable
from treadle.synthesis.steps.bfb.value import bfb_value, value_of
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class DistanceConstants:
    """Numbers of Theorem 18 at one distance x; None where they are not the same everywhere.

    Parameters
    ----------
    sources : int, optional
        N_x: nodes at distance x from a node u (for digraphs: from which u is at distance x).
    served : int, optional
        a_x: of those, how many are at distance x - 1 from an in-neighbour of u.
    usable : int, optional
        b_x: in-links of u whose tail is at distance x - 1 from one of those.
    """

    sources: int | None
    served: int | None
    usable: int | None


def distance_constants(topology: Topology) -> tuple[DistanceConstants, ...]:
    """N_x, a_x and b_x for every distance x = 1, ..., D.

    Raises
    ------
    TopologyError, InfeasibleError
        As for `bfb_value`.

    Examples
    --------
    >>> from treadle.topologies import parse
    >>> distance_constants(parse("hypercube(3)"))[1]
    DistanceConstants(sources=3, served=2, usable=2)
    """
    return _constants(link_rows(topology))


def _constants(instance: InLinkRows) -> tuple[DistanceConstants, ...]:
    status, found, failure = run_watched(
        "distances", lambda control: core.bfb_counts(instance.in_links, control)
    )
    if status == VIOLATED:
        raise unreachable(instance.topology, *failure)
    assert status == OK, status
    of = DistanceExtremes(*found)
    both = (of.sources_min, of.sources_max), (of.served_min, of.served_max), (of.usable_min, of.usable_max)
    pairs = [np.where(least == most, least, -1).tolist() for least, most in both]
    return tuple(
        DistanceConstants(*(None if value < 0 else int(value) for value in row))
        for row in zip(*pairs, strict=True)
    )


def is_bw_optimal(topology: Topology) -> bool:
    """Whether the best breadth-first-broadcast allgather has T_B = (N - 1)/N * M/B, the least of any.

    Decided by the exact value; equivalent to `meets_theorem_19`.
    """
    return bfb_value(topology).is_bw_optimal


def meets_theorem_17(topology: Topology, steps: Steps) -> bool:
    """Theorem 17: whether a breadth-first-broadcast allgather is BW-optimal.

    1. Every node has the same number N_t of sources at distance t; 2. in step t every link carries N_t / d
    shards.

    Raises
    ------
    TopologyError
        If the fabric is not regular, or its links differ in bandwidth.
    """
    instance, degree = _regular(topology)
    constants = _constants(instance)
    if steps.n_steps != len(constants):
        return False
    for distance, load in zip(constants, step_loads(topology, steps), strict=True):
        if distance.sources is None or np.any(load * degree != distance.sources * steps.n_chunks):
            return False
    return True


def meets_theorem_18(topology: Topology) -> bool:
    """Theorem 18, sufficient: an undirected regular graph with a_x and b_x constant for every distance x.

    Raises
    ------
    TopologyError
        If the fabric is not regular, or its links differ in bandwidth.

    Notes
    -----
    The theorem asks for two of N_x, a_x, b_x. That is not enough: its proof sends 1/b_x of each of a_x shards
    over every link, so it has to be these two, and then N_x = d a_x / b_x. In C(12, {1, 3, 4, 5}) N_x and b_x
    are constant for every x, a_2 is not, and no breadth-first-broadcast schedule is BW-optimal.
    """
    instance, degree = _regular(topology)
    if not is_undirected(topology) or len(instance.link) != instance.n * degree:
        return False
    return all(
        distance.served is not None and distance.usable is not None for distance in _constants(instance)
    )


def meets_theorem_19(topology: Topology) -> bool:
    """Theorem 19, necessary and sufficient: N_t is constant, and every (u, t) can be balanced to N_t / d.

    Raises
    ------
    TopologyError
        If the fabric is not regular, or its links differ in bandwidth.
    """
    instance, degree = _regular(topology)
    constants = _constants(instance)
    if any(distance.sources is None for distance in constants):
        return False
    loads = value_of(instance).loads
    return all(
        distance.sources is not None and load == Fraction(distance.sources, degree)
        for distance, load in zip(constants, loads, strict=True)
    )


def is_undirected(topology: Topology) -> bool:
    """Whether every link has an opposite one, parallel links counted."""
    n = topology.n_nodes
    forward = np.sort(topology.tails.astype(np.int64) * n + topology.heads)
    backward = np.sort(topology.heads.astype(np.int64) * n + topology.tails)
    return bool(np.array_equal(forward, backward))


def _regular(topology: Topology) -> tuple[InLinkRows, int]:
    """The instance and the degree d, self-loops included."""
    instance = link_rows(topology)
    if not instance.is_uniform or len(np.unique(topology.bandwidths)) != 1:
        raise TopologyError(f"{topology.name}: links differ in bandwidth; expected equal ones")
    ends = np.stack([np.bincount(end, minlength=instance.n) for end in (topology.tails, topology.heads)])
    if ends.min() != ends.max():
        raise TopologyError(f"{topology.name}: nodes differ in degree; expected a regular graph")
    return instance, node_bandwidth(topology) // instance.unit_bandwidth
