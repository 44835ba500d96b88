"""Groups alone and together as reports tell them: held against each group as a problem of its own."""

from __future__ import annotations

import pytest

from treadle.planning import bound, make_problem, solve
from treadle.schedulers.alone_rates import alone_in_plan
from treadle.schedulers.shared_rates import shared_rates

ALLTOALLS = [
    ("torus:4,4", "2,8", "0", ""),
    ("torus:4,4", "4,4", "1", "n0_0--n0_1"),
    ("generalized_kautz:3,24", "4,6", "0", ""),
    ("leaf_spine:3,2,gpus_per_leaf=4", "3,4", "0", "leaf1--spine0"),
    ("dgx_a100_flat:2", "4,4", "0", "box1.gpu2--ib0"),
    ("path:6", "3,2", "0", ""),
]


@pytest.mark.parametrize(("fabric", "mesh", "axis", "without"), ALLTOALLS)
def test_each_alltoall_alone_is_a_problem_of_its_own(fabric: str, mesh: str, axis: str, without: str) -> None:
    left = make_problem(fabric, "alltoall", without=without or None).topology
    found = bound(left, "alltoall", mesh=mesh, axes=axis)
    groups = make_problem(left, "allgather", mesh=mesh, axes=axis).collective.groups
    assert groups is not None
    assert found.collective.blocks == tuple(tuple(sorted(group)) for group in groups)
    told = {group: one for one in found.alone for group in one.groups}
    assert sorted(told) == list(range(len(groups)))
    assert [one.algbw for one in found.alone] == sorted({one.algbw for one in found.alone})
    for number, group in enumerate(groups):
        alone = bound(left, "alltoall", ranks=sorted(group), forward=True)
        assert alone.rate is not None
        assert told[number].is_exact is (alone.rate.exact is not None)
        assert float(told[number].algbw) == pytest.approx(float(alone.algbw), rel=2e-3)
        if told[number].is_exact:
            assert told[number].algbw == alone.algbw
    assert found.algbw <= found.alone[0].algbw
    shared = shared_rates(found)
    assert shared is not None
    assert (shared.lower, shared.upper) == (found.algbw, found.algbw)


@pytest.mark.parametrize(
    ("fabric", "kind", "mesh", "forward"),
    [
        ("generalized_kautz:3,24", "allgather", "4,6", True),
        ("mesh:3,4", "allreduce", "3,4", True),
        ("leaf_spine:3,2,gpus_per_leaf=4", "broadcast", "3,4", False),
        ("path:6", "alltoall", "3,2", False),
    ],
)
def test_plans_know_what_the_bound_says(fabric: str, kind: str, mesh: str, forward: bool) -> None:
    told = bound(fabric, kind, mesh=mesh, axes="0", forward=forward)
    found = solve(fabric, kind, mesh=mesh, axes="0", forward=forward)
    assert alone_in_plan(found.plan) == found.alone == told.alone
    ours, theirs = shared_rates(found), shared_rates(told)
    assert ours is not None
    assert theirs is not None
    assert (ours.lower, ours.upper, ours.rs_ag) == (theirs.lower, theirs.upper, theirs.rs_ag)
