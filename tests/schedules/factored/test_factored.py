"""Factored forests written out are correct by the explicit verifier; malformed ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from samples.factored import factored_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.factored import (
    CirculantTrees,
    Crossings,
    FactoredForest,
    FactoredSchedule,
    Layer,
    Subproblem,
    SubproblemTrees,
    TableTrees,
    expand,
)
from treadle.schedules.factored.expansion import LayerExpansion
from treadle.schedules.trees.forest import Direction
from treadle.verification.schedules import verify


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_expansion_is_correct(name: str) -> None:
    topology, collective, schedule = samples.SAMPLES[name]()
    explicit = schedule.explicit()
    assert np.array_equal(explicit.root_multiplicity, schedule.root_multiplicity)
    assert not verify(topology, collective, explicit).violations


@pytest.mark.parametrize(
    ("name", "algbw"),
    [
        ("two_boxes", 6),  # 3 of 6 units into a box by NICs of 1 byte/s each
        ("nested_pods", 8),  # 4 of 8 units into a pod, by 3 + 1 bytes/s
        ("circulant", 12),  # 8 of 12 units into a box, by 8 bytes/s
        ("superposed", 12),  # 6 of 12 units into a box, by 6 bytes/s
        ("single_root", 4),  # all 4 units into the other box, by 4 bytes/s
        ("reducing_pods", 4),  # both directions take 4 of 8 units into a pod, by 4 bytes/s
    ],
)
def test_algbw_by_hand(name: str, algbw: int) -> None:
    topology, collective, schedule = samples.SAMPLES[name]()
    assert verify(topology, collective, schedule.explicit()).algbw == Fraction(algbw)


@pytest.mark.parametrize("seed", range(0, 36, 9))
def test_random_expansions_are_correct(seed: int) -> None:
    found = [sample for sample in map(samples.random_sample, range(seed, seed + 9)) if sample is not None]
    assert found
    for topology, collective, schedule in found:
        assert not verify(topology, collective, schedule.explicit()).violations


@pytest.mark.parametrize("name", ["nested_pods", "superposed", "reducing_pods"])
def test_trees_of_a_root_are_those_of_the_explicit_form(name: str) -> None:
    for forest in samples.SAMPLES[name]()[2].forests:
        explicit = forest.explicit()
        for root in range(forest.n_ranks):
            for one, other in zip(forest.trees(root), explicit.trees(root), strict=True):
                assert (one.root, one.multiplicity) == (root, other.multiplicity)
                assert np.array_equal(one.parent, other.parent)
                assert np.array_equal(one.entry_offset, other.entry_offset)
                assert np.array_equal(one.entry_units, other.entry_units)
                for number, path in zip(one.entry_path, other.entry_path, strict=True):
                    assert np.array_equal(forest.path(int(number)), explicit.path(int(path)))


@pytest.mark.parametrize("name", ["nested_pods", "superposed", "reducing_pods"])
def test_a_number_is_a_path_or_refused(name: str) -> None:
    topology, _, schedule = samples.SAMPLES[name]()
    for forest in schedule.forests:
        with pytest.raises(ScheduleError, match=r"path -1 of \d+") as caught:
            forest.path(-1)
        past = int(str(caught.value).rpartition(" ")[2])
        with pytest.raises(ScheduleError, match=f"path {past} of {past}"):
            forest.path(past)
        taken = np.unique(np.concatenate([tree.entry_path for tree in forest.trees(0)])).tolist()
        assert 0 <= taken[0] <= taken[-1] < past
        found = {}
        for number in {*range(min(past, 200)), *taken}:
            with suppress(ScheduleError):  # no tree takes a path of this number
                found[number] = forest.path(number)
        assert found.keys() >= set(taken)
        for links in found.values():
            assert len(links) > 0
            assert np.array_equal(topology.heads[links[:-1]], topology.tails[links[1:]])


def test_expand_some_roots() -> None:
    forest = samples.nested_pods()[2].forests[0]
    whole, part = forest.explicit(), expand(forest, [5, 2, 5])
    assert part.tree_root.tolist() == [2, 5]
    for root in (2, 5):
        (one,), (other,) = part.trees(root), whole.trees(root)
        assert np.array_equal(one.parent, other.parent)
    with pytest.raises(ScheduleError, match="roots must be ranks from 0 to 7"):
        expand(forest, [8])


def _all_trees() -> list[tuple[str, SubproblemTrees]]:
    return [
        (f"{name} {number}", piece.trees)
        for name, make in samples.SAMPLES.items()
        for forest in make()[2].forests
        for layer in forest.layers
        for number, piece in enumerate(layer.pieces)
    ]


@pytest.mark.parametrize("trees", [pytest.param(trees, id=name) for name, trees in _all_trees()])
def test_owners_are_the_inverse_of_rows(trees: SubproblemTrees) -> None:
    taken: dict[tuple[int, int], tuple[int, int]] = {}
    ends: set[int] = set()
    for root, total in enumerate(trees.root_units.tolist()):
        for unit in range(total):
            rows = trees.rows(np.array([root]), np.array([unit]))
            for child in np.flatnonzero(rows.parent[0] >= 0):
                last = int(trees.path_links(rows.path[0, child : child + 1])[1][-1])
                ends.add(last)
                taken[last, int(rows.last[0, child])] = (root, unit)
    most = max((offset for _, offset in taken), default=0) + 2
    for link in ends:
        roots, units = trees.owners(np.full(most, link, dtype=np.int32), np.arange(most))
        for offset in range(most):
            assert (roots[offset], units[offset]) == taken.get((link, offset), (-1, -1))


def test_rows_promise_only_runs_that_hold() -> None:
    for _, trees in _all_trees():
        for root, total in enumerate(trees.root_units.tolist()):
            unit = 0
            while unit < total:
                run = int(trees.rows(np.array([root]), np.array([unit])).run[0])
                assert 1 <= run <= total - unit
                rows = trees.rows(np.full(run, root), np.arange(unit, unit + run))
                step = np.where(rows.parent[0] >= 0, np.arange(run)[:, None], 0)
                assert np.all(rows.parent == rows.parent[0])
                assert np.all(rows.path == rows.path[0])
                assert np.array_equal(rows.first, rows.first[0] + step)
                assert np.array_equal(rows.last, rows.last[0] + step)
                unit += run


def _changed(value: Any, key: str, change: Callable[[Any], Any]) -> Any:
    array = np.array(getattr(value, key), copy=True)
    return replace(value, **{key: change(array)})


def _with(array: Any, place: Any, value: int) -> Any:
    array[place] = value
    return array


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("root", lambda a: a[::-1], "roots must rise"),
        ("root", lambda a: _with(a, -1, 99), "root: found 99"),
        ("units", lambda a: _with(a, 0, 0), "units: found 0"),
        ("units", lambda a: _with(a, 0, 2**62), "units: found"),
        ("parent", lambda a: a[:, :-1], "path has shape"),
        ("parent", lambda a: _with(a, (0, 1), -1), "parent must be -1 at the root"),
        ("path", lambda a: _with(a, (0, 1), 10**6), "path: found 1000000"),
        ("first", lambda a: _with(a, (0, 1), -2), "first: found -2"),
        ("last", lambda a: a.astype(np.float64) + 0.5, "last: expected int64"),
        ("path_offset", lambda a: _with(a, 1, 0), "path_offset must rise"),
        ("path_table", lambda a: _with(a, 0, -1), "path_table: found -1"),
    ],
)
def test_malformed_tables_are_refused(key: str, change: Callable[[Any], Any], message: str) -> None:
    trees = samples.two_boxes()[2].forests[0].layers[0].pieces[0].trees
    assert isinstance(trees, TableTrees)
    with pytest.raises(ScheduleError, match=message):
        _changed(trees, key, change)


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("out_first", lambda a: _with(a, (1, 2), 9), "out_first must rise"),
        ("in_first", lambda a: _with(a, (0, 4), 9), "has 9 ingress units"),
        ("out_offset", lambda a: a[:, :-1], "out_offset has shape"),
        ("in_offset", lambda a: _with(a, (0, 0), -1), "in_offset: found -1"),
        ("in_links", lambda a: a[:-1], "in_links has shape"),
        ("block", lambda a: 3, "in blocks of 3 make no such trees"),
        ("n_children", lambda a: 1, "make no such trees"),
        ("native_units", lambda a: 2.0, "must be an integer"),
    ],
)
def test_malformed_circulant_trees_are_refused(key: str, change: Callable[[Any], Any], message: str) -> None:
    trees = samples.circulant()[2].forests[0].layers[0].pieces[0].trees
    assert isinstance(trees, CirculantTrees)
    with pytest.raises(ScheduleError, match=message):
        _changed(trees, key, change)


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("link", lambda a: a[::-1], "sorted by"),
        ("units", lambda a: _with(a, 0, 0), "units: found 0"),
        ("path", lambda a: _with(a, 0, 99), "path: found 99"),
        ("child", lambda a: a[:-1], "child has 2 rows"),
        ("path_offset", lambda a: a[:-1], "path_offset must rise"),
    ],
)
def test_malformed_crossings_are_refused(key: str, change: Callable[[Any], Any], message: str) -> None:
    crossings = samples.two_boxes()[2].forests[0].layers[0].pieces[1].entrances
    with pytest.raises(ScheduleError, match=message):
        _changed(crossings, key, change)


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("capacity", lambda a: a[:1], "local link"),
        ("capacity", lambda a: _with(a, slice(None), 2**60), "capacity sum"),
        ("capacity", lambda a: a * 0, "which has 0"),
        ("native", lambda a: a[:-1], "native has 2 rows"),
    ],
)
def test_malformed_pieces_are_refused(key: str, change: Callable[[Any], Any], message: str) -> None:
    piece = samples.two_boxes()[2].forests[0].layers[0].pieces[1]
    with pytest.raises(ScheduleError, match=message):
        _changed(piece, key, change)


@pytest.mark.parametrize(
    ("key", "change", "message"),
    [
        ("kind", lambda a: _with(a, 1, 7), "kind: found 7"),
        ("kind", lambda a: _with(a, 1, 0), "subproblem 1 has"),
        ("outer", lambda a: _with(a, 1, 1), "outer must be -1"),
        ("outer", lambda a: _with(a, 3, 0), "child of its outer subproblem"),
        ("children", lambda a: _with(a, 0, a[1]), "child of its outer subproblem"),
        ("children", lambda a: _with(a, -1, a[-2]), "child of two subproblems"),
        ("child_offset", lambda a: _with(a, 1, a[1] + 1), "subproblem 0 has"),
        ("links", lambda a: _with(a, 1, a[0]), "must rise"),
        ("links", lambda a: a[:-1], "link_offset must rise"),
    ],
)
def test_malformed_layers_are_refused(key: str, change: Callable[[Any], Any], message: str) -> None:
    layer = samples.nested_pods()[2].forests[0].layers[0]
    with pytest.raises(ScheduleError, match=message):
        _changed(layer, key, change)


def test_malformed_forests_are_refused() -> None:
    forest = samples.two_boxes()[2].forests[0]
    with pytest.raises(ScheduleError, match="native unit trees in the components"):
        _changed(forest, "root_multiplicity", lambda a: a * 2)
    with pytest.raises(ScheduleError, match="once each"):
        _changed(forest, "root_multiplicity", lambda a: a[:-1])
    with pytest.raises(ScheduleError, match="no component; expected at least one"):
        replace(forest, layers=())
    with pytest.raises(ScheduleError, match="have the wrong direction"):
        FactoredSchedule(samples.two_boxes()[2].kind, broadcast=replace(forest, direction=Direction.REDUCE))


def test_too_deep_nesting_is_refused() -> None:
    n = 80
    outer = np.arange(-1, n - 1)
    table = TableTrees([0], [1], [[-1]], [[-1]], [[-1]], [[-1]], [0], [])
    empty = samples.two_boxes()[2].forests[0].layers[0].pieces[0].exits
    piece = Subproblem(np.zeros(0, dtype=np.int64), np.ones(1, dtype=np.int64), table, empty, empty)
    children = np.append(~np.arange(1, n), 0)
    with pytest.raises(ScheduleError, match="nested more than 64 deep"):
        Layer((piece,), np.zeros(n), outer, np.arange(n + 1), children, np.zeros(n + 1), np.zeros(0))


def _replace_crossings(forest: FactoredForest, kind: int, **sides: Crossings) -> FactoredForest:
    (layer,) = forest.layers
    pieces = list(layer.pieces)
    pieces[kind] = replace(pieces[kind], **sides)
    return replace(forest, layers=(replace(layer, pieces=tuple(pieces)),))


def _rows(crossings: Crossings, keep: slice) -> Crossings:
    keys = ("link", "offset", "units", "child", "inner", "path", "root_unit")
    return replace(crossings, **{key: getattr(crossings, key)[keep] for key in keys})


def test_expansion_of_misfits_is_refused() -> None:
    forest = samples.two_boxes()[2].forests[0]
    piece = forest.layers[0].pieces[1]
    for sides in (
        {"entrances": _rows(piece.entrances, slice(1, None))},
        {"exits": _rows(piece.exits, slice(0, 0))},
        {"entrances": _changed(piece.entrances, "root_unit", lambda a: a * 0)},
        {"entrances": _changed(piece.entrances, "root_unit", lambda a: a + 50)},
    ):
        with pytest.raises(ScheduleError):
            _replace_crossings(forest, 1, **sides).explicit()


def test_large_expansions_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    forest = samples.nested_pods()[2].forests[0]
    monkeypatch.setattr("treadle.schedules.factored.factored_forest.MAX_CELLS", 63)
    with pytest.raises(ScheduleError, match="more than 63 parents"):
        forest.explicit()


def test_no_offsets_at_all_are_refused() -> None:
    """Even nothing has one offset, where it begins."""
    piece = samples.two_boxes()[2].forests[0].layers[0].pieces[1]
    forest = samples.two_boxes()[2].forests[0].explicit()
    assert isinstance(piece.trees, TableTrees)
    for value in (piece.entrances, piece.trees, forest):
        with pytest.raises(ScheduleError, match=r"path_offset must rise from 0 to .* in 1 values"):
            replace(value, path_offset=np.zeros(0, dtype=np.int64))


def test_runs_at_borders_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two boxes is entered by three runs of units, and left by three."""
    forest = samples.two_boxes()[2].forests[0]
    for most in (6, 5):
        monkeypatch.setattr("treadle.schedules.factored.index._MAX_ROWS", most)
        again = replace(forest)
        if most == 6:
            assert len([*again.trees(0)]) == 1
        else:
            with pytest.raises(ScheduleError, match=r"^component: more than 5 runs of units at boundaries$"):
                next(again.trees(0))


def test_unit_trees_beyond_those_of_a_root_are_refused() -> None:
    forest = samples.two_boxes()[2].forests[0]
    layer = LayerExpansion(forest.layers[0])
    assert layer.expand(np.array([1]), np.array([0]))[2].tolist() == [1]
    with pytest.raises(ScheduleError, match=r"^factored forest: the root has no such unit tree$"):
        layer.expand(np.array([0, 1]), np.array([0, 1]))


def test_parents_of_all_trees_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows of parents as there are runs of equal trees, found one after another for each root."""
    forest = samples.nested_pods()[2].forests[0]
    n, runs, whole = forest.n_ranks, 0, FactoredForest._expand

    def counted(self: FactoredForest, roots: Any, units: Any) -> Any:
        nonlocal runs
        runs += len(roots)
        return whole(self, roots, units)

    with monkeypatch.context() as patch:
        patch.setattr(FactoredForest, "_expand", counted)
        for root in range(n):
            list(forest.trees(root))
    assert runs >= n
    for most in (n * runs, n * runs - 1):
        monkeypatch.setattr("treadle.schedules.factored.factored_forest.MAX_CELLS", most)
        if most == n * runs:
            assert len(set(expand(forest, range(n)).tree_root.tolist())) == n
        else:
            with pytest.raises(ScheduleError) as caught:
                expand(forest, range(n))
            assert str(caught.value) == (
                f"factored forest: more than {most} parents; expand single roots instead"
            )
