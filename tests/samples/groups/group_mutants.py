"""Plans of groups with one thing changed: most are wrong, some are as good as before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np

from samples.groups.group_samples import walks
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule

Mutation = Callable[[Plan, Random], Plan]


def _schedule(plan: Plan) -> GroupSchedule:
    schedule = plan.entries[-1].schedule
    assert isinstance(schedule, GroupSchedule)
    return schedule


def with_groups(plan: Plan, groups: list[ForestSchedule]) -> Plan:
    schedule = GroupSchedule(plan.collective.kind, tuple(groups))
    return replace(plan, entries=(PlanEntry(0, None, schedule),))


def _one_forest(change: Callable[[Plan, int, Forest, Random], Forest]) -> Mutation:
    """Changes one forest of one group."""

    def mutate(plan: Plan, random: Random) -> Plan:
        groups = list(_schedule(plan).groups)
        number = random.randrange(len(groups))
        role = random.choice([one.direction.value for one in groups[number].forests])
        changed = change(plan, number, getattr(groups[number], role), random)
        groups[number] = replace(groups[number], **{role: changed})
        return with_groups(plan, groups)

    return mutate


def _another_link(plan: Plan, _number: int, forest: Forest, random: Random) -> Forest:
    links = forest.path_links.copy()
    links[random.randrange(len(links))] = random.randrange(-1, plan.topology.n_links + 1)
    return replace(forest, path_links=links)


def _two_links(_plan: Plan, _number: int, forest: Forest, random: Random) -> Forest:
    links = forest.path_links.copy()
    one, other = random.randrange(len(links)), random.randrange(len(links))
    links[one], links[other] = links[other], links[one]
    return replace(forest, path_links=links)


def _another_way(plan: Plan, number: int, forest: Forest, random: Random) -> Forest:
    """A path over a rank of another group, and whatever else there is."""
    member = plan.collective.member(number)
    others = tuple(sorted(set(plan.topology.compute_nodes.tolist()) - set(member.ranks)))
    path = random.randrange(forest.n_paths)
    links = [forest.path(p).tolist() for p in range(forest.n_paths)]
    ends = int(plan.topology.tails[links[path][0]]), int(plan.topology.heads[links[path][-1]])
    via = random.choice(others)
    every = Collective(
        CollectiveKind.ALLGATHER,
        (ends[0], via, ends[1]),
        forwarders=tuple(node for node in others if node != via),
    )
    links[path] = [
        link
        for part in ((0, 1), (1, 2))
        for link in walks(plan.topology, every, Direction.BROADCAST, *part, random)
    ]
    return replace(
        forest,
        path_links=np.concatenate([np.array(one, dtype=np.int32) for one in links]),
        path_offset=np.cumsum([0, *map(len, links)]),
    )


def _another_parent(_plan: Plan, _number: int, forest: Forest, random: Random) -> Forest:
    parent = forest.parent.copy()
    parent[random.randrange(forest.n_trees), random.randrange(forest.n_ranks)] = random.randrange(
        -1, forest.n_ranks
    )
    return replace(forest, parent=parent)


def _another_path(_plan: Plan, _number: int, forest: Forest, random: Random) -> Forest:
    paths = forest.entry_path.copy()
    paths[random.randrange(len(paths))] = random.randrange(forest.n_paths)
    return replace(forest, entry_path=paths)


def _a_unit_more(_plan: Plan, _number: int, forest: Forest, random: Random) -> Forest:
    key = random.choice(["entry_units", "tree_multiplicity", "root_multiplicity"])
    values = getattr(forest, key).copy()
    values[random.randrange(len(values))] += 1
    return replace(forest, **{key: values})


def _another_root(_plan: Plan, _number: int, forest: Forest, random: Random) -> Forest:
    shares = forest.root_multiplicity.copy()
    random.shuffle(shares)
    return replace(forest, root_multiplicity=shares)


def _group_twice(plan: Plan, random: Random) -> Plan:
    groups = list(_schedule(plan).groups)
    groups[random.randrange(len(groups))] = random.choice(groups)
    return with_groups(plan, groups)


def _groups_swapped(plan: Plan, random: Random) -> Plan:
    groups = list(_schedule(plan).groups)
    random.shuffle(groups)
    return with_groups(plan, groups)


def _links_of_another_group(plan: Plan, random: Random) -> Plan:
    groups = list(_schedule(plan).groups)
    one, other = random.sample(range(len(groups)), 2)
    role = groups[one].forests[0].direction.value
    here, there = getattr(groups[one], role), getattr(groups[other], role)
    mine, its = here.path_links.copy(), there.path_links.copy()
    a, b = random.randrange(len(mine)), random.randrange(len(its))
    mine[a], its[b] = its[b], mine[a]
    groups[one] = replace(groups[one], **{role: replace(here, path_links=mine)})
    groups[other] = replace(groups[other], **{role: replace(there, path_links=its)})
    return with_groups(plan, groups)


def _a_unit_split(plan: Plan, random: Random) -> Plan:
    """All counts of one group times two or three: the same schedule in smaller units."""
    groups = list(_schedule(plan).groups)
    number, factor = random.randrange(len(groups)), random.choice([2, 3])
    keys = ("entry_units", "tree_multiplicity", "root_multiplicity")
    roles = {
        one.direction.value: replace(one, **{key: getattr(one, key) * factor for key in keys})
        for one in groups[number].forests
    }
    groups[number] = replace(groups[number], **roles)
    return with_groups(plan, groups)


def _groups_of_others(plan: Plan, random: Random) -> Plan:
    """Other groups of the same ranks; the schedule stays."""
    assert plan.collective.groups is not None
    groups = [list(group) for group in plan.collective.groups]
    one, other = random.sample(range(len(groups)), 2)
    a, b = random.randrange(len(groups[0])), random.randrange(len(groups[0]))
    groups[one][a], groups[other][b] = groups[other][b], groups[one][a]
    return replace(plan, collective=replace(plan.collective, groups=tuple(map(tuple, groups))))


def _ranks_forward_no_more(plan: Plan, _random: Random) -> Plan:
    collective = replace(plan.collective, ranks_forward=not plan.collective.ranks_forward)
    return replace(plan, collective=collective)


def _claim(plan: Plan, random: Random) -> Plan:
    return replace(plan, algbw=plan.algbw * Fraction(random.choice([10**9 - 1, 10**9 + 1]), 10**9))


def _optimum(plan: Plan, random: Random) -> Plan:
    assert plan.optimal_algbw is not None
    factor = Fraction(random.choice([10**9 - 1, 10**9 + 1]), 10**9)
    return replace(plan, optimal_algbw=plan.optimal_algbw * factor)


def _length_halved(plan: Plan, random: Random) -> Plan:
    assert isinstance(plan.certificate, GroupDualCertificate)
    lengths = list(plan.certificate.lengths)
    place = random.randrange(len(lengths))
    lengths[place] = lengths[place] / 2 if lengths[place] else Fraction(1, 5)
    return replace(plan, certificate=GroupDualCertificate(tuple(lengths)))


MUTATIONS: dict[str, Mutation] = {
    "another link": _one_forest(_another_link),
    "two links swapped": _one_forest(_two_links),
    "another way": _one_forest(_another_way),
    "another parent": _one_forest(_another_parent),
    "another path": _one_forest(_another_path),
    "a unit more": _one_forest(_a_unit_more),
    "another root": _one_forest(_another_root),
    "a group twice": _group_twice,
    "groups swapped": _groups_swapped,
    "links of another group": _links_of_another_group,
    "a unit split": _a_unit_split,
    "groups of others": _groups_of_others,
    "ranks forward": _ranks_forward_no_more,
    "claim": _claim,
    "optimum": _optimum,
    "length halved": _length_halved,
}
