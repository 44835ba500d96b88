"""Allreduce schedules that attain the optimum."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.cost import algbw as algbw_of
from treadle.schedules.forest import ForestSchedule
from treadle.synthesis.allreduce.bound import AllreduceBound, Analysis, analyse
from treadle.synthesis.allreduce.capacities import Packer, Shares, halves, pack_shares
from treadle.synthesis.allreduce.free_roots import solve_free_roots
from treadle.synthesis.allreduce.network import Network
from treadle.synthesis.allreduce.rooted_packing import RootedPacking
from treadle.synthesis.allreduce.stations import leave_stations, station_fabric, station_shares
from treadle.synthesis.allreduce.tree_packing import pack_fabric_trees
from treadle.synthesis.allreduce.tree_schedule import MAX_UNITS, rooted_trees_to_schedule, trees_to_schedule
from treadle.synthesis.watch import UNWATCHED, Watch
from treadle.topologies.topology import Topology


class Construction(StrEnum):
    """How an allreduce schedule was built."""

    PHASES = "reduce-scatter + allgather"
    FREE_ROOTS = "free roots in halves of the links"
    TREES = "undirected trees"
    TWO_FAMILIES = "in-trees and out-trees from the linear program"
    ROOTED = "in-trees and out-trees by column generation"


@dataclass(frozen=True)
class AllreduceSolution:
    """An allreduce schedule beside the bound.

    Parameters
    ----------
    schedule : ForestSchedule
    algbw : Fraction
        Bytes/s, by the schedule's own loads.
    bound : AllreduceBound
    construction : Construction
    """

    schedule: ForestSchedule
    algbw: Fraction
    bound: AllreduceBound
    construction: Construction


def solve_allreduce(
    topology: Topology,
    collective: Collective,
    *,
    rs_ag: ForestSchedule | None = None,
    pack: Packer | None = None,
    max_units: int | None = None,
    watch: Watch = UNWATCHED,
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
    max_units : int, optional
        Most unit trees (parts of the data) in what is built here. Undirected trees are rounded to fit, which
        costs some throughput; the other constructions are left out where they need more.
    watch : Watch

    Returns
    -------
    AllreduceSolution
        ``solution.algbw == solution.bound.algbw`` proves the schedule optimal.

    Raises
    ------
    InfeasibleError
        If some rank cannot reach another, or no construction applies.
    TimeLimitError
        If the watch's deadline passed.

    Notes
    -----
    Tried in this order until the bound is met: the given phases; free roots in halves of all links;
    undirected trees (symmetric fabrics); in-trees and out-trees in the shares of the links that the linear
    program gives them (where trees visit capable switches as stations, before undirected trees); on small
    fabrics whose capable switches some trees visit and some do not, in-trees and out-trees by column
    generation.
    """
    analysis = analyse(topology, collective, watch)
    best: tuple[Fraction, ForestSchedule, Construction] | None = None
    if rs_ag is not None:
        best = algbw_of(topology, rs_ag), rs_ag, Construction.PHASES
    for construction, build in _constructions(topology, collective, analysis, pack, max_units, watch):
        if best is not None and best[0] == analysis.bound.algbw:
            break
        schedule = build()
        if schedule is not None:
            value = algbw_of(topology, schedule)
            if best is None or value > best[0]:
                best = value, schedule, construction
    if best is None:
        raise InfeasibleError(
            f"{topology.name}: no allreduce construction applies; the fabric is not symmetric, "
            "give a packer of rooted trees or a reduce-scatter and allgather schedule"
        )
    return AllreduceSolution(best[1], best[0], analysis.bound, best[2])


_Build = Callable[[], ForestSchedule | None]


def _constructions(
    topology: Topology,
    collective: Collective,
    analysis: Analysis,
    pack: Packer | None,
    max_units: int | None,
    watch: Watch,
) -> Iterator[tuple[Construction, _Build]]:
    undirected = Construction.TREES, lambda: _trees(topology, analysis, max_units, watch)
    is_symmetric = analysis.network.is_symmetric
    if pack is not None:
        packer = _LimitedPacker(topology, collective, analysis, pack, max_units)
        yield Construction.FREE_ROOTS, lambda: _free_roots(analysis, packer, watch)
    if is_symmetric and not analysis.has_stations:
        yield undirected
    if pack is not None and analysis.setting.is_exact:
        yield Construction.TWO_FAMILIES, lambda: _two_families(analysis, packer)
    if is_symmetric and analysis.has_stations:
        yield undirected
    if (packing := analysis.rooted) is not None:
        yield Construction.ROOTED, lambda: _rooted(topology, analysis.network, packing, max_units)


@dataclass(frozen=True)
class _LimitedPacker:
    """Packs shares of the setting's network; None where that takes too many units."""

    topology: Topology
    collective: Collective
    analysis: Analysis
    pack: Packer
    max_units: int | None

    def __call__(self, shares: Shares) -> ForestSchedule | None:
        analysis, topology, collective = self.analysis, self.topology, self.collective
        network = visiting = analysis.setting_network
        if analysis.has_stations:
            topology, collective, network = station_fabric(topology, collective, visiting)
        try:
            schedule = pack_shares(
                topology,
                collective,
                network,
                shares,
                self.pack,
                max_units=self.max_units,
            )
        except ScheduleError:  # a huge common denominator; another construction may do
            return None
        if not analysis.has_stations:
            return schedule
        n_ranks = len(analysis.network.ranks)
        return leave_stations(schedule, n_ranks, topology=self.topology, visiting=visiting)


def _free_roots(analysis: Analysis, packer: _LimitedPacker, watch: Watch) -> ForestSchedule | None:
    """Halves with free roots, if they meet the bound."""
    network = analysis.setting_network
    if network.groups:  # halves of the links say nothing of operations
        return None
    free = solve_free_roots(network, len(analysis.network.ranks), watch=watch)
    if free is None or free.rate * network.unit != analysis.bound.algbw:
        return None
    return packer(halves(network, free.root_rates))


def _two_families(analysis: Analysis, packer: _LimitedPacker) -> ForestSchedule | None:
    return packer(station_shares(packer.topology, analysis.setting_network, analysis.setting))


def _rooted(
    topology: Topology, network: Network, packing: RootedPacking, max_units: int | None
) -> ForestSchedule | None:
    return rooted_trees_to_schedule(topology, network, packing, max_units=max_units or MAX_UNITS)


def _trees(topology: Topology, analysis: Analysis, max_units: int | None, watch: Watch) -> ForestSchedule:
    network, packing = analysis.network, analysis.packing
    if packing is None:
        target = analysis.bound.algbw / network.unit
        packing = pack_fabric_trees(network, hint=analysis.setting.prices, target=target, watch=watch)
    return trees_to_schedule(topology, network, packing.trees, max_units=max_units or MAX_UNITS)
