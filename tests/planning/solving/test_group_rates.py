"""Groups by themselves: held against each group solved as a problem of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.planning import CutOffGroupError, bound, make_problem
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


def test_other_infeasible_fabrics_stay_what_they_are() -> None:
    capped = replace(parse("torus:3,3"), injection_bytes_per_s=np.ones(9, dtype=np.int64))
    with pytest.raises(InfeasibleError, match="injection cap") as caught:
        bound(capped, "allgather", mesh="3,3", axes="0")
    assert not isinstance(caught.value, CutOffGroupError)
