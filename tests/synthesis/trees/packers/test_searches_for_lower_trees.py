"""Which searches for lower trees are made, how often, with how many steps, and what is told of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.synthesis.trees.packers import improvement as module
from treadle.synthesis.trees.packers.packed import Packed, Packer, PackingAttempt

BEFORE = (PackingAttempt(Packer.GROWTH, "made the forest"),)


def packing(height: int, *, trees: int = 2, ranks: int = 3) -> Any:
    return SimpleNamespace(
        height=height,
        root=np.array([0, 2] + [0] * (trees - 2)),
        multiplicity=np.array([4, 1] + [1] * (trees - 2)),
        parent=np.zeros((trees, ranks), dtype=np.int32),
    )


def searched(after: int, *, failure: str = "") -> Any:
    """A result of either search, from height 6."""
    return SimpleNamespace(
        packing=packing(after), graph=f"graph {after}", before=6, after=after, swaps=1, reversals=2,
        rehangs=3, splits=4, regrown=5, failure=failure,
    )  # fmt: skip


class Stage:
    """Stands for the searches: answers in turn, and what they are asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, lowest: int = 2, needed: int = 1000) -> None:
        self.swapped: list[Any] = []
        self.regrown: list[Any] = []
        self.seeds: list[int] = []
        self.steps: list[int | None] = []
        self.given: list[Any] = []
        self.gathered: Any = None
        monkeypatch.setattr(module, "smallest_height", self._lowest)
        monkeypatch.setattr(module, "packing_height", lambda one: one.height)
        monkeypatch.setattr(module, "default_steps", lambda _: needed)
        monkeypatch.setattr(module, "reduce_tree_heights", self._lower)
        monkeypatch.setattr(module, "rebuild_trees", self._regrow)
        monkeypatch.setattr(module, "gather_trees", lambda _, graph, found: self._gather(graph, found))
        self._bound = lowest

    def _lowest(self, problem: Any, multiplicities: np.ndarray, capacities: str) -> int:
        self.given.append((multiplicities.tolist(), capacities))
        return self._bound

    def _lower(self, problem: Any, graph: Any, found: Any, *, lowest: int, seed: int, **rest: Any) -> Any:
        assert (lowest, rest["capacities"]) == (self._bound, "room")
        self.seeds.append(seed)
        return self.swapped.pop(0)

    def _regrow(
        self, problem: Any, graph: Any, found: Any, *, lowest: int, max_work: int | None, **_: Any
    ) -> Any:
        assert lowest == self._bound
        self.steps.append(max_work)
        return self.regrown.pop(0)

    def _gather(self, graph: Any, found: Any) -> Any:
        return (graph, found) if self.gathered is None else ("gathered", self.gathered)

    def search(self, first: Any, *, relays: int = 1, steps: int | None = None) -> Any:
        problem: Any = SimpleNamespace(terminals=[7, 8, 9], relays=[0] * relays)
        graph: Any = "graph"
        room: Any = "room"
        return module.local_search(Packed(graph, first, Packer.GROWTH, BEFORE), problem, room, steps=steps)


def told(found: Any) -> list[str]:
    assert found.attempts[0] == BEFORE[0]
    assert {one.packer for one in found.attempts[1:]} <= {Packer.LOCAL_SEARCH}
    return [one.outcome for one in found.attempts[1:]]


def test_searches_begin_anew_until_the_bound_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest of all is taken, the first of those; a failure or the bound ends them."""
    stage = Stage(monkeypatch)
    stage.swapped = [searched(5), searched(4), searched(4), searched(2), searched(3)]
    best = stage.swapped[3]
    found = stage.search(packing(6))
    assert stage.given == [([4, 0, 1], "room")]  # trees of each root
    assert (stage.seeds, found.packing, found.graph) == ([0, 1, 2, 3], best.packing, "graph 2")
    assert told(found) == ["height 6 -> 2 (at least 2): 1 swaps, 2 reversals, 3 re-hangings"]
    stage = Stage(monkeypatch)
    stage.swapped = [searched(5), searched(4), *(searched(4) for _ in range(6))]
    second = stage.swapped[1]
    found = stage.search(packing(6))
    assert (stage.seeds, found.packing) == (list(range(8)), second.packing)
    stage = Stage(monkeypatch)
    stage.swapped = [searched(6, failure="too many")]
    first = packing(6)
    found = stage.search(first)
    assert (stage.seeds, found.packing, found.graph) == ([0], first, "graph")
    assert told(found) == ["not tried: too many"]


@pytest.mark.parametrize(
    ("needed", "steps", "tries"),
    [
        (2**24 // 3, None, 3),
        (2**24, None, 1),
        (2**25, None, 1),  # once, however long it takes
        (1, None, 8),
        (500, 500, 1),
        (501, 500, 0),
    ],
)
def test_how_often_is_searched(
    monkeypatch: pytest.MonkeyPatch, needed: int, steps: int | None, tries: int
) -> None:
    stage = Stage(monkeypatch, needed=needed)
    stage.swapped = [searched(6) for _ in range(8)]
    first = packing(6)
    found = stage.search(first, steps=steps)
    assert stage.seeds == list(range(tries))
    # nothing is lower: what was given stays
    assert (found.packing, found.graph) == (first, "graph")
    assert told(found) == ["height 6 -> 6 (at least 2): 1 swaps, 2 reversals, 3 re-hangings"][:tries]


@pytest.mark.parametrize(("height", "is_low"), [(2, True), (3, False)])
def test_low_trees_are_not_searched(monkeypatch: pytest.MonkeyPatch, height: int, is_low: bool) -> None:
    stage = Stage(monkeypatch)
    stage.swapped, stage.regrown = [searched(2)], [searched(3)]
    found = stage.search(packing(height), relays=0)
    assert (len(stage.swapped), len(stage.regrown)) == ((1, 1) if is_low else (0, 0))
    assert (found.attempts == BEFORE) is is_low


@pytest.mark.parametrize(("steps", "work"), [(None, None), (400, 400), (2000, 1000)])
def test_trees_without_switches_are_grown_anew_first(
    monkeypatch: pytest.MonkeyPatch, steps: int | None, work: int | None
) -> None:
    """In no more steps than local search takes by itself; then exchanges, if there is time for them."""
    stage = Stage(monkeypatch)
    stage.regrown, stage.swapped = [searched(4)], [searched(2)]
    grown = stage.regrown[0]
    found = stage.search(packing(6), relays=0, steps=steps)
    assert stage.steps == [work]
    outcomes = ["height 6 -> 4 (at least 2): 5 trees grown anew, 1 swaps, 4 splits"]
    if steps == 400:
        assert (found.packing, found.graph) == (grown.packing, "graph")
    else:
        outcomes.append("height 6 -> 2 (at least 2): 1 swaps, 2 reversals, 3 re-hangings")
    assert told(found) == outcomes


def test_many_cells_without_switches_are_not_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    for trees, relays, tries in ((2**16, 0, 1), (2**16 + 1, 0, 0), (2**16 + 1, 2, 1)):
        stage = Stage(monkeypatch)
        large = searched(5)
        large.packing = packing(5, trees=trees, ranks=4)
        stage.regrown, stage.swapped = [large], [searched(2)]
        stage.search(packing(6, trees=trees, ranks=4), relays=relays)
        assert len(stage.seeds) == tries


def test_trees_that_are_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer different trees are told with the search before them, or by themselves."""
    stage = Stage(monkeypatch)
    stage.swapped, stage.gathered = [searched(2)], packing(2, trees=5)
    found = stage.search(packing(6))
    assert (found.graph, found.packing, found.packer) == ("gathered", stage.gathered, Packer.GROWTH)
    assert told(found) == [
        "height 6 -> 2 (at least 2): 1 swaps, 2 reversals, 3 re-hangings; trees 2 -> 5, as low"
    ]
    stage = Stage(monkeypatch)
    stage.gathered = packing(2, trees=3)
    assert told(stage.search(packing(2))) == ["trees 2 -> 3, as low"]


@pytest.mark.parametrize(
    ("height", "routed", "relays"), [(2, True, 1), (3, True, 1), (3, False, 1), (3, False, 0)]
)
def test_forests_are_routed_low_if_that_is_lower(
    monkeypatch: pytest.MonkeyPatch, height: int, routed: bool, relays: int
) -> None:
    """Those at the bound are given back; what was tried before is told as beaten."""
    asked: list[Any] = []
    attempt = PackingAttempt(Packer.HEIGHT_FIRST, "came to")
    low: Any = "low", "low trees"

    def route(problem: Any, capacities: Any, multiplicities: Any, *, below: int) -> Any:
        asked.append((capacities, multiplicities, below))
        return Packed(low[0], low[1], Packer.HEIGHT_FIRST, (attempt,)) if routed else attempt

    monkeypatch.setattr(
        module, "smallest_height", lambda _, roots, room: 2 if (roots, room) == ("r", "c") else 0
    )
    monkeypatch.setattr(module, "route_trees", route)
    monkeypatch.setattr(module, "from_forest", lambda _, forest: ("used", forest.trees))
    monkeypatch.setattr(module, "remove_switches", lambda _, room, roots: f"all {room} {roots}")
    searches: list[Any] = []

    def search(packed: Packed, problem: Any, capacities: Any) -> Packed:
        searches.append(packed)
        return packed

    monkeypatch.setattr(module, "local_search", search)
    monkeypatch.setattr(module, "to_forest", lambda _, graph, trees: (graph, trees))
    forest: Any = SimpleNamespace(root_multiplicity="r", trees="trees")
    problem: Any = SimpleNamespace(relays=[0] * relays)
    room: Any = "c"
    found = module.reduce_height(problem, forest, room, Packer.GROWTH, BEFORE, height=height)
    if height == 2:
        assert found == (forest, Packer.GROWTH, BEFORE)
        assert not asked
        return
    assert asked == [("c", "r", 3)]
    (packed,) = searches
    if routed:
        beaten = PackingAttempt(Packer.GROWTH, "not taken: height 3")
        assert (packed.graph, packed.packing, packed.attempts) == (*low, (beaten, attempt))
        assert found == (low, Packer.HEIGHT_FIRST, (beaten, attempt))
    else:
        assert packed.graph == ("used" if relays else "all c r")
        assert packed.attempts == (*BEFORE, attempt)
        assert found == (forest, Packer.GROWTH, (*BEFORE, attempt))
