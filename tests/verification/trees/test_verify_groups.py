"""The judge of groups at once: what it accepts, mutants that it must not, and what it says of them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from random import Random

import numpy as np
import pytest

from reference.groups.group_bounds import group_length_bound, lightest_by_networkx
from reference.groups.group_units import true_algbw
from samples.groups.group_mutants import MUTATIONS, with_groups
from samples.groups.group_samples import GROUPED, grouped, random_groups
from treadle.errors import ScheduleError
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.trees.forest import Direction, ForestSchedule, TreeSpec, forest_from_trees
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.schedules import verify, verify_plan
from treadle.verification.violations import Report, ViolationKind

ALLGATHER = CollectiveKind.ALLGATHER


@cache
def slow_bound(topology: Topology, collective: Collective, lengths: tuple[Fraction, ...]) -> Fraction | None:
    return group_length_bound(topology, collective, lengths, lightest_by_networkx)


@cache
def plan_of(kind: CollectiveKind, case: int, seed: int = 1) -> Plan:
    topology, collective = grouped(kind, *GROUPED[case])
    schedule = random_groups(topology, collective, seed)
    algbw = true_algbw(topology, collective, schedule)
    assert algbw is not None
    random = Random(seed)
    lengths = tuple(Fraction(random.randint(0, 3), 2) for _ in range(topology.n_links))
    bound = slow_bound(topology, collective, lengths)
    certificate = None if bound is None else GroupDualCertificate(lengths)
    return Plan(topology, collective, (PlanEntry(0, None, schedule),), "by hand", algbw, bound, certificate)


SMALL = [case for case, (_, shape, axis, _) in enumerate(GROUPED) if shape[axis] <= 4]


@pytest.mark.parametrize(
    ("kind", "case"), [(kind, case) for i, kind in enumerate(SPANNING_KINDS) for case in SMALL[i % 2 :: 2]]
)
def test_correct_schedules_are_accepted_at_their_true_rate(kind: CollectiveKind, case: int) -> None:
    plan = plan_of(kind, case)
    (report,) = verify_plan(plan)
    assert report.violations == ()
    assert report.algbw == plan.algbw
    assert report.bound == plan.optimal_algbw
    schedule = plan.entries[0].schedule
    assert isinstance(schedule, GroupSchedule)
    parents = [tree.parent for one in schedule.groups for part in one.forests for tree in _trees(part)]
    assert report.height_max == max(_height(parent.tolist()) for parent in parents)


def _trees(forest):  # type: ignore[no-untyped-def]
    return [tree for root in range(forest.n_ranks) for tree in forest.trees(root)]


def _height(parent: list[int]) -> int:
    def depth(rank: int) -> int:
        return 0 if parent[rank] < 0 else 1 + depth(parent[rank])

    return max(map(depth, range(len(parent))))


def is_true(plan: Plan) -> bool:
    """What the slow judge says of a plan and its claims."""
    schedule = plan.entries[-1].schedule
    assert isinstance(schedule, GroupSchedule)
    if true_algbw(plan.topology, plan.collective, schedule) != plan.algbw:
        return False
    if plan.certificate is None:
        return plan.optimal_algbw is None
    assert isinstance(plan.certificate, GroupDualCertificate)
    bound = slow_bound(plan.topology, plan.collective, plan.certificate.lengths)
    return bound is not None and bound == plan.optimal_algbw


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutants_are_accepted_if_they_are_still_true_and_only_then(name: str) -> None:
    """Many of them, each judged unit by unit besides."""
    random, rejected, accepted = Random(name), 0, 0
    for number, kind in enumerate(SPANNING_KINDS):
        for case in SMALL[number % 3 :: 3]:
            plan = plan_of(kind, case)
            try:
                mutant = MUTATIONS[name](plan, random)
            except ScheduleError:
                continue  # no such value
            ok = all(report.is_ok for report in verify_plan(mutant))
            assert ok == is_true(mutant), (name, kind, case)
            schedule = mutant.entries[-1].schedule
            assert isinstance(schedule, GroupSchedule)
            found = verify(mutant.topology, mutant.collective, schedule)  # whatever is claimed
            assert found.algbw == true_algbw(mutant.topology, mutant.collective, schedule)
            rejected, accepted = rejected + (not ok), accepted + ok
    if name == "a unit split":
        assert accepted == rejected + accepted > 8
    else:
        assert rejected > 1


def violations(report: Report) -> list[str]:
    return [str(violation) for violation in report.violations]


def test_the_group_of_a_violation_is_named() -> None:
    plan = plan_of(ALLGATHER, 0)
    schedule = plan.entries[0].schedule
    assert isinstance(schedule, GroupSchedule)
    groups = list(schedule.groups)
    forest = groups[2].broadcast
    assert forest is not None
    links = forest.path_links.copy()
    links[0] = 0 if links[0] else 1
    groups[2] = replace(groups[2], broadcast=replace(forest, path_links=links))
    (report,) = verify_plan(with_groups(plan, groups))
    assert report.n_violations
    assert all(violation.message.startswith("group 2: broadcast tree") for violation in report.violations)
    assert report.algbw is None


def test_all_are_counted_and_the_first_are_described() -> None:
    topology, collective = grouped(ALLGATHER, *GROUPED[0])
    schedule = random_groups(topology, collective, 1)
    groups = [
        replace(one, broadcast=replace(one.broadcast, path_links=one.broadcast.path_links * 0))
        for one in schedule.groups
        if one.broadcast is not None
    ]
    wrong = GroupSchedule(ALLGATHER, tuple(groups))
    whole = verify(topology, collective, wrong)
    short = verify(topology, collective, wrong, limit=3)
    assert whole.n_violations == short.n_violations == len(whole.violations) > 3
    assert short.violations == whole.violations[:3]


def two_pairs(*, capable: bool = False) -> tuple[Topology, Collective, GroupSchedule]:
    """Ranks a, b and c, d around a switch of 12 bytes/s a link; the second pair's data is in three units."""
    builder = TopologyBuilder("pairs")
    names = [builder.compute(name) for name in "abcd"]
    builder.switch("w", multicast=capable, aggregation=capable, turns_round=capable)
    for name in names:
        builder.duplex(name, "w", 12)
    topology = builder.build()
    link = {
        (topology.node_names[tail], topology.node_names[head]): number
        for number, (tail, head) in enumerate(zip(topology.tails, topology.heads, strict=True))
    }
    schedules = []
    for pair, units in (("ab", 1), ("cd", 3)):
        trees = []
        for root in (0, 1):
            way = (link[pair[root], "w"], link["w", pair[1 - root]])
            trees.append(
                TreeSpec(root, units, [-1 if v == root else root for v in (0, 1)], {1 - root: [(way, units)]})
            )
        forest = forest_from_trees(Direction.BROADCAST, 2, trees)
        schedules.append(ForestSchedule(ALLGATHER, broadcast=forest))
    collective = Collective(ALLGATHER, (0, 1, 2, 3), groups=((0, 1), (2, 3)))
    return topology, collective, GroupSchedule(ALLGATHER, tuple(schedules))


def test_loads_of_groups_add_up_by_their_own_units() -> None:
    """Each link carries half of its pair's data; where the pairs share links, half of each."""
    topology, collective, schedule = two_pairs()
    assert verify(topology, collective, schedule).algbw == 24
    crossed = replace(collective, groups=((0, 1), (3, 2)))
    assert verify(topology, crossed, schedule).n_violations
    report = verify(topology, collective, schedule, claimed_algbw=Fraction(25))
    assert {violation.kind for violation in report.violations} == {ViolationKind.LOAD, ViolationKind.CLAIM}
    assert "link a->w carries 3 of 6 units; its 12 bytes/s allow algbw 24, not 25" in violations(report)[0]


def test_switches_copy_nothing_for_groups() -> None:
    """A star of three: one link up and copies at the switch is a plan of one group, and none of several."""
    topology = parse("dgx_h100:1")
    switched = replace(topology, multicast=~topology.is_compute, turns_round=~topology.is_compute)
    n = len(topology.compute_nodes)
    switch = int(topology.switches[0])
    up = [int(np.flatnonzero((topology.tails == v) & (topology.heads == switch))[0]) for v in range(n)]
    down = [int(np.flatnonzero((topology.tails == switch) & (topology.heads == v))[0]) for v in range(n)]
    trees = []
    for root in range(n):
        others = [v for v in range(n) if v != root]
        paths = {v: [((down[v],), 1)] for v in others} | {others[0]: [((up[root], down[others[0]]), 1)]}
        trees.append(TreeSpec(root, 1, [-1 if v == root else root for v in range(n)], paths))
    forest = ForestSchedule(ALLGATHER, broadcast=forest_from_trees(Direction.BROADCAST, n, trees))
    one = on_all_ranks(switched, ALLGATHER)
    assert verify(switched, one, forest).is_ok
    alike = replace(one, groups=(tuple(range(n)),))
    report = verify(switched, alike, GroupSchedule(ALLGATHER, (forest,)))
    assert {violation.kind for violation in report.violations} == {ViolationKind.ENDS}


def test_schedules_and_collectives_that_do_not_fit_are_told() -> None:
    topology, collective, schedule = two_pairs()
    one = replace(collective, groups=None)
    assert violations(verify(topology, one, schedule)) == [
        "shape: the schedule is for 2 groups, the collective is one of all ranks"
    ]
    assert violations(verify(topology, collective, schedule.groups[0])) == [
        "shape: the schedule is for one group, found 2"
    ]
    whole = replace(collective, groups=((0, 1, 2, 3),))
    assert (
        "the schedule is for 2 groups of 2 ranks, the collective has 1 of 4"
        in violations(verify(topology, whole, schedule))[0]
    )
    other = replace(collective, kind=CollectiveKind.BROADCAST, root=0)
    assert "the schedule is for allgather, not broadcast" in violations(verify(topology, other, schedule))[0]
    less = Collective(ALLGATHER, (0, 1), groups=((0, 1),))
    found = verify(topology, less, GroupSchedule(ALLGATHER, schedule.groups[:1]))
    assert violations(found) == [
        "membership: compute node 'c' is neither a rank nor a forwarder",
        "membership: compute node 'd' is neither a rank nor a forwarder",
    ]


def test_units_without_a_common_part_are_refused() -> None:
    """Loads are whole numbers of a part of the data; primes of 60 bits make it too small."""
    builder = TopologyBuilder("pairs")
    names = [builder.compute(f"g{i}") for i in range(300)]
    for one, other in zip(names[::2], names[1::2], strict=True):
        builder.duplex(one, other, 12)
    topology = builder.build()
    schedules = []
    for pair in range(150):
        units = 2**61 - 1 - 2 * pair
        trees = [
            TreeSpec(
                root,
                units,
                [-1 if v == root else root for v in (0, 1)],
                {1 - root: [((2 * pair + root,), units)]},
            )
            for root in (0, 1)
        ]
        forest = forest_from_trees(Direction.BROADCAST, 2, trees)
        schedules.append(ForestSchedule(ALLGATHER, broadcast=forest))
    groups = tuple((2 * pair, 2 * pair + 1) for pair in range(150))
    collective = Collective(ALLGATHER, tuple(range(300)), groups=groups)
    report = verify(topology, collective, GroupSchedule(ALLGATHER, tuple(schedules)))
    assert [violation.kind for violation in report.violations] == [ViolationKind.SHARES]
