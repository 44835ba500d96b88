"""The allreduce linear program (B.5): bandwidth split between in-trees and out-trees, unrestricted roots.

Each link's bandwidth is shared by two families of trees with common roots, and a root may take any share of
the data. Two families of cuts bound the roots' rates; violated ones come from flows. Every rank can be on
either side, so no equal shares are assumed, and the optimum may exceed that of reduce-scatter and allgather
in turn. Source: dissertation, appendix B.7; docs/how-it-works/allreduce-and-groups.md, with the
proof that it is attained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from treadle.math.columns import RestrictedMaster
from treadle.schedules.trees.allreduce_certificate import CutCombinationCertificate, Potential, WeightedCut
from treadle.synthesis.trees.allreduce.cutting_planes import (
    CutFamily,
    balance_of,
    capacity_rows,
    maximise_over_cuts,
)
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork


@dataclass(frozen=True)
class LpOptimum:
    """An optimal solution of the allreduce program, in units of `PairNetwork.unit`.

    Parameters
    ----------
    rate : Fraction
        T, the sum of the root rates.
    root_rates : mapping of node to Fraction
        x(v) of every possible root.
    broadcast, reduce : tuple of Fraction, length m
        Bandwidth set aside on each pair for out-trees and in-trees.
    asked : pair of mappings of group node to tuple of Fraction
        Per member the rate of stores that it initiates in out-trees, and of loads that sum in in-trees.
    prices : tuple of Fraction, length m
        The dual of each pair's bandwidth; as lengths they make every pair of trees at least 1 long.
    certificate : CutCombinationCertificate
        The rest of the dual solution.
    is_exact : bool
        The primal side holds exactly, so `rate` is not above what the program allows.
    """

    rate: Fraction
    root_rates: Mapping[int, Fraction]
    broadcast: tuple[Fraction, ...]
    reduce: tuple[Fraction, ...]
    asked: tuple[Mapping[int, tuple[Fraction, ...]], Mapping[int, tuple[Fraction, ...]]]
    prices: tuple[Fraction, ...]
    certificate: CutCombinationCertificate
    is_exact: bool


def solve_two_family_lp(network: PairNetwork, *, roots: Sequence[int] | None = None) -> LpOptimum:
    """Maximise the total root rate of balanced in-tree and out-tree bandwidths.

    Parameters
    ----------
    network : PairNetwork
    roots : sequence of int, optional
        Nodes that may be roots; default `network.roots`.

    Returns
    -------
    LpOptimum

    Notes
    -----
    Variables: c_BC(e), c_RE(e) with sum at most b(e), and x(v). For every node set S that leaves out some
    rank: c_BC out of S >= x(S) and c_RE into S >= x(S). Every node that is neither a rank nor capable passes
    on exactly what it receives, in both. Sets that contain every rank are not constraints: nothing has to
    leave.

    This is exact without capable switches. *Upper bound*: a packing of pairs of trees gives such c and x.
    *Attained*: scale the solution to integers and look at c_BC with a super-source s that feeds x(v) into
    each rank v, and X = x(Vc) arcs from every rank back to s. Every cut between two terminals (ranks and s)
    has capacity X or more, and the nodes to be removed are balanced, so by Mader's theorem in the directed
    form of Bang-Jensen, Frank and Jackson each can be split off completely, its arcs joined in pairs,
    without lowering the connectivity between terminals; the others stay balanced. What is left has only
    ranks and s, and by Edmonds' theorem X arc-disjoint out-trees leave s, x(v) of them through v. In-trees
    are the same on reversed links. Unlike in B.7, no variables b' for pairs of ranks are needed:
    conservation says what the flows between ranks would say.

    At capable switches conservation is dropped (and one that both multicasts and aggregates may be a root):
    an upper bound that need not be attained. Switches with GPU-initiated operations stay balanced. Their
    operations have variables a(w, r) of their own, in each family: a store loads (r, w) and every (w, m) of
    the group, r included, and crosses the cut of S if r is in S and some member is not; reducing is the
    mirror image. This, too, is an upper bound: cuts alone do not capture one tail with many heads.

    On a symmetric fabric one may take c_RE(u, v) = c_BC(v, u), by averaging a solution with its mirror image;
    half of the variables and cuts remain.
    """
    mirrored = (
        network.is_symmetric
        and network.multicast == network.aggregation
        and network.groups == network.full_groups
    )
    lp = RestrictedMaster(max(network.capacity))
    rates = {root: lp.add_column(1) for root in (network.roots if roots is None else roots)}
    families = []
    for leaving in (True,) if mirrored else (True, False):
        shares = tuple(lp.add_column(0) for _ in range(network.n_pairs))
        # columns for the operations of each group that the family may use
        able = [group for group in network.groups if (group.multicasts if leaving else group.aggregates)]
        asking = {group.node: tuple(lp.add_column(0) for _ in group.members) for group in able}
        families.append(CutFamily(leaving, shares, asking))
    crossings = _crossings(network, families)

    def add_pair(e: int, *columns: int) -> int:
        return lp.add_row({**dict.fromkeys(columns, 1), **crossings[e]}, network.capacity[e])

    rows_of_pairs = capacity_rows(network, families, add_pair)
    conserved = [
        {
            node: lp.add_row(row, equality=True)
            for node, row in balance_of(network, family.columns, capable).items()
        }
        for family, capable in zip(families, (network.multicast, network.aggregation), strict=False)
    ]
    vertex, is_exact = maximise_over_cuts(lp, network, families, rates)
    cuts: list[list[WeightedCut]] = []
    potentials: list[list[Potential]] = []
    for family, rows in zip(families, conserved, strict=True):
        priced = [(nodes, vertex.dual[row]) for nodes, row in family.rows.items() if vertex.dual[row] > 0]
        cuts.append([(tuple(sorted(v for v in nodes if v < network.n_nodes)), p) for nodes, p in priced])
        potentials.append([(node, -vertex.dual[row]) for node, row in rows.items() if vertex.dual[row]])
    capacities = [tuple(vertex.primal[j] for j in family.columns) for family in families]
    asked = [
        {node: tuple(vertex.primal[j] for j in columns) for node, columns in family.asked.items()}
        for family in families
    ]
    prices = tuple(max(Fraction(0), vertex.dual[row]) for row in rows_of_pairs)
    if mirrored:
        # the mirrored program represents both families: half of every dual belongs to each
        cuts = [[(nodes, p / 2) for nodes, p in cuts[0]]] * 2
        potentials = [[(node, sign * f / 2) for node, f in potentials[0]] for sign in (1, -1)]
        capacities.append(tuple(capacities[0][r] for r in network.reverse))
        asked.append(asked[0])
    link_prices: list[tuple[int, Fraction]] = []
    if network.groups:  # operations may cross several links together, which a certificate has to price
        part = Fraction(1, 2 if mirrored else 1)
        priced_links = zip(network.links, prices, strict=True)
        link_prices = [(link, price * part) for members, price in priced_links for link in members if price]
    return LpOptimum(
        rate=sum((vertex.primal[j] for j in rates.values()), Fraction(0)),
        root_rates={root: vertex.primal[j] for root, j in rates.items()},
        broadcast=capacities[0],
        reduce=capacities[1],
        asked=(asked[0], asked[1]),
        prices=prices,
        certificate=CutCombinationCertificate(
            tuple(cuts[0]),
            tuple(cuts[1]),
            tuple(potentials[0]),
            tuple(potentials[1]),
            tuple(sorted(link_prices)),
        ),
        is_exact=is_exact,
    )


def _crossings(network: PairNetwork, families: Sequence[CutFamily]) -> list[dict[int, int]]:
    """Count how often the operations of each column cross each pair; mirrored, loads count as stores."""
    found: list[dict[int, int]] = [{} for _ in range(network.n_pairs)]
    for group, family in product(network.groups, families):
        columns = family.asked.get(group.node, ())
        for stores in (True, False) if len(families) == 1 else (family.leaving,):
            calls, members = (group.up, group.down) if stores else (group.down, group.up)
            for column, call in zip(columns, calls, strict=False):
                for pair in (call, *members):
                    found[pair][column] = found[pair].get(column, 0) + 1
    return found
