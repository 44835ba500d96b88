"""The verifier accepts hand-made forests, and rejects every mutant that a slow checker cannot vouch for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from samples import forest_samples as samples
from treadle.errors import ScheduleError
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.forest import (
    Direction,
    Forest,
    ForestSchedule,
    Tree,
    TreeSpec,
    forest_from_trees,
)
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import Report, ViolationKind, verify

ARRAYS = (
    "root_multiplicity",
    "tree_root",
    "tree_multiplicity",
    "parent",
    "entry_offset",
    "entry_path",
    "entry_units",
    "path_offset",
    "path_links",
)


def kinds(report: Report) -> set[ViolationKind]:
    return {violation.kind for violation in report.violations}


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_hand_made_forest_is_accepted(name: str) -> None:
    topology, collective, schedule = samples.SAMPLES[name]()
    assert samples.is_correct(topology, collective, schedule)
    report = verify(topology, collective, schedule)
    assert not report.violations
    assert report.is_ok
    assert report.algbw == samples.slow_algbw(topology, schedule)
    assert verify(topology, collective, schedule, claimed_algbw=report.algbw).is_ok


@pytest.mark.parametrize(
    ("name", "algbw", "height"),
    [
        ("ring_allgather", Fraction(8), 3),  # every link carries 3 of the 4 units at 6 bytes/s
        ("boxes_allreduce", Fraction(50, 9), 2),  # 9 of 5 units leave a0 at 10 bytes/s
        ("pruned_broadcast", Fraction(4), 2),
        # each way rank 0's link carries 2 sums, 2 + 1 stores and, of others' stores and its own, 3 of 3 units
        ("asked_allreduce", Fraction(15), 2),
    ],
)
def test_algbw_and_height_by_hand(name: str, algbw: Fraction, height: int) -> None:
    report = verify(*samples.SAMPLES[name]())
    assert (report.algbw, report.height_max) == (algbw, height)


def _variants(values: np.ndarray) -> Iterator[np.ndarray]:
    """Every value changed, dropped, doubled, or swapped with the next."""
    flat = values.reshape(-1)
    for i in range(flat.size):
        for value in {-1, 0, 1, 2, 3, 10**6, int(flat[i]) + 1, int(flat[i]) - 1} - {int(flat[i])}:
            changed = flat.copy()
            changed[i] = value
            yield changed.reshape(values.shape)
        if i + 1 < flat.size and flat[i] != flat[i + 1]:
            swapped = flat.copy()
            swapped[[i, i + 1]] = swapped[[i + 1, i]]
            yield swapped.reshape(values.shape)
        yield np.delete(values, i) if values.ndim == 1 else np.delete(values, i % len(values), axis=0)
        yield np.insert(flat, i, flat[i]) if values.ndim == 1 else np.repeat(values, 2, axis=0)


def _mutants(forest: Forest) -> Iterator[Forest]:
    for key in ARRAYS:
        for values in _variants(getattr(forest, key)):
            try:
                yield replace(forest, **{key: values})
            except ScheduleError:
                continue
    # entries dropped or doubled with their offsets in step
    owners = np.repeat(np.arange(forest.parent.size), np.diff(forest.entry_offset))
    for entry in range(len(forest.entry_path)):
        for edit in (np.delete, lambda values, i: np.insert(values, i, values[i])):
            rows = edit(owners, entry)
            offset = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=forest.parent.size))])
            yield replace(
                forest,
                entry_offset=offset,
                entry_path=edit(forest.entry_path, entry),
                entry_units=edit(forest.entry_units, entry),
            )


def _without_links(forest: Forest) -> Iterator[Forest]:
    """One link of one path dropped, doubled or replaced, with the offsets in step."""
    owners = np.repeat(np.arange(forest.n_paths), np.diff(forest.path_offset))
    for i in range(len(forest.path_links)):
        for edit in (np.delete, lambda values, j: np.insert(values, j, values[j])):
            offset = np.concatenate([[0], np.cumsum(np.bincount(edit(owners, i), minlength=forest.n_paths))])
            yield replace(forest, path_offset=offset, path_links=edit(forest.path_links, i))


@pytest.mark.parametrize("name", samples.SAMPLES)
def test_mutants_are_rejected_or_equivalent(name: str) -> None:
    topology, collective, schedule = samples.SAMPLES[name]()
    claim = verify(topology, collective, schedule).algbw
    counts = {True: 0, False: 0}
    for key in ("reduce", "broadcast"):
        forest = getattr(schedule, key)
        if forest is None:
            continue
        for mutant in (*_mutants(forest), *_without_links(forest))[::3]:
            try:
                changed = replace(schedule, **{key: mutant})
            except ScheduleError:
                continue
            report = verify(topology, collective, changed, claimed_algbw=claim)
            unknown = (mutant.path_links < 0) | (mutant.path_links >= topology.n_links)
            expected = (
                not unknown.any()
                and samples.is_correct(topology, collective, changed)
                and samples.slow_algbw(topology, changed) == claim
            )
            assert report.is_ok == expected, (key, mutant, report.violations[:3])
            counts[expected] += 1
    assert counts[False] > 15


@pytest.mark.parametrize("factor", [Fraction(1, 2), Fraction(999999, 1000000), Fraction(1000001, 1000000), 2])
def test_false_algbw_is_rejected(factor: Fraction) -> None:
    topology, collective, schedule = samples.ring_allgather()
    report = verify(topology, collective, schedule, claimed_algbw=8 * factor)
    assert ViolationKind.CLAIM in kinds(report)
    assert (ViolationKind.LOAD in kinds(report)) == (factor > 1)
    if factor > 1:
        assert "g0->g1" in report.violations[0].message
        assert report.n_violations == 5


def test_optimum_needs_its_witness() -> None:
    topology, collective, schedule = samples.ring_allgather()
    cut = BottleneckCut((0, 1, 2))
    assert cut.bound(topology, collective) == 8
    good = verify(
        topology,
        collective,
        schedule,
        claimed_algbw=Fraction(8),
        claimed_optimal_algbw=Fraction(8),
        certificate=cut,
    )
    assert good.is_optimal
    assert good.bound == 8
    for claimed, certificate in (
        (Fraction(8), None),
        (Fraction(9), cut),
        (Fraction(7), cut),
        (Fraction(8), BottleneckCut((0, 1))),
        (Fraction(8), BottleneckCut((0, 1, 2, 3))),
        (Fraction(8), BottleneckCut(())),
        (Fraction(8), BottleneckCut((0, 99))),
        (Fraction(8), BottleneckCut((-1,))),
    ):
        report = verify(
            topology, collective, schedule, claimed_optimal_algbw=claimed, certificate=certificate
        )
        assert kinds(report) == {ViolationKind.BOUND}


def test_schedule_above_the_bound_is_impossible() -> None:
    class Liar:
        kind = "liar"

        def bound(self, topology: Topology, collective: Collective) -> Fraction:
            return Fraction(5)

        def to_json(self) -> dict[str, object]:
            return {}

    report = verify(*samples.ring_allgather(), claimed_optimal_algbw=Fraction(5), certificate=Liar())
    assert [violation.kind for violation in report.violations] == [ViolationKind.BOUND]
    assert not report.is_optimal


def test_membership() -> None:
    topology, _, schedule = samples.boxes_allreduce()
    for collective in (
        Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3)),
        Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3), forwarders=(4, 5)),
        Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3), forwarders=(4, 99)),
        Collective(CollectiveKind.ALLREDUCE, (-1, 1, 2, 3), forwarders=(0, 4)),
    ):
        assert kinds(verify(topology, collective, schedule)) == {ViolationKind.MEMBERSHIP}


def test_rank_is_no_forwarder() -> None:
    topology, _, schedule = samples.boxes_allreduce()
    wider = Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3, 4))
    assert kinds(verify(topology, wider, schedule)) == {ViolationKind.SHAPE}
    ring = samples.ring(3)
    paths = {1: [((0,), 1)], 2: [((0, 1), 1)]}  # passes through rank 1
    forest = forest_from_trees(Direction.BROADCAST, 3, [TreeSpec(0, 1, [-1, 0, 0], paths)])
    collective = on_all_ranks(ring, CollectiveKind.BROADCAST, root=0)
    report = verify(ring, collective, ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest))
    assert kinds(report) == {ViolationKind.PATH}
    assert "broadcast tree 0 of root 0, rank 2: path g0->g1 g1->g2" in report.violations[0].message


def test_another_collective_is_rejected() -> None:
    topology, _, schedule = samples.ring_allgather()
    for collective in (
        on_all_ranks(topology, CollectiveKind.BROADCAST, root=0),
        on_all_ranks(topology, CollectiveKind.ALLGATHER, weights=(1, 1, 1, 2)),
    ):
        assert not verify(topology, collective, schedule).is_ok


def test_injection_caps_count() -> None:
    topology, collective, schedule = samples.star_reduce_scatter()
    caps = np.array([0, 5, 0, 0, 0])
    capped = replace(topology, injection_bytes_per_s=caps)
    report = verify(capped, collective, schedule)
    assert report.is_ok
    assert report.algbw == samples.slow_algbw(capped, schedule) < samples.slow_algbw(topology, schedule)


def test_self_loop_is_no_part_of_a_path() -> None:
    builder = TopologyBuilder("loop")
    builder.compute("a")
    builder.compute("b")
    builder.switch("w")
    for tail, head in (("a", "w"), ("w", "w"), ("w", "b")):
        builder.link(tail, head, 1)
    topology = builder.build()
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    for links, expected in (((0, 2), set()), ((0, 1, 2), {ViolationKind.PATH})):
        forest = forest_from_trees(Direction.BROADCAST, 2, [TreeSpec(0, 1, [-1, 0], {1: [(links, 1)]})])
        schedule = ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest)
        assert kinds(verify(topology, collective, schedule)) == expected


def test_declared_shares_are_those_planted() -> None:
    topology, collective, schedule = samples.boxes_allreduce()
    assert schedule.reduce is not None
    assert schedule.broadcast is not None
    declared = np.array([4, 1, 0, 0])
    changed = ForestSchedule(
        CollectiveKind.ALLREDUCE,
        reduce=replace(schedule.reduce, root_multiplicity=declared),
        broadcast=replace(schedule.broadcast, root_multiplicity=declared),
    )
    report = verify(topology, collective, changed)
    assert kinds(report) == {ViolationKind.SHARES}
    assert report.n_violations == 4


def test_unused_paths_name_links_that_exist() -> None:
    topology, collective, schedule = samples.ring_allgather()
    forest = schedule.broadcast
    assert forest is not None
    for link, expected in ((3, set()), (4, {ViolationKind.PATH}), (-1, {ViolationKind.PATH})):
        more = replace(
            forest,
            path_offset=np.append(forest.path_offset, forest.path_offset[-1] + 1),
            path_links=np.append(forest.path_links, link),
        )
        report = verify(topology, collective, ForestSchedule(CollectiveKind.ALLGATHER, broadcast=more))
        assert kinds(report) == expected


def test_all_violations_are_counted() -> None:
    topology, collective, schedule = samples.ring_allgather()
    assert schedule.broadcast is not None
    broken = replace(schedule.broadcast, entry_units=np.full(12, 2))
    report = verify(topology, collective, ForestSchedule(CollectiveKind.ALLGATHER, broadcast=broken), limit=5)
    assert len(report.violations) == 5
    assert report.n_violations == 12
    assert report.algbw is None
    assert str(report.violations[0]) == (
        "units: broadcast tree 0 of root 0, rank 1: its paths carry 2 units, expected 1"
    )


@pytest.mark.parametrize("scale", [2**40, 2**60, 2**61 + 12345])
def test_huge_units_do_not_wrap(scale: int) -> None:
    topology, collective, schedule = samples.ring_allgather()
    forest = schedule.broadcast
    assert forest is not None
    large = replace(
        forest,
        root_multiplicity=forest.root_multiplicity * scale,
        tree_multiplicity=forest.tree_multiplicity * scale,
        entry_units=forest.entry_units * scale,
    )
    report = verify(topology, collective, ForestSchedule(CollectiveKind.ALLGATHER, broadcast=large))
    assert report.is_ok
    assert report.algbw == 8


def test_wrapped_sum_of_units_is_no_multiplicity() -> None:
    builder = TopologyBuilder("pair")
    builder.compute("a")
    builder.compute("b")
    builder.link("a", "b", 1)
    topology = builder.build()
    # 4 * 2**62 + 7 is 7 modulo 2**64
    paths = {1: [((0,), 2**62)] * 4 + [((0,), 7)]}
    forest = forest_from_trees(Direction.BROADCAST, 2, [TreeSpec(0, 7, [-1, 0], paths)])
    collective = on_all_ranks(topology, CollectiveKind.BROADCAST, root=0)
    report = verify(topology, collective, ForestSchedule(CollectiveKind.BROADCAST, broadcast=forest))
    assert kinds(report) == {ViolationKind.UNITS}


def test_trees_whose_arrays_do_not_fit() -> None:
    topology, collective, schedule = samples.ring_allgather()
    good = schedule.broadcast
    assert good is not None

    class Odd(Forest):
        def trees(self, root: int) -> Iterator[Tree]:
            for tree in super().trees(root):
                yield replace(tree, **changes)

    changes: dict[str, object] = {}
    for example in (
        {"parent": np.array([9, 9, 9, 9])},
        {"parent": np.array([-1])},
        {"root": 99},
        {"multiplicity": 0},
        {"entry_offset": np.array([0, 3, 2, 3, 3])},
        {"entry_path": np.array([0, 0, 99])},
        {"entry_units": np.array([1, 1])},
        {"entry_units": np.array([1, 0, 1])},
    ):
        changes = example
        odd = Odd(**{key: getattr(good, key) for key in ("direction", *ARRAYS)})
        report = verify(topology, collective, ForestSchedule(CollectiveKind.ALLGATHER, broadcast=odd))
        assert ViolationKind.SHAPE in kinds(report)


def test_another_representation_is_read_through_the_interface() -> None:
    topology, collective, schedule = samples.boxes_allreduce()

    class Factored:
        def __init__(self, forest: Forest) -> None:
            self._forest = forest
            self.direction = forest.direction
            self.n_ranks = forest.n_ranks
            self.n_paths = forest.n_paths
            self.root_multiplicity = forest.root_multiplicity
            self.trees = forest.trees
            self.path = forest.path

    other = ForestSchedule(
        CollectiveKind.ALLREDUCE, reduce=Factored(schedule.reduce), broadcast=Factored(schedule.broadcast)
    )
    assert verify(topology, collective, other) == verify(topology, collective, schedule)
