"""Allreduce schedules that attain the optimum.

Constructions are tried from the cheapest to the most expensive until one meets the exact bound:
reduce-scatter + allgather, integral trees within limits, undirected trees, two families of trees, column
generation. Source: docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction

from treadle.context import Context, TimeLimitError, context, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import algbw as algbw_of
from treadle.synthesis.trees.allreduce.bound import AllreduceBound, Analysis, analyse
from treadle.synthesis.trees.allreduce.capacities import (
    IntegralAllocation,
    Packer,
    integral_allocation,
    pack_allocation,
)
from treadle.synthesis.trees.allreduce.integral_trees import Goal, find_integral_trees
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.allreduce.switch_terminals import (
    prune_to_ranks,
    terminal_allocation,
    terminal_fabric,
)
from treadle.synthesis.trees.allreduce.tree_schedule import (
    MAX_UNITS,
    rooted_trees_to_schedule,
    trees_to_schedule,
    unit_trees,
)
from treadle.synthesis.trees.allreduce.undirected_packing import pack_fabric_trees
from treadle.synthesis.trees.allreduce.work_budget import work_of
from treadle.topologies.topology import Topology

_ALL = 1 - Fraction(1, 10**9)
"""A rate above this share of the best one is the best one."""


class Construction(StrEnum):
    """Construction of an allreduce schedule."""

    PHASES = "reduce-scatter + allgather"
    TREES = "undirected trees"
    TWO_FAMILIES = "in-trees and out-trees from the linear program"
    ROOTED = "in-trees and out-trees by column generation"
    WHOLE_TREES = "in-trees and out-trees of whole capacities"


@dataclass(frozen=True)
class UnitLimits:
    """Limits on the unit trees (parts of the data) of an allreduce, all roots together.

    Parameters
    ----------
    most : int
    is_fixed : bool
        Exact number; fewer only if that fails and nothing else works.
    dyadic : int
        Limit (or next power of two) below which a power of two is preferred if it loses little; 0: never.
    dyadic_loss : Fraction
        Share of the best rate that it may lose.
    """

    most: int
    is_fixed: bool = False
    dyadic: int = 0
    dyadic_loss: Fraction = Fraction(0)

    def prefers(self, units: int) -> bool:
        """A power of two, where one is wanted."""
        return units <= self.most and units & (units - 1) == 0 and bool(self.dyadic)


@dataclass(frozen=True)
class AllreduceSolution:
    """An allreduce schedule and its bound.

    Parameters
    ----------
    schedule : ForestSchedule
    algbw : Fraction
        Bytes/s, by the schedule's own loads.
    bound : AllreduceBound
    construction : Construction
    exact_units : int or None
        Unit trees of a construction that attains the bound, other than the given phases, if one was seen.
    unfinished : tuple of Construction
        Those that had spent their work budget before they had a schedule.
    """

    schedule: ForestSchedule
    algbw: Fraction
    bound: AllreduceBound
    construction: Construction
    exact_units: int | None = None
    unfinished: tuple[Construction, ...] = ()


def solve_allreduce(
    topology: Topology,
    collective: Collective,
    *,
    rs_ag: ForestSchedule | None = None,
    pack: Packer | None = None,
    limits: UnitLimits | None = None,
) -> AllreduceSolution:
    """An allreduce schedule that attains the optimum, or the best that the constructions give.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    rs_ag : ForestSchedule, optional
        Reduce-scatter and allgather as one allreduce; returned when nothing is better.
    pack : Packer, optional
        Packs rooted trees into integer capacities; without it only undirected trees can be built.
    limits : UnitLimits, optional
        On what is built here. The exact constructions are left out where they need more, or another number;
        then integral trees within the limits replace them, which may cost throughput.

    Returns
    -------
    AllreduceSolution
        ``solution.algbw == solution.bound.algbw`` proves the schedule optimal.

    Raises
    ------
    InfeasibleError
        If some rank cannot reach another, or no construction applies.
    TimeLimitError
        If the deadline passed.

    Notes
    -----
    Tried in this order until the bound is met: the given phases; within limits, integral trees; undirected
    trees (symmetric fabrics); in-trees and out-trees in the shares of the links that the linear program gives
    them (where trees visit capable switches as terminals, before undirected trees); on small fabrics whose
    capable switches some trees visit and some do not, in-trees and out-trees by column generation.

    Each construction has a work budget (`work_budget`); one that spends it is passed over.

    A power of two of unit trees, where that is preferred: the given phases if they are such and lose little;
    else the fewest integral trees or an exact construction that lose nothing; else the fewest integral trees
    that lose little. Without any, the best rate.
    """
    analysis = analyse(topology, collective)
    builder = _Builder(topology, collective, analysis, pack)
    phases = None if rs_ag is None else _Made(algbw_of(topology, rs_ag), rs_ag, Construction.PHASES)
    best = _preferred(builder, phases, limits) if limits is not None and limits.dyadic else None
    best = best or _best(builder, phases, limits)
    if best is None:
        raise InfeasibleError(
            f"{topology.name}: no allreduce construction applies; the fabric is not symmetric, "
            "give a packer of rooted trees or a reduce-scatter and allgather schedule"
        )
    unfinished = tuple(dict.fromkeys(builder.unfinished))
    result = best.schedule, best.algbw, analysis.bound, best.construction
    return AllreduceSolution(*result, builder.exact_units, unfinished)


@dataclass(frozen=True)
class _Made:
    """A schedule by some construction."""

    algbw: Fraction
    schedule: ForestSchedule
    construction: Construction


def _preferred(builder: _Builder, phases: _Made | None, limits: UnitLimits) -> _Made | None:
    """A power of two of unit trees that loses little."""
    least = builder.reachable * (1 - limits.dyadic_loss)

    def is_good(made: _Made | None) -> bool:
        return made is not None and limits.prefers(made.schedule.total_units) and made.algbw > least

    def integral(most: int, above: Fraction) -> _Made | None:
        # with fewer trees than ranks, roots are uneven, and trees higher
        least_exponent = (builder.collective.n_ranks - 1).bit_length()
        numbers = [2**exponent for exponent in range(least_exponent, 1 + (most - 1).bit_length())]
        made = builder.integral_trees(Goal(numbers, above, is_fewest=True))
        return made if is_good(made) else None

    if is_good(phases):
        return phases
    made = integral(limits.most, builder.reachable * _ALL)
    if made is None and (phases is None or phases.algbw < builder.bound):
        made = next(filter(is_good, builder.exact(limits.prefers, limits.most)), None)
    return made or integral(limits.dyadic, least)


def _best(builder: _Builder, phases: _Made | None, limits: UnitLimits | None) -> _Made | None:
    """The best rate within the limits; the given phases before others that are not better."""
    best = phases
    if limits is not None and (best is None or best.algbw < builder.reachable):
        numbers = [limits.most] if limits.is_fixed else range(1, limits.most + 1)
        best = builder.integral_trees(Goal(numbers, best.algbw if best else Fraction(0))) or best
    if best is not None and (best.algbw == builder.bound or (limits is not None and limits.is_fixed)):
        return best

    def allows(units: int) -> bool:
        return limits is None or units <= limits.most

    for made in builder.exact(allows, MAX_UNITS if limits is None else limits.most):
        if best is None or made.algbw > best.algbw:
            best = made
        if best.algbw == builder.bound:
            break
    return best


@dataclass
class _Builder:
    """The constructions for one problem."""

    topology: Topology
    collective: Collective
    analysis: Analysis
    pack: Packer | None
    exact_units: int | None = None
    unfinished: list[Construction] = field(default_factory=list)
    limited: dict[Construction, Context] = field(default_factory=dict)

    @property
    def bound(self) -> Fraction:
        """Bytes/s that no schedule exceeds."""
        return self.analysis.bound.algbw

    @property
    def reachable(self) -> Fraction:
        """Bytes/s that some schedule is known to reach; the bound where none is known."""
        analysis = self.analysis
        is_sure = analysis.setting.is_exact and not (
            analysis.setting_network.groups and analysis.network.has_uneven_groups(self.topology)
        )
        rates = [analysis.setting.rate] if is_sure else []
        rates += [analysis.packing.rate] if analysis.packing is not None else []
        return min(self.bound, max(rates) * analysis.network.unit) if rates else self.bound

    def exact(self, allows: Callable[[int], bool], most: int) -> Iterator[_Made]:
        """Yield the results of the exact constructions for an allowed number of unit trees.

        Undirected trees are rounded to at most `most`.
        """
        analysis = self.analysis
        undirected = [Construction.TREES] if analysis.network.is_symmetric else []
        two_families = self.pack is not None and analysis.setting.is_exact
        order = [Construction.TWO_FAMILIES] if two_families else []
        order = order + undirected if analysis.has_switch_terminals else undirected + order
        # column generation: 7% more where links of GPUs at a GPU-initiated switch differ up and down
        order = [*order, Construction.ROOTED]
        for construction in order:
            schedule: ForestSchedule | None = None
            with self._limited(construction):
                if construction is Construction.TREES:
                    schedule = self._undirected(most)
                elif construction is Construction.ROOTED:
                    schedule = self._by_columns(most)
                else:
                    schedule = self._rooted(allows)
            if schedule is not None and allows(schedule.total_units):
                yield _Made(algbw_of(self.topology, schedule), schedule, construction)

    def integral_trees(self, goal: Goal) -> _Made | None:
        """Return integral trees that reach the goal, in bytes/s; None if they would need in-network
        operations."""
        analysis = self.analysis
        if self.pack is None or not analysis.setting.is_exact or analysis.setting_network.groups:
            return None
        topology, _, network = self._with_terminals()
        found = None
        with self._limited(Construction.WHOLE_TREES):
            found = find_integral_trees(
                topology,
                network,
                replace(goal, least=goal.least / network.unit),
                optimum=analysis.setting.rate,
                n_roots=len(analysis.network.ranks),
            )
        if found is None:
            return None
        if found.rate * network.unit == self.bound:
            self.exact_units = min(found.shares.n_trees, self.exact_units or found.shares.n_trees)
        schedule = self._packed(found.shares)
        if schedule is None:
            return None
        return _Made(algbw_of(self.topology, schedule), schedule, Construction.WHOLE_TREES)

    @contextmanager
    def _limited(self, construction: Construction) -> Iterator[None]:
        """Run a construction until its work budget is spent, which is noted."""
        if construction not in self.limited:
            self.limited[construction] = context().within(work_of(self.analysis.network))
        try:
            with under(self.limited[construction]):
                yield
        except TimeLimitError:
            if context().is_late:
                raise
            self.unfinished.append(construction)

    def _rooted(self, allows: Callable[[int], bool]) -> ForestSchedule | None:
        setting = self.analysis.setting
        shares = terminal_allocation(self.topology, self.analysis.setting_network, setting)
        topology, _, network = self._with_terminals()
        whole = integral_allocation(topology, network, shares)
        if setting.rate * self.analysis.network.unit == self.bound:
            self.exact_units = self.exact_units or whole.n_trees
        return self._packed(whole) if allows(whole.n_trees) else None

    def _by_columns(self, most: int) -> ForestSchedule | None:
        packing, network = self.analysis.rooted, self.analysis.network
        if packing is None:
            return None
        return rooted_trees_to_schedule(self.topology, network, packing, max_units=most)

    def _undirected(self, most: int) -> ForestSchedule:
        analysis, packing = self.analysis, self.analysis.packing
        network = analysis.network
        if packing is None:
            target = self.bound / network.unit
            packing = pack_fabric_trees(network, hint=analysis.setting.prices, target=target)
        if packing.rate * network.unit == self.bound:
            self.exact_units = self.exact_units or unit_trees(network, packing.trees)
        return trees_to_schedule(self.topology, network, packing.trees, max_units=most)

    def _with_terminals(self) -> tuple[Topology, Collective, PairNetwork]:
        """Fabric, collective and network of the setting."""
        if not self.analysis.has_switch_terminals:
            return self.topology, self.collective, self.analysis.setting_network
        return terminal_fabric(self.topology, self.collective, self.analysis.setting_network)

    def _packed(self, shares: IntegralAllocation) -> ForestSchedule | None:
        assert self.pack is not None
        try:
            topology, collective, _ = self._with_terminals()
            schedule = pack_allocation(topology, collective, shares, self.pack)
        except ScheduleError:  # a huge common denominator; another construction may do
            return None
        if not self.analysis.has_switch_terminals:
            return schedule
        n_ranks, visiting = len(self.analysis.network.ranks), self.analysis.setting_network
        return prune_to_ranks(schedule, n_ranks, self.topology, visiting)
