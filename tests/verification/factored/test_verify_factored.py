"""The verifier of factored forests agrees with the explicit one on the trees written out."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from samples.factored import factored_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.factored import (
    CirculantTrees,
    Crossings,
    FactoredForest,
    FactoredSchedule,
    Layer,
    Subproblem,
    TableTrees,
)
from treadle.schedules.factored.layers import no_crossings
from treadle.schedules.trees.forest import Direction
from treadle.schedules.trees.forest_cost import height_max, link_loads
from treadle.topologies import parse
from treadle.topologies.topology import Topology
from treadle.verification.factored import factored_check
from treadle.verification.factored.circulant import _whole_blocks
from treadle.verification.schedules import verify
from treadle.verification.violations import Findings, ViolationKind


def factored_loads(topology: Topology, collective: Collective, schedule: FactoredSchedule) -> list[int]:
    """Units that cross each link, as the verifier counts them; all forests together."""
    loads = [
        factored_check._check_forest(topology, collective, forest, Findings(1)) for forest in schedule.forests
    ]
    return [sum(units) for units in zip(*(load.tolist() for load in loads), strict=True)]


def _agrees(topology: Topology, collective: Collective, schedule: FactoredSchedule) -> None:
    """Loads, algbw and height of an accepted schedule are those of the trees written out, which are right."""
    explicit = schedule.explicit()
    slow, fast = verify(topology, collective, explicit), verify(topology, collective, schedule)
    assert not slow.violations
    assert fast.algbw == slow.algbw
    assert factored_loads(topology, collective, schedule) == link_loads(topology, explicit).tolist()
    assert (fast.height_max, fast.height_is_exact) == (height_max(explicit), True)


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_hand_made_forests_are_accepted(name: str) -> None:
    topology, collective, schedule = samples.SAMPLES[name]()
    assert not verify(topology, collective, schedule).violations
    _agrees(topology, collective, schedule)


@pytest.mark.parametrize("seed", range(0, 24, 6))
def test_random_forests_are_accepted(seed: int) -> None:
    found = [sample for sample in map(samples.random_sample, range(seed, seed + 6)) if sample is not None]
    assert found
    for topology, collective, schedule in found:
        assert not verify(topology, collective, schedule).violations
        _agrees(topology, collective, schedule)


def test_unused_exits_carry_nothing() -> None:
    """Exits may cover units that no tree outside takes; their paths are no load."""
    topology, collective, schedule = samples.single_root()
    assert schedule.forests[0].layers[0].pieces[1].exits.units.sum() == 4
    loads = factored_loads(topology, collective, schedule)
    leaving = [e for e in range(topology.n_links) if topology.link_name(e) in ("g1.0->p0", "g1.1->p0")]
    assert not any(loads[link] for link in leaving)


def test_claims_and_witness() -> None:
    topology, collective, schedule = samples.two_boxes()
    outside = [topology.node_index(name) for name in samples.box_sets(2, 3)[0]]
    certificate = BottleneckCut(tuple(outside))
    report = verify(
        topology,
        collective,
        schedule,
        claimed_algbw=Fraction(6),
        claimed_optimal_algbw=Fraction(6),
        certificate=certificate,
    )
    assert report.is_optimal
    assert report.height_max == 2
    report = verify(topology, collective, schedule, claimed_algbw=Fraction(7))
    assert {violation.kind for violation in report.violations} == {ViolationKind.LOAD, ViolationKind.CLAIM}
    assert any("link g0.0->p0 carries 1 of 6 units" in str(violation) for violation in report.violations)


def test_wrong_collective_is_rejected() -> None:
    topology, _, schedule = samples.two_boxes()
    weighted = on_all_ranks(topology, CollectiveKind.ALLGATHER, weights=(2, 1, 1, 1, 1, 1))
    kinds = {violation.kind for violation in verify(topology, weighted, schedule).violations}
    assert kinds == {ViolationKind.SHARES}
    other = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    kinds = {violation.kind for violation in verify(topology, other, schedule).violations}
    assert kinds == {ViolationKind.SHAPE}
    ranks = tuple(reversed(on_all_ranks(topology, CollectiveKind.ALLGATHER).ranks))
    kinds = {v.kind for v in verify(topology, Collective(schedule.kind, ranks), schedule).violations}
    assert ViolationKind.ENDS in kinds


def test_injection_caps_count() -> None:
    topology, collective, schedule = samples.two_boxes()
    caps = np.where(topology.is_compute, 5, 0)
    capped = replace(topology, injection_bytes_per_s=caps)
    assert verify(capped, collective, schedule).algbw == verify(capped, collective, schedule.explicit()).algbw


@dataclass(frozen=True)
class _Place:
    """An array (or whole number) of a factored schedule."""

    forest: int
    layer: int
    piece: int
    part: str
    key: str


def _places(schedule: FactoredSchedule) -> Iterator[_Place]:
    for f, forest in enumerate(schedule.forests):
        yield _Place(f, -1, -1, "", "root_multiplicity")
        for number, layer in enumerate(forest.layers):
            for key in ("kind", "outer", "child_offset", "children", "link_offset", "links"):
                yield _Place(f, number, -1, "", key)
            for kind, piece in enumerate(layer.pieces):
                yield _Place(f, number, kind, "", "capacity")
                yield _Place(f, number, kind, "", "native")
                for part in ("trees", "entrances", "exits"):
                    for column in fields(getattr(piece, part)):
                        yield _Place(f, number, kind, part, column.name)


def _owner(forest: FactoredForest, place: _Place) -> Any:
    if place.layer < 0:
        return forest
    layer = forest.layers[place.layer]
    if place.piece < 0:
        return layer
    piece = layer.pieces[place.piece]
    return getattr(piece, place.part) if place.part else piece


def _put(forest: FactoredForest, place: _Place, owner: Any) -> FactoredForest:
    """The forest with the value that holds the array in its place."""
    if place.layer < 0:
        return owner
    layers = list(forest.layers)
    layer: Layer = layers[place.layer]
    if place.piece < 0:
        layers[place.layer] = owner
    else:
        pieces = list(layer.pieces)
        pieces[place.piece] = replace(pieces[place.piece], **{place.part: owner}) if place.part else owner
        layers[place.layer] = replace(layer, pieces=tuple(pieces))
    return replace(forest, layers=tuple(layers))


def _mutant(schedule: FactoredSchedule, place: _Place, draw: random.Random) -> FactoredSchedule | None:
    """One value changed, or two swapped; None if the constructors refuse it or nothing has changed."""
    forest = schedule.forests[place.forest]
    owner = _owner(forest, place)
    old = getattr(owner, place.key)
    new = old + draw.choice((-1, 1)) if isinstance(old, int) else old.copy()
    if not isinstance(old, int):
        if not new.size:
            return None
        flat = new.reshape(-1)
        at, other = draw.randrange(flat.size), draw.randrange(flat.size)
        change = draw.choice(("more", "less", "swap", "copy"))
        if change == "swap":
            flat[[at, other]] = flat[[other, at]]
        else:
            flat[at] = {"more": flat[at] + 1, "less": flat[at] - 1, "copy": flat[other]}[change]
        if np.array_equal(new, old):
            return None
    try:
        changed = _put(forest, place, replace(owner, **{place.key: new}))
        name = "broadcast" if changed.direction == "broadcast" else "reduce"
        return replace(schedule, **{name: changed})
    except ScheduleError:
        return None


def _is_right(topology: Topology, collective: Collective, schedule: FactoredSchedule) -> bool:
    try:
        return verify(topology, collective, schedule.explicit()).is_ok
    except ScheduleError:
        return False


@pytest.mark.parametrize("name", ["two_boxes", "nested_pods", "circulant", "superposed", "single_root"])
def test_no_mutant_deceives(name: str) -> None:
    topology, collective, schedule = samples.SAMPLES[name]()
    draw = random.Random(name)
    outcomes: Counter[str] = Counter()
    touched: set[str] = set()
    for place in _places(schedule):
        tries = (_mutant(schedule, place, draw) for _ in range(30))
        for mutant in itertools.islice((mutant for mutant in tries if mutant is not None), 1):
            if verify(topology, collective, mutant).is_ok:
                _agrees(topology, collective, mutant)
                outcomes["harmless"] += 1
                continue
            touched.add(place.key)
            if outcomes["wrong"] < 10:  # that many show that the mutants are worth rejecting
                outcomes["strict" if _is_right(topology, collective, mutant) else "wrong"] += 1
    assert outcomes["wrong"] == 10, outcomes
    if name == "nested_pods":
        assert touched >= {"link", "offset", "child", "inner", "parent", "first", "last", "links", "native"}


def _rows(crossings: Any, order: list[int]) -> Any:
    keys = ("link", "offset", "units", "child", "inner", "path", "root_unit")
    return replace(crossings, **{key: getattr(crossings, key)[order] for key in keys})


def _with_piece(schedule: FactoredSchedule, kind: int, **changes: Any) -> FactoredSchedule:
    (forest,) = schedule.forests
    (layer,) = forest.layers
    pieces = list(layer.pieces)
    pieces[kind] = replace(pieces[kind], **changes)
    layer = replace(layer, pieces=tuple(pieces))
    return replace(schedule, broadcast=replace(forest, layers=(layer,)))


def _kinds(sample: samples.Sample, schedule: FactoredSchedule) -> set[ViolationKind]:
    return {violation.kind for violation in verify(sample[0], sample[1], schedule).violations}


def test_a_dropped_crossing_is_rejected() -> None:
    sample = samples.two_boxes()
    piece = sample[2].forests[0].layers[0].pieces[1]
    found = _kinds(sample, _with_piece(sample[2], 1, entrances=_rows(piece.entrances, [0, 1])))
    assert found == {ViolationKind.SHARES}
    found = _kinds(sample, _with_piece(sample[2], 1, exits=_rows(piece.exits, [])))
    assert found == {ViolationKind.GLUE}


def test_swapped_gluing_is_rejected() -> None:
    """Entrances that go on as each other's trees: the tree would not start where its data comes in."""
    sample = samples.two_boxes()
    piece = sample[2].forests[0].layers[0].pieces[1]
    rows = piece.entrances
    child = np.array(rows.child)[[1, 0, 2]]
    swapped = replace(rows, child=child)
    assert ViolationKind.ENDS in _kinds(sample, _with_piece(sample[2], 1, entrances=swapped))


def test_an_overlapping_interval_is_rejected() -> None:
    """Two trees enter a child by the same capacity unit."""
    sample = samples.two_boxes()
    trees = sample[2].forests[0].layers[0].pieces[1].trees
    assert isinstance(trees, TableTrees)
    rows = np.flatnonzero(trees.parent[:, 0] >= 0)
    ends = trees.path_table[trees.path_offset[1:][trees.path[rows, 0]] - 1]
    one, other = rows[ends == ends[0]][:2]
    last = np.array(trees.last)
    last[other, 0] = last[one, 0]
    twice = replace(trees, last=last)
    assert _kinds(sample, _with_piece(sample[2], 1, trees=twice)) == {ViolationKind.CAPACITY}


def test_a_link_of_another_piece_is_rejected() -> None:
    sample = samples.two_boxes()
    (forest,) = sample[2].forests
    (layer,) = forest.layers
    links = np.array(layer.links)
    one, other = (slice(int(layer.link_offset[i]), int(layer.link_offset[i + 1])) for i in (1, 2))
    links[one] = links[other]
    wrong = replace(sample[2], broadcast=replace(forest, layers=(replace(layer, links=links),)))
    assert _kinds(sample, wrong) >= {ViolationKind.ENDS, ViolationKind.GLUE}


def test_planes_that_do_not_meet_are_rejected() -> None:
    sample = samples.circulant()
    trees = sample[2].forests[0].layers[0].pieces[0].trees
    assert isinstance(trees, CirculantTrees)
    links = np.array(trees.in_links)
    links[1] = links[1, [2, 3, 0, 1]]
    mixed = replace(trees, in_links=links)
    found = verify(*sample[:2], _with_piece(sample[2], 0, trees=mixed))
    assert {violation.kind for violation in found.violations} == {ViolationKind.PATH}
    assert "does not pass one relay for all" in str(found.violations[0])


def _with_room() -> samples.Sample:
    """Two boxes whose links have units to spare, so that capacities alone do not give mutants away."""
    topology, collective, schedule = samples.two_boxes()
    for kind, piece in enumerate(schedule.forests[0].layers[0].pieces):
        schedule = _with_piece(schedule, kind, capacity=piece.capacity + 3)
    assert not verify(topology, collective, schedule).violations
    return topology, collective, schedule


def test_units_that_enter_elsewhere_are_rejected() -> None:
    """The outside enters by unit 0 of a link, the box awaits unit 1."""
    sample = _with_room()
    rows = sample[2].forests[0].layers[0].pieces[1].entrances
    assert (np.diff(rows.path_offset) == 1).all()
    shift = np.array([0, 1, 0])
    moved = replace(rows, offset=rows.offset + shift, inner=rows.inner + shift)
    assert _kinds(sample, _with_piece(sample[2], 1, entrances=moved)) == {ViolationKind.GLUE}


def test_paths_that_jump_are_rejected() -> None:
    """A path to the box's switch, and on by the link of another switch to the right rank."""
    sample = _with_room()
    topology = sample[0]
    (layer,) = sample[2].forests[0].layers
    trees = layer.pieces[1].trees
    assert isinstance(trees, TableTrees)
    row, child = np.argwhere(trees.parent >= 0)[0]
    links = layer.links[layer.link_offset[1] : layer.link_offset[2]]
    rank = topology.compute_nodes[layer.children[layer.child_offset[1] + child]]
    other = np.flatnonzero((topology.heads[links] == rank) & (topology.bandwidths[links] == 1))
    path = trees.path_table[trees.path_offset[trees.path[row, child]]], other[0]
    number, last = np.array(trees.path), np.array(trees.last)
    number[row, child], last[row, child] = trees.n_paths, 1
    jumping = replace(
        trees,
        path=number,
        last=last,
        path_offset=np.append(trees.path_offset, len(trees.path_table) + 2),
        path_table=np.append(trees.path_table, path),
    )
    mutant = _with_piece(sample[2], 1, trees=jumping)
    assert _kinds(sample, mutant) == {ViolationKind.PATH}
    assert not _is_right(*sample[:2], mutant)


def test_natives_that_differ_between_levels_are_rejected() -> None:
    """A box has three native trees, the piece around it counts two and four; the total is right."""
    sample = samples.two_boxes()
    piece = sample[2].forests[0].layers[0].pieces[0]
    found = _kinds(sample, _with_piece(sample[2], 0, native=piece.native + np.array([1, -1])))
    assert found == {ViolationKind.SHARES}


def test_a_kind_that_no_piece_has_is_harmless() -> None:
    """Its paths are nowhere in the fabric, so there is nothing to check them against."""
    topology, collective, schedule = samples.nested_pods()
    (forest,) = schedule.forests
    (layer,) = forest.layers
    for piece in layer.pieces:
        spare = replace(layer, pieces=(*layer.pieces, piece))
        padded = replace(schedule, broadcast=replace(forest, layers=(spare,)))
        _agrees(topology, collective, padded)


def test_what_is_wrong_is_told_of_whole_forests_and_the_outermost_piece() -> None:
    topology, collective, schedule = samples.two_boxes()

    def told(posed: Collective, judged: FactoredSchedule) -> list[str]:
        return [str(one) for one in verify(topology, posed, judged).violations]

    few = replace(collective, ranks=collective.ranks[:5])
    assert told(few, schedule) == ["membership: compute node 'g1.2' is neither a rank nor a forwarder"]
    passing = replace(few, forwarders=collective.ranks[5:])
    assert told(passing, schedule) == ["shape: broadcast forest has 6 ranks, the collective 5"]
    with pytest.raises(ScheduleError, match=r"^plan: it is not correct; run treadle verify on it$"):
        factored_check.factored_loads(topology, passing, schedule)
    border = Crossings(*(np.array(column) for column in ([0], [0], [1], [0], [0], [0], [0], [0, 1], [0])))
    assert told(collective, _with_piece(schedule, 0, exits=border)) == [
        "capacity: broadcast layer 0, kind 0: unit 0 of local link 0 is taken twice",
        "capacity: broadcast layer 0, kind 0: local link 0 carries 2 units; it has 1",
        "glue: broadcast layer 0, subproblem 0 has a boundary; it is the outermost",
    ]
    assert told(collective, _with_piece(schedule, 0, entrances=border))[-1] == (
        "glue: broadcast layer 0, subproblem 0 has a boundary; it is the outermost"
    )


def test_a_forest_without_trees_is_told() -> None:
    ring = parse("ring:2")
    none: Any = TableTrees([], [], *[np.zeros((0, 2))] * 4, [0], [])
    piece: Any = Subproblem([1, 1], [0, 0], none, no_crossings(), no_crossings())
    layer: Any = Layer((piece,), [0], [-1], [0, 2], [0, 1], [0, 2], [0, 1])
    forest: Any = FactoredForest(Direction.BROADCAST, [0, 0], (layer,))
    schedule = FactoredSchedule(CollectiveKind.ALLGATHER, broadcast=forest)
    report = verify(ring, on_all_ranks(ring, CollectiveKind.ALLGATHER), schedule)
    assert [str(one) for one in report.violations] == ["shares: broadcast: the forest has no trees"]
    assert [*forest.trees(0)] == []
    assert forest.explicit().n_trees == 0


@pytest.mark.parametrize("g", [1, 2, 3, 5])
def test_runs_are_divided_into_whole_blocks_and_parts_of_some(g: int) -> None:
    """Every tree of a run is in one row, with the run's value; rows rise by their blocks."""
    for cuts in itertools.combinations(range(10), 4):
        low, high = np.array(cuts[:-1]), np.array(cuts[1:])
        first, last, begin, end, value = _whole_blocks(low, high, np.array([7, 8, 9]), g)
        covered = [
            (block + place, mine)
            for start, stop, near, far, mine in zip(first, last, begin, end, value, strict=True)
            for block in range(int(start), int(stop), g)
            for place in range(int(near), int(far))
        ]
        wanted = [(tree, 7 + run) for run in range(3) for tree in range(int(low[run]), int(high[run]))]
        assert sorted(covered) == wanted
        assert np.all(np.diff(first) >= 0)
        assert np.all((first % g == 0) & (last % g == 0) & (begin >= 0) & (end <= g))
