"""What the search for a scale tries, and what it learns from pieces that have no forest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.trees.fixed_trees import Cut, floor_capacities, scale_bound
from treadle.synthesis.trees.instance import Instance, instance_of
from treadle.synthesis.trees.tight_cuts import tight_cuts as module
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.layer_solution import ClassReport, InfeasibleSubproblem
from treadle.synthesis.trees.tight_cuts.scales import cut_against, cut_classes
from treadle.synthesis.trees.tight_cuts.sets.detection import detect
from treadle.synthesis.trees.tight_cuts.tight_cuts import Decomposition, decompose_with
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.unsupported import Unsupported

F = Fraction
THREE = [
    Cut(Counter({3: 2, 7: 1}), 5, ()),
    Cut(Counter({5: 1, 4: 2}), 4, ()),
    Cut(Counter({10: 1, 4: 1}), 6, ()),
]
TIGHTEST = THREE[2]
"""7/3 bytes/s a unit: 10 and 4 are 30/7 and 12/7 of them, so the optimum takes multiples of seven trees."""


def chosen(trees: Sequence[int], share: Fraction | None) -> list[tuple[int, Fraction]]:
    return list(module._choices(THREE, TIGHTEST, trees, share))


@pytest.mark.parametrize("trees", [range(1, 30), range(3, 30), range(1, 30, 2), [4, 7, 14, 20], range(1, 7)])
def test_scales_by_number_or_by_rate(trees: Sequence[int]) -> None:
    scales = {number: scale_bound(TIGHTEST.rate, number, THREE) for number in trees}
    most = TIGHTEST.rate
    reach = [number for number in trees if F(number) / scales[number] >= most * F(9, 10)]
    assert chosen(trees, F(9, 10)) == [(number, scales[number]) for number in reach]
    exact = [number for number in trees if F(number) / scales[number] == most]
    assert chosen(trees, F(1)) == [(number, scales[number]) for number in exact]
    assert all(number % 7 == 0 for number in exact)
    best = sorted(trees, key=lambda number: (-F(number) / scales[number], number))
    assert chosen(trees, None) == [(number, scales[number]) for number in best]


def test_so_many_scales_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_SCALES", 3)
    assert [number for number, _ in chosen(range(1, 99), F(1))] == [7, 14, 21]
    assert {number for number, _ in chosen(range(2, 99), None)} == {2, 3, 4}


def chain() -> Instance:
    """Boxes a, b and c, d of fast links; three slow links onward, one of seven back; e at both."""
    builder = TopologyBuilder("chain")
    for name in "abcde":
        builder.compute(name)
    for tail, head, bandwidth in (
        *(("a", "b", 90), ("b", "a", 90), ("c", "d", 80), ("d", "c", 80)),
        *(("a", "c", 3), ("b", "d", 3), ("b", "c", 3), ("d", "a", 7), ("e", "b", 9), ("c", "e", 9)),
    ):
        builder.link(tail, head, bandwidth)
    topology = builder.build()
    return instance_of(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER))


BOXES = Family(np.array([-1, 0, 0], dtype=np.int32), np.array([1, 1, 2, 2, 0], dtype=np.int32))
OUT = (0, 1)
"""The nodes of the first box: three links of 3 bytes/s leave it."""


def refused(
    nodes: Sequence[int], *blamed: int, others: tuple[InfeasibleSubproblem, ...] = ()
) -> InfeasibleSubproblem:
    return InfeasibleSubproblem(np.array(nodes, dtype=np.int32), np.array(blamed), "no room", others)


def attempted(
    monkeypatch: pytest.MonkeyPatch,
    answers: Sequence[Any],
    *,
    classes: Sequence[Cut],
    known: Any = None,
    share: Fraction | None = None,
    trees: Sequence[int] = range(1, 5),
) -> tuple[Any, list[int]]:
    """What is made of these answers for numbers of trees in turn, and the numbers."""
    left, asked = list(answers), []

    def build(problem: Instance, given: Any, best: Any, number: int, scale: Fraction) -> Any:
        asked.append(number)
        return left.pop(0)

    monkeypatch.setattr(module, "_build", build)
    known = known or module._Known(BOXES)
    tightest = min(classes, key=lambda one: one.rate)
    found = module._attempts(chain(), known, list(classes), tightest, trees, share)
    return found, asked


def test_a_cut_below_the_rate_is_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    """9 bytes/s for two shards; four were believed in, so only less than that is."""
    cut = cut_against(chain(), np.array(OUT, dtype=np.int32))
    assert cut == Cut(Counter({3: 3}), 2, (2, 3, 4))
    for rate, is_learnt in ((5, True), (4, False)):
        believed = [Cut(Counter({rate: 1}), 1, (0,))]
        pieces = refused((0, 1), 1, others=(refused((2, 3), 2), refused((0, 1, 2, 3, 4), 1)))
        found, asked = attempted(monkeypatch, [pieces], classes=believed, trees=[8])
        second = cut_against(chain(), np.array((2, 3), dtype=np.int32))
        assert second is not None
        assert second.rate == 8
        assert asked == [8]
        assert (found.family, found.guarded) == (BOXES, () if is_learnt else (cut, second))
        assert found.cuts == ((cut,) if is_learnt else ())


ALIKE = [Cut(Counter({9: 1}), 2, (0,))]
"""As narrow as the way out of the first box, but in one link: its floors lose less than those of three."""


def test_a_cut_that_floors_are_too_small_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """One tree takes 2/9 units per byte/s: links of 2/3 have none; of three trees they have two each."""
    cut = cut_against(chain(), np.array(OUT, dtype=np.int32))
    found, asked = attempted(monkeypatch, [refused(OUT, 1)], classes=ALIKE)
    assert (asked, found.cuts, found.guarded) == ([1], (cut,), ())
    # where the optimum is asked for, more trees are tried
    found, asked = attempted(monkeypatch, [refused(OUT, 1)] * 3, classes=ALIKE, share=F(1))
    assert (asked, found.cuts, found.guarded) == ([1, 2, 3], (), (cut,))
    found, asked = attempted(monkeypatch, [refused(OUT, 1)] * 2, classes=ALIKE, share=F(1), trees=range(1, 3))
    assert (asked, str(found)) == ([1, 2], "no number of trees in reach attains the optimum")


def test_sets_that_break_a_guarded_cut_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = cut_against(chain(), np.array(OUT, dtype=np.int32))
    assert cut is not None
    known = module._Known(BOXES, guarded=(cut,))
    found, asked = attempted(monkeypatch, [refused(OUT, 0, 1)], classes=ALIKE, known=known, trees=[3])
    assert asked == [3]
    assert found.guarded == (cut,)
    assert found.family.innermost.tolist() == [0, 0, 1, 1, 0]
    both = refused(OUT, 1, others=(refused(OUT, 2),))
    found, _ = attempted(monkeypatch, [both], classes=ALIKE, known=known, trees=[3])
    assert found.family.n_sets == 1
    found, _ = attempted(monkeypatch, [refused(OUT, 0)], classes=ALIKE, known=known, trees=[3])
    assert str(found) == "a subproblem has no forest: no room"


def test_hosts_are_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank and its cards are a set of their own; without them if that does not work."""
    hosted = Family(np.array([-1, 0, 0, 0], dtype=np.int32), np.array([1, 1, 2, 2, 3], dtype=np.int32))
    monkeypatch.setattr(module, "with_hosts", lambda *_: hosted)
    families = []

    def build(problem: Instance, given: Any, *_: Any) -> Any:
        families.append(given.family)
        return answers.pop(0)

    monkeypatch.setattr(module, "_build", build)
    problem, known = chain(), module._Known(BOXES)
    for first in (Unsupported("one"), refused(OUT, 1)):
        answers: list[Any] = [first, Unsupported("two")]
        families.clear()
        found = module._attempts(problem, known, ALIKE, ALIKE[0], [3], None)
        assert str(found) == "two"
        assert families == [hosted, BOXES]
    good = object.__new__(Decomposition)
    answers = [good]
    assert module._attempts(problem, known, ALIKE, ALIKE[0], [3], None) is good


def joined(*links: tuple[str, str, int], switches: str = "") -> Topology:
    builder = TopologyBuilder("joined")
    for name in sorted({name for one, other, _ in links for name in (one, other)}):
        builder.switch(name) if name in switches else builder.compute(name)
    for tail, head, bandwidth in links:
        builder.link(tail, head, bandwidth)
    return builder.build()


def pairs(*names: str, bandwidth: int) -> list[tuple[str, str, int]]:
    return [(one[0], one[1], bandwidth) for pair in names for one in (pair, pair[::-1])]


@pytest.mark.parametrize(
    ("topology", "words"),
    [
        (joined(*pairs("ab", "cd", bandwidth=9)), "some rank cannot be reached"),
        (
            joined(*pairs("ab", "cd", bandwidth=9), ("a", "c", 2), ("b", "d", 2)),
            "some rank cannot be reached",
        ),
        (
            joined(*pairs("ab", "bc", "ca", bandwidth=9)),
            "no set of several ranks is joined better within than to the rest",
        ),
        (
            joined(
                *pairs("ab", "cd", bandwidth=9),
                *pairs("as", "bs", "cs", bandwidth=2),
                ("d", "s", 1),
                switches="s",
            ),
            "a switch has unequal bandwidth in and out",
        ),
    ],
)
def test_fabrics_that_are_not_decomposed(topology: Topology, words: str) -> None:
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    assert str(decompose_with(instance_of(topology, collective), [1])) == words


def test_rounds_of_learning_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cut more each time; or all sets are gone."""
    rounds = []

    def learning(problem: Instance, known: Any, *_: Any) -> Any:
        rounds.append(len(known.cuts))
        return module._Known(known.family, (*known.cuts, Cut(Counter({100: 1}), 1, (0,))))

    monkeypatch.setattr(module, "_attempts", learning)
    assert str(decompose_with(chain(), [1], detected=BOXES)) == "too many cuts had to be learnt"
    assert rounds == list(range(64))
    none = module._Known(Family(np.array([-1], dtype=np.int32), np.zeros(5, dtype=np.int32)))
    monkeypatch.setattr(module, "_attempts", lambda *_: none)
    for share in (None, F(1)):
        words = "no detected set can be made tight"
        assert str(decompose_with(chain(), [1], detected=BOXES, share=share)).startswith(words)


def test_layers_are_for_the_optimum_that_ranks_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    none = module._Known(Family(np.array([-1], dtype=np.int32), np.zeros(5, dtype=np.int32)))
    monkeypatch.setattr(module, "_attempts", lambda *_: none)
    monkeypatch.setattr(module, "_superposed", lambda *_: Unsupported("layered"))
    plain = "no detected set can be made tight"

    def told(share: Fraction | None, rate: Fraction) -> str:
        monkeypatch.setattr(module, "single_rate", lambda _: rate)
        return str(decompose_with(chain(), [1], detected=BOXES, share=share))

    # e takes in nine for four others; three and three into c, three into d
    rate = min(one.rate for one in cut_classes(chain(), BOXES))
    assert rate == F(9, 4)
    assert told(F(1), rate) == f"{plain}; layers: layered"
    assert told(F(1), rate + 1) == plain
    assert told(None, rate) == plain
    assert told(F(9, 10), rate) == plain


def test_what_is_built_at_a_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capacities are floors; a switch that they leave unbalanced, or 2**61 units, refuse the scale."""
    fabric = in_boxes(2, 2)
    collective = Collective(
        CollectiveKind.ALLGATHER, tuple(fabric.compute_nodes.tolist()), weights=(2, 1, 1, 1)
    )
    problem = instance_of(fabric, collective)
    family = detect(problem)
    classes = cut_classes(problem, family)
    best = module.optimum_of_cut(problem, min(classes, key=lambda one: one.rate))
    # 20 bytes/s into the first box from two shards, into the second from three
    assert (best.rate, best.algbw) == (F(20, 3), F(100, 3))
    # out of all but that box: the network, and the box of nodes 1 to 3
    assert best.certificate.nodes == (0, 1, 2, 3)
    seen = []

    def fitted(*asked: Any) -> Any:
        seen.append([part.tolist() for part in asked[2:4]] + [asked[4]])
        return "layer", (ClassReport(1, 2, 0, "hand"),)

    monkeypatch.setattr(module, "fitted_layer", fitted)
    monkeypatch.setattr(module, "without_partial_relays", lambda *_: None)
    guarded = Cut(Counter({1: 1}), 1, (3, 4))
    known = module._Known(family, guarded=(guarded,))
    monkeypatch.setattr(module, "FactoredForest", lambda *parts: parts)
    for number, scale in ((2, F(3, 10)), (2, F(1, 3))):
        found = module._build(problem, known, best, number, scale)
        assert isinstance(found, Decomposition)
        floors = floor_capacities(problem.bandwidths, scale).tolist()
        assert seen.pop() == [floors, [4, 2, 2, 2], [(3, 4)]]
        assert found.algbw == 5 * number / scale
        assert (found.trees, found.scale) == (number, scale)
        assert found.exact_trees == (number if scale == F(3, 10) else 0)
        assert found.summary == "1 kinds of subproblems: 1 of 2 children by hand"
    # first without partial relays, if there are such; then with all links
    monkeypatch.setattr(module, "without_partial_relays", lambda *_: np.array([7]))
    answers: list[Any] = [
        Unsupported("lean"),
        ("layer", ()),
        ("lean layer", ()),
        Unsupported("lean"),
        Unsupported("all"),
    ]
    rooms: list[list[int]] = []

    def either(*asked: Any) -> Any:
        rooms.append(asked[2].tolist())
        return answers.pop(0)

    monkeypatch.setattr(module, "fitted_layer", either)
    every = floor_capacities(problem.bandwidths, F(3)).tolist()
    for forest, tried in (("layer", [[7], every]), ("lean layer", [[7]]), (None, [[7], every])):
        rooms.clear()
        built = module._build(problem, known, best, 1, F(3))
        assert rooms == tried
        if isinstance(built, Decomposition):
            assert built.forest == (problem.direction, pytest.approx([2, 1, 1, 1]), (forest,))
        else:
            assert (forest, str(built)) == (None, "all")
    monkeypatch.setattr(module, "fitted_layer", fitted)
    monkeypatch.setattr(module, "without_partial_relays", lambda *_: None)
    # 1040 bytes/s in all
    monkeypatch.setattr(module, "UNIT_LIMIT", 3 * 1040 + 10)
    wide = module._build(problem, known, best, 2, F(3))
    assert str(wide) == "capacities of 2**61 units or more would be needed"
    monkeypatch.setattr(module, "UNIT_LIMIT", 3 * 1040 + 11)
    assert isinstance(module._build(problem, known, best, 2, F(3)), Decomposition)
    builder = TopologyBuilder("floors")
    for name in "abc":
        builder.compute(name)
    builder.switch("s")
    for name in "ab":
        builder.link(name, "s", 3)
    builder.link("s", "c", 6)
    for pair in ("ca", "cb", "ab"):
        builder.duplex(pair[0], pair[1], 4)
    uneven = builder.build()
    asked = instance_of(uneven, on_all_ranks(uneven, CollectiveKind.ALLGATHER))
    halves = module._build(asked, module._Known(detect(asked)), best, 1, F(1, 2))
    assert str(halves) == "rounded capacities leave a switch unbalanced"
