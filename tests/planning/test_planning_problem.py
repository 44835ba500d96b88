"""Fabrics and collectives from what a user typed."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError, ScheduleError, TopologyError, TreadleError
from treadle.inputs.meshes import AxesLike
from treadle.inputs.problem import select_ranks
from treadle.options.keywords import ProblemOptions
from treadle.planning import make_problem
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.mesh import Mesh
from treadle.topologies import parse


def test_absent_ranks_leave_the_fabric() -> None:
    problem = make_problem("mi250:2", "allgather", ranks="0-7,16-23")
    assert problem.topology == parse("mi250(2, gpus_per_box=8)")
    assert problem.collective.n_ranks == 16
    assert not problem.collective.forwarders


def test_forwarders_stay_in_the_fabric() -> None:
    fabric = parse("ring:5")
    problem = make_problem(fabric, CollectiveKind.BROADCAST, ranks=[4, 0], forward=True, root="n4")
    assert problem.topology is fabric
    assert problem.collective.ranks == (4, 0)
    assert problem.collective.forwarders == (1, 2, 3)
    assert problem.collective.root == 0


def test_root_and_weights_follow_rank_order() -> None:
    assert make_problem("ring:4", "reduce").collective.root == 0
    assert make_problem("ring:4", "reduce", root="2").collective.root == 2
    assert make_problem("ring:4", "reduce", ranks="1-3", root="n3").collective.root == 2
    assert make_problem("ring:4", "allgather", weights=[1, 2, 3, 4]).collective.weights == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("0-2", [0, 1, 2]),
        ("3,1", [3, 1]),
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
    assert make_problem(fabric, value).collective is value
    with pytest.raises(ScheduleError, match="belong to a collective's name"):
        make_problem(fabric, value, root=1)


def test_unknown_kind_names_the_known_ones() -> None:
    with pytest.raises(FormatError, match="allgather, reduce-scatter"):
        make_problem("ring:4", "gossip")


def test_what_failed_leaves_the_fabric_before_ranks_are_counted() -> None:
    problem = make_problem(
        "leaf_spine:2,2,gpus_per_leaf=2", "allgather", without="leaf0.gpu0,leaf1--spine0", ranks="0,1"
    )
    rest = 'with_failed_links(leaf_spine(2, 2, gpus_per_leaf=2), "leaf1--spine0")'
    left = parse(f'with_failed_nodes({rest}, "leaf0.gpu0")')
    names = [problem.topology.node_names[node] for node in problem.collective.ranks]
    assert names == ["leaf0.gpu1", "leaf1.gpu0"]
    assert set(problem.topology.node_names) == set(left.node_names) - {"leaf1.gpu1"}
    with pytest.raises(ScheduleError, match="mesh and axes belong to a collective's name"):
        make_problem("ring:4", on_all_ranks(parse("ring:4"), CollectiveKind.ALLGATHER), without="n0--n1")


@pytest.mark.parametrize(
    ("mesh", "axes", "groups"),
    [
        ("dp=2,tp=3", "dp", ((0, 3), (1, 4), (2, 5))),
        ("dp=2,tp=3", ["tp"], ((0, 1, 2), (3, 4, 5))),
        (" dp = 2 , tp = 3 ", " tp ", ((0, 1, 2), (3, 4, 5))),
        ("2,3", "0", ((0, 3), (1, 4), (2, 5))),
        ("2,3", 1, ((0, 1, 2), (3, 4, 5))),
        (Mesh((3, 2), ("a", "b"), (5, 4, 3, 2, 1, 0)), ("b",), ((5, 4), (3, 2), (1, 0))),
        ("1,3,2", "2,0", ((0, 1), (2, 3), (4, 5))),
    ],
)
@pytest.mark.parametrize("forward", [False, True])
def test_a_mesh_makes_groups(
    mesh: Mesh | str, axes: AxesLike, groups: tuple[tuple[int, ...], ...], forward: bool
) -> None:
    collective = make_problem("ring:6", "allgather", mesh=mesh, axes=axes, forward=forward).collective
    assert collective.groups == groups
    assert collective.ranks_forward is forward
    assert collective.ranks == tuple(range(6))
    matrix = make_problem(
        "ring:6", "alltoall", mesh=mesh, axes=axes, forward=forward
    ).collective.pair_demands.matrix
    together = {(one, other) for group in groups for one in group for other in group}
    assert {(int(i), int(j)) for i, j in zip(*matrix.nonzero(), strict=True)} == together
    assert matrix.max() == 1


def test_axes_over_all_ranks_make_the_plain_collective() -> None:
    assert make_problem("ring:6", "allreduce", mesh="2,3", axes="0,1") == make_problem("ring:6", "allreduce")
    turned = make_problem("ring:6", "broadcast", mesh="2,3", axes="1,0", root=1).collective
    assert turned.groups is None
    assert turned.ranks == (0, 3, 1, 4, 2, 5)
    assert turned.root == 1
    assert make_problem("ring:6", "broadcast", mesh="2,3", axes="1,0", root="n4").collective.root == 3


def test_a_mesh_lays_chosen_ranks_out_and_a_root_is_a_groups() -> None:
    found = make_problem(
        "ring:8", "reduce", ranks="1,3-6,7", mesh="a=2,b=3", axes="b", forward=True, root="n5"
    )
    assert [found.topology.node_names[node] for node in found.collective.ranks] == [
        "n1",
        "n3",
        "n4",
        "n5",
        "n6",
        "n7",
    ]
    assert found.collective.groups == ((0, 1, 2), (3, 4, 5))
    assert [found.topology.node_names[node] for node in found.collective.forwarders] == ["n0", "n2"]
    assert found.collective.root == 0
    assert make_problem("ring:6", "reduce", mesh="2,3", axes="1", root="n5").collective.root == 2
    with pytest.raises(ScheduleError, match="root 3: expected a rank from 0 to 2"):
        make_problem("ring:6", "reduce", mesh="2,3", axes="1", root=3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"mesh": "2,3"}, "mesh 2,3: the axes that groups go over are missing; .* some of 0, 1"),
        ({"mesh": "dp=2,tp=3"}, "some of dp, tp"),
        ({"axes": "dp"}, "axes dp: the mesh that has them is missing"),
        ({"mesh": "2,4", "axes": "0"}, r"it lays out 8 ranks, and ring\(6\) has 6"),
        ({"mesh": "2,2", "axes": "0", "ranks": "0-4"}, "it lays out 4 ranks, and .* has 5"),
        ({"mesh": "dp=2,tp=3", "axes": "pp"}, "no axis 'pp'; expected some of dp, tp"),
        ({"mesh": "dp=2,3", "axes": "dp"}, "mesh 'dp=2,3': no axis names for 3; name all axes"),
        ({"mesh": "2x3", "axes": "0"}, "mesh '2x3': expected NAME=SIZE"),
        ({"mesh": "0,3", "axes": "0"}, "mesh '0,3'"),
        ({"mesh": "-2,-3", "axes": "0"}, "mesh '-2,-3'"),
        ({"mesh": "", "axes": "0"}, "mesh ''"),
        ({"mesh": "dp=2,dp=3", "axes": "dp"}, "expected different names"),
        ({"mesh": "1,6", "axes": "0"}, "one rank only"),
        ({"mesh": "2,3", "axes": "0", "weights": [1] * 6}, "equal shards, found weights"),
    ],
)
def test_meshes_that_do_not_fit(words: ProblemOptions, message: str) -> None:
    with pytest.raises((ScheduleError, FormatError), match=message):
        make_problem("ring:6", "allgather", **words)


def test_demands_and_a_mesh_exclude_each_other() -> None:
    with pytest.raises(ScheduleError, match="give one of them"):
        make_problem("ring:4", "alltoall", mesh="2,2", axes="0", demands=Demands([[0, 1, 1, 1]] * 4))


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TreadleError, match="unknown option 'axis'; did you mean axes"):
        make_problem("ring:4", "allgather", mesh="2,2", axis="0")  # type: ignore[call-arg]
