"""The most that any schedule can reach, and what proves it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.context import context, under
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem, model_of
from treadle.schedulers.alltoall import alltoall_rate
from treadle.schedulers.group_rates import as_no_group, groups_optimum
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.synthesis import trees as forestcoll
from treadle.synthesis.result import Bound
from treadle.synthesis.trees import allreduce
from treadle.synthesis.trees.instance import find_violated_cut, instance_of
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

if TYPE_CHECKING:
    from treadle.synthesis.alltoall import RateResult
    from treadle.synthesis.class_optima import ClassProblem
    from treadle.synthesis.trees.allreduce import AllreduceBound
    from treadle.synthesis.trees.groups.group_optimum import GroupOptimum


MAX_RANKS_BY_CUTS = 128
"""Beyond this many ranks the bound of an allreduce is first sought as that of one group."""

MAX_RANKS_AS_GROUP = 2**13
"""Beyond this many ranks the bound of an allreduce is that of factored forests which attain it, or none."""

MAX_RANKS_BY_PROGRAM = 2048
"""Beyond this many ranks the program by cuts takes minutes and tens of GB: 31 s for 1,024."""

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
        large = _allreduce_by_classes(problem) or regular_allreduce(problem) or large_allreduce(problem)
        if large is not None:
            return large
        if problem.collective.n_ranks > MAX_RANKS_BY_PROGRAM and (rough := crossing_bound(problem)):
            return rough
        found = allreduce.allreduce_bound(problem.topology, problem.collective)
        return bound_of_allreduce(problem, found)
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        by_classes = alltoall_by_classes(problem)
        return bound_of_alltoall(by_classes or alltoall_rate(problem, cards_forward=cards_forward))
    best = _optimum(problem)
    by_cuts = Bound(best.algbw, best.certificate)
    if forestcoll.has_balanced_relays(problem.topology, problem.collective):
        return by_cuts
    return _where_switches_lose(problem, by_cuts)


def _where_switches_lose(problem: Problem, by_cuts: Bound) -> Bound:
    """The optimum where a switch may take in what it cannot send on, or the reverse.

    The least cut is attained where splitting off switches keeps it, for which each has to be Eulerian
    (assumed by the dissertation in B.5). Otherwise trees of paths, priced by link lengths, give the optimum.
    """
    topology = problem.topology
    if _has_limits_beyond_links(topology):
        return replace(by_cuts, is_tight=False)
    groups = groups_optimum(problem)
    if groups.lower == by_cuts.algbw:
        return by_cuts
    # the lesser bound counts, whoever it is of
    is_by_cuts = not groups.is_exact and groups.upper >= by_cuts.algbw
    return replace(by_cuts, is_tight=False) if is_by_cuts else bound_of_groups(problem, groups)


def _has_limits_beyond_links(topology: Topology) -> bool:
    """Whether switches copy or add, or hosts have injection caps, which link lengths do not bound."""
    able = topology.multicast | topology.aggregation
    return bool(able.any() or topology.injection_bytes_per_s.any())


def large_allreduce(problem: Problem) -> Bound | None:
    """Optimum of many ranks as one group, with equivalent links merged; None if not applicable.

    The program by cuts is for in-network operations, or few equivalent links. Its time grows with the
    ranks (1 s for 160 to 256 of them, 31 s for 1024), that of trees with the classes of links: 0.05 s for 6
    on the same fabrics, 0.8 s for 66 on a mesh of 144 ranks, 6.5 s for 155 on a torus of 144 with a dead
    link, where cuts take 0.2 s.
    """
    topology = problem.topology
    if _has_limits_beyond_links(topology) or problem.collective.n_ranks <= MAX_RANKS_BY_CUTS:
        return None
    if problem.collective.n_ranks > MAX_RANKS_BY_FLOW:
        # 0.2 s for 8192 GPUs, where dual prices take 30 s and 2 GB
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
    if isinstance(found, Unsupported) or found.found.algbw < found.bound:
        return None
    return Bound(found.bound, found.certificate, True, model_of(problem.topology, problem.collective))


def _large_by_classes(problem: Problem) -> ClassProblem | None:
    """The problem on classes of equivalent nodes, where ranks are many and the fabric has such classes."""
    if problem.collective.n_ranks <= MAX_RANKS_BY_FLOW:
        return None
    from treadle.synthesis.class_optima import class_problem  # few bounds need it

    return class_problem(problem.topology, problem.collective)


def _allreduce_by_classes(problem: Problem) -> Bound | None:
    """The optimum of an allreduce whose reduce-scatter and allgather attain what link lengths prove."""
    topology, collective = problem.topology, problem.collective
    classes = _large_by_classes(problem)
    if classes is None or topology.multicast.any() or topology.aggregation.any():
        return None
    found = classes.allreduce_bound()
    gather = replace(classes, collective=replace(collective, kind=CollectiveKind.ALLGATHER)).cut_optimum()
    # the reduce-scatter is the allgather on the transpose, which is the fabric itself
    if found is None or found[0] != gather.algbw / 2:
        return None
    return Bound(*found, True, model_of(topology, collective))


def equal_length_bound(problem: Problem) -> Bound | None:
    """The bound of an allreduce on a regular direct-connect fabric of many ranks by equal link lengths.

    A unit of data crosses N - 1 links in its in-tree and as many in its out-tree, so the rate is at most the
    bandwidth of all links over 2 (N - 1). Where all nodes have bandwidth b in and out, reduce-scatter and
    allgather attain it if each attains its own degree bound N b / (N - 1).
    """
    topology, n = problem.topology, problem.collective.n_ranks
    if topology.n_nodes > n or n <= MAX_RANKS_BY_CUTS or topology.injection_bytes_per_s.any():
        return None
    sides = topology.ingress_bytes_per_s(), topology.egress_bytes_per_s()
    degree = int(sides[0][0])
    if not degree or any((side != degree).any() for side in sides):
        return None
    certificate = GroupDualCertificate.of_classes([Fraction(1)], np.zeros(topology.n_links, dtype=np.int8))
    model = model_of(topology, problem.collective)
    return Bound(Fraction(n * degree, 2 * (n - 1)), certificate, False, model)


def regular_allreduce(problem: Problem) -> Bound | None:
    """The optimum of an allreduce whose reduce-scatter and allgather attain `equal_length_bound`."""
    found = equal_length_bound(problem)
    if found is None:
        return None
    rate = 2 * found.algbw / problem.collective.n_ranks
    for kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
        one_way = instance_of(problem.topology, replace(problem.collective, kind=kind))
        with under(context().unlimited):
            if find_violated_cut(one_way, one_way.bandwidths, rate=rate) is not None:
                return None
    return replace(found, is_tight=True)


def crossing_bound(problem: Problem) -> Bound | None:
    """The least bound on an allreduce by lengths 1 between boxes (or larger sets), or everywhere, else 0.

    It may not be tight. None where switches copy or add, which these lengths do not bound.
    """
    from treadle.synthesis.trees.tight_cuts.sets.detection import detect

    topology, collective = problem.topology, problem.collective
    if _has_limits_beyond_links(topology):
        return None
    found = detect(instance_of(topology, replace(collective, kind=CollectiveKind.ALLGATHER)))
    levels = [np.arange(topology.n_nodes), *found.ancestors[1:]]
    bounds = []
    for row in levels:
        crosses = (row[topology.tails] != row[topology.heads]) | (row[topology.tails] < 0)
        values = [Fraction(0), Fraction(1)] if not crosses.all() else [Fraction(1)]
        certificate = GroupDualCertificate.of_classes(values, crosses.astype(np.int8) * (len(values) - 1))
        with suppress(ScheduleError):  # all ranks at length 0, or too many of them that differ
            bounds.append((certificate.bound(topology, collective), certificate))
    if not bounds:
        return None
    return Bound(*min(bounds, key=lambda one: one[0]), False, model_of(topology, collective))


def alltoall_by_classes(problem: Problem) -> RateResult | None:
    """The exact rate of a large all-to-all, where the fabric has classes of equivalent nodes."""
    classes = _large_by_classes(problem)
    return None if classes is None else classes.alltoall_rate()


def _optimum(problem: Problem) -> forestcoll.Optimum:
    """The optimum; on large fabrics by classes, or by a forest that attains it: no flow per rank."""
    if (classes := _large_by_classes(problem)) is not None:
        return classes.cut_optimum()
    if problem.collective.n_ranks > MAX_RANKS_BY_FLOW:
        if problem.collective.kind.is_rooted:
            from treadle.synthesis.trees.one_root.contraction import contracted_optimum  # few bounds need it

            instance = instance_of(problem.topology, problem.collective)
            if (least := contracted_optimum(instance)) is not None:
                return least
        found = forestcoll.decompose(problem.topology, problem.collective)
        if not isinstance(found, Unsupported) and found.algbw == found.optimum.algbw:
            return found.optimum
    with under(context().unlimited):
        return forestcoll.optimum(problem.topology, problem.collective)


def bound_of_allreduce(problem: Problem, found: AllreduceBound) -> Bound:
    """Convert an allreduce bound to a `Bound`."""
    model = model_of(problem.topology, problem.collective)
    return Bound(found.algbw, found.certificate, found.is_attained is True, model)


def bound_of_alltoall(found: RateResult) -> Bound:
    """Convert the upper side of an all-to-all's rate to a `Bound`."""
    units = found.collective.pair_demands.buffer_units
    return Bound(units * found.upper, found.certificate, found.exact is not None)


def bound_of_groups(problem: Problem, found: GroupOptimum) -> Bound:
    """Convert the upper side of the optimum of several groups to a `Bound` of each group."""
    topology, kind = problem.topology, problem.collective.kind
    # lengths of links price each tree edge by itself, whatever the switches could do
    prices_copies = (topology.multicast | topology.aggregation).any() or kind is CollectiveKind.ALLREDUCE
    model = f"{kind} without in-network multicast and aggregation" if prices_copies else ""
    return Bound(found.upper, found.certificate, found.is_exact, model)
