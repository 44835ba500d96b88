"""Trees packed into exact shares: all groups together attain what the unreduced linear program says."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from reference.groups.exact_group_lp import over_one_denominator, solve_groups
from samples.groups.group_samples import grouped
from samples.strategies import eulerian_topologies, relay_balanced_topologies, symmetric_topologies
from treadle.context import Context, TimeLimitError, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.trees.groups import allocation_forests as module
from treadle.synthesis.trees.groups.allocation_forests import group_forests, two_phases
from treadle.synthesis.trees.groups.group_optimum import GroupAllocation
from treadle.topologies import Topology, parse
from treadle.verification.schedules import verify


@pytest.mark.parametrize(
    ("name", "shape", "axis", "forward", "kinds"),
    [
        ("leaf_spine(2,2,gpus_per_leaf=4,oversubscription=2)", (2, 4), 0, False, "allgather reduce"),
        ("torus(4,4)", (4, 4), 0, True, "reduce-scatter broadcast"),
        ("generalized_kautz(4,12)", (4, 3), 1, True, "allreduce broadcast"),
        ("generalized_kautz(4,12)", (3, 4), 1, True, "allgather reduce-scatter"),
        ("mesh(2,4)", (2, 4), 0, True, "allreduce reduce"),
        ("dgx_h100(2)", (2, 8), 1, False, "allgather allreduce"),
    ],
)
def test_catalogue_fabrics_attain_the_linear_program(
    name: str, shape: tuple[int, ...], axis: int, forward: bool, kinds: str
) -> None:
    for kind in map(CollectiveKind, kinds.split()):
        topology, collective = grouped(kind, name, shape, axis, forward)
        optimum = solve_groups(topology, collective)
        report = verify(topology, collective, group_forests(topology, collective, optimum))
        assert not report.violations
        assert report.algbw == optimum.rate


def phases_of(name: str, shape: tuple[int, ...]) -> tuple[GroupSchedule, Fraction]:
    """Reduce-scatter and allgather along axis 0, each at its best, and the rate of one after the other."""
    made, seconds = [], Fraction(0)
    for kind in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLGATHER):
        topology, collective = grouped(kind, name, shape, 0, True)
        optimum = solve_groups(topology, collective)
        made.append(group_forests(topology, collective, optimum))
        seconds += 1 / optimum.rate
    return two_phases(*made), 1 / seconds


def test_an_allreduce_beats_its_two_phases_where_roots_are_free() -> None:
    """On columns of a mesh of 3 the middle rank is the best root: 1 instead of 3/4."""
    topology, collective = grouped(CollectiveKind.ALLREDUCE, "mesh(3,4)", (3, 4), 0, True)
    assert phases_of("mesh(3,4)", (3, 4))[1] == Fraction(3, 4)
    schedule = group_forests(topology, collective, solve_groups(topology, collective))
    assert verify(topology, collective, schedule).algbw == 1


def test_two_phases_of_a_symmetric_fabric_are_its_allreduce() -> None:
    topology, collective = grouped(CollectiveKind.ALLREDUCE, "torus(4,4)", (4, 4), 0, True)
    schedule, rate = phases_of("torus(4,4)", (4, 4))
    report = verify(topology, collective, schedule)
    assert not report.violations
    assert report.algbw == rate == solve_groups(topology, collective).rate == Fraction(4, 3)


@dataclass(frozen=True)
class Case:
    """A random fabric with random groups on it."""

    topology: Topology
    collective: Collective


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Balanced or not, with forwarding ranks or without, groups in random order."""
    fabrics = draw(st.sampled_from([eulerian_topologies, relay_balanced_topologies, symmetric_topologies]))
    topology = draw(fabrics(compute=(4, 6), switches=(1, 2)))
    order = draw(st.permutations(range(len(topology.compute_nodes))))
    sizes = [size for size in (2, 3, 4, 5, 6) if len(order) % size == 0]
    size = draw(st.sampled_from(sizes))
    kind = draw(st.sampled_from(SPANNING_KINDS))
    groups = tuple(tuple(order[first : first + size]) for first in range(0, len(order), size))
    root = draw(st.integers(0, size - 1)) if kind.is_rooted else None
    forward = draw(st.booleans())
    nodes = tuple(topology.compute_nodes.tolist())
    return Case(topology, Collective(kind, nodes, root, groups=groups, ranks_forward=forward))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(cases())
def test_random_fabrics_attain_the_linear_program(case: Case) -> None:
    optimum = solve_groups(case.topology, case.collective)
    assume(optimum.rate)  # without forwarding some groups are cut off
    schedule = group_forests(case.topology, case.collective, optimum)
    report = verify(case.topology, case.collective, schedule)
    assert not report.violations
    assert report.algbw is not None
    assert report.algbw >= optimum.rate, "the program is an upper bound; a vertex may leave links unused"
    assert report.algbw == optimum.rate


class Uniform:
    """Every group has the same part of all links: not the best, but balanced, and known without a program."""

    def __init__(self, topology: Topology, collective: Collective, rate: Fraction) -> None:
        self.topology, self.collective, self.rate = topology, collective, rate

    @property
    def families(self) -> tuple[bool, ...]:
        """Those of the kind."""
        kind = self.collective.kind
        return (False, True) if kind.broadcasts and kind.reduces else (kind.reduces,)

    def rates(self) -> dict[int, Fraction]:
        """Of every link."""
        parts = (self.collective.n_groups or 0) * len(self.families)
        return {link: Fraction(width, parts) for link, width in enumerate(self.topology.bandwidths.tolist())}

    def shares(self, group: int, *, reducing: bool | None = None) -> GroupAllocation:
        """Of any group."""
        size = self.collective.group_size
        return over_one_denominator([self.rate / size] * size, [self.rates()])[0]


@pytest.mark.parametrize(
    ("name", "shape", "axis", "rate", "packings"),
    [
        ("torus(8,8)", (8, 8), 0, Fraction(4, 7), 1),
        ("torus(8,8)", (4, 16), 1, Fraction(16, 15), 1),
        ("dgx_h100(4)", (4, 8), 0, Fraction(200, 3) * 10**9, 1),
        ("dgx_h100(4)", (4, 8), 1, Fraction(800, 7) * 10**9, 1),
        ("generalized_kautz(4,16)", (4, 4), 0, Fraction(1), 4),
    ],
)
def test_groups_that_are_images_of_each_other_are_packed_once(
    name: str,
    shape: tuple[int, ...],
    axis: int,
    rate: Fraction,
    packings: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Translations of a torus, rails, boxes; not the groups of a fabric that has no such symmetry."""
    topology, collective = grouped(CollectiveKind.ALLGATHER, name, shape, axis, True)
    pack, calls = module.pack_forest, list[int]()

    def counted(*arguments: object, **keywords: object) -> object:
        calls.append(1)
        return pack(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "pack_forest", counted)
    schedule = group_forests(topology, collective, Uniform(topology, collective, rate))
    assert len(calls) == packings
    report = verify(topology, collective, schedule)
    assert not report.violations
    assert report.algbw is not None
    assert report.algbw >= rate


def test_mirrored_families_are_packed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where links are as wide both ways, in-trees are out-trees turned round."""
    topology, collective = grouped(CollectiveKind.ALLREDUCE, "torus(4,4)", (4, 4), 0, True)
    pack, calls = module.pack_forest, list[int]()

    def counted(*arguments: object, **keywords: object) -> object:
        calls.append(1)
        return pack(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "pack_forest", counted)
    schedule = group_forests(topology, collective, Uniform(topology, collective, Fraction(2, 3)))
    assert len(calls) == 1
    report = verify(topology, collective, schedule)
    assert not report.violations
    assert report.algbw is not None
    assert report.algbw >= Fraction(2, 3)


def test_trees_are_counted_in_the_largest_units() -> None:
    """A bandwidth of any size with two trees in it counts two trees."""
    topology, collective = grouped(CollectiveKind.ALLGATHER, 'ring(4,bandwidth="7GB/s")', (2, 2), 1, True)
    schedule = group_forests(topology, collective, solve_groups(topology, collective))
    assert [one.total_units for one in schedule.groups] == [2, 2]
    assert all(forest.grain == 1 for one in schedule.groups for forest in one.forests)


def test_units_that_only_go_together_are_one() -> None:
    """Two trees at either rank of each pair, and room for three: one tree in one unit."""
    topology, collective = grouped(CollectiveKind.ALLGATHER, "ring(4)", (2, 2), 1, False)

    class Roomy(Uniform):
        def shares(self, group: int, *, reducing: bool | None = None) -> GroupAllocation:
            ends = [2 * group, 2 * group + 1]
            inner = np.isin(topology.tails, ends) & np.isin(topology.heads, ends)
            room = dict.fromkeys(np.flatnonzero(inner).tolist(), Fraction(3))
            return over_one_denominator([Fraction(2)] * 2, [room])[0]

    schedule = group_forests(topology, collective, Roomy(topology, collective, Fraction(4)))
    assert [one.total_units for one in schedule.groups] == [2, 2]
    assert verify(topology, collective, schedule).algbw == 2


def test_shares_that_do_not_hold_the_trees_are_refused() -> None:
    topology, collective = grouped(CollectiveKind.ALLGATHER, "torus(4,4)", (4, 4), 0, True)
    with pytest.raises(InfeasibleError, match=r"group 0.*cannot carry"):
        group_forests(topology, collective, Uniform(topology, collective, Fraction(3, 2)))


def test_unbalanced_shares_are_refused() -> None:
    topology, collective = grouped(CollectiveKind.ALLGATHER, "torus(4,4)", (4, 4), 0, True)

    class Lame(Uniform):
        def rates(self) -> dict[int, Fraction]:
            return super().rates() | {0: Fraction(1, 8)}

    with pytest.raises(InfeasibleError, match="not Eulerian"):
        group_forests(topology, collective, Lame(topology, collective, Fraction(1)))


def test_too_many_trees_to_count_are_refused_with_the_group_named() -> None:
    topology, collective = grouped(CollectiveKind.ALLGATHER, "torus(4,4)", (4, 4), 0, True)
    with pytest.raises(InfeasibleError, match=r"group 0.*unit trees, too many to count"):
        group_forests(topology, collective, Uniform(topology, collective, Fraction(1, 3**40)))


def test_one_group_over_all_ranks_is_not_for_this() -> None:
    topology = parse("ring(4)")
    collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
    with pytest.raises(ScheduleError, match="expected groups"):
        group_forests(topology, collective, Uniform(topology, collective, Fraction(1)))


def test_a_deadline_ends_it() -> None:
    topology, collective = grouped(CollectiveKind.ALLGATHER, "torus(4,4)", (4, 4), 0, True)
    with pytest.raises(TimeLimitError), under(Context(None, deadline=0.0)):
        group_forests(topology, collective, Uniform(topology, collective, Fraction(1)))
