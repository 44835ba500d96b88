"""Fabrics and collectives from what a user typed."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError, ScheduleError, TopologyError
from treadle.planning import pose
from treadle.planning.problem import select_ranks
from treadle.planning.stages import Stopwatch
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.topologies import parse


def test_absent_ranks_leave_the_fabric() -> None:
    problem = pose("mi250:2", "allgather", ranks="0-7,16-23")
    assert problem.topology == parse("mi250(2, gpus_per_box=8)")
    assert problem.collective.n_ranks == 16
    assert not problem.collective.forwarders


def test_forwarders_stay_in_the_fabric() -> None:
    fabric = parse("ring:5")
    problem = pose(fabric, CollectiveKind.BROADCAST, ranks=[4, 0], forward=True, root="n4")
    assert problem.topology is fabric
    assert problem.collective.ranks == (0, 4)
    assert problem.collective.forwarders == (1, 2, 3)
    assert problem.collective.root == 1


def test_root_and_weights_follow_rank_order() -> None:
    assert pose("ring:4", "reduce").collective.root == 0
    assert pose("ring:4", "reduce", root="2").collective.root == 2
    assert pose("ring:4", "reduce", ranks="1-3", root="n3").collective.root == 2
    assert pose("ring:4", "allgather", weights=[1, 2, 3, 4]).collective.weights == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("0-2", [0, 1, 2]),
        ("3,1", [1, 3]),
        ("n2", [2]),
        ("n*", [0, 1, 2, 3]),
        ("n[01],3", [0, 1, 3]),
        (" 1 , 2 ", [1, 2]),
    ],
)
def test_typed_ranks(text: str, places: list[int]) -> None:
    assert select_ranks(parse("ring:4"), text) == places


@pytest.mark.parametrize("text", ["4", "0-4", "2-1", "x*", "", "1,,2", "1-", "-1", "0,n0", "1.5"])
def test_typed_ranks_that_do_not_exist(text: str) -> None:
    with pytest.raises(TopologyError):
        select_ranks(parse("ring:4"), text)


def test_switches_are_no_ranks() -> None:
    with pytest.raises(TopologyError, match="no compute node"):
        select_ranks(parse("dgx_a100:1"), "box0.nvswitch")


def test_a_collective_as_value_is_taken_as_it_is() -> None:
    fabric = parse("ring:4")
    value = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    assert pose(fabric, value).collective is value
    with pytest.raises(ScheduleError, match="belong to a collective's name"):
        pose(fabric, value, root=1)


def test_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(FormatError, match="allgather, reduce-scatter"):
        pose("ring:4", "gossip")


def test_stopwatch_adds_up_stages() -> None:
    ticks = iter([0.0, 1.0, 3.0, 10.0, 14.0, 20.0])
    watch = Stopwatch(clock=lambda: next(ticks))
    for _ in range(2):
        with watch.stage("work"):
            pass
    watch.include({"work": 1.0, "other": 2.0, "total": 99.0})
    assert watch.seconds() == {"work": 7.0, "other": 2.0, "total": 20.0}
