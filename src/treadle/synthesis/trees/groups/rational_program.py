"""Solve the program of shares, sink by sink, and turn both sides of its optimum into rationals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.group_witness import GroupLengthWitness
from treadle.synthesis.trees.groups.every_group import EveryGroup
from treadle.synthesis.trees.groups.exact_basis import BasisSystem, Integers, simplest
from treadle.synthesis.trees.groups.rounded_shares import even_shares
from treadle.synthesis.trees.groups.served_sinks import first_unserved, unserved
from treadle.synthesis.trees.groups.share_program import (
    Floats,
    ShareProgram,
    ShareSolution,
    make_solver,
    run,
)
from treadle.synthesis.trees.groups.shares import RationalShares, fits, over_one_denominator
from treadle.watch import TimeLimitError, Watch

_FIRST_SINKS = 3
"""Of each representative, of different colours."""

_NEW_SINKS = 3
"""Of each representative in a round."""

_SIMPLE = (1000, 10**6)
"""Denominators up to which floats are taken for the nearest simple fraction, at first."""

_CLOSE = Fraction(1, 10**8)
"""Part by which a bound in rationals may differ from the solver's optimum."""


class RationalProgram:
    """The program of shares with its solver.

    Parameters
    ----------
    every : EveryGroup
    program : ShareProgram
        Without sinks; they are added here.
    total : int
        algbw is this many times the program's rate.
    watch : Watch
    """

    def __init__(self, every: EveryGroup, program: ShareProgram, total: int, watch: Watch) -> None:
        self.every, self.union = every, every.union
        self.program, self.total, self.watch = program, total, watch
        self.last: ShareSolution | None = None
        self._solver: Any = None
        self._known: set[tuple[int, int, int]] = set()
        self._upper: tuple[GroupLengthWitness, Fraction] | None = None
        self._is_priced = False

    def optimise(self) -> RationalShares | None:
        """Shares in rationals that attain the optimum, the leanest if there is time; None if that fails.

        Raises
        ------
        TimeLimitError
            If the deadline passed; `last` is then what was found before, of fewer sinks.
        """
        for family in range(len(self.program.families)):
            for number, group in enumerate(self.program.groups):
                _, first = np.unique(group.place_class[group.members], return_index=True)
                # what only one member feeds need not come to it
                able = [place for place in np.sort(first).tolist() if not self._feeds_all(number, place)]
                for place in able[:_FIRST_SINKS]:
                    self._add(family, number, int(group.members[place]))
        while True:
            self.watch.beat("shares of groups", len(self.program.sinks), 0)
            self._solver, self._is_priced = make_solver(self.watch, self.program.n_rows), False
            self._solver.passModel(self.program.model())
            self.last = self.program.solution(*run(self._solver, "shares of groups"))
            # sinks that are still to be asked for mostly cost no rate: then leaner shares serve them, too
            is_complete = not self._add_unserved(self.last)
            try:
                found = self._lean_shares()
            except InfeasibleError:
                found = None
            except TimeLimitError:
                return self._confirmed(self._solver, None)[0] if is_complete else None
            if found is None and is_complete:
                found = self._confirmed(self._solver, None)[0]
            if found is not None or is_complete:
                return found

    def _feeds_all(self, number: int, place: int) -> bool:
        weights = self.program.groups[number].weights
        return not self.program.free_roots and weights[place] == sum(weights)

    def _add(self, family: int, number: int, sink: int) -> bool:
        if (family, number, sink) in self._known:
            return False
        self._known.add((family, number, sink))
        self.program.add_sink(family, number, sink)
        return True

    def _supplies(self, solution: ShareSolution, number: int) -> Floats:
        if self.program.free_roots:
            return solution.roots[number]
        return np.array(self.program.groups[number].weights, dtype=float) * solution.rate

    def _add_unserved(self, solution: ShareSolution) -> int:
        """Ask for sinks that these shares do not serve; returns how many."""
        added = 0
        for family, turned in enumerate(self.program.families):
            for number, group in enumerate(self.program.groups):
                shares, supplies = solution.shares[family][number], self._supplies(solution, number)
                new = 0
                for sink in unserved(self.union.topology, group, turned, shares, supplies, self.watch):
                    new += self._add(family, number, sink)
                    if new == _NEW_SINKS:
                        break
                added += new
        return added

    def lengths(self) -> tuple[GroupLengthWitness, Fraction]:
        """Link lengths from the prices of capacity, and the bound that they prove: the best so far."""
        solution = self._found()
        near = Fraction(solution.rate) * self.program.unit * self.total
        for prices in () if self._is_priced else self._prices(solution):
            witness = GroupLengthWitness(self.program.capacity.spread(prices))
            try:
                bound = witness.bound(self.union.topology, self.union.collective)
            except ScheduleError:  # too many digits, or nothing proved
                continue
            if self._upper is None or bound < self._upper[1]:
                self._upper = witness, bound
            if self.last is not None and bound <= near * (1 + _CLOSE):
                break
        self._is_priced = True
        assert self._upper is not None, "links of length 1 prove a bound"
        return self._upper

    def guesses(self) -> Iterator[ShareSolution]:
        """Shares to begin from where the optimum's are not known in rationals."""
        yield even_shares(self.program, int(self.union.copies.sum()))
        if self.last is not None:
            yield self.last

    def _found(self) -> ShareSolution:
        return even_shares(self.program, 1) if self.last is None else self.last

    def _prices(self, solution: ShareSolution) -> Iterator[list[Fraction]]:
        """Lengths of each class of links: simple ones near the solver's, those of its basis, even ones."""
        sizes = self.program.capacity.sizes
        floats = np.maximum(solution.prices, 0.0) / sizes
        floats /= max(float(floats.max()), 1e-300)
        for limit in _SIMPLE:
            yield [Fraction(v).limit_denominator(limit) for v in floats.tolist()]
        if self.last is not None:
            system = BasisSystem(self._solver)
            costs: Integers = np.zeros(system.n_columns, dtype=object)
            costs[0] = 1
            for digits in system.dual(costs):
                found = simplest(digits, len(sizes))
                if found is not None:
                    yield [max(v, Fraction(0)) / int(n) for v, n in zip(found, sizes, strict=True)]
        yield [Fraction(1)] * len(sizes)

    def _lean_shares(self) -> RationalShares | None:
        """Shares that attain the bound with the least capacity in all.

        Raises
        ------
        InfeasibleError
            If sinks that the bound does not know of cannot be served at that rate.
        """
        rate = self.lengths()[1] / self.total
        near = float(rate / self.program.unit)
        if abs(near - self._found().rate) > float(_CLOSE) * near:
            return None
        while True:
            solver = make_solver(self.watch, self.program.n_rows)
            solver.passModel(self.program.leanest(near))
            if self._add_unserved(self.program.solution(*run(solver, "leaner shares"))):
                continue
            found, missed = self._confirmed(solver, rate)
            if missed is None or not self.ask(missed):
                return found

    def _confirmed(
        self, solver: Any, rate: Fraction | None
    ) -> tuple[RationalShares | None, tuple[int, int, int] | None]:
        """A basis's shares if they pass all checks; else a sink that they do not serve, if that is why."""
        for found in self._rationals(solver, rate):
            if fits(self.union, self.every.number, found):
                is_served, missed = self.served(found)
                return (found if is_served else None), missed
        return None, None

    def served(self, found: RationalShares) -> tuple[bool, tuple[int, int, int] | None]:
        """Whether shares serve all members of all groups; and a sink of a representative that they miss."""
        missed = self._first_unserved(found)
        return missed is None and self._serves_others(found), missed

    def ask(self, sink: tuple[int, int, int]) -> bool:
        """Ask for a sink, by family, representative and place; whether it was not yet asked for."""
        return self._add(*sink)

    def _rationals(self, solver: Any, rate: Fraction | None) -> Iterator[RationalShares]:
        """Candidates for the basis's shares, the simplest first; at a rate that is given or the basis's."""
        system, program = BasisSystem(solver), self.program
        scale = 1 if rate is None else rate.denominator
        needed: Integers = np.zeros(system.n_rows, dtype=object)
        needed[: len(program.capacity.links)] = [int(b) * scale for b in program.capacity.bandwidths]
        if rate is not None and 0 not in system.columns:
            needed = needed - system.column(0) * rate.numerator
        for digits in system.primal(needed):
            found = simplest(digits, program.n_own)
            if found is not None:
                found = [value / scale for value in found]
                yield self.as_shares(found, found[0] if rate is None else rate)

    def as_shares(self, columns: Sequence[Fraction], rate: Fraction) -> RationalShares:
        """What the program's own columns say, in bytes/s, at a rate of so many bytes/s for each weight."""
        shares, roots = self.program.split(columns)
        if not self.program.free_roots:
            roots = [[w * rate for w in group.weights] for group in self.program.groups]
        return over_one_denominator(rate * self.total, shares, roots)

    def _serves_others(self, found: RationalShares) -> bool:
        """Whether groups that are no representatives are served: equal colours do not make it certain."""
        return all(
            first_unserved(
                self.union.topology,
                one,
                turned,
                found.shares[family][number],
                self.every.in_order_of(one.kind, found.roots[number]),
                self.watch,
            )
            is None
            for number, one in self.every.others()
            for family, turned in enumerate(self.program.families)
        )

    def _first_unserved(self, found: RationalShares) -> tuple[int, int, int] | None:
        for family, turned in enumerate(self.program.families):
            for number, group in enumerate(self.program.groups):
                sink = first_unserved(
                    self.union.topology,
                    group,
                    turned,
                    found.shares[family][number],
                    found.roots[number],
                    self.watch,
                )
                if sink is not None:
                    return family, number, sink
        return None
