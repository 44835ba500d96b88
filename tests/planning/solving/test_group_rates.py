"""Groups by themselves: held against each group solved as a problem of its own."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from treadle import planning
from treadle.errors import InfeasibleError
from treadle.planning import CutOffGroupError, bound, make_problem
from treadle.schedulers.group_rates import find_cut_off
from treadle.topologies import parse

CASES = [
    ("generalized_kautz:3,24", "4,6", True, ""),
    ("torus:4,4", "2,8", True, "n0_0--n0_1"),
    ("leaf_spine:3,2,gpus_per_leaf=4", "3,4", False, "leaf1--spine0"),
    ("dgx_a100_flat:3", "3,8", True, "box1.gpu2--ib0"),
    ("mi300x:2", "4,4", False, ""),
]


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "broadcast", "allreduce"])
@pytest.mark.parametrize(("fabric", "mesh", "forward", "without"), CASES)
@pytest.mark.parametrize("axis", ["0", "1"])
def test_each_group_alone_is_a_problem_of_its_own(
    fabric: str, mesh: str, forward: bool, without: str, axis: str, kind: str
) -> None:
    left = make_problem(fabric, "allgather", without=without or None).topology
    found = bound(left, kind, mesh=mesh, axes=axis, forward=forward)
    groups = found.collective.groups
    assert groups is not None
    rate_of = {group: one.algbw for one in found.alone for group in one.groups}
    assert sorted(rate_of) == list(range(len(groups)))
    assert list(rate_of.values()) == sorted(rate_of.values())
    assert len({one.algbw for one in found.alone}) == len(found.alone)
    for number, group in enumerate(groups):
        alone = bound(left, kind, ranks=sorted(group), forward=forward)
        assert rate_of[number] == alone.algbw, number
    assert found.algbw <= found.alone[0].algbw


def test_a_collective_in_groups_is_taken_as_a_value() -> None:
    posed = make_problem("rail_optimized:4", "allgather", mesh="4,8", axes="0", without="box2.gpu3--rail3")
    with pytest.raises(CutOffGroupError) as caught:
        bound(posed.topology, posed.collective)
    error = caught.value
    assert isinstance(error, InfeasibleError)
    assert error.group == 3
    assert error.problem == posed
    assert error.forwarding is not None
    forwarding = replace(posed.collective, ranks_forward=True)
    assert error.forwarding.collective == forwarding
    assert error.forwarding.algbw == bound(posed.topology, forwarding).algbw > 0
    with pytest.raises(CutOffGroupError, match="group 3"):
        planning.solve(posed.topology, posed.collective)


@pytest.mark.parametrize(
    ("kind", "without", "group"),
    [
        ("allgather", "n4->n5", 1),
        ("broadcast", "n4->n5", 1),
        ("reduce", "n4->n5", None),
        ("broadcast", "n5->n4", None),
        ("reduce", "n5->n4", 1),
        ("reduce-scatter", "n5->n4", 1),
        ("allreduce", "n5->n4", 1),
        ("allgather", "n0--n1", 0),
        ("allgather", "n2--n3", None),
    ],
)
def test_who_must_reach_whom_is_the_kinds(kind: str, without: str, group: int | None) -> None:
    found = find_cut_off(make_problem("path:6", kind, mesh="2,3", axes="1", without=without))
    assert (None if found is None else found[0]) == group


def test_other_infeasible_fabrics_stay_what_they_are() -> None:
    capped = replace(parse("torus:3,3"), injection_bytes_per_s=np.ones(9, dtype=np.int64))
    with pytest.raises(InfeasibleError, match="injection cap") as caught:
        bound(capped, "allgather", mesh="3,3", axes="0")
    assert not isinstance(caught.value, CutOffGroupError)


def test_rates_are_exact() -> None:
    found = bound("generalized_kautz:4,64", "allgather", mesh="8,8", axes="0", forward=True)
    assert [(one.algbw, len(one.groups)) for one in found.alone] == [
        (Fraction(24, 7), 4),
        (Fraction(32, 7), 4),
    ]
    assert all(one.is_exact for one in found.alone)
