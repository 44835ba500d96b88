"""Builds what the search found: the fabric, and both schedules."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.finder.construction import (
    Base,
    Construction,
    DegreeExpansion,
    LineGraph,
    Parallel,
    Placed,
    Power,
    Product,
    WithReverse,
    expression,
    is_breadth_first,
)
from treadle.schedules.steps.step_transforms import combine, reverse, subdivide
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.bfb import bfb_allgather, bfb_reduce_scatter
from treadle.synthesis.steps.exact.bases import base_schedule
from treadle.synthesis.steps.schedule_expansions import (
    cartesian_power_schedule,
    degree_expansion_schedule,
    line_graph_schedule,
)
from treadle.topologies import parse, with_parallel_links, with_reverse_links
from treadle.topologies.topology import Topology


def build(construction: Construction, direction: Direction) -> tuple[Topology, Steps]:
    """Return the fabric with the steps of its allgather (BROADCAST) or reduce-scatter (REDUCE).

    Parameters
    ----------
    construction : Construction
    direction : Direction

    Raises
    ------
    TreadleError
        If it would be too large.
    """
    if is_breadth_first(construction):
        topology = parse(expression(construction))
        schedule = bfb_allgather if direction is Direction.BROADCAST else bfb_reduce_scatter
        return topology, schedule(topology)
    match construction:
        case Base(text):
            return base_schedule(text, direction)
        case LineGraph(of, times):
            return line_graph_schedule(*build(of, direction), times)
        case DegreeExpansion(of, copies):
            return degree_expansion_schedule(*build(of, direction), copies)
        case Power(of, exponent):
            return cartesian_power_schedule(*build(of, direction), exponent)
        case Parallel(of, times):
            return _parallel(*build(of, direction), times)
        case WithReverse(of):
            # half of each shard on G, the other half on its transpose (section A.1.6), by the reverse of G's
            # schedule for the other direction: no isomorphism is needed, and both halves take equally long
            # where G is reverse-symmetric
            topology, forward = build(of, direction)
            other = Direction.REDUCE if direction is Direction.BROADCAST else Direction.BROADCAST
            backward = reverse(build(of, other)[1])
            moved = replace(backward, link=backward.link + np.int32(topology.n_links))
            return with_reverse_links(topology), combine([forward, moved])
        case Placed(of, nodes):
            # the same sends on the same links; shards are numbered like the ranks that own them
            steps, rank = build(of, direction)[1], np.argsort(nodes).astype(np.int32)
            homes = np.empty_like(steps.homes)
            homes[rank] = rank[steps.homes]
            placed = replace(steps, homes=homes, shard=rank[steps.shard])
            return parse(expression(construction)), placed
        case Product():
            raise AssertionError("products are breadth-first")


def _parallel(topology: Topology, steps: Steps, times: int) -> tuple[Topology, Steps]:
    """Cut every send into equal parts for the parallel links."""
    fine = subdivide(steps, times)
    lane = np.arange(times, dtype=np.int32)
    width = (fine.high - fine.low) // times
    low = fine.low[:, None] + width[:, None] * lane
    return with_parallel_links(topology, times), replace(
        fine,
        step_offset=fine.step_offset * times,
        shard=np.repeat(fine.shard, times),
        link=(fine.link[:, None] * np.int32(times) + lane).ravel(),
        low=low.ravel(),
        high=(low + width[:, None]).ravel(),
    )
