"""Numbers of trees that decompositions are searched with, and which of the answers is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.tight_cuts import decompose as module
from treadle.synthesis.trees.tight_cuts import root_weights as shares_module
from treadle.synthesis.trees.tight_cuts.decompose import (
    FactoredSynthesis,
    UnequalShards,
    decompose,
    decompose_allreduce,
)
from treadle.synthesis.trees.tight_cuts.tight_cuts import Decomposition, decompose_with
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

K = CollectiveKind
F = Fraction
BOXES = in_boxes(2, 2)
RANKS = tuple(BOXES.compute_nodes.tolist())
NONE = Unsupported("none")
ONE = F(1)
LOSS = F(1, 100)
Asked = tuple[int, int, int, Fraction | None]
"""First number, last number, how many, and the share of the optimum."""


@cache
def example() -> Decomposition:
    """One tree for each rank of the boxes."""
    found = decompose_with(instance_of(BOXES, Collective(K.ALLGATHER, RANKS)), [1])
    assert isinstance(found, Decomposition)
    return replace(found, optimum=replace(found.optimum, algbw=F(1000)))


def made(trees: int, *, of: Fraction = ONE, exact: int = 0) -> Decomposition:
    """A decomposition that claims so many trees, and this part of an optimum of 1000 bytes/s."""
    return replace(example(), trees=trees, algbw=1000 * of, exact_trees=exact)


def answering(
    monkeypatch: pytest.MonkeyPatch, answers: Sequence[Decomposition | Unsupported]
) -> tuple[list[Asked], list[str]]:
    """Give the search these answers in turn; what it is asked, and the directions, come in the lists."""
    asked: list[Asked] = []
    ways: list[str] = []
    left = list(answers)

    def search(
        problem: Any, trees: Sequence[int], *, share: Fraction | None = None, **_: Any
    ) -> Decomposition | Unsupported:
        asked.append((trees[0], trees[-1], len(trees), share))
        ways.append(problem.direction.name)
        answer = left.pop(0)
        if isinstance(answer, Unsupported):
            return answer
        return replace(answer, forest=replace(answer.forest, direction=problem.direction))

    monkeypatch.setattr(module, "decompose_with", search)
    return asked, ways


@pytest.mark.parametrize(
    ("budget", "weights", "answers", "asked", "taken"),
    [
        (TreeBudget(trees=3), None, [made(3)], [(3, 3, 1, None)], 0),
        (TreeBudget(exact=True), None, [made(7)], [(1, 2**20, 2**20, ONE)], 0),
        (TreeBudget(max_trees=5), None, [made(4)], [(1, 5, 5, None)], 0),
        (TreeBudget(max_trees=2**12 + 1), None, [made(4)], [(1, 2**12, 2**12, None)], 0),
        (TreeBudget(), None, [made(7, exact=7)], [(1, 64, 64, ONE)], 0),
        # 64 for each of four ranks in all, 42 per unit of weight
        (TreeBudget(), (3, 1, 1, 1), [made(7)], [(1, 42, 42, ONE)], 0),
        (TreeBudget(), (3, 1, 1, 1), [NONE, made(7, exact=7)], [(1, 42, 42, ONE), (1, 42, 42, None)], 1),
        (TreeBudget(), (1, 0, 0, 0), [NONE, made(9, exact=9)], [(1, 256, 256, ONE), (1, 64, 64, None)], 1),
        (TreeBudget(), None, [NONE, NONE], [(1, 64, 64, ONE), (1, 64, 64, None)], 1),
        # a power of two attains the optimum: at once, or as one that is asked for
        (TreeBudget(dyadic_loss=LOSS), None, [made(8, exact=8)], [(1, 64, 64, ONE)], 0),
        (
            TreeBudget(dyadic_loss=LOSS),
            None,
            [made(6, exact=6), made(16, exact=16)],
            [(1, 64, 64, ONE), (1, 64, 7, ONE)],
            1,
        ),
        # none does: the fewest that lose less than a hundredth, else the optimum
        (
            TreeBudget(dyadic_loss=LOSS),
            None,
            [made(6, exact=6), made(7, exact=7), made(4, of=F(991, 1000))],
            [(1, 64, 64, ONE), (1, 64, 7, ONE), (1, 16, 5, 1 - LOSS)],
            2,
        ),
        (
            TreeBudget(dyadic_loss=LOSS),
            None,
            [made(6, exact=6), NONE, made(4, of=1 - LOSS)],
            [(1, 64, 64, ONE), (1, 64, 7, ONE), (1, 16, 5, 1 - LOSS)],
            0,
        ),
        (
            TreeBudget(dyadic_loss=LOSS),
            None,
            [made(6, exact=6), NONE, NONE],
            [(1, 64, 64, ONE), (1, 64, 7, ONE), (1, 16, 5, 1 - LOSS)],
            0,
        ),
        (
            TreeBudget(dyadic_loss=LOSS),
            None,
            [NONE, made(4, of=F(991, 1000))],
            [(1, 64, 64, ONE), (1, 16, 5, 1 - LOSS)],
            1,
        ),
        # shares of six units make no power of two of chunks
        (TreeBudget(dyadic_loss=LOSS), (3, 1, 1, 1), [made(7)], [(1, 42, 42, ONE)], 0),
    ],
)
def test_numbers_that_are_searched(
    monkeypatch: pytest.MonkeyPatch,
    budget: TreeBudget,
    weights: tuple[int, ...] | None,
    answers: list[Decomposition | Unsupported],
    asked: list[Asked],
    taken: int,
) -> None:
    seen, _ = answering(monkeypatch, answers)
    found = decompose(BOXES, Collective(K.ALLGATHER, RANKS, weights=weights), budget=budget, lower=False)
    assert seen == asked
    wanted = answers[taken]
    if isinstance(wanted, Unsupported):
        assert found is wanted
        return
    assert isinstance(found, FactoredSynthesis)
    (part,) = found.parts
    assert (part.trees, part.algbw, part.forest) == (wanted.trees, wanted.algbw, wanted.forest)
    assert (found.trees_per_root, found.algbw) == (wanted.trees, wanted.algbw)
    # the optimum stays proved by what attains it
    first = answers[0]
    known = first.exact_trees if isinstance(first, Decomposition) else 0
    assert found.exact_trees == (wanted.exact_trees or known)


def test_without_sets_one_number_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = parse("complete(4)")
    collective = Collective(K.ALLGATHER, (0, 1, 2, 3))
    for budget, trees in ((TreeBudget(), 1), (TreeBudget(exact=True), 1), (TreeBudget(trees=3), 3)):
        seen, _ = answering(monkeypatch, [NONE])
        assert decompose(fabric, collective, budget=budget) is NONE
        assert seen == [(trees, trees, 1, None)]


@pytest.mark.parametrize(
    ("needed", "weights", "is_refused"),
    [(64, None, True), (65, None, False), (42, (3, 1, 1, 1), True), (43, (3, 1, 1, 1), False)],
)
def test_sets_that_miss_an_optimum_of_few_trees(
    monkeypatch: pytest.MonkeyPatch, needed: int, weights: tuple[int, ...] | None, is_refused: bool
) -> None:
    """The pipeline attains it by 64 trees a rank, so a forest that does not is none."""
    answering(monkeypatch, [Unsupported("no luck"), made(5, of=F(9, 10))])
    monkeypatch.setattr(module, "exact_number", lambda *_: needed)
    found = decompose(BOXES, Collective(K.ALLGATHER, RANKS, weights=weights), lower=False)
    if is_refused:
        words = f"{needed} trees per unit of weight attain the optimum, but not by these sets (no luck)"
        assert str(found) == words
    else:
        assert isinstance(found, FactoredSynthesis)
        assert found.trees_per_root == 5


@pytest.mark.parametrize(
    ("answers", "asked", "result"),
    [
        ([NONE], 1, "none"),
        ([made(6, of=F(1, 2), exact=6), made(6, of=F(1, 3), exact=4)], 2, (F(200), 6, 12)),
        # the second takes as many as the first, and is as fast as it can be
        ([made(6, exact=6), made(4, exact=4), made(6, exact=6)], 3, (F(500), 6, 6)),
        ([made(6, exact=6), made(4, of=F(1, 2)), made(6, of=F(1, 2))], 3, (F(1000, 3), 6, 0)),
        ([made(6, exact=6), NONE, made(6)], 3, (F(500), 6, 0)),
        ([made(6, exact=6), made(4), NONE], 3, "none"),
        ([made(6), made(4), made(6, of=F(9, 10))], 3, "the two directions need different numbers of trees"),
        ([made(6), NONE, made(6, of=F(9, 10))], 3, "the two directions need different numbers of trees"),
        ([made(6), made(6, of=F(9, 10))], 2, (F(9000, 19), 6, 0)),
    ],
)
def test_both_directions_take_as_many_trees(
    monkeypatch: pytest.MonkeyPatch,
    answers: list[Decomposition | Unsupported],
    asked: int,
    result: str | tuple[Fraction, int, int],
) -> None:
    """First the allgather, then the reduce-scatter: by itself, and with the trees of the first."""
    seen, ways = answering(monkeypatch, answers)
    found = decompose(BOXES, Collective(K.ALLREDUCE, RANKS), budget=TreeBudget(exact=True), lower=False)
    every = (1, 2**20, 2**20, ONE)
    assert seen == [every, every, (6, 6, 1, None)][:asked]
    assert ways == ["BROADCAST", "REDUCE", "REDUCE"][:asked]
    if isinstance(result, str):
        assert str(found) == result
    else:
        assert isinstance(found, FactoredSynthesis)
        assert (found.algbw, found.trees_per_root, found.exact_trees) == result
        told = [(part.trees, part.algbw) for part in found.parts]
        kept = [one for one in (answers[-1], answers[0]) if isinstance(one, Decomposition)]
        assert told == [(part.trees, part.algbw) for part in kept]


UNEQUAL, OTHER, EVEN = (2, 1, 1, 1), (5, 3, 3, 3), (1, 1, 1, 1)
Phases = Mapping[tuple[int, ...] | None, Fraction | Unsupported]


def shared(
    monkeypatch: pytest.MonkeyPatch,
    choices: Sequence[tuple[tuple[int, ...], int]],
    phases: Phases,
    bound: Callable[[Topology, Collective], Fraction] = lambda *_: F(99),
    budget: TreeBudget | None = None,
) -> tuple[UnequalShards | Unsupported, list[tuple[tuple[int, ...] | None, TreeBudget]]]:
    """Allreduce where these shards would have these rates, and two phases of shards attain those."""
    certificate = SimpleNamespace(bound=bound)
    offered = tuple(SimpleNamespace(weights=w, rate=F(rate), certificate=certificate) for w, rate in choices)
    monkeypatch.setattr(shares_module, "root_weights", lambda *_, **__: offered)
    asked = []

    def two_phases(_: Topology, __: Collective, weights: Any, given: TreeBudget, *rest: Any) -> Any:
        asked.append((weights, given))
        rate = phases[weights]
        return rate if isinstance(rate, Unsupported) else SimpleNamespace(algbw=rate)

    monkeypatch.setattr(module, "_two_phases", two_phases)
    found = decompose_allreduce(BOXES, Collective(K.ALLREDUCE, RANKS), budget=budget, lower=False)
    return found, asked


@pytest.mark.parametrize(
    ("choices", "phases", "weights", "rate"),
    [
        ([(UNEQUAL, 10), (EVEN, 8)], {UNEQUAL: F(10)}, UNEQUAL, 10),
        ([(UNEQUAL, 10), (OTHER, 8)], {UNEQUAL: F(9), OTHER: F(8)}, OTHER, 8),
        ([(UNEQUAL, 10), (OTHER, 8)], {UNEQUAL: NONE, OTHER: F(8)}, OTHER, 8),
        # none is as fast as its cuts allow: equal shards, unless they are slower
        ([(UNEQUAL, 10), (OTHER, 8)], {UNEQUAL: F(9), OTHER: F(7), None: F(7)}, EVEN, 7),
        ([(UNEQUAL, 10), (OTHER, 8)], {UNEQUAL: F(9), OTHER: F(7), None: F(6)}, OTHER, 7),
        ([(UNEQUAL, 10)], {UNEQUAL: F(9), None: NONE}, UNEQUAL, 9),
        ([(UNEQUAL, 10)], {UNEQUAL: NONE, None: F(6)}, EVEN, 6),
        ([(UNEQUAL, 10)], {UNEQUAL: NONE, None: NONE}, None, 0),
    ],
)
def test_shards_that_are_taken(
    monkeypatch: pytest.MonkeyPatch,
    choices: Sequence[tuple[tuple[int, ...], int]],
    phases: Phases,
    weights: tuple[int, ...] | None,
    rate: int,
) -> None:
    found, _ = shared(monkeypatch, choices, phases)
    if weights is None:
        assert found is NONE
        return
    assert isinstance(found, UnequalShards)
    assert (found.weights, found.found.algbw, found.bound) == (weights, F(rate), F(99))


def test_fabrics_without_shards_or_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = shared(monkeypatch, [], {})
    assert (str(found), asked) == ("sets of ranks that differ are too many", [])

    def unbounded(*_: Any) -> Fraction:
        raise ScheduleError("too long")

    found, asked = shared(monkeypatch, [(UNEQUAL, 10)], {}, unbounded)
    assert (str(found), asked) == ("no bound by link lengths: too long", [])


@pytest.mark.parametrize(
    ("weights", "budget", "asked"),
    [
        (EVEN, TreeBudget(trees=3), (None, TreeBudget(trees=3))),
        (UNEQUAL, TreeBudget(trees=3), "the number of trees is for equal shards"),
        (UNEQUAL, TreeBudget(dyadic_loss=LOSS), (UNEQUAL, TreeBudget())),
        (UNEQUAL, TreeBudget(exact=True), (UNEQUAL, TreeBudget(exact=True))),
        # four trees a rank are 16 in all, three for each of five units
        (UNEQUAL, TreeBudget(max_trees=4), (UNEQUAL, TreeBudget(max_trees=3))),
        (UNEQUAL, TreeBudget(max_trees=1), "not enough trees for the shards"),
        ((1, 1, 1, 2), TreeBudget(max_trees=2), ((1, 1, 1, 2), TreeBudget(max_trees=1))),
        ((1, 1, 1, 0), TreeBudget(max_trees=3), ((1, 1, 1, 0), TreeBudget(max_trees=4))),
    ],
)
def test_limits_are_per_rank(
    monkeypatch: pytest.MonkeyPatch,
    weights: tuple[int, ...],
    budget: TreeBudget,
    asked: tuple[tuple[int, ...] | None, TreeBudget] | str,
) -> None:
    """What is asked of both phases for shards; in turn for equal ones, where these are refused."""
    refused = Unsupported("slow")
    found, seen = shared(monkeypatch, [(weights, 10)], {weights: F(10), None: refused}, budget=budget)
    if isinstance(asked, str):
        assert found is refused
        assert seen == [(None, budget)]
        collective = Collective(K.ALLREDUCE, RANKS)
        own = module._of_shares(BOXES, collective, weights, budget, False)
        assert str(own) == asked
    else:
        assert seen[0] == asked
