"""The integer program of integral in-trees and out-trees within given numbers of trees per pair of nodes.

Edge splitting and Edmonds' theorem need only integers and balance: so integral capacities within the floors,
balanced at relays, that satisfy the cuts of integral root numbers, hold integral trees. Source:
docs/algorithms/allreduce.md, "A limited number of trees".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf

from treadle.math.columns import IntegerProgram
from treadle.synthesis.trees.allreduce.cutting_planes import (
    CutFamily,
    add_first_cuts,
    balance_of,
    capacity_rows,
    separate,
)
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.allreduce.separation import Number

_TOLERANCE = 1e-7
_MOST_CUTS = 2**9
"""Rounds of cuts for one integer solution."""


class IntegralTreeProgram:
    """Maximize the roots x(Vc), where cuts of c_BC and c_RE hold them and c_BC + c_RE fit every pair.

    On a symmetric network c_RE is the mirror image of c_BC, as in `solve_two_family_lp`: between two nodes
    that is an orientation of undirected trees. Violated cuts stay for all free capacities. Among integral
    solutions an even one is searched for, with c_BC as near to c_RE as possible on every pair: trees packed
    into vertices of the linear program are twice as high.

    Parameters
    ----------
    network : PairNetwork
        Without capable switches.
    n_roots : int, optional
        Number of first ranks that may be roots.
    """

    def __init__(self, network: PairNetwork, n_roots: int | None = None) -> None:
        self.network, program = network, IntegerProgram()
        self._program = program
        self._roots = {rank: program.column(1) for rank in network.ranks[:n_roots]}
        self._is_mirrored = network.is_symmetric
        self._families = [
            CutFamily(leaving, tuple(program.column() for _ in range(network.n_pairs)))
            for leaving in ((True,) if self._is_mirrored else (True, False))
        ]
        self._total_row = program.add_row(dict.fromkeys(self._roots.values(), 1))
        self._even: list[int] = []

        def add_pair(_: int, *columns: int) -> int:
            row = program.add_row(dict.fromkeys(columns, 1), upper=0)
            # an even solution maximizes the sum of these, the lower of each two
            self._even.append(program.column())
            for column in columns:
                program.add_row({self._even[-1]: 1, column: -1}, upper=0)
            return row

        self._pair_rows = capacity_rows(network, self._families, add_pair)
        for family in self._families:
            for row in balance_of(network, family.columns, frozenset()).values():
                program.add_row(row, 0, lower=0)
        self._free = [0] * network.n_pairs
        add_first_cuts(program, network, self._families, self._roots)

    def set_free_capacity(self, free: Sequence[int]) -> None:
        """Set the number of trees that each pair may hold, in-trees and out-trees together."""
        self._free = list(free)
        least = dict.fromkeys(self._pair_rows, max(free))
        for row, value in zip(self._pair_rows, free, strict=True):
            least[row] = min(least[row], value)
        for row, value in least.items():
            self._program.solver.changeRowBounds(row, -inf, value)

    def relaxed(self) -> tuple[float, list[float]]:
        """Return the rate of the linear relaxation, and a price per pair: all capacity has the price of the
        rate."""
        self._aim()
        values, duals = self._fractional()
        share = 0.5 if self._is_mirrored else 1.0  # mirrored, two pairs have one row
        prices = [share * max(0.0, duals[row]) for row in self._pair_rows]
        return sum(values[column] for column in self._roots.values()), prices

    def integral(self, trees: int) -> tuple[list[int], list[int], list[int]] | None:
        """Return roots per rank, c_BC and c_RE per pair of the integral trees; None if none were found.

        Roots are spread over the ranks as evenly as they can be.
        """
        # even roots first, as trees of few roots are higher; more trees of a root where cuts require it
        most = ceil(trees / len(self._roots))
        while True:
            self._aim(most, trees)
            values, _ = self._fractional()
            if sum(values[column] for column in self._roots.values()) >= trees - 0.5:
                self._aim(most, trees, is_even=True)
                for _ in range(_MOST_CUTS):
                    found = self._program.integers()
                    if found is None:
                        break
                    if not self._separate(found, 0):
                        if (solution := self._read(found)) is not None:
                            return solution
                        break
            if most >= trees:
                return None
            most = min(2 * most, trees)

    def _aim(self, most: float = inf, total: float = inf, *, is_even: bool = False) -> None:
        """Limit the trees of a root and of all; maximize their number, or evenness at exactly that number."""
        solver = self._program.solver
        for column in self._roots.values():
            solver.changeColBounds(column, 0, most)
            solver.changeColCost(column, int(not is_even))
        for column in self._even:
            solver.changeColCost(column, int(is_even))
        solver.changeRowBounds(self._total_row, total if is_even else -inf, total)

    def _fractional(self) -> tuple[list[float], list[float]]:
        while True:
            found = self._program.relaxed()
            assert found is not None, "nothing at all is a solution"
            if not self._separate(found[0], _TOLERANCE):
                return found

    def _separate(self, values: Sequence[Number], tolerance: Number) -> int:
        """Add cuts that the values violate; return how many are new."""
        return separate(self._program, self.network, self._families, self._roots, values, tolerance)

    def _read(self, values: Sequence[int]) -> tuple[list[int], list[int], list[int]] | None:
        """Return the solution; None where the solver's rounding violates a row."""
        network = self.network
        roots = [values[self._roots[rank]] if rank in self._roots else 0 for rank in network.ranks]
        shares = [[values[column] for column in family.columns] for family in self._families]
        if self._is_mirrored:
            shares.append([shares[0][opposite] for opposite in network.reverse])
        is_within = all(b + r <= free for b, r, free in zip(*shares, self._free, strict=True))
        is_within &= all(network.unbalanced(share) <= {*network.ranks} for share in shares)
        return (roots, shares[0], shares[1]) if is_within else None
