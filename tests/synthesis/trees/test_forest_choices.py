"""Forests of pieces and of the whole: which is taken, what is told of the other, and two phases as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.context import TimeLimitError, start
from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.trees import pack_forest, tree_synthesis
from treadle.synthesis.trees import pipeline as module
from treadle.synthesis.trees.instance import instance_of
from treadle.synthesis.trees.packers.packed import Packed, Packer, PackingAttempt
from treadle.synthesis.trees.pipeline import synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

F = Fraction
K = CollectiveKind
DIRECT, SWITCHED = parse("complete(4)"), in_boxes(2, 2)
CUT: Any = "cut"
TRIED = PackingAttempt(Packer.TIGHT_CUTS, "failed: odd")


def made(rate: int, height: int, units: int = 4, by: Packer = Packer.GROWTH, bound: int = 1) -> Result:
    schedule: Any = SimpleNamespace(height=height, total_units=units)
    return Result(schedule, algbw=F(rate), packer=by, packing=(TRIED,), height_bound=bound)


Make = Callable[..., Result]


def staged(
    monkeypatch: pytest.MonkeyPatch, pieces: Any, whole: Any, lowered: Any = None
) -> Callable[..., tuple[Any, list[Any]]]:
    """Result where these are what the constructions make; and what they are asked."""
    asked: list[Any] = []

    def of_whole(problem: Any, collective: Any, budget: Any, packer: Any, skipped: Any, *_: Any) -> Any:
        asked.append(("whole", packer, skipped))
        if isinstance(whole, Exception):
            raise whole
        return whole

    def of_pieces(*_: Any) -> Any:
        asked.append("pieces")
        return pieces

    def lower(found: Any, *_: Any) -> Any:
        assert found is pieces
        asked.append("lowered")
        return lowered

    monkeypatch.setattr(module, "_solve_whole", of_whole)
    monkeypatch.setattr(module, "_solve_by_tight_cuts", of_pieces)
    monkeypatch.setattr(module, "_reduce_height", lower)
    for where in (module, tree_synthesis):
        monkeypatch.setattr(where, "height_max", lambda schedule: schedule.height)

    def run(fabric: Topology, packer: Packer | None = None, **budget: Any) -> tuple[Any, list[Any]]:
        asked.clear()
        collective = on_all_ranks(fabric, K.ALLGATHER)
        return synthesise(fabric, collective, packer=packer, budget=TreeBudget(**budget)), list(asked)

    return run


def test_pieces_are_tried_first_unless_another_packer_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces, whole = made(5, 3), made(5, 2)
    run = staged(monkeypatch, pieces, whole)
    assert run(DIRECT, Packer.GROWTH) == (whole, [("whole", Packer.GROWTH, ())])
    assert run(DIRECT, Packer.TIGHT_CUTS) == (pieces, ["pieces"])
    run = staged(monkeypatch, TRIED, whole)
    assert run(DIRECT) == (whole, ["pieces", ("whole", None, (TRIED,))])
    assert run(DIRECT, Packer.TIGHT_CUTS) == (whole, ["pieces", ("whole", Packer.TIGHT_CUTS, (TRIED,))])


def test_behind_switches_pieces_are_made_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = made(5, 2)
    run = staged(monkeypatch, made(5, 3), made(5, 1), lowered)
    assert run(SWITCHED) == (lowered, ["pieces", "lowered"])
    both = [("whole", None, ()), "lowered"]
    run = staged(monkeypatch, made(5, 3), TimeLimitError("late"), lowered)
    assert run(DIRECT) == (lowered, ["pieces", *both])
    # as many ranks as are packed both ways, and one more
    for ranks, is_few in ((4, True), (3, False)):
        monkeypatch.setattr(module, "FEW_RANKS", ranks)
        run = staged(monkeypatch, made(5, 3), made(4, 1), lowered)
        assert run(DIRECT)[1] == ["pieces", *(both if is_few else both[1:])]


DYADIC = {"dyadic_loss": F(1, 100)}


@pytest.mark.parametrize(
    ("pieces", "whole", "lowered", "budget", "taken", "other"),
    [
        # the whole as low as can be: no search in the pieces
        (made(5, 9), made(5, 2, bound=2), None, {}, "whole", "pieces"),
        (made(5, 9), made(6, 3, bound=2), None, {}, "whole", "pieces"),
        (made(5, 9), made(5, 3, bound=2), made(5, 2), {}, "lowered", "whole"),
        (made(5, 9), made(5, 3, bound=2), made(5, 3), {}, "whole", "lowered"),
        (made(5, 9), made(5, 3, bound=2), made(5, 4), {}, "whole", "lowered"),
        (made(5, 9), made(4, 2, bound=2), made(5, 9), {}, "lowered", "whole"),
        # a power of two of chunks counts before the rate, where it is wanted
        (made(5, 9, 4), made(6, 2, 6), made(5, 7, 4), DYADIC, "lowered", "whole"),
        (made(6, 9, 6), made(5, 7, 8), None, DYADIC, "whole", "pieces"),
        (made(6, 9, 6), made(5, 7, 8, bound=7), made(6, 2, 6), {}, "lowered", "whole"),
    ],
)
def test_of_both_the_faster_then_the_lower(
    monkeypatch: pytest.MonkeyPatch,
    pieces: Result,
    whole: Result,
    lowered: Result | None,
    budget: dict[str, Any],
    taken: str,
    other: str,
) -> None:
    """What is not taken is told first, with its height."""
    found, asked = staged(monkeypatch, pieces, whole, lowered)(DIRECT, **budget)
    assert ("lowered" in asked) == (lowered is not None)
    every = {"pieces": pieces, "whole": whole, "lowered": lowered}
    assert found.schedule is every[taken].schedule  # type: ignore[union-attr]
    height = every[other].schedule.height  # type: ignore[union-attr]
    assert found.packing == (PackingAttempt(Packer.GROWTH, f"not taken: height {height}"), TRIED)


@pytest.mark.parametrize(
    ("decomposed", "packer", "words"),
    [
        (Unsupported("no sets"), None, "failed: no sets"),
        (
            SimpleNamespace(n_layers=2),
            None,
            "not taken: one of its layers sends to the ranks of the same box over the network outside",
        ),
    ],
)
def test_pieces_that_are_not_taken(
    monkeypatch: pytest.MonkeyPatch, decomposed: Any, packer: Packer | None, words: str
) -> None:
    monkeypatch.setattr(module, "decompose", lambda *_, **__: decomposed)
    collective = on_all_ranks(DIRECT, K.ALLGATHER)
    found = module._solve_by_tight_cuts(instance_of(DIRECT, collective), collective, TreeBudget(), packer)
    assert found == PackingAttempt(Packer.TIGHT_CUTS, words)


@pytest.mark.parametrize(
    ("ranks", "layers", "packer", "exact"),
    [(4, 1, None, 6), (3, 2, None, 6), (4, 2, Packer.TIGHT_CUTS, 6), (4, 1, None, 0)],
)
def test_pieces_written_out(
    monkeypatch: pytest.MonkeyPatch, ranks: int, layers: int, packer: Packer | None, exact: int
) -> None:
    """Layers that are superposed are for many ranks, or if asked for; unproved optima are found by flows."""
    own, flows = (
        SimpleNamespace(algbw=F(8), certificate="own"),
        SimpleNamespace(algbw=F(7), certificate="flows"),
    )
    schedule = SimpleNamespace(explicit=lambda: "written out")
    found = SimpleNamespace(
        n_layers=layers,
        schedule=schedule,
        exact_trees=exact,
        optimum=own,
        algbw=F(5),
        trees_per_root=3,
        summary="two kinds",
    )
    seen: dict[str, Any] = {}

    def decomposed(*_: Any, **options: Any) -> Any:
        seen.update(options)
        return found

    monkeypatch.setattr(module, "decompose", decomposed)
    monkeypatch.setattr(module, "instance_optimum", lambda *_, **__: flows)
    monkeypatch.setattr(module, "exact_number", lambda _, best: 11 if best is flows else 12)
    monkeypatch.setattr(module, "FEW_RANKS", ranks)
    # a broadcast from the end of a line of four: three hops
    fabric = parse("mesh(4)")
    collective = on_all_ranks(fabric, K.BROADCAST, root=0)
    with start() as running:
        got: Any = module._solve_by_tight_cuts(
            instance_of(fabric, collective), collective, TreeBudget(), packer
        )
    assert (seen["lower"], got.schedule, got.algbw, got.trees_per_root) == (False, "written out", 5, 3)
    assert (got.exact_trees_per_root, got.bound.algbw) == ((6, 8) if exact else (11, 7))
    assert (got.packer, got.height_bound) == (Packer.TIGHT_CUTS, 3)
    assert got.packing == (PackingAttempt(Packer.TIGHT_CUTS, "made the forest: two kinds"),)
    assert list(running.seconds) == ["tight_cuts", "paths", "total"]


@pytest.mark.parametrize(
    ("budget", "numbers", "common"),
    [
        ({}, (8, 9), 64),  # 72 in all
        ({}, (8, 16), None),
        ({"max_trees": 16}, (3, 5), None),
        ({"max_trees": 15}, (3, 5), None),
        ({"max_trees": 14}, (3, 5), 14),
        ({"exact": True}, (8, 9), None),
        ({"trees": 99}, (8, 9), None),
    ],
)
def test_both_phases_take_a_common_number_of_trees(
    monkeypatch: pytest.MonkeyPatch, budget: dict[str, Any], numbers: tuple[int, int], common: int | None
) -> None:
    asked: list[Any] = []
    per_root = dict(zip((K.REDUCE_SCATTER, K.ALLGATHER), numbers, strict=True))

    def one(topology: Any, collective: Collective, *, budget: TreeBudget, packer: Any) -> Any:
        asked.append((collective.kind, budget))
        return SimpleNamespace(trees_per_root=per_root[collective.kind])

    def shared(problems: Any, limit: int) -> int:
        assert [problem.direction.name for problem in problems] == ["REDUCE", "BROADCAST"]
        return limit

    monkeypatch.setattr(module, "synthesise", one)
    monkeypatch.setattr(module, "common_number", shared)
    monkeypatch.setattr(module, "_join_phases", lambda scatter, gather: (scatter, gather))
    collective = on_all_ranks(DIRECT, K.ALLREDUCE)
    module._two_phases(DIRECT, collective, TreeBudget(**budget), None)
    first = [(kind, TreeBudget(**budget)) for kind in per_root]
    again = [] if common is None else [(kind, TreeBudget(trees=common)) for kind in per_root]
    assert asked == [*first, *again]


def test_two_phases_as_one() -> None:
    """Times add up, numbers of trees meet, and what both tell is told once."""
    fabric = parse("ring(3)")
    one, other = (
        synthesise(fabric, on_all_ranks(fabric, kind), budget=TreeBudget(trees=trees))
        for kind, trees in ((K.REDUCE_SCATTER, 2), (K.ALLGATHER, 3))
    )
    scatter = replace(
        one, algbw=F(6), exact_trees_per_root=4, bound=Bound(F(8), CUT), height_bound=5,
        notes=("trimmed",), packer="growth",
    )  # fmt: skip
    gather = replace(
        other, algbw=F(3), exact_trees_per_root=6, bound=Bound(F(24), CUT), notes=(), packer="growth",
        height_bound=4,
    )  # fmt: skip
    found = module._join_phases(scatter, gather)
    assert (found.algbw, found.rs_ag, found.exact_trees_per_root) == (F(2), F(6), 12)
    assert (found.trees_per_root, found.schedule.root_multiplicity.tolist()) == (6, [6, 6, 6])
    assert (found.notes, found.packer, found.height_bound) == (("trimmed",), "growth", 5)
    assert found.packing == scatter.packing + gather.packing
    assert found.bound is None
    mixed = module._join_phases(scatter, replace(gather, notes=("given up",), packer="matching"))
    assert (mixed.notes, mixed.packer) == (("given up",), "growth + matching")


@pytest.mark.parametrize(
    ("packer", "routed", "searched", "packs"),
    [
        (None, True, True, False),
        (Packer.HEIGHT_FIRST, True, False, False),
        (None, False, False, True),
        (Packer.HEIGHT_FIRST, False, False, True),
        (Packer.GROWTH, True, False, True),
    ],
)
def test_trees_are_routed_on_the_fabric_or_packed(
    monkeypatch: pytest.MonkeyPatch, packer: Packer | None, routed: bool, searched: bool, packs: bool
) -> None:
    tried = PackingAttempt(Packer.HEIGHT_FIRST, "no")
    packing: Any = SimpleNamespace(speculative=5, exact=6)
    graph: Any = SimpleNamespace(tails=[0, 0, 0])
    low = Packed(graph, packing, Packer.HEIGHT_FIRST, (tried,))
    grown = Packed(graph, packing, Packer.GROWTH, (TRIED,))
    searches: list[Any] = []
    calls: list[Any] = []

    def route(problem: Any, capacities: Any, roots: Any, *, asked: bool) -> Any:
        calls.append((capacities, roots.tolist(), asked))
        return low if routed else tried

    def search(one: Any, *_: Any, **__: Any) -> Any:
        searches.append(one)
        return one

    monkeypatch.setattr(module, "route_trees", route)
    monkeypatch.setattr(module, "local_search", search)
    monkeypatch.setattr(module, "remove_switches", lambda *_, **__: graph)
    monkeypatch.setattr(module, "pack_smallest_height", lambda *_, **__: grown)
    monkeypatch.setattr(module, "to_forest", lambda *_: "forest")
    problem = instance_of(DIRECT, on_all_ranks(DIRECT, K.BROADCAST, root=1))
    units: Any = SimpleNamespace(fixed=SimpleNamespace(trees=7), capacities="room")
    forest, used, attempts = module._build(problem, units, packer)
    assert forest == "forest"
    assert calls == ([] if packer is Packer.GROWTH else [("room", [0, 7, 0, 0], packer is not None)])
    assert bool(searches) is searched
    if not packs:
        assert (used, attempts) == (Packer.HEIGHT_FIRST, (tried,))
    else:
        assert (used, attempts) == (
            Packer.GROWTH,
            (TRIED,) if packer is Packer.GROWTH else (tried, TRIED),
        )


def test_cuts_that_cannot_carry_the_trees() -> None:
    """Each rank of a ring takes in two trees at a time; of four, three are rooted at others."""
    ring = parse("ring(3)")
    gather = on_all_ranks(ring, K.ALLGATHER)
    assert pack_forest(ring, gather, [1, 1, 1]).root_multiplicity.tolist() == [1, 1, 1]
    with pytest.raises(InfeasibleError) as refused:
        pack_forest(ring, gather, [2, 1, 1])
    assert str(refused.value) == "ring(3): a cut of 2 nodes cannot carry the trees"
