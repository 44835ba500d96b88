"""Theorems 17 to 19 of the dissertation by their definitions: when breadth-first broadcast is BW-optimal."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from reference.bfb_lp import distances, jobs
from treadle.schedules.steps.step_cost import step_loads
from treadle.schedules.steps.steps import Steps
from treadle.topologies.topology import Topology


class DistanceConstants(NamedTuple):
    """N_x, a_x and b_x of Theorem 18 at one distance x; None where they are not the same everywhere."""

    sources: int | None
    served: int | None
    usable: int | None


def distance_constants(topology: Topology) -> list[DistanceConstants]:
    """For x = 1, ..., D: nodes x hops from u; of those, x - 1 hops from an in-neighbour; in-links for one."""
    found = []
    for x in range(1, max(max(row.values()) for row in distances(topology)) + 1):
        sources, served, usable = set(), set(), set()
        for u in range(topology.n_nodes):
            problem = jobs(topology, u, x)
            sources.add(len(problem))
            usable |= {len(links) for links in problem.values()}
            for e in np.flatnonzero((topology.heads == u) & (topology.tails != u)):
                served.add(sum(int(e) in links for links in problem.values()))
        found.append(
            DistanceConstants(*(one.pop() if len(one) == 1 else None for one in (sources, served, usable)))
        )
    return found


def meets_theorem_17(topology: Topology, steps: Steps) -> bool:
    """N_t is the same everywhere, and in step t every link carries N_t / d shards."""
    degree, constants = topology.n_links // topology.n_nodes, distance_constants(topology)
    return steps.n_steps == len(constants) and all(
        x.sources is not None and bool(np.all(load * degree == x.sources * steps.n_chunks))
        for x, load in zip(constants, step_loads(topology, steps), strict=True)
    )


def meets_theorem_18(topology: Topology) -> bool:
    """Undirected, without loops, a_x and b_x constant at every distance: sufficient.

    The theorem asks for two of N_x, a_x, b_x. That is not enough: its proof sends 1/b_x of each of a_x shards
    over every link, so it has to be these two.
    """
    forward = sorted(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True))
    is_undirected = forward == sorted((head, tail) for tail, head in forward)
    has_loops = bool((topology.tails == topology.heads).any())
    return (
        is_undirected
        and not has_loops
        and all(x.served is not None and x.usable is not None for x in distance_constants(topology))
    )


def meets_theorem_19(topology: Topology, loads: tuple[Fraction, ...]) -> bool:
    """N_t is constant, and in every step t all nodes can be balanced to N_t / d: necessary and sufficient."""
    degree = topology.n_links // topology.n_nodes
    return all(
        x.sources is not None and load == Fraction(x.sources, degree)
        for x, load in zip(distance_constants(topology), loads, strict=True)
    )
