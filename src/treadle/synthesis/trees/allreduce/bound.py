"""The allreduce optimum of a fabric, or the best known bound, with a certificate.

The linear program over cuts is exact where switches only forward. Where switches multicast or aggregate it is
a relaxation, as cuts do not capture branching; so it is called the optimum only if trees attain it: those
that visit all capable switches, or on symmetric fabrics a packing of trees that branch where they like.
Source: dissertation, appendix B.7, program (B.5); docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from treadle.context import context, under
from treadle.errors import InfeasibleError
from treadle.math.graphs import reached
from treadle.schedules.collective import Collective
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate, DualCertificate
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork, network_of
from treadle.synthesis.trees.allreduce.rooted_packing import (
    RootedPacking,
    can_pack_rooted_trees,
    pack_rooted_trees,
)
from treadle.synthesis.trees.allreduce.switch_terminals import terminal_network
from treadle.synthesis.trees.allreduce.two_family_lp import LpOptimum, solve_two_family_lp
from treadle.synthesis.trees.allreduce.undirected_packing import TreePacking, pack_fabric_trees
from treadle.synthesis.trees.allreduce.work_budget import work_of
from treadle.topologies.topology import Topology


@dataclass(frozen=True)
class AllreduceBound:
    """An upper bound on the allreduce throughput of a fabric.

    Parameters
    ----------
    algbw : Fraction
        Bytes/s, recomputed from the certificate.
    certificate : DualCertificate or CutCombinationCertificate
    is_attained : bool or None
        True: the bound is the optimum, schedules attain it. None: not known (in-network capabilities,
        injection caps, or a solver's basis that is not exactly feasible).
    """

    algbw: Fraction
    certificate: DualCertificate | CutCombinationCertificate
    is_attained: bool | None


def allreduce_bound(topology: Topology, collective: Collective) -> AllreduceBound:
    """Compute the allreduce optimum, or the best known bound, with a certificate that proves it.

    Parameters
    ----------
    topology : Topology
        Its capabilities are part of the model: switches that multicast and aggregate may copy and combine,
        by themselves or in GPU-initiated operations (`treadle.schedules.in_network`).
        For the optimum without that, pass `without_capabilities(topology)`. Injection caps are not modelled.
    collective : Collective
        An allreduce.

    Raises
    ------
    TimeLimitError
        If the deadline passed.
    InfeasibleError
        If some rank cannot reach another.
    ScheduleError
        If the collective is not an allreduce on the compute nodes of `topology`.

    Notes
    -----
    Source: LP (B.5) of the dissertation, by cuts; see `solve_two_family_lp`. With capable switches it is a
    relaxation. It is known to be attained when it equals the optimum without them, or the optimum of trees
    that visit them all (terminals), or on symmetric fabrics a packing of trees that branch where they like.
    """
    return analyse(topology, collective).bound


@dataclass(frozen=True)
class Analysis:
    """A bound with what was computed on the way.

    Parameters
    ----------
    network : PairNetwork
        With its capabilities.
    bound : AllreduceBound
    setting : LpOptimum
        The better program that rooted trees can attain: of `setting_network`.
    setting_network : PairNetwork
        Without capabilities, or with capable switches and groups as terminals.
    packing : TreePacking, optional
        Where the setting falls short of the bound and the fabric is symmetric.
    rooted : RootedPacking, optional
        Where all that falls short and the fabric is small.
    """

    network: PairNetwork
    bound: AllreduceBound
    setting: LpOptimum
    setting_network: PairNetwork
    packing: TreePacking | None = None
    rooted: RootedPacking | None = None

    @property
    def has_switch_terminals(self) -> bool:
        """Trees of the setting visit the capable switches."""
        return len(self.setting_network.ranks) > len(self.network.ranks)


def analyse(topology: Topology, collective: Collective) -> Analysis:
    """Return the bound of `allreduce_bound`, and programs and trees towards a schedule."""
    network = network_of(topology, collective)
    _check_reachable(topology, network)
    relaxed = solve_two_family_lp(network)
    certificate: DualCertificate | CutCombinationCertificate = relaxed.certificate
    if not (network.multicast or network.aggregation or network.groups):
        if network.is_symmetric:
            certificate = _length_certificate(topology, network, relaxed.prices)
        bound = _concluded(topology, collective, network, certificate, _feasible_rate(relaxed))
        return Analysis(network, bound, relaxed, network)
    setting, setting_network = _best_setting(network, relaxed)
    rate, packing = _feasible_rate(setting), None
    # operations may not attain the sum of parallel links if these divide unequally
    is_even = not network.has_uneven_groups(topology)
    if setting_network.groups and not is_even:
        rate = Fraction(0)
    if rate < relaxed.rate and network.is_symmetric and (network.branching or network.full_groups):
        with under(context().within(work_of(network))):
            packing = pack_fabric_trees(network, hint=relaxed.prices, target=relaxed.rate)
        if is_even or not any(tree.operations for tree, _ in packing.trees):
            rate = max(rate, packing.rate)
        if packing.is_priced:
            lengths = _length_certificate(topology, network, packing.lengths)
            if lengths.bound(topology, collective) < certificate.bound(topology, collective):
                certificate = lengths
    rooted = None
    if rate < relaxed.rate and not (packing and packing.is_priced) and can_pack_rooted_trees(network):
        with under(context().within(work_of(network))):
            rooted = pack_rooted_trees(network, target=relaxed.rate)
        if rooted is not None and (is_even or not rooted.has_operations):
            rate = max(rate, rooted.rate)
    bound = _concluded(topology, collective, network, certificate, rate)
    return Analysis(network, bound, setting, setting_network, packing, rooted)


def _check_reachable(topology: Topology, network: PairNetwork) -> None:
    """Raise InfeasibleError unless every rank reaches every other, through any nodes."""
    first, names = network.ranks[0], topology.node_names
    tails, heads = np.array(network.tails, dtype=np.int64), np.array(network.heads, dtype=np.int64)
    for ends, word in (((tails, heads), "reach"), ((heads, tails), "be reached from")):
        seen = reached(network.n_nodes, *ends, first)
        for rank in (rank for rank in network.ranks if not seen[rank]):
            raise InfeasibleError(
                f"{topology.name}: rank {names[first]!r} cannot {word} rank {names[rank]!r}, so no "
                f"allreduce exists; connect them or drop a rank"
            )


def _best_setting(network: PairNetwork, relaxed: LpOptimum) -> tuple[LpOptimum, PairNetwork]:
    """Return the best of no capabilities, and of trees that visit all terminals, or those of one
    capability."""
    incapable = replace(network, multicast=frozenset(), aggregation=frozenset(), groups=())
    best = solve_two_family_lp(incapable), incapable
    switches, groups = network.with_groups(()), incapable.with_groups(network.full_groups)
    both = network.with_groups(network.full_groups)
    for choice in (both, switches, groups) if switches.branching and groups.groups else (both,):
        if _feasible_rate(best[0]) == relaxed.rate or not (choice.branching or choice.groups):
            break
        visiting = terminal_network(choice)
        found = solve_two_family_lp(visiting, roots=network.ranks)
        if found.rate > best[0].rate:
            best = found, visiting
    return best


def _feasible_rate(program: LpOptimum) -> Fraction:
    return program.rate if program.is_exact else Fraction(0)


def _concluded(
    topology: Topology,
    collective: Collective,
    network: PairNetwork,
    certificate: DualCertificate | CutCombinationCertificate,
    rate: Fraction,
) -> AllreduceBound:
    """Return the bound that the certificate proves, compared with a rate that is known to be feasible."""
    value = certificate.bound(topology, collective)
    capped = bool(topology.injection_bytes_per_s.any())
    return AllreduceBound(value, certificate, True if not capped and rate * network.unit == value else None)


def _length_certificate(
    topology: Topology, network: PairNetwork, lengths: tuple[Fraction, ...]
) -> DualCertificate:
    of_link = {e: length for es, length in zip(network.links, lengths, strict=True) for e in es}
    return DualCertificate(tuple(of_link.get(e, Fraction(0)) for e in range(topology.n_links)))
