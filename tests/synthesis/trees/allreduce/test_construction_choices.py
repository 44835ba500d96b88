"""Which construction of an allreduce is taken, their order, and how many trees they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from samples.allreduce_fabrics import allreduce
from treadle.synthesis.trees import pack_forest
from treadle.synthesis.trees.allreduce import allreduce_forests as module
from treadle.synthesis.trees.allreduce import tree_schedule
from treadle.synthesis.trees.allreduce.allreduce_forests import Construction, UnitLimits, solve_allreduce
from treadle.synthesis.trees.allreduce.integral_trees import Goal
from treadle.topologies import parse

C = Construction
F = Fraction
LOSS = F(1, 10)


def made(rate: int | Fraction, units: int = 3, by: Construction = C.ROOTED) -> Any:
    return module._Made(F(rate), SimpleNamespace(total_units=units), by)  # type: ignore[arg-type]


class Script:
    """Stands for the builder: answers goals of whole trees in turn, and offers exact constructions."""

    def __init__(
        self, whole: Sequence[Any] = (), exact: Sequence[Any] = (), *, ranks: int = 5, reachable: int = 100
    ) -> None:
        self.bound, self.reachable = F(100), F(reachable)
        self.collective = SimpleNamespace(n_ranks=ranks)
        self.goals: list[Goal] = []
        self.most: list[int] = []
        self.seen = 0
        self._whole, self._exact = list(whole), exact

    def integral_trees(self, goal: Goal) -> Any:
        self.goals.append(goal)
        return self._whole.pop(0)

    def exact(self, allows: Callable[[int], bool], most: int) -> Iterator[Any]:
        self.most.append(most)
        for one in self._exact:
            self.seen += 1
            if allows(one.schedule.total_units):
                yield one


def best(script: Script, phases: Any = None, limits: UnitLimits | None = None) -> Any:
    return module._best(script, phases, limits)  # type: ignore[arg-type]


def test_without_limits_the_best_rate() -> None:
    """Phases that meet the bound are taken at once; others are tried until one meets it."""
    phases = made(100, by=C.PHASES)
    script = Script(exact=[made(100)])
    assert best(script, phases) is phases
    assert (script.goals, script.most) == ([], [])
    slower, equal, better, last = made(70), made(80), made(100), made(100)
    phases = made(80, by=C.PHASES)
    script = Script(exact=[slower, equal, better, last])
    assert best(script, phases) is better
    assert (script.most, script.seen) == ([2**20], 3)
    assert best(Script(exact=[slower, equal]), phases) is phases
    assert best(Script(exact=[slower, made(60)])) is slower
    assert best(Script()) is None


def test_within_limits_whole_trees_come_first() -> None:
    """The goal is what phases have; exact constructions of more trees are left out."""
    whole, many, few = made(90, by=C.WHOLE_TREES), made(100, 8), made(95, 7)
    script = Script([whole], [many, few])
    assert best(script, made(80), UnitLimits(7)) is few
    assert script.goals == [Goal(range(1, 8), F(80))]
    assert script.most == [7]
    script = Script([None], [many])
    assert best(script, None, UnitLimits(7)) is None
    assert script.goals == [Goal(range(1, 8))]
    # phases reach all that is known to be reachable
    phases, script = made(80), Script([], [few], reachable=80)
    assert best(script, phases, UnitLimits(7)) is few
    assert script.goals == []


def test_a_fixed_number_of_trees() -> None:
    """Just so many; what phases have where that fails; something else only where there are none."""
    whole, phases, other = made(60), made(50), made(100)
    script = Script([whole], [other])
    assert best(script, phases, UnitLimits(7, is_fixed=True)) is whole
    assert script.goals == [Goal([7], F(50))]
    assert best(Script([None], [other]), phases, UnitLimits(7, is_fixed=True)) is phases
    assert best(Script([None], [other]), None, UnitLimits(7, is_fixed=True)) is other


@pytest.mark.parametrize(
    ("units", "most", "dyadic", "wanted"),
    [(8, 8, 4, True), (8, 7, 4, False), (6, 8, 4, False), (8, 8, 0, False), (1, 8, 4, True)],
)
def test_powers_of_two_within_the_limit(units: int, most: int, dyadic: int, wanted: bool) -> None:
    assert UnitLimits(most, dyadic=dyadic).prefers(units) is wanted


LIMITS = UnitLimits(33, dyadic=16, dyadic_loss=LOSS)
ALL = 1 - F(1, 10**9)


def preferred(script: Script, phases: Any = None) -> Any:
    return module._preferred(script, phases, LIMITS)  # type: ignore[arg-type]


def test_a_power_of_two_that_loses_little() -> None:
    """Five ranks take eight trees or more; up to 64, the power of two from the limit on, for no loss."""
    without_loss = Goal([8, 16, 32, 64], 100 * ALL, is_fewest=True)
    with_loss = Goal([8, 16], F(90), is_fewest=True)
    # phases: a power of two above the least rate
    good = made(91, 16)
    assert preferred(Script(), good) is good
    whole = made(100, 32)
    for phases in (made(90, 16), made(91, 64), made(91, 12), None):
        script = Script([whole])
        assert preferred(script, phases) is whole
        assert script.goals == [without_loss]
    # whole trees of 64 are more than the limit, and exact ones have to be a power of two and good
    taken = made(95, 4)
    script = Script([made(100, 64)], [made(100, 12), made(90, 8), taken, made(100, 8)])
    assert preferred(script) is taken
    assert script.goals == [without_loss]
    assert script.most == [33]
    # then those that lose a little
    little = made(91, 8)
    script = Script([None, little], [made(100, 12)])
    assert preferred(script) is little
    assert script.goals == [without_loss, with_loss]
    script = Script([None, made(90, 8)])
    assert preferred(script) is None
    # phases that meet the bound are the exact construction
    script = Script([None, None], [made(100, 8)])
    assert preferred(script, made(100, 12)) is None
    assert script.most == []


@pytest.mark.parametrize(("ranks", "first"), [(1, 1), (2, 2), (4, 4), (5, 8), (8, 8), (9, 16)])
def test_no_fewer_trees_than_ranks(ranks: int, first: int) -> None:
    script = Script([None, None], ranks=ranks)
    preferred(script)
    assert [goal.numbers[0] for goal in script.goals] == [first, first]
    assert [goal.numbers[-1] for goal in script.goals] == [64, 16]


def builder(
    *, symmetric: bool = True, terminals: bool = False, exact: bool = True, pack: bool = True
) -> module._Builder:
    analysis: Any = SimpleNamespace(
        network=SimpleNamespace(
            is_symmetric=symmetric,
            ranks=(),
            groups=(),
            n_pairs=0,
            multicast=frozenset(),
            aggregation=frozenset(),
        ),
        has_switch_terminals=terminals,
        setting=SimpleNamespace(is_exact=exact),
    )
    none: Any = None
    return module._Builder(none, none, analysis, none if not pack else object())  # type: ignore[arg-type]


TREES, TWO, COLUMNS = C.TREES, C.TWO_FAMILIES, C.ROOTED


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, [TREES, TWO, COLUMNS]),
        ({"terminals": True}, [TWO, TREES, COLUMNS]),
        ({"symmetric": False}, [TWO, COLUMNS]),
        ({"exact": False}, [TREES, COLUMNS]),
        ({"pack": False}, [TREES, COLUMNS]),
        ({"pack": False, "terminals": True}, [TREES, COLUMNS]),
    ],
)
def test_order_of_exact_constructions(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, bool], order: list[Construction]
) -> None:
    """Those that are none, or of a number that is not allowed, are passed over."""
    asked: list[tuple[Construction, Any]] = []
    units = dict.fromkeys(C, 6)

    def answer(construction: Construction, given: Any) -> Any:
        asked.append((construction, given))
        return None if not units[construction] else SimpleNamespace(total_units=units[construction])

    monkeypatch.setattr(module._Builder, "_undirected", lambda _, most: answer(TREES, most))
    monkeypatch.setattr(module._Builder, "_by_columns", lambda _, most: answer(COLUMNS, most))
    monkeypatch.setattr(module._Builder, "_rooted", lambda _, allows: answer(TWO, 9))
    monkeypatch.setattr(module, "algbw_of", lambda topology, schedule: F(schedule.total_units))

    def allows(number: int) -> bool:
        return number == 6

    found = list(builder(**options).exact(allows, 9))
    assert [one.construction for one in found] == order
    assert asked == [(construction, 9) for construction in order]
    assert {one.algbw for one in found} == {F(6)}
    units[order[0]], units[order[-1]] = 0, 7
    assert [one.construction for one in builder(**options).exact(allows, 9)] == order[1:-1]


@pytest.mark.parametrize(
    ("setting", "packing", "groups", "uneven", "reachable"),
    [
        (F(7), None, False, True, 14),
        (F(7), F(8), False, False, 16),
        (F(7), F(6), False, False, 14),
        (F(70), None, False, False, 100),
        (F(7), None, True, True, 100),  # operations over parallel links that divide unlike
        (F(7), None, True, False, 14),
        (F(7), F(3), True, True, 6),
        (None, F(3), False, False, 6),
        (None, None, False, False, 100),
    ],
)
def test_rates_that_are_known_to_be_reached(
    setting: Fraction | None, packing: Fraction | None, groups: bool, uneven: bool, reachable: int
) -> None:
    """In units of two bytes/s, at most the bound of 100; the bound where none is known."""
    analysis: Any = SimpleNamespace(
        bound=SimpleNamespace(algbw=F(100)),
        network=SimpleNamespace(unit=2, has_uneven_groups=lambda _: uneven),
        setting=SimpleNamespace(is_exact=setting is not None, rate=F(99) if setting is None else setting),
        setting_network=SimpleNamespace(groups=(1,) if groups else ()),
        packing=None if packing is None else SimpleNamespace(rate=packing),
    )
    none: Any = None
    assert module._Builder(none, none, analysis, none, none).reachable == reachable


@pytest.mark.parametrize(
    ("exact", "most", "numbers"),
    [
        (5, 9, [1, 2, 3, 4, 5]),
        (9, 9, [*range(1, 10)]),
        (10, 9, [*range(1, 10)]),  # all up to the limit
        (70, 80, [*range(1, 65), 70]),
        (99, 66, [*range(1, 65), 66]),
        (10**6, 640, [*range(1, 65), *(20 * place for place in range(4, 33))]),
    ],
)
def test_numbers_of_units_that_are_tried(exact: int, most: int, numbers: list[int]) -> None:
    assert tree_schedule._unit_numbers(exact, most) == numbers


@pytest.mark.parametrize(
    ("shares", "units", "counts"),
    [
        ([1, 1, 1], 2, [1, 1, 0]),  # equal remainders: the first ones
        ([5, 3, 2], 4, [2, 1, 1]),  # 2, 1.2 and 0.8
        ([2, 5, 3], 3, [1, 1, 1]),  # 0.6, 1.5 and 0.9
        ([2, 5, 3], 10, [2, 5, 3]),
        ([9, 1], 1, [1, 0]),
    ],
)
def test_units_by_largest_remainders(shares: list[int], units: int, counts: list[int]) -> None:
    assert tree_schedule.apportioned(shares, units) == counts


@pytest.mark.parametrize(
    ("packed", "limits", "by", "rate", "units", "exact"),
    [
        # a ring holds the four paths of three links, a third of a byte/s each
        (False, None, C.TREES, F(4, 3), 4, 4),
        (False, UnitLimits(2), C.TREES, 1, 1, 4),
        (False, UnitLimits(2, is_fixed=True), C.TREES, 1, 1, 4),
        (False, UnitLimits(6), C.TREES, F(4, 3), 4, 4),
        (True, None, C.TREES, F(4, 3), 4, 4),
        (True, UnitLimits(2), C.WHOLE_TREES, 1, 1, 4),
        (True, UnitLimits(6), C.WHOLE_TREES, F(4, 3), 4, 4),
        (True, UnitLimits(2, is_fixed=True), C.WHOLE_TREES, 1, 2, None),
    ],
)
def test_units_of_what_attains_the_bound(
    packed: bool,
    limits: UnitLimits | None,
    by: Construction,
    rate: Fraction,
    units: int,
    exact: int | None,
) -> None:
    """They are told also where fewer are taken; a ring of four."""
    ring = parse("ring(4)")
    found = solve_allreduce(ring, allreduce(ring), pack=pack_forest if packed else None, limits=limits)
    assert (found.construction, found.algbw, found.bound.algbw) == (by, rate, F(4, 3))
    assert (found.schedule.total_units, found.exact_units) == (units, exact)
