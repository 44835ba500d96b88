"""`solve` and `bound` of several groups at once: verified plans that attain their bound."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import treadle
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.planning import program_of
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.generation import fall_back
from treadle.schedulers.schedulers import schedulers
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.transfer import transfer_schedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.schedules.trees.forest_cost import link_loads
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.synthesis.scheduler import Comparing, Scheduler
from treadle.synthesis.scheduler_options import ScheduleForm
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


ONE_GROUP = [one for one in schedulers(plug_ins=False) if not one.in_groups]


@pytest.mark.parametrize(
    "record",
    [one for one in ONE_GROUP if one.form is not ScheduleForm.TREES or one.comparing is Comparing.ABLE],
    ids=lambda one: one.name,
)
def test_what_is_no_trees_or_needs_able_switches_refuses_several(record: Scheduler) -> None:
    topology = parse("dgx_h100(2,gpus_per_box=4,nvls=True)" if record.name == "nvls" else "ring(4)")
    collective = grouped(topology, "allreduce", (2, len(topology.compute_nodes) // 2), "b")
    why = r"one group of ranks, found 2 concurrent groups|not supported|not modelled for concurrent groups"
    with pytest.raises(ScheduleError, match=why):
        treadle.solve(topology, collective, algorithm=record.name)


@pytest.mark.parametrize("fabric", ["leaf_spine(4,2,gpus_per_leaf=2)", "torus(4,4)"])
@pytest.mark.parametrize(
    "record",
    [
        one
        for one in schedulers(plug_ins=False)
        if one.form is ScheduleForm.TREES and one.comparing not in (Comparing.ABLE, Comparing.MACHINES)
    ],
    ids=lambda one: one.name,
)
def test_trees_are_made_of_each_group_by_itself(record: Scheduler, fabric: str) -> None:
    topology = parse(fabric)
    kind = next(kind for kind in ("allgather", "allreduce") if kind in record.collectives)
    collective = grouped(topology, kind, (4, len(topology.compute_nodes) // 4), "b", forward=True)
    if record.name == "tto":  # no group is a mesh by itself
        with pytest.raises(ScheduleError, match=r"tto: .* is not a mesh|square mesh"):
            treadle.solve(topology, collective, algorithm=record.name)
        return
    if record.name in ("rail", "rail-bruck", "rail-ring", "three-stage"):  # no group has boxes of its own
        with pytest.raises(ScheduleError, match="is one box; use one-shot or mixed-radix"):
            treadle.solve(topology, collective, algorithm=record.name)
        return
    found = treadle.solve(topology, collective, algorithm=record.name)
    assert found.plan.algorithm == record.name
    assert found.report.is_ok
    assert found.optimal_algbw is not None
    assert found.algbw <= found.optimal_algbw
    assert found.groups is not None
    assert found.alone
    if record.in_groups and record.name != "isolated":
        assert found.is_optimal or record.name == "rs-ag"


@pytest.mark.parametrize(
    ("fabric", "kind", "shape", "axis", "forward"),
    [
        ("leaf_spine(4,2,gpus_per_leaf=2)", "allgather", (4, 2), "a", False),
        ("generalized_kautz(3,12)", "reduce-scatter", (4, 3), "a", True),
        ("torus(4,4)", "allreduce", (2, 8), "b", True),
    ],
)
def test_isolated_is_the_sum_of_plans_that_know_of_no_other(
    fabric: str, kind: str, shape: tuple[int, int], axis: str, forward: bool
) -> None:
    topology = parse(fabric)
    collective = grouped(topology, kind, shape, axis, forward=forward)
    assert collective.groups is not None
    loads = [Fraction(0)] * topology.n_links
    for group in collective.groups:
        own = treadle.solve(topology, kind, ranks=group, forward=forward, exact=True, form="explicit").plan
        schedule = transfer_schedule(own.entries[-1].schedule, own.topology, topology)
        assert isinstance(schedule, ForestSchedule)
        for link, load in enumerate(link_loads(topology, schedule)):
            loads[link] += Fraction(int(load), schedule.total_units)
    widths = topology.bandwidths.tolist()
    reached = min(width / load for width, load in zip(widths, loads, strict=True) if load)
    found = treadle.solve(topology, collective, algorithm="isolated")
    assert found.algbw == reached
    assert reached < treadle.solve(topology, collective).algbw


def test_two_phases_reach_what_their_optima_allow() -> None:
    topology = parse("mesh(3,4)")
    collective = grouped(topology, "allreduce", (3, 4), "a", forward=True)
    found = treadle.solve(topology, collective, algorithm="rs-ag")
    # one after the other; where they load different links, as here, both run at once
    assert found.rs_ag == Fraction(3, 4) <= found.algbw <= found.optimal_algbw == 1
    with pytest.raises(ScheduleError, match="--trees"):
        treadle.solve(topology, collective, algorithm="rs-ag", trees=2)


def test_isolated_is_forestcoll_where_there_is_one_group() -> None:
    found = treadle.solve("ring:4", "allgather", algorithm="isolated")
    assert (found.plan.algorithm, found.is_optimal) == ("isolated", True)


def test_switches_that_sum_do_nothing_for_a_group_alone() -> None:
    able, plain = (
        treadle.bound(f"dgx_h100(2,nvls={able})", "allreduce", mesh="2,8", axes="1") for able in (True, False)
    )
    assert able.alone == plain.alone
    assert able.algbw == plain.algbw


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
    assert found.rows[0].algbw == found.optimal_algbw
    names = {row.algorithm for row in found.rows}
    assert {"forestcoll", "isolated", "ring", "halving-doubling"} <= names
    assert not {"bfb", "ring-steps", "nvls", "tto"} & names
    assert not any(row.refusal for row in found.rows)
    assert found.shared is not None
    assert (found.shared.lower, found.shared.upper) == (found.optimal_algbw, found.optimal_algbw)


def test_links_are_as_busy_as_the_loads_of_all_groups_say() -> None:
    topology = parse("leaf_spine(4,2,gpus_per_leaf=2,oversubscription=2)")
    collective = grouped(topology, "allreduce", (4, 2), "a")
    plan = treadle.solve(topology, collective).plan
    found = treadle.compare(topology, collective, beside=plan, sizes=[2**20])
    assert len(found.rows) > 6
    for row in found.rows:
        assert row.measured is not None
        assert row.algbw is not None
        assert row.measured.congestion is not None
        assert row.measured.congestion.times_optimum == found.optimal_algbw / row.algbw
        [simulated] = row.measured.sizes
        assert simulated.algbw_bytes_per_s < row.algbw
    beside = next(row for row in found.rows if row.form == "plan")
    made = next(row for row in found.rows if row.algorithm == "forestcoll" and not row.form)
    assert (beside.algbw, beside.trees) == (made.algbw, made.trees)


def test_texts_of_one_group_do_not_stand_beside_several(tmp_path: Path) -> None:
    topology = parse("ring(4)")
    lowered = treadle.lower(treadle.solve(topology, "allgather").plan)
    (tmp_path / "ring.xml").write_text(lowered.text)
    collective = grouped(topology, "allgather", (2, 2), "b")
    program = program_of(treadle.solve(topology, "allgather").plan, 2**10)
    found = treadle.compare(topology, collective, beside=[tmp_path / "ring.xml", program], algorithms=())
    assert [row.algbw for row in found.rows] == [None, None]
    for row in found.rows:
        assert row.report is not None
        assert "it is for one group of ranks" in str(row.report.violations[0])
