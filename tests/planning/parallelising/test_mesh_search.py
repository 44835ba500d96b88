"""The loop over meshes: nothing that may be better is left out, and what cannot be is."""

from __future__ import annotations

import pytest

from treadle.errors import InfeasibleError
from treadle.parallelism.searching.mesh_search import Look, search_meshes
from treadle.schedules.mesh import Mesh


def _refused(mesh: Mesh) -> Look[str]:
    raise InfeasibleError(f"{mesh.notation} is cut off")


def _never(mesh: Mesh, look: Look[str]) -> Look[str]:
    raise AssertionError(f"{mesh.notation} {look.seconds}")


def one(seconds: float, bound_s: float = 0.0) -> Look[str]:
    return Look(seconds, bound_s, "")


def line(*shape: int) -> Mesh:
    return Mesh(shape, tuple(map(str, range(len(shape)))))


@pytest.mark.parametrize(("bound_s", "is_searched"), [(7.9, True), (8.0, False), (8.1, False)])
def test_a_mesh_is_searched_where_its_bound_promises_more_than_the_gap(
    bound_s: float, is_searched: bool
) -> None:
    """A fifth of ten seconds need not be proven."""
    found = search_meshes(
        [line(8)],
        lambda _: one(10.0, bound_s),
        lambda _, look: one(9.5, look.bound_s),
        gap=0.2,
        refines=False,
    )
    assert found.best.seconds == (9.5 if is_searched else 10.0)
    assert [trial.is_searched for trial in found.trials] == [is_searched]


def test_finer_meshes_have_three_axes_at_most() -> None:
    looked: list[tuple[int, ...]] = []

    def look(mesh: Mesh) -> Look[str]:
        looked.append(mesh.shape)
        return one(16.0 / len(mesh.shape), 100.0)

    found = search_meshes([line(16)], look, _never, gap=0)
    assert found.mesh.shape == (2, 2, 4)
    assert max(map(len, looked)) == 3
    assert looked[:4] == [(16,), (2, 8), (4, 4), (8, 2)]


def test_without_any_mesh_there_is_nothing_to_find() -> None:
    with pytest.raises(InfeasibleError, match=r"^no mesh: expected at least one$"):
        search_meshes([], _refused, _never, gap=0)
