"""Pieces of nested sets by their definition, their cuts in the fabric, and pieces that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.tight_cuts import layer_solution as module
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.layer_solution import InfeasibleSubproblem
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, cut
from treadle.topologies.topology import TopologyBuilder
from treadle.unsupported import Unsupported

NAMES = "abcdefghstu"
LINKS = [("as", 4), ("ct", 4), ("bs", 3), ("sa", 4), ("dt", 3), ("tc", 4), ("sb", 3), ("td", 3), ("fg", 5)]
LINKS += [("gf", 6), ("ae", 7), ("ch", 7), ("eb", 2), ("hd", 2), ("ef", 8), ("gu", 3), ("uh", 9), ("ue", 1)]
LINKS += [("hu", 4), ("hh", 9), ("bg", 0), ("ha", 2), ("gc", 2), ("ag", 1), ("cu", 1)]
INNERMOST = {"a": 2, "b": 2, "s": 2, "c": 3, "d": 3, "t": 3, "f": 4, "g": 4, "e": 1, "h": 0, "u": 0}
UNITS = {"a": 1, "b": 2, "c": 1, "d": 2, "e": 4, "f": 2, "g": 6, "h": 3}
FAMILY = Family(
    np.array([-1, 0, 1, 0, 1], dtype=np.int32), np.array([INNERMOST[v] for v in NAMES], dtype=np.int32)
)
"""Set 1 is set 2 (a, b, s), set 4 (f, g) and e; set 3 (c, d, t) is like set 2; h and u lie in no set."""

INSIDE = {0: set(NAMES), 1: set("absfge"), 2: set("abs"), 3: set("cdt"), 4: set("fg")}


@pytest.fixture(name="problem")
def _problem() -> Instance:
    builder = TopologyBuilder("nested")
    for name in NAMES:
        builder.switch(name) if name in "stu" else builder.compute(name)
    for pair, _ in LINKS:
        builder.link(pair[0], pair[1], 1)
    ranks = tuple(NAMES.index(v) for v in "hcfagdbe")
    return instance_of(builder.build(), Collective(CollectiveKind.ALLGATHER, ranks))


def cutting_of(problem: Instance, **widths: int) -> Cutting:
    """The pieces, where some links have other capacities."""
    capacities = np.array([widths.get(pair, capacity) for pair, capacity in LINKS])
    units = np.array([UNITS[NAMES[v]] for v in problem.terminals.tolist()])
    return cut(problem, FAMILY, capacities, units)


@dataclass(frozen=True)
class Part:
    """A local node: its nodes in the fabric, and its code where it is a child."""

    nodes: frozenset[str]
    code: int | None = None


def parts_of(number: int) -> list[Part]:
    """Children by their least rank, relays by number, the outside; ranks are h, c, f, a, g, d, b and e."""
    order = "hcfagdbe"
    own = [Part(frozenset(v), order.index(v)) for v in order if INNERMOST[v] == number]
    inner = [Part(frozenset(INSIDE[s]), ~s) for s in range(1, 5) if int(FAMILY.outer[s]) == number]
    children = sorted([*own, *inner], key=lambda part: min(order.index(v) for v in part.nodes if v in order))
    relays = [Part(frozenset(v)) for v in "stu" if INNERMOST[v] == number]
    outside = [Part(frozenset(NAMES) - INSIDE[number])] if number else []
    return [*children, *relays, *outside]


def units_of(nodes: Iterator[str] | frozenset[str]) -> int:
    return sum(UNITS.get(v, 0) for v in nodes)


def test_pieces_by_definition(problem: Instance) -> None:
    cutting = cutting_of(problem)
    assert cutting.kind.tolist() == [0, 1, 2, 2, 3]  # sets 2 and 3 are alike
    assert cutting.outer.tolist() == [-1, 0, 1, 0, 1]
    for number in range(5):
        parts, local = parts_of(number), cutting.kinds[cutting.kind[number]]
        place = {v: i for i, part in enumerate(parts) for v in part.nodes}
        rows = [
            (link, place[pair[0]], place[pair[1]], units)
            for link, (pair, units) in enumerate(LINKS)
            if units and place[pair[0]] != place[pair[1]]
        ]
        children = [part for part in parts if part.code is not None]
        relays = [part for part in parts if part.nodes <= set("stu") and len(part.nodes) == 1]
        low, high = cutting.child_offset[number], cutting.child_offset[number + 1]
        assert cutting.children[low:high].tolist() == [part.code for part in children]
        low, high = cutting.relay_offset[number], cutting.relay_offset[number + 1]
        assert [NAMES[v] for v in cutting.relays[low:high]] == [next(iter(part.nodes)) for part in relays]
        low, high = cutting.link_offset[number], cutting.link_offset[number + 1]
        assert cutting.links[low:high].tolist() == [row[0] for row in rows]
        ends = zip(local.tails.tolist(), local.heads.tolist(), local.capacity.tolist(), strict=True)
        assert list(ends) == [row[1:] for row in rows]
        assert (local.n_children, local.n_relays) == (len(children), len(relays))
        assert (local.has_outside, local.total, local.n_nodes) == (number > 0, 21, len(parts))
        assert local.native.tolist() == [units_of(part.nodes) for part in children]
        outer = [21 - units_of(frozenset(INSIDE[number]))] if number else []
        assert local.multiplicities.tolist() == [*local.native.tolist(), *outer]
        assert local.terminals.tolist() == [*range(len(children)), *([len(parts) - 1] if number else [])]


def test_pieces_that_differ_in_a_number_are_of_two_kinds(problem: Instance) -> None:
    assert cutting_of(problem, td=2).kind.tolist() == [0, 1, 2, 3, 4]
    assert cutting_of(problem, bs=5, dt=5).kind.tolist() == [0, 1, 2, 2, 3]


@pytest.mark.parametrize("number", range(5))
def test_cuts_of_a_piece_are_cuts_of_the_fabric(problem: Instance, number: int) -> None:
    """What is contracted lies on one side as a whole; a link that is cut here is cut there."""
    cutting, parts = cutting_of(problem), parts_of(number)
    places = range(len(parts))
    for chosen in chain.from_iterable(combinations(places, size) for size in range(1, len(parts))):
        nodes = np.array(chosen, dtype=np.int32)
        found = module._infeasible(problem, FAMILY, cutting, number, nodes)
        lifted = frozenset().union(*(parts[place].nodes for place in chosen))
        assert sorted(NAMES[v] for v in found.nodes) == sorted(lifted)
        # those of its kind were trimmed alike; of the whole the sets within
        assert found.blamed.tolist() == {0: [1, 3], 1: [1], 2: [2, 3], 3: [2, 3], 4: [4]}[number]
        assert found.reason == f"{len(chosen)} of a piece's {len(parts)} nodes lack capacity"


def test_pieces_that_lack_capacity_are_told_together(problem: Instance) -> None:
    """d needs 19 units from t and h, and f from g and e; both get two."""
    enough = cutting_of(problem, **{pair: 40 for pair, units in LINKS if units})
    assert module._refused(problem, FAMILY, enough, [4, 3, 1, 0]) is None
    few = cutting_of(
        problem, **{pair: 40 for pair, units in LINKS if units} | {"td": 1, "hd": 1, "gf": 1, "ef": 1}
    )
    found = module._refused(problem, FAMILY, few, [4, 2, 1])
    assert isinstance(found, InfeasibleSubproblem)
    assert found.others == ()
    assert found.blamed.tolist() == [4]
    found = module._refused(problem, FAMILY, few, [3, 4])
    assert isinstance(found, InfeasibleSubproblem)
    assert [one.blamed.tolist() for one in found.all] == [[3], [4]]
    for one, number in zip(found.all, (3, 4), strict=True):
        inside = {NAMES[v] for v in one.nodes}
        held = (
            dict(LINKS) | {pair: 40 for pair, units in LINKS if units} | {"td": 1, "hd": 1, "gf": 1, "ef": 1}
        )
        leaving = sum(c for pair, c in held.items() if pair[0] in inside and pair[1] not in inside)
        assert leaving < units_of(frozenset(inside)), number


def test_pieces_too_large_for_a_table(problem: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set 1 holds f and g, 8 units, a and b, 3, and e, 4: 15 trees for three children; set 4 two of 2 + 6."""
    wide = cutting_of(problem, **{pair: 40 for pair, units in LINKS if units})
    for number, cells in ((1, 45), (4, 8)):
        monkeypatch.setattr(module, "_MOST_CELLS", cells)
        assert module._refused(problem, FAMILY, wide, [number]) is None
        monkeypatch.setattr(module, "_MOST_CELLS", cells - 1)
        found = module._refused(problem, FAMILY, wide, [number])
        assert isinstance(found, Unsupported)
        words = f"a subproblem of {3 if number == 1 else 2} children is too large for a table"
        assert found.reason == words


def test_links_of_sets_within_a_piece(problem: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """For every child that is a set its piece, and where each of its links is among those of the piece."""
    monkeypatch.setattr(module, "egress_ports", lambda *asked: asked)
    cutting = cutting_of(problem)
    solved: Any = {kind: f"piece {kind}" for kind in range(len(cutting.kinds))}
    links = [
        cutting.links[cutting.link_offset[number] : cutting.link_offset[number + 1]].tolist()
        for number in range(5)
    ]
    for number, inner in ((0, [None, 3, 1]), (1, [4, 2, None])):
        found: Any = module._ports(cutting, number, solved)
        count, children = found
        assert count == len(links[number])
        for child, of in zip(children, inner, strict=True):
            if of is None:
                assert child is None
                continue
            piece, places = child
            assert piece == f"piece {cutting.kind[of]}"
            mine = links[number]
            wanted = [mine.index(link) if link in mine else -1 for link in links[of]]
            assert places.tolist() == wanted
    assert [module._ports(cutting, number, solved) for number in (2, 3, 4)] == [None] * 3


def test_sets_that_cannot_be_trimmed(problem: Instance) -> None:
    """No set has units to spare: each is told, and why."""
    none = np.ones(len(LINKS), dtype=np.int64)
    units = np.array([UNITS[NAMES[v]] for v in problem.terminals.tolist()])
    found = module.fitted_layer(problem, FAMILY, none, units, ())
    assert isinstance(found, InfeasibleSubproblem)
    assert (found.nodes.tolist(), found.blamed.tolist()) == ([], [1, 2, 3, 4])
    assert found.reason == "no way to trim"
    assert found.all == (found,)
    both = replace(found, others=(found, found))
    assert both.all == (both, found, found)


FORMS = ("circulant_trees", "relay_trees", "plane_trees", "relay_planes", "relayed_stars")


def test_closed_forms_are_tried_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons are told once each; the first form that serves is taken, by its name."""
    local = SimpleNamespace(n_children=2, tails=np.array([0, 2, 1]), heads=np.array([2, 1, 2]))
    cutting, asked = SimpleNamespace(kinds=[local], kind=[0]), []
    answers: dict[str, Any] = dict.fromkeys(FORMS, Unsupported("odd"))

    def form(name: str) -> Any:
        def answer(*given: Any) -> Any:
            asked.append((name, given))
            return answers[name]

        return answer

    for name in FORMS:
        monkeypatch.setattr(module, name, form(name))
    answers["plane_trees"] = Unsupported("no planes")
    monkeypatch.setattr(module, "Outermost", SimpleNamespace(of=lambda *given: given))
    given: Any = cutting, {}, 7
    assert str(module._closed_form(*given)) == "odd; no planes"
    assert asked == [(name, (given,)) for name in FORMS]
    for name in reversed(FORMS):
        answers[name] = name
        found: Any = module._closed_form(*given)
        assert found == (name, name.replace("_", " "))
    local.heads[0] = 1
    assert str(module._closed_form(*given)) == "some links join two children"
    local.n_children = 1
    assert str(module._closed_form(*given)) == "it has one child"


@pytest.mark.parametrize(
    ("form", "refused", "found"),
    [
        ("trees", None, "closed"),
        (Unsupported("no form"), None, "table"),
        (
            Unsupported("no form"),
            Unsupported("large"),
            "the outermost subproblem of 3 children has no direct construction (no form)",
        ),
        (Unsupported("no form"), "cut", "cut"),
    ],
)
def test_kinds_are_solved_from_the_inside_out(
    problem: Instance, monkeypatch: pytest.MonkeyPatch, form: Any, refused: Any, found: str
) -> None:
    """Sets 2 and 4 before set 1, each kind once; the outermost by a form, else by a table if it is small."""
    tested, tables = [], []
    lacking = InfeasibleSubproblem(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64), "cut")

    def test(*given: Any) -> Any:
        tested.append(given[3])
        return None if given[3] != [0] else lacking if refused == "cut" else refused

    def table(local: Any, gateways: Any, steps: int) -> Any:
        tables.append((local, gateways, steps))
        return f"piece {len(tables)}", f"packer {len(tables)}"

    cutting = cutting_of(problem)
    monkeypatch.setattr(module, "_refused", test)
    monkeypatch.setattr(module, "solve_table", table)
    monkeypatch.setattr(module, "egress_ports", lambda count, children: children)
    monkeypatch.setattr(module, "_closed_form", lambda *given: (form, "form") if form == "trees" else form)
    monkeypatch.setattr(module, "Subproblem", lambda *parts: parts[:3])
    solved = module._solve_kinds(problem, FAMILY, cutting, 1, None)
    assert tested == [[2, 4, 1], [0]][: 1 + (form != "trees")]
    kinds = [cutting.kinds[kind] for kind in (2, 3, 1, 0)]
    assert [one[0] for one in tables] == kinds[: 4 if found == "table" else 3]
    assert {one[2] for one in tables} == {2**28 // 4}
    gateways = [
        None if one[1] is None else [None if child is None else child[0] for child in one[1]]
        for one in tables
    ]
    assert gateways[:3] == [None, None, ["piece 2", "piece 1", None]]
    if found == "cut":
        assert solved is lacking
    elif isinstance(refused, Unsupported):
        assert str(solved) == found
    else:
        last: Any = ("piece 4", "packer 4")
        if found == "closed":
            last = ((cutting.kinds[0].capacity, cutting.kinds[0].native, "trees"), "form")
        else:
            assert gateways[3] == [None, "piece 1", "piece 3"]
        assert solved == [last, ("piece 3", "packer 3"), ("piece 1", "packer 1"), ("piece 2", "packer 2")]


def test_a_layer_reports_its_kinds(problem: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """How many pieces, children and relays; blocks are what all numbers of trees are multiples of."""
    given = []

    def kinds(*asked: Any) -> Any:
        given.append(asked[3:])
        return [(f"piece {kind}", f"packer {kind}") for kind in range(4)]

    monkeypatch.setattr(module, "_solve_kinds", kinds)
    monkeypatch.setattr(module, "layer_of", lambda cutting, pieces: pieces)
    capacities = 6 * np.array([capacity for _, capacity in LINKS])
    units = 6 * np.array([UNITS[NAMES[v]] for v in problem.terminals.tolist()])
    layer, reports = module.solve_layer(problem, FAMILY, capacities, units)  # type: ignore[misc]
    assert layer == [f"piece {kind}" for kind in range(4)]
    assert [(one.count, one.children, one.relays, one.packer) for one in reports] == [
        (1, 3, 1, "packer 0"),
        (1, 3, 0, "packer 1"),
        (2, 2, 1, "packer 2"),
        (1, 2, 0, "packer 3"),
    ]
    assert given == [(6, None)]
