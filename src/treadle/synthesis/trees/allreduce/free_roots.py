"""Trees with free roots when each direction of data gets half of every link.

If half of every link holds in-trees and half out-trees with the same roots, the two together are an
allreduce. Only the roots' rates are free, which makes one linear program over the cuts of both halves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from treadle.synthesis.trees.allreduce.cutting_planes import CutFamily, maximise_over_cuts
from treadle.synthesis.trees.allreduce.exact_lp import GrowingLp
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork


@dataclass(frozen=True)
class FreeRoots:
    """The best root rates x(v) for in-trees in one half of every link and out-trees in the other.

    Parameters
    ----------
    rate : Fraction
        Sum of the root rates, in units of `PairNetwork.unit`.
    root_rates : tuple of Fraction
        Per rank.
    """

    rate: Fraction
    root_rates: tuple[Fraction, ...]


def solve_free_roots(network: PairNetwork, n_roots: int | None = None) -> FreeRoots | None:
    """Maximise x(Vc) where x(S) is at most half the bandwidth out of S and into S, if S leaves out a rank.

    Parameters
    ----------
    network : PairNetwork
        Switches are treated as incapable.
    n_roots : int, optional
        Only the first so many ranks may be roots.

    Returns
    -------
    FreeRoots or None
        None where halves cannot be packed as they are: some switch or forwarder is not balanced; or where the
        solver's basis is not exactly feasible.
    """
    surplus = [0] * network.n_nodes
    for tail, head, bandwidth in zip(network.tails, network.heads, network.capacity, strict=True):
        surplus[tail] += bandwidth
        surplus[head] -= bandwidth
    ranks = frozenset(network.ranks)
    if any(value for node, value in enumerate(surplus) if node not in ranks):
        return None
    # Where the ranks are balanced too, as much leaves a set as enters it.
    balanced = not any(surplus)
    lp = GrowingLp()
    lp.scale = max(network.capacity)
    roots = {rank: lp.add_column(1) for rank in network.ranks[:n_roots]}
    families = [CutFamily(leaving, None) for leaving in ((True,) if balanced else (True, False))]
    vertex, is_exact = maximise_over_cuts(lp, network, families, roots)
    if not is_exact:
        return None
    # the program had all of every link, and each family gets half
    rates = tuple(vertex.primal[roots[rank]] / 2 if rank in roots else Fraction(0) for rank in network.ranks)
    return FreeRoots(sum(rates, Fraction(0)), rates)
