"""Meshes, and the groups of a collective that their axes make."""

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.schedules.mesh import Mesh
from treadle.topologies import parse


@pytest.mark.parametrize(
    ("shape", "names", "order", "message"),
    [
        ((), (), None, "at least one axis"),
        ((2, 0), ("a", "b"), None, "at least one axis"),
        ((2, 2), ("a",), None, "1 axis names for 2 axes"),
        ((2, 2), ("a", "a"), None, "expected different names"),
        ((2,), ("a,b",), None, "without comma"),
        ((2,), ("",), None, "a name"),
        ((2, 2), ("a", "b"), (0, 1, 2, 2), "expected a permutation"),
        ((2, 2), ("a", "b"), (0, 1, 2), "expected a permutation"),
    ],
)
def test_what_is_no_mesh_is_refused(shape, names, order, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ScheduleError, match=message):
        Mesh(shape, names, order)


def test_what_knows_one_group_refuses_several() -> None:
    fabric = parse("ring:4")
    several = Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3), groups=((0, 1), (2, 3)))
    for use in (lambda: check_membership(fabric, several), lambda: several.shard_weights):
        with pytest.raises(ScheduleError, match="2 concurrent groups: expected a single group"):
            use()
    one = Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3))
    assert one.as_one_group() is one.member(0) is one
