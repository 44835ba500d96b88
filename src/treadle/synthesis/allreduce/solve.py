"""The allreduce optimum of a fabric, with a witness, and schedules that attain it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.allreduce_witness import CutCombinationWitness, LengthWitness
from treadle.schedules.collective import Collective
from treadle.schedules.cost import algbw as algbw_of
from treadle.schedules.forest import ForestSchedule
from treadle.synthesis.allreduce.capacities import Packer, Shares, halves, pack_shares
from treadle.synthesis.allreduce.free_roots import solve_free_roots
from treadle.synthesis.allreduce.network import Network, network_of
from treadle.synthesis.allreduce.tree_packing import TreePacking, pack_fabric_trees
from treadle.synthesis.allreduce.tree_schedule import trees_to_schedule
from treadle.synthesis.allreduce.two_family_lp import LpOptimum, solve_two_family_lp
from treadle.topologies.topology import Topology


class Construction(StrEnum):
    """How an allreduce schedule was built."""

    PHASES = "reduce-scatter + allgather"
    FREE_ROOTS = "free roots in halves of the links"
    TREES = "undirected trees"
    TWO_FAMILIES = "in-trees and out-trees from the linear program"


@dataclass(frozen=True)
class AllreduceBound:
    """An upper bound on the allreduce throughput of a fabric.

    Parameters
    ----------
    algbw : Fraction
        Bytes/s, recomputed from the witness.
    witness : LengthWitness or CutCombinationWitness
    is_attained : bool or None
        True: the bound is the optimum, schedules attain it. None: not known (in-network capabilities, or a
        solver's basis that is not exactly feasible).
    """

    algbw: Fraction
    witness: LengthWitness | CutCombinationWitness
    is_attained: bool | None


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


@dataclass(frozen=True)
class _Analysis:
    """A bound with what was computed on the way: the plain program's optimum, trees if they were packed."""

    network: Network
    bound: AllreduceBound
    plain: LpOptimum | None
    packing: TreePacking | None


def allreduce_bound(topology: Topology, collective: Collective) -> AllreduceBound:
    """The allreduce optimum, or the best bound known, with a witness that proves it.

    Parameters
    ----------
    topology : Topology
        Its capabilities are part of the model: switches that multicast and aggregate may copy and combine.
        For the optimum without that, pass `without_capabilities(topology)`. Injection caps are not modelled.
    collective : Collective
        An allreduce.

    Raises
    ------
    InfeasibleError
        If some rank cannot reach another.
    ScheduleError
        If the collective is no allreduce on the compute nodes of `topology`.

    Notes
    -----
    Source: LP (B.5) of the dissertation, by cuts; see `solve_two_family_lp`. With capable switches on a
    symmetric fabric, packing of trees that branch at them decides whether the bound is attained.
    """
    return _analyse(topology, collective).bound


def without_capabilities(topology: Topology) -> Topology:
    """The fabric with switches that only forward."""
    none = topology.multicast & False
    return replace(topology, multicast=none, aggregation=none)


def solve_allreduce(
    topology: Topology,
    collective: Collective,
    *,
    rs_ag: ForestSchedule | None = None,
    pack: Packer | None = None,
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

    Returns
    -------
    AllreduceSolution
        ``solution.algbw == solution.bound.algbw`` proves the schedule optimal.

    Raises
    ------
    InfeasibleError
        If some rank cannot reach another, or no construction applies.

    Notes
    -----
    Tried in this order until the bound is met: the given phases, free roots in halves of all links,
    undirected trees (symmetric fabrics), in-trees and out-trees in the shares that the linear program gives them.
    """
    analysis = _analyse(topology, collective)
    best: tuple[Fraction, ForestSchedule, Construction] | None = None
    if rs_ag is not None:
        best = algbw_of(topology, rs_ag), rs_ag, Construction.PHASES
    for construction, build in _constructions(topology, collective, analysis, pack):
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
    topology: Topology, collective: Collective, analysis: _Analysis, pack: Packer | None
) -> Iterator[tuple[Construction, _Build]]:
    network, plain = analysis.network, analysis.plain
    branches = bool(network.branching) and network.is_symmetric
    if pack is not None and not branches:
        yield Construction.FREE_ROOTS, lambda: _free_roots(topology, collective, analysis, pack)
    if network.is_symmetric:
        yield Construction.TREES, lambda: _trees(topology, analysis)
    if pack is not None and plain is not None and plain.is_exact:
        rates = [plain.root_rates[node] for node in network.ranks]
        shares = Shares(rates, plain.broadcast, plain.reduce)
        yield (
            Construction.TWO_FAMILIES,
            lambda: _packed(topology, collective, network, shares, pack),
        )


def _free_roots(
    topology: Topology, collective: Collective, analysis: _Analysis, pack: Packer
) -> ForestSchedule | None:
    """Halves with free roots, if they meet the bound."""
    free = solve_free_roots(analysis.network)
    if free is None or free.rate * analysis.network.unit != analysis.bound.algbw:
        return None
    shares = halves(analysis.network, free.root_rates)
    return _packed(topology, collective, analysis.network, shares, pack)


def _trees(topology: Topology, analysis: _Analysis) -> ForestSchedule | None:
    network, packing = analysis.network, analysis.packing
    if packing is None:
        hint = None if analysis.plain is None else analysis.plain.prices
        packing = pack_fabric_trees(network, hint=hint, target=analysis.bound.algbw / network.unit)
    try:
        return trees_to_schedule(topology, network, packing.trees)
    except ScheduleError:  # rates with a huge common denominator; another construction may do
        return None


def _packed(
    topology: Topology, collective: Collective, network: Network, shares: Shares, pack: Packer
) -> ForestSchedule | None:
    try:
        return pack_shares(topology, collective, network, shares, pack)
    except ScheduleError:  # as in _trees
        return None


def _analyse(topology: Topology, collective: Collective) -> _Analysis:
    network = network_of(topology, collective)
    relaxed = solve_two_family_lp(network)
    if not relaxed.rate:
        raise InfeasibleError(f"{topology.name}: some rank cannot reach another, so no allreduce exists")
    witness: LengthWitness | CutCombinationWitness = relaxed.witness
    if not network.multicast and not network.aggregation:
        if network.is_symmetric:
            witness = _length_witness(topology, network, relaxed.prices)
        return _concluded(topology, collective, network, witness, (relaxed, None, relaxed.rate))
    if network.is_symmetric and network.branching:
        packing = pack_fabric_trees(network, hint=relaxed.prices, target=relaxed.rate)
        if packing.rate < relaxed.rate and packing.is_priced:
            lengths = _length_witness(topology, network, packing.lengths)
            if lengths.bound(topology, collective) < witness.bound(topology, collective):
                witness = lengths
        return _concluded(topology, collective, network, witness, (None, packing, packing.rate))
    incapable = replace(network, multicast=frozenset(), aggregation=frozenset())
    plain = solve_two_family_lp(incapable)
    return _concluded(topology, collective, incapable, witness, (plain, None, plain.rate))


def _concluded(
    topology: Topology,
    collective: Collective,
    network: Network,
    witness: LengthWitness | CutCombinationWitness,
    found: tuple[LpOptimum | None, TreePacking | None, Fraction],
) -> _Analysis:
    """The bound that the witness proves, held against the rate that is known to be feasible."""
    plain, packing, rate = found
    bound = witness.bound(topology, collective)
    feasible = plain is None or plain.is_exact
    capped = bool(topology.injection_bytes_per_s.any())
    is_attained = True if feasible and not capped and rate * network.unit == bound else None
    return _Analysis(network, AllreduceBound(bound, witness, is_attained), plain, packing)


def _length_witness(topology: Topology, network: Network, lengths: tuple[Fraction, ...]) -> LengthWitness:
    per_link = [Fraction(0)] * topology.n_links
    for members, length in zip(network.links, lengths, strict=True):
        for e in members:
            per_link[e] = length
    return LengthWitness(tuple(per_link))
