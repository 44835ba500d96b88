"""The most that any schedule can reach, and what proves it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from treadle.context import context, under
from treadle.inputs.problem import Problem, model_of
from treadle.refusal import Refusal
from treadle.schedulers.alltoall import alltoall_rate
from treadle.schedulers.group_rates import (
    as_no_group,
    groups_optimum,
)
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis import trees as forestcoll
from treadle.synthesis.result import Bound
from treadle.synthesis.trees import allreduce

if TYPE_CHECKING:
    from treadle.synthesis.alltoall import RateResult
    from treadle.synthesis.trees.allreduce import AllreduceBound
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum


MAX_RANKS_BY_CUTS = 128
"""Beyond this many ranks the bound of an allreduce is first sought as that of one group."""

MAX_RANKS_AS_GROUP = 2**13
"""Beyond this many ranks the bound of an allreduce is that of factored forests which attain it, or none."""

MAX_RANKS_BY_FLOW = 1024
"""Beyond this many ranks a bound is first sought by tight cuts."""


def find_bound(problem: Problem, *, cards_forward: bool = False) -> Bound:
    """The exact optimum; for an allreduce with capable switches, an all-to-all, or groups perhaps a bound.

    Parameters
    ----------
    problem : Problem
    cards_forward : bool
        Of an all-to-all on hosts with injection caps: whether what a node passes on stays out of its host.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    if problem.collective.groups is not None:
        if problem.collective.n_ranks > MAX_RANKS_BY_FLOW and (whole := as_no_group(problem)):
            return find_bound(whole)
        return bound_of_groups(problem, groups_optimum(problem))
    if problem.collective.kind is CollectiveKind.ALLREDUCE:
        large = large_allreduce(problem)
        if large is not None:
            return large
        found = allreduce.allreduce_bound(problem.topology, problem.collective)
        return bound_of_allreduce(problem, found)
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        return bound_of_alltoall(alltoall_rate(problem, cards_forward=cards_forward))
    best = _optimum(problem)
    by_cuts = Bound(best.algbw, best.witness)
    if forestcoll.has_balanced_relays(problem.topology, problem.collective):
        return by_cuts
    return _where_switches_lose(problem, by_cuts)


def _where_switches_lose(problem: Problem, by_cuts: Bound) -> Bound:
    """The optimum where a switch may take in what it cannot send on, or the reverse.

    The least cut is attained where splitting off switches keeps it, for which each has to be Eulerian
    (assumed by the dissertation in B.5). Elsewhere trees of paths, priced by link lengths, tell the optimum.
    """
    topology = problem.topology
    if topology.multicast.any() or topology.aggregation.any() or topology.injection_bytes_per_s.any():
        return replace(by_cuts, is_tight=False)
    groups = groups_optimum(problem)
    if groups.lower == by_cuts.algbw:
        return by_cuts
    # the lesser bound counts, whoever it is of
    is_by_cuts = not groups.is_exact and groups.upper >= by_cuts.algbw
    return replace(by_cuts, is_tight=False) if is_by_cuts else bound_of_groups(problem, groups)


def large_allreduce(problem: Problem) -> Bound | None:
    """The optimum of many ranks as that of one group, links that are alike as one; None if it is no question.

    The program by cuts is for fabrics that copy or add, or that have few links alike. Its time grows with the
    ranks (1 s for 160 to 256 of them, 31 s for 1024), that of trees with the classes of links: 0.05 s for 6
    on the same fabrics, 0.8 s for 66 on a mesh of 144 ranks, 6.5 s for 155 on a torus of 144 with a dead
    link, where cuts take 0.2 s.
    """
    topology = problem.topology
    able = topology.multicast.any() or topology.aggregation.any() or topology.injection_bytes_per_s.any()
    if able or problem.collective.n_ranks <= MAX_RANKS_BY_CUTS:
        return None
    if (
        problem.collective.n_ranks > MAX_RANKS_BY_FLOW
    ):  # 0.2 s for 8192 GPUs, where link prices take 30 s and 2 GB
        found = _bound_by_pieces(problem)
        if found is not None or problem.collective.n_ranks > MAX_RANKS_AS_GROUP:
            return found
    from treadle.synthesis.trees.groups.group_optimum import count_classes  # brings a solver

    if 2 * count_classes(topology, problem.collective) > problem.collective.n_ranks:
        return None
    found = bound_of_groups(problem, groups_optimum(problem))
    return found if found.is_tight else None


def _bound_by_pieces(problem: Problem) -> Bound | None:
    """An allreduce's optimum that lengths prove and factored forests attain."""
    found = forestcoll.decompose_allreduce(problem.topology, problem.collective, lower=False)
    if isinstance(found, Refusal) or found.found.algbw < found.bound:
        return None
    return Bound(found.bound, found.witness, True, model_of(problem.topology, problem.collective))


def _optimum(problem: Problem) -> forestcoll.Optimum:
    """The optimum; on large fabrics by a forest that attains it, which takes no flow per rank."""
    if problem.collective.n_ranks > MAX_RANKS_BY_FLOW:
        found = forestcoll.decompose(problem.topology, problem.collective)
        if not isinstance(found, Refusal) and found.algbw == found.optimum.algbw:
            return found.optimum
    with under(context().unlimited):
        return forestcoll.optimum(problem.topology, problem.collective)


def bound_of_allreduce(problem: Problem, found: AllreduceBound) -> Bound:
    """An allreduce bound as the other bounds are told."""
    model = model_of(problem.topology, problem.collective)
    return Bound(found.algbw, found.witness, found.is_attained is True, model)


def bound_of_alltoall(found: RateResult) -> Bound:
    """The upper side of an all-to-all's rate as the other bounds are told."""
    units = found.collective.pair_demands.buffer_units
    return Bound(units * found.upper, found.witness, found.exact is not None)


def bound_of_groups(problem: Problem, found: GroupOptimum) -> Bound:
    """The upper side of the optimum of several groups as the other bounds are told; of each group."""
    topology, kind = problem.topology, problem.collective.kind
    # lengths of links price each tree edge by itself, whatever the switches could do
    prices_copies = (topology.multicast | topology.aggregation).any() or kind is CollectiveKind.ALLREDUCE
    model = f"{kind} without in-network multicast and aggregation" if prices_copies else ""
    return Bound(found.upper, found.witness, found.is_exact, model)
