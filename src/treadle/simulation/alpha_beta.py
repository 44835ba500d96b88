"""Exact alpha-beta times of schedules: steps one after another, trees in the limit of many thin slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.program.trees.box_program import box_rotation_of
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_loads
from treadle.schedules.alltoall.route_cost import route_runtime
from treadle.schedules.collective import Collective
from treadle.schedules.factored import FactoredSchedule, expand
from treadle.schedules.schedule import Schedule, written_out
from treadle.schedules.steps.step_cost import shard_fraction, step_loads
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.forest_cost import algbw, group_algbw, link_loads, rate_of_loads
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.rotation import Rotation
from treadle.topologies.topology import Topology

_NANOSECOND = Fraction(1, 10**9)


def alpha_beta_time(
    topology: Topology, collective: Collective, schedule: Schedule, size_bytes: int, *, alpha_ns: int = 0
) -> Fraction:
    """Return the exact time of the alpha-beta model, seconds; the size is the larger per-rank buffer.

    Steps, also of an all-to-all: the sum over all steps of alpha and of the largest latency + bytes /
    bandwidth over the links that a step uses. A host with a cap takes at least bytes / cap, out and in. For
    sends over paths of several links, the latency by which the longest path exceeds the longest link is
    added.

    Trees: T_L + T_B. T_L is the longest path through a tree (in an allreduce through both trees), with alpha
    for each send and all link latencies. T_B = size / algbw, which many thin slices approach. For trees of
    several concurrent groups, T_L is the largest of a group, and T_B is that of all loads together.

    Routes: alpha and the longest path's latency, once or in each round, and T_B.
    """
    return alpha_beta_curve(topology, collective, schedule, alpha_ns=alpha_ns)(size_bytes)


def alpha_beta_curve(
    topology: Topology, collective: Collective, schedule: Schedule, *, alpha_ns: int = 0
) -> Callable[[int], Fraction]:
    """Return `alpha_beta_time` as a function of the size; the rest is computed once."""
    if isinstance(schedule, GroupSchedule):
        deepest = max(_deepest(topology, one, alpha_ns) for one in schedule.groups)
        return _by_rate(deepest, group_algbw(topology, schedule))
    if isinstance(schedule, FactoredSchedule):
        rotation = box_rotation_of(topology, collective, schedule)
        if rotation is not None:
            return _by_rate(*_from_one_box(topology, schedule, rotation, alpha_ns))
    written = written_out(schedule)
    if isinstance(written, ForestSchedule):
        return _by_rate(_deepest(topology, written, alpha_ns), algbw(topology, written))
    if isinstance(written, StepSchedule | ExchangeSchedule):
        steps, paths_s = written, _path_latencies(topology, written) * _NANOSECOND
        return lambda size: sum(
            (
                alpha_ns * _NANOSECOND + _step(topology, load, unit_bytes)
                for load, unit_bytes in _steps(topology, collective, steps, size)
            ),
            paths_s,
        )
    routes = written
    return lambda size: route_runtime(topology, collective, routes, size, alpha_ns=alpha_ns)


def _from_one_box(
    topology: Topology, schedule: FactoredSchedule, rotation: Rotation, alpha_ns: int
) -> tuple[int, Fraction]:
    """Return the longest path, ns, and algbw from the first box's trees, which rotations map to all boxes."""
    roots = range(schedule.n_ranks // rotation.boxes)
    reduce, broadcast = (
        None if forest is None else expand(forest, roots) for forest in (schedule.reduce, schedule.broadcast)
    )
    box = ForestSchedule(schedule.kind, reduce, broadcast)
    own = link_loads(topology, box)
    loads = np.zeros_like(own)
    for turn in rotation.links:
        loads += own[turn]
    return _deepest(topology, box, alpha_ns), rate_of_loads(topology, loads, schedule.total_units)


def _by_rate(latency_ns: int, rate: Fraction) -> Callable[[int], Fraction]:
    return lambda size: latency_ns * _NANOSECOND + size / rate


def _steps(
    topology: Topology, collective: Collective, schedule: StepSchedule | ExchangeSchedule, size_bytes: int
) -> Iterator[tuple[NDArray[Any], Fraction]]:
    """Yield the loads of all links for each step, and the bytes of a unit of load."""
    if isinstance(schedule, ExchangeSchedule):
        unit = Fraction(size_bytes, schedule.n_chunks * collective.pair_demands.buffer_units)
        for load in exchange_loads(topology, collective, schedule):
            yield load, unit
        return
    for steps in schedule.phases:
        unit = shard_fraction(schedule, steps) * size_bytes / steps.n_chunks
        for load in step_loads(topology, steps):
            yield load, unit


def _path_latencies(topology: Topology, schedule: StepSchedule | ExchangeSchedule) -> Fraction:
    """Return by how many ns the longest paths exceed the longest links (counted by `_step`), in all steps."""
    total = 0
    phases = (schedule.sends,) if isinstance(schedule, ExchangeSchedule) else schedule.phases
    for steps in (steps for steps in phases if steps.has_paths):
        links = topology.latencies_ns[steps.way_links]
        length, slowest = (joined.reduceat(links, steps.way_offset[:-1]) for joined in (np.add, np.maximum))
        for step in range(steps.n_steps):
            paths = steps.link[steps.span(step)]
            total += int(length[paths].max(initial=0)) - int(slowest[paths].max(initial=0))
    return Fraction(total)


def _step(topology: Topology, load: NDArray[Any], unit_bytes: Fraction) -> Fraction:
    """Return the time of the slowest link or host, seconds."""
    used = np.flatnonzero(load)
    kinds = np.stack([topology.bandwidths[used], topology.latencies_ns[used]])
    distinct, place = np.unique(kinds, axis=1, return_inverse=True)
    times = [
        latency * _NANOSECOND + int(load[used][place.reshape(-1) == kind].max()) * unit_bytes / bandwidth
        for kind, (bandwidth, latency) in enumerate(distinct.T.tolist())
    ]
    for node in np.flatnonzero(topology.injection_bytes_per_s).tolist():
        cap = int(topology.injection_bytes_per_s[node])
        sides = (topology.tails == node, topology.heads == node)
        times += [int(load[side].sum()) * unit_bytes / cap for side in sides]
    return max(times, default=Fraction(0))


def _deepest(topology: Topology, schedule: ForestSchedule, alpha_ns: int) -> int:
    """Return the length of the longest path, ns; the two forests of an allreduce add up."""
    return sum(_height_ns(topology, forest, alpha_ns) for forest in schedule.forests)


def _height_ns(topology: Topology, forest: Forest, alpha_ns: int) -> int:
    """Return the longest path between a root and a rank, ns; an edge counts with its slowest path."""
    _, _, parents = forest.tree_table()
    offset, entries, _ = forest.edge_paths()
    if not parents.size:
        return 0
    path_offset, links = forest.all_paths()
    length = np.where(parents >= 0, alpha_ns, 0).astype(np.int64)
    used = np.flatnonzero(np.diff(offset))
    if used.size and topology.latencies_ns.any():
        paths_ns = np.add.reduceat(topology.latencies_ns[links].astype(np.int64), path_offset[:-1])
        length.reshape(-1)[used] += np.maximum.reduceat(paths_ns[entries], offset[used])
    # pointer doubling: each round doubles the edges in a rank's length; a root is its own parent at length 0
    rank = np.arange(parents.shape[1])
    above = np.where(parents >= 0, parents, rank)
    while True:
        further = np.take_along_axis(above, above, axis=1)
        if (further == above).all():
            return int(length.max())
        length += np.take_along_axis(length, above, axis=1)
        above = further
