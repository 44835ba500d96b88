"""Rates of concurrent groups of ranks, together and by phases, and groups with unreachable ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.context import TimeLimitError
from treadle.inputs.problem import Problem
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.transfer import transfer_collective
from treadle.topologies import reached, subset
from treadle.topologies.topology import Topology

if TYPE_CHECKING:
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum

_SHOWN = 3


def own_fabric(problem: Problem, group: int) -> tuple[Topology, Collective]:
    """Return a group's collective, on the fabric without nodes absent for it; switches only forward."""
    topology, member = problem.topology, problem.collective.member(group)
    if problem.collective.groups is not None and (topology.multicast | topology.aggregation).any():
        idle = np.zeros(topology.n_nodes, dtype=np.bool_)  # as in the bounds of concurrent groups
        topology = replace(topology, multicast=idle, aggregation=idle, turns_round=idle)
    nodes = np.sort(np.array((*member.ranks, *member.forwarders)))
    if len(nodes) == len(topology.compute_nodes):
        return topology, member
    own = subset(topology, *np.searchsorted(topology.compute_nodes, nodes).tolist())
    return own, transfer_collective(member, topology, own)


def find_cut_off(problem: Problem) -> tuple[int, str, tuple[str, ...]] | None:
    """Return the first group with an unreachable rank: its number, a description, and the nodes reached."""
    topology, collective = problem.topology, problem.collective
    names = topology.node_names
    for group in range(collective.n_groups or 0):
        own, member = own_fabric(problem, group)
        ranks = np.array(member.ranks)
        start = int(ranks[member.root or 0])
        for backwards in (False, True):
            if collective.root is not None and backwards is not collective.kind.reduces:
                continue
            side = reached(own, start, backwards=backwards)
            missed = ranks[~side[ranks]]
            if missed.size:
                ends = (own.node_names[start], own.node_names[missed[0]])
                one, other = reversed(ends) if backwards else ends
                members = [names[collective.ranks[rank]] for rank in (collective.groups or ())[group]]
                shown = ", ".join(members[:_SHOWN]) + (", ..." if len(members) > _SHOWN else "")
                words = f"group {group} ({shown}): {one!r} does not reach {other!r}"
                return group, words, tuple(own.node_names[node] for node in np.flatnonzero(side))
    return None


def groups_optimum(problem: Problem) -> GroupOptimum:
    """Return the largest rate that each of several concurrent groups reaches."""
    from treadle.synthesis.trees.groups.group_optimum import group_optimum  # brings a solver

    return group_optimum(problem.topology, problem.collective)


def as_no_group(problem: Problem) -> Problem | None:
    """Return the problem without groups, if it has one group of all ranks and cuts bound it; else None."""
    topology, collective = problem.topology, problem.collective
    groups, kind = collective.groups or (), collective.kind
    is_same = len(groups) == 1 and groups[0] == tuple(range(collective.n_ranks))
    is_by_cuts = kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER)
    able = topology.multicast.any() or topology.aggregation.any()
    if not is_same or not is_by_cuts or able:
        return None
    return replace(problem, collective=replace(collective, groups=None, ranks_forward=False))


PHASES = (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER)


def phase_optima(problem: Problem) -> tuple[GroupOptimum, ...] | None:
    """Return the optima of the phases of an allreduce in groups; None after the deadline."""
    collective = problem.collective
    if collective.kind is not CollectiveKind.ALLREDUCE:
        return None
    parts = [Problem(problem.topology, replace(collective, kind=kind)) for kind in PHASES]
    try:
        return tuple(groups_optimum(part) for part in parts)
    except TimeLimitError:
        return None


def algbw_of_phases(phases: Iterable[GroupOptimum]) -> Fraction:
    """Return the rate of an allreduce in successive phases, whose times per byte add up."""
    return 1 / sum((1 / phase.lower for phase in phases), Fraction(0))


def exact_algbw_of_phases(phases: Sequence[GroupOptimum]) -> Fraction | None:
    """Return `algbw_of_phases`, or None unless all optima are exact."""
    return algbw_of_phases(phases) if all(phase.is_exact for phase in phases) else None


def bracket_note(found: GroupOptimum) -> tuple[str, ...]:
    """Return a note if the optimum is known on two sides only."""
    if found.is_exact:
        return ()
    gap = float(1 - found.lower / found.upper)
    return (f"the optimum of the groups is not known exactly: what is built is at most {gap:.2%} below it",)
