"""Repair of a plan after a failure: the same collective on the remaining fabric, and the loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from shlex import quote
from typing import cast

import numpy as np

from treadle.api.solve import solve
from treadle.checking import checked
from treadle.context import Progress, context, in_context
from treadle.errors import InfeasibleError, ScheduleError, TopologyError
from treadle.inputs.fabrics_and_plans import PlanLike, as_plan, as_size
from treadle.notebook import displayed_by
from treadle.options.keywords import OptionKeywords
from treadle.schedulers.given_options import given_options
from treadle.schedulers.repairing.repair_candidates import DEFAULT_SIZE, JUDGED_AT, CandidateSet, best_for
from treadle.schedulers.schedulers import algorithm_names, find_scheduler, is_scheduler
from treadle.schedulers.solving import SolveResult
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind, busbw_factor
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan
from treadle.spelling import listing
from treadle.synthesis.scheduler_options import Form
from treadle.topologies import reached
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.failures import named_links, named_nodes, without_links_and_nodes
from treadle.units import format_size

_SHOWN = 3
"""Maximum number of names in a message."""

_LARGE_LOSS = Fraction(1, 4)
"""Loss of the optimum from which a lone bottleneck is named."""


@displayed_by("treadle.render.solving:repair_rows")
@dataclass(frozen=True)
class RepairResult:
    """A plan for the remaining fabric, and the plan that it replaces.

    Parameters
    ----------
    old : Plan
    solved : SolveResult
        The new plan, verified.
    links, nodes : tuple of str
        Failed elements, each by its exact name.
    lost_links : int
        Directed links of the old fabric that the new one lacks, including those of failed nodes.
    lost_ranks : tuple of str
        Ranks of the old plan that failed.
    seconds : mapping of stage to CPU seconds
        Those of `solved`, and `failures` for the fabric and the collective; with `total`.
    candidates : CandidateSet, optional
        Algorithms that were compared at a size, where the plan's own could not be run or a size was given.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.solve("torus:3,3", "allgather").plan
    >>> treadle.repair(plan, links=["n0_0--n0_1"]).lost_ranks
    ()
    """

    old: Plan
    solved: SolveResult
    links: tuple[str, ...]
    nodes: tuple[str, ...]
    lost_links: int
    lost_ranks: tuple[str, ...]
    seconds: Mapping[str, float]
    candidates: CandidateSet | None = None

    @property
    def plan(self) -> Plan:
        """New plan."""
        return self.solved.plan

    @property
    def new(self) -> Plan:
        """Plan that replaces the old one."""
        return self.solved.plan

    @property
    def optimum_loss(self) -> Fraction | None:
        """Lost share of the optimal busbw; negative if fewer ranks reach more; None if it is not known.

        The algbw of fewer ranks is another measure, which grows as ranks leave.
        """
        if self.old.optimal_algbw is None or self.new.optimal_algbw is None:
            return None
        return self._loss(self.old.optimal_algbw, self.new.optimal_algbw)

    @property
    def throughput_loss(self) -> Fraction:
        """Lost share of the plan's own busbw; negative if the new plan is faster."""
        return self._loss(self.old.algbw, self.new.algbw)

    def _loss(self, before: Fraction, after: Fraction) -> Fraction:
        """Return the lost share of busbw from an algbw of the old ranks to one of the new."""
        old, new = (
            busbw_factor(one.kind, one.group_size) for one in (self.old.collective, self.new.collective)
        )
        return 1 - (after * new) / (before * old)

    @property
    def lone_bottleneck(self) -> str | None:
        """Only rank beyond the new bottleneck, if a quarter of the optimum or more is lost.

        The other ranks may be much faster without it.
        """
        cut, loss = self.new.certificate, self.optimum_loss
        if not isinstance(cut, BottleneckCut) or loss is None or loss < _LARGE_LOSS:
            return None
        ranks = np.array(self.new.collective.ranks)
        outside = ranks[~np.isin(ranks, cut.nodes)]
        return self.new.topology.node_names[outside[0]] if len(outside) == 1 else None

    @property
    def subproblem_classes(self) -> tuple[int | None, int | None]:
        """Number of subproblem classes before and after; None for explicit trees."""
        return _subproblem_classes(self.old), _subproblem_classes(self.new)


@checked(size_bytes=as_size)
@in_context(limited=False)
def repair(
    plan: PlanLike,
    *,
    links: Sequence[str] = (),
    nodes: Sequence[str] = (),
    algorithm: str | None = None,
    form: Form | str | None = None,
    trim: bool = False,
    forward: bool = False,
    size_bytes: int | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> RepairResult:
    """Compute a new plan, with the old plan's options, for its fabric without some links and nodes.

    Plans of `design` belong to their fabrics, so no algorithm makes such a plan for the remaining fabric:
    several are run, and the fastest plan is taken. The same holds for a plan by size, which gets one schedule
    for all sizes; `solve_sizes` computes size ranges again. A plan of concurrent groups is solved again for
    all of them together.

    Parameters
    ----------
    plan : Plan
        Its schedules are not read; its certificate is checked, since losses refer to it.
    links : sequence of str
        ``tail->head`` for one direction, ``one--other`` for both; parallel links fail together, one of them
        by its number (``one--other#2``, from 0). Patterns and lists with commas as
        `treadle.topologies.without_failures` takes them.
    nodes : sequence of str
        Compute nodes, which then are no longer ranks, switches or NICs; patterns and lists as well.
    algorithm, form : str, optional
        Instead of those of the plan. Another algorithm has its own defaults for all other options. A plan
        that was requested in factored form becomes an explicit one if the remaining fabric has no factored
        forest.
    trim : bool
        Leave surplus bandwidth unused, as needed if a link failed in one direction only.
    forward : bool
        Let ranks of other groups forward, in a plan of several groups.
    size_bytes : int, optional
        Take the plan that is simulated to be fastest at this size. Default for plans of `design` and those
        that replaced them: the size that they were chosen for, else 1 MB.
    time_limit_s, progress
        As in `solve`.

    Returns
    -------
    RepairResult

    Raises
    ------
    TopologyError
        If a name is unknown.
    InfeasibleError
        If ranks are cut off from each other, or no schedule exists under these conditions. For several
        groups it is a CutOffGroupError, which has the rate with `forward`.
    ScheduleError
        If nothing failed, too few ranks are left, the root or a rank of several groups failed, the old
        plan's certificate is invalid, or its algorithm does not support the remaining fabric.

    Examples
    --------
    >>> import treadle
    >>> old = treadle.solve("dgx_a100_flat:2", "allgather")
    >>> result = treadle.repair(old, links=["box0.gpu0--ib0"])
    >>> result.solved.is_optimal, f"{float(result.optimum_loss):.1%}"
    (True, '7.7%')
    """
    plan = as_plan(plan, "repair: plan")
    with context().stage("failures"):
        check_repairable(plan)
        _check_named(plan.topology, links, nodes)
        links, nodes = named_links(plan.topology, links), named_nodes(plan.topology, nodes)
        fabric = without_links_and_nodes(plan.topology, links, nodes)
        collective, lost_ranks = _restricted(plan, fabric)
        if forward:
            collective = forwarding(collective)
        if collective.groups is None:  # those that are cut off are named with what forwarding would give
            _check_connected(fabric, collective)
    at_bytes = _compared_at(plan, algorithm, form, trim=trim, size_bytes=size_bytes)
    candidates: CandidateSet | None = None
    if at_bytes is not None:
        solved, candidates = best_for(
            fabric, collective, plan, at_bytes, time_limit_s=time_limit_s, progress=progress
        )
    else:
        name, options = _algorithm_and_options(plan, algorithm, form, trim=trim)
        run = partial(solve, fabric, collective, algorithm=name, time_limit_s=time_limit_s, progress=progress)
        try:
            solved = run(**options)
        except InfeasibleError as error:
            if form is not None or options.get("form") != Form.FACTORED:
                raise
            options["form"] = Form.AUTO
            solved = run(**options)
            note = f"this fabric has no factored plan any more: {error}"
            solved = replace(solved, notes=(*solved.notes, note))
    if len(plan.entries) > 1:
        note = _ranges_note(plan, (*links, *nodes), candidates)
        solved = replace(solved, notes=(*solved.notes, note))
    for stage, seconds in solved.seconds.items():
        if stage != "total":
            context().count(stage, seconds)
    return RepairResult(
        old=plan,
        solved=solved,
        links=tuple(links),
        nodes=tuple(nodes),
        lost_links=plan.topology.n_links - fabric.n_links,
        lost_ranks=lost_ranks,
        seconds=context().seconds,
        candidates=candidates,
    )


def _compared_at(
    plan: Plan, algorithm: str | None, form: Form | str | None, *, trim: bool, size_bytes: int | None
) -> int | None:
    """Return the size at which algorithms are compared; None to run the plan's own or the given one."""
    is_given = algorithm is not None or form is not None or trim
    if size_bytes is not None:
        if plan.collective.groups is not None:
            raise ScheduleError(
                f"repair: algorithms are compared at a size for one group of ranks, found "
                f"{len(plan.collective.groups)} concurrent groups; leave --size out"
            )
        if is_given or plan.collective.kind is CollectiveKind.ALLTOALL or size_bytes < 1:
            raise ScheduleError(
                "repair: a size of at least 1 byte compares algorithms of trees and steps; give none of "
                "--algorithm, --form and --trim with it, and no all-to-all"
            )
        return size_bytes
    recorded = plan.provenance.get(JUDGED_AT)
    if is_given or (recorded is None and is_scheduler(plan.algorithm)):
        return None
    return recorded if isinstance(recorded, int) and recorded > 0 else DEFAULT_SIZE


def _ranges_note(plan: Plan, failed: Sequence[str], candidates: CandidateSet | None) -> str:
    """Return the note that one schedule replaces those of a plan by size, and how to recompute them."""
    without = ",".join(failed) if len(failed) <= _SHOWN else "NAMES"
    at = "" if candidates is None else f", chosen at {format_size(candidates.size_bytes)}"
    return (
        f"the plan had {len(plan.entries)} schedules by size; this is one for all sizes{at}; for size "
        f"ranges: treadle solve {quote(plan.topology.name)} {plan.collective.kind} "
        f"--without {quote(without)} --size SIZES, with the options of the plan"
    )


def _subproblem_classes(plan: Plan) -> int | None:
    schedule = plan.entries[-1].schedule
    if not isinstance(schedule, FactoredSchedule):
        return None
    return sum(len(layer.pieces) for forest in schedule.forests for layer in forest.layers)


def check_repairable(plan: Plan) -> None:
    """Raise ScheduleError unless the plan's certificate proves the optimum that it claims."""
    if plan.optimal_algbw is None or plan.certificate is None:
        return
    proved = plan.certificate.bound(plan.topology, plan.collective)
    if proved != plan.optimal_algbw:
        raise ScheduleError(
            f"plan: claims an optimum of {plan.optimal_algbw} bytes/s, its certificate proves {proved}; "
            f"treadle verify lists what is wrong with it"
        )


def _check_named(topology: Topology, links: Sequence[str], nodes: Sequence[str]) -> None:
    if not links and not nodes:
        raise ScheduleError("repair: nothing failed; name a link or a node (--link A--B, --node NAME)")
    for name, times in Counter((*links, *nodes)).items():
        if times > 1:
            raise TopologyError(f"{topology.name}: {name!r} is named {times} times as failed")


def _restricted(plan: Plan, fabric: Topology) -> tuple[Collective, tuple[str, ...]]:
    """Return the collective of the remaining ranks, and the names of the lost ones."""
    topology, old = plan.topology, plan.collective
    number_of = {name: number for number, name in enumerate(fabric.node_names)}
    nodes = [number_of.get(topology.node_names[node]) for node in old.ranks]
    kept = [rank for rank, node in enumerate(nodes) if node is not None]
    lost = tuple(topology.node_names[old.ranks[rank]] for rank, node in enumerate(nodes) if node is None)
    names = [topology.node_names[node] for node in old.forwarders]
    ranks = tuple(node for node in nodes if node is not None)
    forwarders = tuple(number_of[name] for name in names if name in number_of)
    if not lost:
        return replace(old, ranks=ranks, forwarders=forwarders), ()
    if old.groups is not None:
        raise ScheduleError(
            f"{fabric.name}: {lost[0]} failed, and its group would be smaller than the {len(old.groups) - 1} "
            f"others; lay out the remaining ranks (treadle solve --without {lost[0]} --ranks --mesh --axes)"
        )
    if len(kept) < 2:
        raise ScheduleError(
            f"{fabric.name}: {len(kept)} of {old.n_ranks} ranks left; {old.kind} needs at least 2"
        )
    if old.root is not None and old.root not in kept:
        raise ScheduleError(
            f"{fabric.name}: {topology.node_names[old.ranks[old.root]]!r}, the root of the {old.kind}, "
            f"failed; solve again with another root"
        )
    return (
        replace(
            old,
            ranks=ranks,
            root=None if old.root is None else kept.index(old.root),
            weights=None if old.weights is None else tuple(old.weights[rank] for rank in kept),
            forwarders=forwarders,
            demands=None if old.demands is None else Demands(old.demands.matrix[np.ix_(kept, kept)]),
        ),
        lost,
    )


def forwarding(collective: Collective) -> Collective:
    """Return the collective of several groups whose ranks forward data of other groups."""
    if collective.groups is None:
        raise ScheduleError(
            "forward: ranks of other groups pass data on where there are several (--mesh), found one group; "
            "leave it out"
        )
    return replace(collective, ranks_forward=True)


def _check_connected(topology: Topology, collective: Collective) -> None:
    """Raise InfeasibleError, with the cut, if the data of some rank cannot arrive."""
    ranks = np.array(collective.ranks, dtype=np.int64)
    start = int(ranks[collective.root or 0])
    for backwards, rooted in ((False, CollectiveKind.REDUCE), (True, CollectiveKind.BROADCAST)):
        if collective.kind is rooted:  # data of a rooted collective pass in one direction only
            continue
        inside = reached(topology, start, backwards=backwards)
        if inside[ranks].all():
            continue
        inside = ~inside if backwards else inside
        sides = [
            [topology.node_names[node] for node in ranks[inside[ranks] == side]] for side in (True, False)
        ]
        one, other = (f"rank{'s' * (len(names) != 1)} {listing(names, _SHOWN)}" for names in sides)
        raise InfeasibleError(
            f"{topology.name}: no link is left from {one} to {other}: the cut around the former "
            f"({int(inside.sum())} of {topology.n_nodes} nodes) has no bandwidth; keep a link across, or let "
            f"the ranks of one side fail too (--node)"
        )


def _algorithm_and_options(
    plan: Plan, algorithm: str | None, form: Form | str | None, *, trim: bool
) -> tuple[str, OptionKeywords]:
    """Return the algorithm and its options: those of the plan, overridden by the given ones."""
    name = algorithm or plan.algorithm
    if not is_scheduler(name):
        raise ScheduleError(
            f"algorithm {name[:60]!r} does not exist; choose one with --algorithm: "
            f"{', '.join(algorithm_names())}"
        )
    supported = (*find_scheduler(name).supported_options, "seed")
    options = given_options(plan) if name == plan.algorithm else OptionKeywords()
    # old plans may record options that their scheduler did not use and would reject now
    options = cast(OptionKeywords, {key: value for key, value in options.items() if key in supported})
    if form is not None:
        options["form"] = form
    if trim:
        options["trim"] = True
    return name, options
