"""Expectations of the machine behind a fabric: its library's choices, the optimum with NVLink SHARP."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from treadle.brief import brief
from treadle.context import TimeLimitError
from treadle.inputs.problem import Problem
from treadle.machines.achievable import Achievable
from treadle.machines.libraries import achievable_time, library_of
from treadle.machines.nccl import LibraryModel, LibraryPick
from treadle.machines.system import System, system_of, system_of_groups
from treadle.schedulers.bounds import find_bound
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.result import Bound
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

LARGE_BYTES = 2**30
"""Size at which a library's throughput is reported where no size is given."""
_MOST_SUMMING, _MOST_SUMMING_IN_BOXES = 128, 64
"""Ranks up to which the optimum of switches that sum takes a second at most."""


@brief("model", "picks")
@dataclass(frozen=True)
class Expectations:
    """Expectations of the machine behind a fabric.

    Parameters
    ----------
    sizes : tuple of int
        Bytes of the larger per-rank buffer.
    model : LibraryModel, optional
        Of the fabric's library; None for an all-to-all, which libraries send point to point.
    picks : tuple of LibraryPick
        What it runs at each size, by its own model.
    achievable : tuple of Achievable
        What is achieved at each size, by measured rows; empty where these say nothing.
    in_network : Bound, optional
        The optimum of an allreduce with NVLink SHARP, where the fabric's NVSwitches have it and it does not
        say so.

    Examples
    --------
    >>> from treadle import planning
    >>> problem = planning.make_problem("dgx_h100:1", "allreduce")
    >>> found = planning.expectations_of(problem.topology, problem.collective, [2**20, 2**30])
    >>> [str(pick) for pick in found.picks]
    ['ring/LL, 24 channels', 'nvls/Simple, 16 channels']
    >>> found.in_network.algbw
    Fraction(400000000000, 1)
    """

    sizes: tuple[int, ...]
    model: LibraryModel | None
    picks: tuple[LibraryPick, ...]
    achievable: tuple[Achievable, ...] = ()
    in_network: Bound | None = None


NVLS = "nvls"
"""The scheduler that serves it."""
_FASTER_THAN = 300 * 10**9
"""Bytes/s of a GPU's links to the switches: A100 has so many, and switches that do not sum."""


def reducing_counterpart(problem: Problem, *, several: bool = False) -> Problem | None:
    """The problem on the same fabric with NVSwitches that sum and copy; None where that is no question.

    It is one if all ranks of an allreduce, and nothing else, are joined to the same switch by fast links
    (with `several` those of each box to one of their own), and the fabric has no switch that sums or copies.
    """
    topology, collective = problem.topology, problem.collective
    is_said = topology.multicast.any() or topology.aggregation.any()
    if collective.kind is not CollectiveKind.ALLREDUCE or collective.groups is not None or is_said:
        return None
    able = np.zeros(topology.n_nodes, dtype=np.bool_)
    for switch in topology.switches.tolist():
        leaving, entering = topology.tails == switch, topology.heads == switch
        ends = set(topology.heads[leaving].tolist()), set(topology.tails[entering].tolist())
        joins = ends[0] == set(collective.ranks) or (several and ends[0] < set(collective.ranks))
        if ends[0] == ends[1] and joins:
            width = topology.bandwidths[leaving | entering].min()
            able[switch] = width > _FASTER_THAN
    if not able.any():
        return None
    return replace(problem, topology=replace(topology, multicast=able, aggregation=able))


def system_of_group(topology: Topology, collective: Collective) -> System | Unsupported:
    """Return the machine that each group of a collective has, or why it is not known."""
    if collective.weights is not None:
        return Unsupported("its shards are unequal")
    if collective.blocks is None and collective.n_ranks == len(topology.compute_nodes):
        return system_of(topology)
    rank_of = {node: rank for rank, node in enumerate(topology.compute_nodes.tolist())}
    blocks = collective.blocks or (range(len(collective.ranks)),)
    return system_of_groups(
        topology, [[rank_of[collective.ranks[rank]] for rank in block] for block in blocks]
    )


def expectations_of(
    topology: Topology, collective: Collective, sizes: Sequence[int] = (LARGE_BYTES,)
) -> Expectations | Unsupported:
    """Return the expectations of the machine behind a fabric.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    sizes : sequence of int
        Bytes of the larger per-rank buffer.

    Examples
    --------
    >>> from treadle import planning
    >>> problem = planning.make_problem("torus:4,4", "allreduce")
    >>> print(planning.expectations_of(problem.topology, problem.collective))
    the names of its nodes do not say which GPUs share a box
    """
    system = system_of_group(topology, collective)
    if isinstance(system, Unsupported):
        return system
    model = library_of(system) if collective.kind is not CollectiveKind.ALLTOALL else None
    picks = [] if model is None else [model.pick(collective.kind, size) for size in sizes]
    in_network = None
    twin = None
    if collective.n_ranks <= _MOST_SUMMING:
        several = collective.n_ranks <= _MOST_SUMMING_IN_BOXES
        twin = reducing_counterpart(Problem(topology, collective), several=several)
    if twin is not None:
        with suppress(TimeLimitError):
            in_network = find_bound(twin)
    reached = [achievable_time(system, collective.kind, size) for size in sizes]
    achieved = tuple(one for one in reached if isinstance(one, Achievable))
    achieved = achieved if len(achieved) == len(sizes) else ()
    return Expectations(tuple(sizes), model, tuple(picks), achieved, in_network)
