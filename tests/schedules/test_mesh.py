"""Meshes, and the groups of a collective that their axes make."""

from itertools import product

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind, check_membership
from treadle.schedules.mesh import Mesh
from treadle.topologies import parse

AXES = ("pp", "dp", "tp")


@pytest.mark.parametrize("axes", [("pp",), ("dp",), ("tp",), ("pp", "tp"), ("tp", "pp"), ("dp", "tp"), AXES])
@pytest.mark.parametrize("order", [None, tuple((7 * place + 3) % 24 for place in range(24))])
def test_a_group_is_all_places_that_differ_in_its_axes_only(
    axes: tuple[str, ...], order: tuple[int, ...]
) -> None:
    shape = (2, 3, 4)
    mesh = Mesh(shape, AXES, order)
    rank_at = {
        place: number if order is None else order[number]
        for number, place in enumerate(product(*map(range, shape)))
    }
    found = mesh.groups(axes)
    assert sorted(rank for group in found for rank in group) == list(range(24))
    for group in found:
        places = [place for rank in group for place, other in rank_at.items() if other == rank]
        fixed = [{place[axis] for place in places} for axis, name in enumerate(AXES) if name not in axes]
        assert all(len(values) == 1 for values in fixed)
        along = [tuple(place[AXES.index(name)] for name in axes) for place in places]
        assert along == sorted(along)  # the axes in the order given, the last the fastest
        assert len(set(along)) == len(along)


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


@pytest.mark.parametrize(
    ("axes", "message"),
    [("xp", "no axis 'xp'"), ((), "each at most once"), (("a", "a"), "at most once"), ("b", "one rank only")],
)
def test_axes_that_make_no_groups_are_refused(axes: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Mesh((4, 1), ("a", "b")).groups(axes)


def grouped(**changes: object) -> Collective:
    values = {"kind": CollectiveKind.ALLGATHER, "ranks": (4, 5, 6, 7), "groups": ((0, 2), (1, 3))}
    return Collective(**{**values, **changes})  # type: ignore[arg-type]


def test_the_collective_of_a_group_knows_who_passes_on() -> None:
    assert (grouped().n_groups, grouped().group_size, grouped().n_ranks) == (2, 2, 4)
    assert grouped().member(1) == Collective(CollectiveKind.ALLGATHER, (5, 7))
    assert grouped(forwarders=(9,)).member(1).forwarders == (9,)
    assert grouped(forwarders=(9,), ranks_forward=True).member(0).forwarders == (9, 5, 7)
    rooted = grouped(kind=CollectiveKind.BROADCAST, root=1)
    assert [rooted.member(group).ranks[rooted.member(group).root or 0] for group in (0, 1)] == [6, 7]
    with pytest.raises(ScheduleError, match="root 2: expected a rank from 0 to 1"):
        grouped(kind=CollectiveKind.BROADCAST, root=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": ((0, 1, 2), (3,))}, "equally many"),
        ({"groups": ((0,), (1,), (2,), (3,))}, "at least 2"),
        ({"groups": ((0, 1), (1, 3))}, "each rank"),
        ({"groups": ((0, 1),)}, "each rank"),
        ({"groups": ()}, "equally many"),
        ({"groups": None, "ranks_forward": True}, "expected groups, whose ranks"),
        ({"kind": CollectiveKind.ALLTOALL}, "one of demands"),
        ({"weights": (1, 1, 1, 2)}, "equal shards"),
    ],
)
def test_groups_that_are_none_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        grouped(**changes)


def test_what_knows_one_group_refuses_several() -> None:
    fabric = parse("ring:4")
    several = Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3), groups=((0, 1), (2, 3)))
    for use in (lambda: check_membership(fabric, several), lambda: several.shard_weights):
        with pytest.raises(ScheduleError, match="2 concurrent groups: expected a single group"):
            use()
    one = Collective(CollectiveKind.ALLREDUCE, (0, 1, 2, 3))
    assert one.as_one_group() is one.member(0) is one


def test_a_mesh_is_written_as_it_is_typed() -> None:
    assert Mesh((2, 3), ("dp", "tp")).notation == "dp=2,tp=3"
    assert Mesh((2, 3), ("0", "1")).notation == "2,3"
    assert Mesh((2, 3), ("1", "0")).notation == "1=2,0=3"
