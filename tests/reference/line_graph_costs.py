"""What schedules of graphs and of their line graphs cost, measured, and when theorems 7 and 10 are exact."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from treadle.arrays import BoolArray, Int32Array
from treadle.errors import ScheduleError, TopologyError
from treadle.finder.predict import Performance
from treadle.schedules.steps.step_cost import step_loads
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.topologies.catalogue.direct import in_links
from treadle.topologies.distances import distance_matrix
from treadle.topologies.topology import Topology


def measured(topology: Topology, steps: Steps) -> Performance:
    """Figures of a graph and its allgather schedule.

    Parameters
    ----------
    topology : Topology
        Regular, with equal links.
    steps : Steps
        Allgather; shard v at home at rank v. Taken as valid.

    Raises
    ------
    TopologyError
        If nodes differ in degree or links in bandwidth.
    InfeasibleError
        If a node does not reach another.
    ScheduleError
        If the steps are not those of an allgather.
    """
    _check_allgather(topology, steps)
    size, degree = in_links(topology).shape
    distances = distance_matrix(topology)
    loads = sum(int(load.max()) for load in step_loads(topology, steps))
    tails, heads = topology.tails.astype(np.int64), topology.heads.astype(np.int64)
    arcs, opposite = tails * size + heads, heads * size + tails
    cycles = np.full(size, size + 1)
    np.minimum.at(cycles, tails, distances[heads, tails] + 1)
    loops = bool((tails == heads).any())
    arrivals = steps.send_steps() + 1
    return Performance(
        nodes=size,
        degree=degree,
        steps=steps.n_steps,
        t_b=Fraction(loads * degree, steps.n_chunks * size),
        diameter=int(distances.max()),
        cycle=int(cycles.max()),
        is_breadth_first=bool(np.all(distances[steps.shard, topology.heads[steps.link]] == arrivals)),
        has_loops=loops,
        is_simple=not loops and len(np.unique(arcs)) == len(arcs),
        is_bidirectional=bool(np.array_equal(np.sort(arcs), np.sort(opposite))),
        has_exact_line_graphs=has_exact_line_graphs(topology, steps),
    )


def has_exact_line_graphs(topology: Topology, steps: Steps) -> bool:
    """Whether Corollary 7.1 is an equality for L^n of this schedule, for every n.

    Parameters
    ----------
    topology : Topology
        d-regular, with equal links.
    steps : Steps
        Allgather; shard v at home at rank v.

    Returns
    -------
    bool
        True if d > 1 and in every step some fullest link e is followed by an endless walk over nodes whose
        shards e does not carry in that step: the arcs of L^n along the walk then carry d^n times the load
        of e. False promises nothing: T_B of L^n is at most Corollary 7.1's.

    Notes
    -----
    Theorem 10 asks for breadth-first schedules in which every node has more than one out-neighbour. That is
    not enough: the directed circulant C(8, {1, 3}) has a breadth-first schedule with T_B = 7/8 whose line
    graph has T_B = 15/16, not 1. The proof chooses the out-neighbour u' by the shard v, but sums over v as if
    u' were one node. With a breadth-first schedule it is enough that links come in opposite pairs and every
    node has two neighbours. `keeps_best_line_graph` repairs the theorem.
    """
    _check_allgather(topology, steps)
    outs = in_links(topology.transpose())
    if outs.shape[1] < 2:
        return False
    followers = topology.heads[outs]
    for step, load in enumerate(step_loads(topology, steps)):
        span = steps.span(step)
        if not load.any():
            continue
        fullest = np.flatnonzero(load == load.max())
        order = np.argsort(steps.link[span], kind="stable")
        links, shards = steps.link[span][order], steps.shard[span][order]
        starts, ends = np.searchsorted(links, fullest), np.searchsorted(links, fullest, side="right")
        if not any(
            _can_avoid(followers, int(topology.heads[link]), shards[start:end])
            for link, start, end in zip(fullest, starts, ends, strict=True)
        ):
            return False
    return True


def _can_avoid(followers: Int32Array, start: int, shards: Int32Array) -> bool:
    """Whether an endless walk from `start`, not counting it, meets none of `shards`."""
    alive: BoolArray = np.ones(len(followers), dtype=np.bool_)
    alive[shards] = False
    while True:
        left = alive & alive[followers].any(axis=1)
        if np.array_equal(left, alive):
            return bool(alive[followers[start]].any())
        alive = left


def _check_allgather(topology: Topology, steps: Steps) -> None:
    n = topology.n_nodes
    if steps.direction is not Direction.BROADCAST or not np.array_equal(steps.homes, np.arange(n)):
        raise ScheduleError(
            f"{topology.name}: expected allgather steps with shard v at home at rank v of {n}; "
            f"for reduce-scatter pass the transpose and the reversed steps"
        )
    if len(np.unique(topology.bandwidths)) > 1:
        raise TopologyError(f"{topology.name}: links differ in bandwidth; predictions are for equal links")
