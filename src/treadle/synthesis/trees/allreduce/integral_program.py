"""The integer program of whole in-trees and out-trees within given numbers of trees per pair of nodes.

Splitting off and Edmonds' theorem need integers and balance and nothing else: so whole capacities within the
floors, balanced at relays, that satisfy the cuts of whole roots' numbers, are whole trees. Source:
docs/algorithms/allreduce.md, "A limited number of trees".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, inf

from treadle.math.columns import IntegerProgram
from treadle.synthesis.trees.allreduce.cutting_planes import CutFamily, balance_of, separate
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.allreduce.separation import Number

_TOLERANCE = 1e-7
_MOST_CUTS = 2**9
"""Rounds of cuts for one integer solution."""


class IntegralTreeProgram:
    """Most roots x(Vc), where cuts of c_BC and c_RE hold them and c_BC + c_RE fit the room of every pair.

    Parameters
    ----------
    network : PairNetwork
        Without capable switches.
    n_roots : int, optional
        Only the first so many ranks may be roots.

    Notes
    -----
    On a symmetric network c_RE is the mirror image of c_BC, as in `solve_two_family_lp`: between two nodes
    that is an orientation of undirected trees. Cuts that were violated once are kept for all rooms. Of all
    whole solutions an even one is looked for, with c_BC as near to c_RE as can be on every pair: trees packed
    into vertices of the linear program turn out twice as high.
    """

    def __init__(self, network: PairNetwork, n_roots: int | None = None) -> None:
        self.network = network
        self._program = IntegerProgram()
        self._roots = {rank: self._program.column(1) for rank in network.ranks[:n_roots]}
        self._is_mirrored = network.is_symmetric
        directions = (True,) if self._is_mirrored else (True, False)
        self._families = [
            CutFamily(leaving, tuple(self._program.column() for _ in range(network.n_pairs)))
            for leaving in directions
        ]
        columns = self._columns = [family.columns or () for family in self._families]
        self._total_row = self._program.add_row(dict.fromkeys(self._roots.values(), 1))
        self._even: list[int] = []
        self._room_rows = self._add_room()
        for own in columns:
            for row in balance_of(network, own, frozenset()).values():
                self._program.add_row(row, 0, lower=0)
        self._room = [0] * network.n_pairs
        everything = frozenset(range(network.n_nodes))
        for family in self._families:
            for rank in network.ranks:
                family.add(self._program, network, self._roots, frozenset([rank]))
                family.add(self._program, network, self._roots, everything - {rank})

    def _add_room(self) -> list[int]:
        """The row of each pair; mirrored, two opposite pairs have one."""
        rows: list[int] = []
        for e in range(self.network.n_pairs):
            opposite = self.network.reverse[e]
            if self._is_mirrored and opposite < e:
                rows.append(rows[opposite])
                continue
            broadcast = self._columns[0]
            other = broadcast[opposite] if self._is_mirrored else self._columns[1][e]
            rows.append(self._program.add_row({broadcast[e]: 1, other: 1}, upper=0))
            # an even solution has the sum of these, the lower of each two, as large as can be
            lower = self._program.column()  # the lower of the two
            for column in (broadcast[e], other):
                self._program.add_row({lower: 1, column: -1}, upper=0)
            self._even.append(lower)
        return rows

    def set_free_capacity(self, room: Sequence[int]) -> None:
        """Trees that each pair may hold, in-trees and out-trees together."""
        self._room = list(room)
        least = dict.fromkeys(self._room_rows, max(room))
        for row, value in zip(self._room_rows, room, strict=True):
            least[row] = min(least[row], value)
        for row, value in least.items():
            self._program.solver.changeRowBounds(row, -inf, value)

    def relaxed(self) -> tuple[float, list[float]]:
        """The rate of the linear relaxation, and a price per pair; the room of all pairs costs the rate."""
        self._aim()
        values, duals = self._fractional()
        prices = [max(0.0, duals[row]) for row in self._room_rows]
        if self._is_mirrored:  # one row for two pairs
            prices = [price / 2 for price in prices]
        return sum(values[column] for column in self._roots.values()), prices

    def integral(self, trees: int) -> tuple[list[int], list[int], list[int]] | None:
        """Roots per rank, c_BC and c_RE per pair of so many whole trees; None if none were found.

        Roots are spread over the ranks as evenly as they can be.
        """
        # even roots first: trees of few roots are higher; twice as many of one where cuts ask for it
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
        """Most trees of a root, and of all; and whether so many are to be even, or many."""
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
        """Add cuts that the values violate; returns how many are new."""
        return separate(self._program, self.network, self._families, self._roots, values, tolerance)

    def _read(self, values: Sequence[int]) -> tuple[list[int], list[int], list[int]] | None:
        """The solution; None where the solver's rounding left it beyond a row."""
        network = self.network
        roots = [values[self._roots[rank]] if rank in self._roots else 0 for rank in network.ranks]
        shares = [[values[column] for column in columns] for columns in self._columns]
        if self._is_mirrored:
            shares.append([shares[0][opposite] for opposite in network.reverse])
        is_within = all(b + r <= room for b, r, room in zip(*shares, self._room, strict=True))
        for share in shares:
            surplus = Counter[int]()
            for tail, head, units in zip(network.tails, network.heads, share, strict=True):
                surplus[tail] += units
                surplus[head] -= units
            is_within &= {node for node, value in surplus.items() if value} <= {*network.ranks}
        return (roots, shares[0], shares[1]) if is_within else None
