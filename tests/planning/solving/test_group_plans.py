"""`solve` and `bound` of several groups at once: verified plans that attain their bound."""

from __future__ import annotations

from fractions import Fraction

import pytest

import treadle
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning.problem import Problem
from treadle.planning.solving.bounds import find_bound
from treadle.planning.solving.generation import fall_back
from treadle.planning.solving.schedulers import schedulers
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies import Topology, parse
from treadle.verification.schedules import verify

GB = 10**9


def grouped(
    topology: Topology, kind: str, shape: tuple[int, ...], axes: str, *, forward: bool = False
) -> Collective:
    """All compute nodes as a mesh of axes a, b, ..., in groups along some of them."""
    names = tuple("abc"[: len(shape)])
    return Collective(
        CollectiveKind(kind),
        tuple(topology.compute_nodes.tolist()),
        root=0 if CollectiveKind(kind).is_rooted else None,
        groups=Mesh(shape, names).groups(tuple(axes)),
        ranks_forward=forward,
    )


LEAVES = "leaf_spine(4,2,gpus_per_leaf=8,oversubscription=4)"
"""Of what the issue's table says; forwarding ranks where the last entry is True."""


@pytest.mark.parametrize(
    ("name", "shape", "axes", "rate", "forward"),
    [
        (LEAVES, (4, 8), "a", Fraction(50, 3) * GB, False),
        (LEAVES, (2, 4, 4), "a", 25 * GB, False),
        (LEAVES, (2, 4, 4), "b", 50 * GB, False),
        (LEAVES, (2, 4, 4), "c", Fraction(200, 3) * GB, False),
        ("dgx_h100(16)", (16, 8), "a", Fraction(160, 3) * GB, False),
        ("dgx_h100(16)", (16, 8), "b", Fraction(4000, 7) * GB, False),
        ("mi300x(4)", (8, 4), "b", Fraction(968, 3) * GB, False),
        ("mi300x(4)", (8, 4), "b", Fraction(1480, 3) * GB, True),
        ("torus(8,8)", (4, 16), "a", Fraction(4, 3), True),
        ("torus(8,8)", (8, 8), "a", Fraction(16, 7), True),
        ("generalized_kautz(4,64)", (8, 8), "a", Fraction(32, 21), True),
    ],
)
def test_plans_of_groups_attain_their_bound(
    name: str, shape: tuple[int, ...], axes: str, rate: Fraction, forward: bool
) -> None:
    topology = parse(name)
    collective = grouped(topology, "allgather", shape, axes, forward=forward)
    result = treadle.solve(topology, collective)
    assert result.report.is_ok
    assert result.algbw == result.optimal_algbw == rate
    assert result.is_optimal
    assert result.plan.algorithm == "forestcoll"
    assert treadle.bound(topology, collective).algbw == rate


@pytest.mark.parametrize(
    ("name", "shape", "axes", "rate", "phases"),
    [
        ("mi250(2)", (4, 8), "b", 188 * GB, Fraction(464, 3) * GB),
        ("mesh(3,4)", (3, 4), "a", Fraction(1), Fraction(3, 4)),
    ],
)
def test_an_allreduce_of_groups_says_what_its_phases_would_reach(
    name: str, shape: tuple[int, ...], axes: str, rate: Fraction, phases: Fraction
) -> None:
    topology = parse(name)
    result = treadle.solve(topology, grouped(topology, "allreduce", shape, axes, forward=True))
    assert result.algbw == result.optimal_algbw == rate
    (note,) = result.notes
    assert f"reaches {float(phases / rate):.2%} of it" in note


def test_where_the_two_phases_are_optimal_they_are_built() -> None:
    topology = parse("dgx_h100(4)")
    collective = grouped(topology, "allreduce", (4, 8), "a", forward=True)
    result = treadle.solve(topology, collective)
    assert result.is_optimal
    assert result.notes == ("reduce-scatter + allgather is optimal",)
    schedule = result.plan.entries[0].schedule
    assert isinstance(schedule, GroupSchedule)
    for one in schedule.groups:
        assert len(set(one.root_multiplicity.tolist())) == 1, "equal shards"


@pytest.mark.parametrize("kind", SPANNING_KINDS)
def test_every_kind_of_groups_is_solved(kind: CollectiveKind) -> None:
    topology = parse("generalized_kautz(4,12)")
    result = treadle.solve(topology, grouped(topology, kind, (4, 3), "a", forward=True))
    assert result.is_optimal


def test_what_is_attained_says_which_model_it_is() -> None:
    """Lengths of links prove nothing of switches that copy: groups are told to do without."""
    switched = parse("dgx_h100(2,sharp=True)")
    assert switched.multicast.any()
    found = find_bound(Problem(switched, grouped(switched, "allgather", (2, 8), "a")))
    assert found.model == "allgather without in-network multicast and aggregation"
    plain = parse("ring(4)")
    assert not find_bound(Problem(plain, grouped(plain, "allgather", (2, 2), "b"))).model
    assert find_bound(Problem(plain, grouped(plain, "allreduce", (2, 2), "b"))).model


def test_a_member_out_of_reach_is_told() -> None:
    topology = parse("torus(4,4)")
    with pytest.raises(InfeasibleError, match="group"):
        treadle.solve(topology, grouped(topology, "allgather", (2, 8), "a"))


@pytest.mark.parametrize(
    "record", [one for one in schedulers(plug_ins=False) if not one.in_groups], ids=lambda record: record.name
)
def test_schedulers_of_one_group_refuse_several(record: object) -> None:
    topology = parse("ring(4)")
    collective = grouped(topology, "allreduce", (2, 2), "b")
    name = record.name  # type: ignore[attr-defined]
    with pytest.raises(ScheduleError, match=r"one group of ranks, found 2 at once|not supported"):
        treadle.solve(topology, collective, algorithm=name)


@pytest.mark.parametrize(
    "options",
    [
        {"trees": 2},
        {"max_trees": 4},
        {"packer": "growth"},
        {"trim": True},
        {"form": "factored"},
        {"multicast": True},
    ],
)
def test_options_of_one_group_are_refused(options: dict[str, object]) -> None:
    topology = parse("ring(4)")
    flag = "--" + next(iter(options)).replace("_", "-")
    with pytest.raises(ScheduleError, match=flag):
        treadle.solve(topology, grouped(topology, "allgather", (2, 2), "b"), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"exact": True}, {"form": "explicit"}, {"max_trees": None}])
def test_options_that_groups_fulfil_anyway_are_taken(options: dict[str, object]) -> None:
    topology = parse("ring(4)")
    result = treadle.solve(topology, grouped(topology, "allgather", (2, 2), "b"), **options)  # type: ignore[arg-type]
    assert result.is_optimal


@pytest.mark.parametrize(
    ("forward", "kind"), [(False, "allgather"), (True, "allreduce"), (True, "broadcast")]
)
def test_when_time_has_run_out_each_group_gets_a_baseline(forward: bool, kind: str) -> None:
    topology = parse("dgx_h100(2)")
    problem = Problem(topology, grouped(topology, kind, (2, 8), "b", forward=forward))
    found = fall_back(problem)
    report = verify(topology, problem.collective, found.schedule)
    assert report.is_ok
    assert found.bound is None
    assert report.algbw is not None
    assert report.algbw <= find_bound(problem).algbw


def test_comparing_lists_groups_for_those_that_know_them() -> None:
    topology = parse("torus(4,4)")
    found = treadle.compare(topology, grouped(topology, "allgather", (4, 4), "b"))
    (made,) = [row for row in found.rows if row.algbw is not None]
    assert made.algorithm == "forestcoll"
    assert made.algbw == found.optimal_algbw
    refusals = [row.refusal for row in found.rows if row is not made]
    assert all(refusals)
    assert sum("one group of ranks, found 4 at once" in why for why in refusals) >= 3
