"""Collectives, plans, meshes and jobs: what they refuse, word for word, at each limit and one beyond."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf
from typing import Any

import pytest

import treadle
from treadle.errors import ScheduleError
from treadle.schedules.collective import (
    Collective,
    CollectiveKind,
    busbw_factor,
    check_declared,
    check_membership,
    collective_of_group,
    on_all_ranks,
)
from treadle.schedules.jobs import Job, JobLevel, check_jobs, proved_rates
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan import Pipelining, Plan, PlanEntry, plan_of
from treadle.topologies.topology import Topology, TopologyBuilder


def said(call: Any) -> str:
    """The whole text of a refusal."""
    with pytest.raises(ScheduleError) as caught:
        call()
    return str(caught.value)


def posed(kind: str = "allgather", **fields: Any) -> Collective:
    return Collective(CollectiveKind(kind), **({"ranks": (4, 2, 7, 5)} | fields))


KINDS = {
    # rooted, reduces, broadcasts, busbw of 4 ranks
    "allgather": (False, False, True, Fraction(3, 4)),
    "reduce-scatter": (False, True, False, Fraction(3, 4)),
    "allreduce": (False, True, True, Fraction(3, 2)),
    "broadcast": (True, False, True, Fraction(1)),
    "reduce": (True, True, False, Fraction(1)),
    "alltoall": (False, False, False, Fraction(3, 4)),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name: str) -> None:
    kind = CollectiveKind(name)
    assert (kind.is_rooted, kind.reduces, kind.broadcasts, busbw_factor(kind, 4)) == KINDS[name]


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        ("allgather", {"ranks": (3,)}, "allgather needs at least 2 ranks, found 1"),
        ("reduce", {}, "reduce needs a root"),
        ("allreduce", {"root": 0}, "allreduce has no root"),
        ("allgather", {"forwarders": (2,)}, "a compute node may appear once among ranks and forwarders"),
        ("allgather", {"ranks": (1, 1)}, "a compute node may appear once among ranks and forwarders"),
        ("broadcast", {"root": 4}, "root 4: expected a rank from 0 to 3"),
        ("broadcast", {"root": -1}, "root -1: expected a rank from 0 to 3"),
        ("reduce", {"root": 2, "groups": ((0, 3), (1, 2))}, "root 2: expected a rank from 0 to 1"),
        (
            "allgather",
            {"ranks_forward": True},
            "ranks_forward: expected groups, whose ranks forward for each other",
        ),
        (
            "alltoall",
            {"groups": ((0, 1), (2, 3))},
            "an all-to-all in groups is one of demands (block_demands), found groups",
        ),
        (
            "allgather",
            {"groups": ((0, 1), (2, 3)), "weights": (1, 2, 3, 4)},
            "allgather in groups has equal shards, found weights",
        ),
        (
            "reduce-scatter",
            {"groups": ((0, 1, 2), (3,))},
            "groups: expected equally many ranks in each, at least 2",
        ),
        (
            "allgather",
            {"groups": ((0,), (1,), (2,), (3,))},
            "groups: expected equally many ranks in each, at least 2",
        ),
        ("allgather", {"groups": ()}, "groups: expected equally many ranks in each, at least 2"),
        ("allgather", {"groups": ((0, 1), (1, 2))}, "groups: expected each rank from 0 to 3 in one of them"),
        ("allgather", {"groups": ((0, 1),)}, "groups: expected each rank from 0 to 3 in one of them"),
        ("allreduce", {"weights": (1, 2, 3, 4)}, "allreduce has no shards to weight"),
        ("allgather", {"weights": (1, 2, 3)}, "weights: expected 4 values, found 3"),
        ("allgather", {"weights": (0, 0, 0, 0)}, "weights must be integers from 0 to 2**20, not all 0"),
        ("allgather", {"weights": (1, -1, 0, 0)}, "weights must be integers from 0 to 2**20, not all 0"),
        (
            "allgather",
            {"weights": (1, 2**20 + 1, 0, 0)},
            "weights must be integers from 0 to 2**20, not all 0",
        ),
    ],
)
def test_what_is_no_collective(kind: str, fields: dict[str, Any], text: str) -> None:
    assert said(lambda: posed(kind, **fields)) == text


def test_demands_are_of_as_many_ranks() -> None:
    demands = posed("alltoall", ranks=(0, 1, 2)).pair_demands
    assert demands.n_ranks == 3
    assert said(lambda: posed("allgather", demands=demands)) == (
        "allgather has no demands between pairs; only an all-to-all has"
    )
    assert said(lambda: posed("alltoall", demands=demands)) == (
        "demands: a matrix of 3 ranks, the collective has 4; expected a row and a column for each"
    )
    assert said(lambda: posed("reduce", root=0).pair_demands) == (
        "reduce has no demands between pairs; only an all-to-all has"
    )
    assert said(lambda: posed("alltoall").shard_weights) == (
        "an all-to-all sends different data to every rank, which spanning trees cannot"
    )


def test_shards_in_lowest_terms() -> None:
    assert posed(weights=(2**20, 0, 2**19, 2**18)).shard_weights == (4, 0, 2, 1)
    assert posed().shard_weights == (1, 1, 1, 1)
    assert posed("broadcast", root=2).shard_weights == (0, 0, 1, 0)


def test_one_of_several_groups() -> None:
    groups = posed("reduce", root=1, groups=((3, 0), (1, 2)), forwarders=(9, 8))
    assert (groups.n_groups, groups.group_size, groups.n_ranks) == (2, 2, 4)
    assert groups.member(0) == posed("reduce", root=1, ranks=(5, 4), forwarders=(9, 8))
    forwarding = replace(groups, ranks_forward=True)
    assert forwarding.member(1) == posed("reduce", root=1, ranks=(2, 7), forwarders=(9, 8, 4, 5))
    assert said(groups.as_one_group) == (
        "reduce of 2 concurrent groups: expected a single group; "
        "leave out the mesh, or choose the --ranks of one group"
    )
    assert said(lambda: groups.shard_weights) == said(groups.as_one_group)
    one = posed()
    assert one.member(0) is one
    assert one.as_one_group() is one
    assert (one.n_groups, one.blocks, one.group_size) == (None, None, 4)
    assert said(lambda: one.member(1)) == "group 1: allgather has no groups"


def fabric() -> Topology:
    """Ranks at nodes 0, 2, 3 and 4, switch 1; b has a wide link, c two unequal ones to d."""
    builder = TopologyBuilder("odd")
    builder.compute("a")
    builder.switch("sw")
    for name in "bcd":
        builder.compute(name)
    for name, speed in (("a", 2), ("b", 10), ("c", 4)):
        builder.duplex(name, "sw", speed)
    builder.duplex("c", "d", 3)
    builder.duplex("c", "d", 5)
    return builder.build()


FABRIC = fabric()


def test_ranks_and_forwarders_are_the_compute_nodes() -> None:
    assert on_all_ranks(FABRIC, CollectiveKind.REDUCE, root=3) == posed("reduce", ranks=(0, 2, 3, 4), root=3)
    weighed = on_all_ranks(FABRIC, CollectiveKind.ALLGATHER, weights=(1, 2, 3, 4))
    assert weighed.weights == (1, 2, 3, 4)
    check_declared(FABRIC, posed(ranks=(4, 0), forwarders=(3, 2)))
    assert said(lambda: check_declared(FABRIC, posed(ranks=(4, 8, 1), forwarders=(3,)))) == (
        "node 1 of the collective is not a compute node of odd"
    )
    missing = posed(ranks=(4, 0), forwarders=())
    assert said(lambda: check_declared(FABRIC, missing)) == (
        "compute node 'b' is neither a rank nor a forwarder; remove it from the fabric (subset) or declare "
        "it a forwarder"
    )
    ring = treadle.parse("ring:10")
    assert said(lambda: check_declared(ring, posed(ranks=(9, 0, 2, 3, 4, 5, 6, 7)))).startswith(
        "compute node 'n1' is neither"
    )
    groups = posed(ranks=(0, 2, 3, 4), groups=((0, 1), (2, 3)))
    check_declared(FABRIC, groups)
    assert said(lambda: check_membership(FABRIC, groups)) == said(groups.as_one_group)
    assert collective_of_group(FABRIC, groups, 1) == posed(ranks=(3, 4), forwarders=(0, 2))


def entry(low: int = 0, high: int | None = None, **fields: Any) -> PlanEntry:
    return PlanEntry(low, high, RING.entries[0].schedule, **fields)


RING = treadle.solve("ring:3", "allgather").plan


@pytest.mark.parametrize(
    ("low", "slices", "protocol", "text"),
    [
        (-1, 1, "", "plan: 1 slices from -1 bytes on, expected 1 to 1048576 from 0 bytes or more on"),
        (0, 0, "", "plan: 0 slices from 0 bytes on, expected 1 to 1048576 from 0 bytes or more on"),
        (
            5,
            2**20 + 1,
            "",
            "plan: 1048577 slices from 5 bytes on, expected 1 to 1048576 from 0 bytes or more on",
        ),
        (0, 1, "x" * 41, f"plan: protocol {'x' * 40!r}, expected a line of at most 40"),
        (0, 1, "a\nb", "plan: protocol 'a\\nb', expected a line of at most 40"),
    ],
)
def test_slices_within_limits(low: int, slices: int, protocol: str, text: str) -> None:
    assert said(lambda: Pipelining(low, slices, protocol)) == text
    assert Pipelining(0, 2**20, "x" * 40).protocol == "x" * 40


def test_ranges_of_sizes() -> None:
    assert said(lambda: entry(-1)) == ("plan: sizes from -1 to None bytes; expected 0 <= min <= max")
    assert said(lambda: entry(8, 7)) == "plan: sizes from 8 to 7 bytes; expected 0 <= min <= max"
    assert said(lambda: entry(algorithm="a\rb")) == (
        "plan: algorithm or options 'a\\rb', expected one line without control characters"
    )
    assert said(lambda: entry(options="\n" + "y" * 70)) == (
        f"plan: algorithm or options {chr(10) + 'y' * 59!r}, expected one line without control characters"
    )
    one = entry(7, 9, algorithm="ring", options="k=2")
    assert [one.supports(size) for size in (6, 7, 9, 10)] == [False, True, True, False]
    assert [entry(7).supports(size) for size in (6, 7, 10**30)] == [False, True, True]
    assert entry(7, 7).supports(7)
    assert (one.title, entry(options="k=2").title, entry().title) == ("ring k=2", "k=2", "")


def test_slices_rise_with_sizes() -> None:
    cut = (Pipelining(3, 2), Pipelining(8, 4, "ll"), Pipelining(20, 8))
    one = entry(5, 30, pipelining=cut)
    assert [one.pipelining_at(size) for size in (2, 3, 7, 8, 19, 20)] == [
        *(None, cut[0], cut[0], cut[1], cut[1], cut[2])
    ]
    assert entry(3, pipelining=cut).pipelining == cut
    assert said(lambda: entry(2, pipelining=cut)) == (
        "plan: slices by size have to rise from 2 bytes on, found [3, 8, 20]"
    )
    assert said(lambda: entry(9, pipelining=(cut[1], cut[0]))) == (
        "plan: slices by size have to rise from 9 bytes on, found [8, 3]"
    )
    many = tuple(Pipelining(0, number) for number in range(1, 12))
    assert said(lambda: entry(9, pipelining=many)) == (
        f"plan: slices by size have to rise from 9 bytes on, found {[0] * 8}"
    )


def plan(**changes: Any) -> Plan:
    return replace(RING, **changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"entries": ()}, "plan: no schedule; expected at least one"),
        ({"algbw": 3}, "plan: algbw 3, expected a positive fraction"),
        ({"algbw": Fraction(0)}, "plan: algbw Fraction(0, 1), expected a positive fraction"),
        (
            {"optimal_algbw": Fraction(-1)},
            "plan: optimal algbw Fraction(-1, 1), expected a positive fraction",
        ),
        ({"algbw": Fraction(2**100)}, "plan: algbw is 2**100 bytes/s or more, which no fabric has"),
        ({"algorithm": "a\nb"}, "plan: algorithm 'a\\nb', expected one line without control characters"),
        ({"certificate": None}, "plan: an optimum is claimed without a certificate"),
        ({"provenance": {"x": [1]}}, "plan: provenance 'x' is [1], expected text or a finite number"),
        ({"provenance": {"x": inf}}, "plan: provenance 'x' is inf, expected text or a finite number"),
        (
            {"provenance": {"a\nb": 1}},
            "plan: provenance 'a\\nb' is 'a\\nb', expected one line without control characters",
        ),
        (
            {"provenance": {"x": "\0"}},
            "plan: provenance 'x' is '\\x00', expected one line without control characters",
        ),
        (
            {"collective": posed("allreduce", ranks=(0, 1, 2))},
            "plan: a schedule for allgather, expected allreduce",
        ),
        (
            {"collective": posed(ranks=(0, 1), forwarders=(2,))},
            "plan: a schedule for 3 ranks, the collective has 2",
        ),
    ],
)
def test_what_is_no_plan(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: plan(**changes)) == text


def test_plans_of_several_sizes() -> None:
    made = plan(entries=(entry(2, 6), entry(7, 9), entry(12)))
    assert [made.schedule_for(size) for size in (2, 6, 7, 9, 12)] == [
        made.entries[place].schedule for place in (0, 0, 1, 1, 2)
    ]
    for size in (1, 10, 11):
        assert said(lambda size=size: made.schedule_for(size)) == f"plan: no schedule for {size} bytes"
    for entries in ((entry(2, 6), entry(6, 9)), (entry(2), entry(7, 9)), (entry(7, 9), entry(2, 6))):
        assert said(lambda entries=entries: plan(entries=entries)) == (
            "plan: size ranges must rise and not overlap"
        )
    assert plan(algbw=Fraction(2**100 - 1)).algbw == 2**100 - 1
    assert plan(optimal_algbw=None, certificate=None).certificate is None
    assert plan_of(made) is made
    assert plan_of(treadle.solve("ring:3", "allgather")) == RING
    assert plan_of("x") is None
    assert hash(plan()) == hash(plan(provenance={"x": 1}))


@pytest.mark.parametrize(
    ("shape", "names", "order", "text"),
    [
        ((), (), None, "mesh (): expected at least one axis, of at least 1 rank each"),
        ((2, 0), ("a", "b"), None, "mesh (2, 0): expected at least one axis, of at least 1 rank each"),
        ((2, 3), ("a",), None, "mesh: 1 axis names for 2 axes; expected one for each"),
        ((2, 3), ("a", "a"), None, "mesh: axes a, a; expected different names"),
        ((2, 3), ("a", ""), None, "mesh: axis '', expected a name on one line without comma and ="),
        (
            (2,),
            ("=" * 50,),
            None,
            f"mesh: axis {'=' * 40!r}, expected a name on one line without comma and =",
        ),
        ((2, 1), ("a", "b"), (0, 2), "mesh: rank_order: expected a permutation of the ranks 0 to 1"),
    ],
)
def test_what_is_no_mesh(shape: Any, names: Any, order: Any, text: str) -> None:
    assert said(lambda: Mesh(shape, names, order)) == text


def test_groups_of_a_mesh() -> None:
    mesh = Mesh((2, 1, 3), ("a", "b", "c"), (5, 3, 1, 0, 2, 4))
    assert (mesh.n_ranks, mesh.notation) == (6, "a=2,b=1,c=3")
    assert Mesh((2, 3), ("0", "1")).notation == "2,3"
    assert Mesh((2, 3), ("1", "0")).notation == "1=2,0=3"
    assert mesh.groups("a") == ((5, 0), (3, 2), (1, 4))
    assert mesh.groups(["b", "c"]) == ((5, 3, 1), (0, 2, 4))
    assert mesh.groups(("c", "a")) == ((5, 0, 3, 2, 1, 4),)
    for axes, text in (
        ("x" * 50, f"mesh a=2,b=1,c=3: no axis {'x' * 40!r}; expected some of a, b, c"),
        ((), "mesh a=2,b=1,c=3: axes ; expected each at most once"),
        (("a", "a"), "mesh a=2,b=1,c=3: axes a, a; expected each at most once"),
        ("b", "mesh a=2,b=1,c=3: a group over b has one rank only"),
    ):
        assert said(lambda axes=axes: mesh.groups(axes)) == text


def job(name: str = "j", weight: Any = Fraction(1), kind: str = "allgather", **fields: Any) -> Job:
    return Job(name, posed(kind, **({"ranks": (0, 2, 3)} | fields)), weight)


def test_what_is_no_job() -> None:
    for name in ("", "a\nb"):
        assert said(lambda name=name: job(name)) == f"job {name!r}: expected a name on one line"
    for weight in (1, Fraction(0)):
        assert said(lambda weight=weight: job(weight=weight)) == (
            f"job 'j': weight {weight!r}, expected a positive fraction"
        )
    assert said(lambda: job(ranks=(0, 2), groups=((0, 1),))).startswith("allgather of 1 concurrent groups")
    for jobs, text in (
        ([], "jobs: none; expected at least one"),
        (
            [job("x"), job("y" * 50), job("y" * 50)],
            f"jobs: two are called {'y' * 40!r}; expected different names",
        ),
        (
            [job("x", Fraction(1, 2)), job("y", Fraction(500001))],
            "jobs: the largest weight is more than 1000000 times the least; use sizes and weights with "
            "smaller ratios",
        ),
        ([job(ranks=(0, 1))], "job 'j': node 1 is not a compute node of odd"),
        ([job(ranks=(0, 2), forwarders=(1,))], "job 'j': node 1 is not a compute node of odd"),
    ):
        assert said(lambda jobs=jobs: check_jobs(FABRIC, jobs)) == text
    check_jobs(FABRIC, [job("x", Fraction(1, 2)), job("y", Fraction(500000))])


def lengths(**priced: int) -> tuple[Fraction, ...]:
    """Lengths of links by name: ``a_sw`` is ``a->sw``."""
    names = [FABRIC.link_name(link).replace("->", "_") for link in range(FABRIC.n_links)]
    assert set(priced) <= set(names)
    return tuple(Fraction(priced.get(name, 0)) for name in names)


def test_levels_prove_rates_one_after_the_other() -> None:
    """Data of d leave by 3 + 5 bytes/s, that of a by 2: of weights 1 and 3 the second limits both first."""
    one = job("x", Fraction(1), "broadcast", ranks=(0, 2), root=0)
    other = job("y", Fraction(3), "broadcast", ranks=(0, 3), root=0)
    third = job("z", Fraction(2), "broadcast", ranks=(4, 3), root=0)
    # both of the first share a's 2 bytes/s, 1 to 3; the third has d's 8 by itself
    first = JobLevel(Fraction(1, 2), (0, 1), lengths(a_sw=1))
    second = JobLevel(Fraction(4), (2,), lengths(d_c=1))
    jobs = [one, other, third]
    assert proved_rates(FABRIC, jobs, [first, second]) == (Fraction(1, 2), Fraction(3, 2), Fraction(8))
    for levels, text in (
        ([first], "the levels limit 2 of 3 jobs"),
        (
            [replace(first, rate=Fraction(1, 3)), second],
            "level 0: its lengths prove 1/2 bytes/s, claimed 1/3",
        ),
        ([first, replace(second, limited=())], "level 1 limits no job"),
        ([replace(first, limited=(0, 2))], "level 0 does not limit job 2, or an earlier one does"),
        ([replace(first, limited=(3,))], "level 0 does not limit job 3, or an earlier one does"),
        ([replace(first, limited=(-1,))], "level 0 does not limit job -1, or an earlier one does"),
        ([first, replace(second, limited=(1,))], "level 1 does not limit job 1, or an earlier one does"),
        ([first, first], "level 1: its lengths prove none, claimed 1/2"),
        ([replace(first, lengths=first.lengths[1:])], "level: expected 10 lengths, none negative"),
        (
            [replace(first, lengths=(Fraction(-1), *first.lengths[1:]))],
            "level: expected 10 lengths, none negative",
        ),
    ):
        assert said(lambda levels=levels: proved_rates(FABRIC, jobs, levels)) == text


def test_the_nearest_way_counts_for_an_alltoall() -> None:
    """What leaves a at 2 bytes/s, for b and c, is 2/3 of its buffer."""
    one = job("x", Fraction(1), "alltoall")
    proof = JobLevel(Fraction(3), (0,), lengths(a_sw=1))
    assert proved_rates(FABRIC, [one], [proof]) == (Fraction(3),)
    # d is not there for the job, so c is reached over the switch alone: 2 * 1 + 1 * 7 ways in all
    both = lengths(a_sw=1, sw_c=7)
    room = 2 * 1 + 4 * 7
    cost = Fraction(1 + (1 + 7) + 7, 3)  # a->b, a->c, b->c
    assert proved_rates(FABRIC, [one], [JobLevel(room / cost, (0,), both)]) == (room / cost,)
    apart = job("x", Fraction(1), "alltoall", ranks=(0, 4))
    assert said(lambda: proved_rates(FABRIC, [apart], [proof])) == (
        "job 'x': a rank cannot be reached, so nothing is proved"
    )
