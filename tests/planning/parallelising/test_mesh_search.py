"""The loop over meshes: nothing that may be better is left out, and what cannot be is."""

from __future__ import annotations

from math import inf, prod
from time import monotonic

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.context import Context, under
from treadle.errors import InfeasibleError
from treadle.parallelism.searching.mesh_choices import coarse_meshes
from treadle.parallelism.searching.mesh_search import Look, MeshSearch, search_meshes
from treadle.schedules.mesh import Mesh


def run(
    truth: dict[tuple[int, ...], tuple[float, float, float]], *, gap: float = 0.0, refines: bool = True
) -> tuple[MeshSearch[str], list[tuple[int, ...]]]:
    """Search where each mesh has (named seconds, bound, best seconds); and which meshes were searched."""
    searched = []
    ranks = prod(next(iter(truth)))

    def look(mesh: Mesh) -> Look[str]:
        if mesh.shape not in truth:
            raise InfeasibleError(f"mesh {mesh.notation}: cut off")
        return Look(truth[mesh.shape][0], truth[mesh.shape][1], "named")

    def search(mesh: Mesh, before: Look[str]) -> Look[str]:
        assert before.found == "named"
        searched.append(mesh.shape)
        return Look(truth[mesh.shape][2], truth[mesh.shape][1], "ours")

    return search_meshes(coarse_meshes(ranks), look, search, gap=gap, refines=refines), searched


@given(st.data())
def test_the_best_mesh_of_those_tried_is_found(data: st.DataObject) -> None:
    truth = {}
    for shape in [(12,), (2, 6), (3, 4), (4, 3), (6, 2)]:
        best = data.draw(st.floats(1, 10))
        truth[shape] = (best * data.draw(st.floats(1, 2)), best * data.draw(st.floats(0.5, 1)), best)
    found, searched = run(truth, refines=False)
    assert found.best.seconds == min(best for _, _, best in truth.values())
    assert truth[found.mesh.shape][2] == found.best.seconds
    assert found.bound_s == min(bound for _, bound, _ in truth.values())
    assert {trial.mesh.shape for trial in found.trials if trial.is_searched} == set(searched)


def test_meshes_whose_bound_is_above_are_not_searched() -> None:
    truth = {(4,): (5.0, 4.0, 4.5), (2, 2): (3.0, 1.0, 2.0)}
    found, searched = run(truth)
    assert searched == [(2, 2)]
    assert [(trial.mesh.shape, trial.seconds) for trial in found.trials] == [((4,), 5.0), ((2, 2), 2.0)]


def test_finer_meshes_of_the_best_are_tried() -> None:
    """As with 128 experts: 4x4x8 beats 16x8."""
    truth = {
        (16,): (9.0, 8.0, 9.0),
        (2, 8): (4.0, 3.0, 4.0),
        (4, 4): (8.0, 7.0, 8.0),
        (8, 2): (9.0, 8.0, 9.0),
    }
    truth |= {(2, 2, 4): (4.0, 2.0, 2.5), (2, 4, 2): (4.0, 3.9, 4.0)}
    found, searched = run(truth, gap=0.05)
    assert found.mesh.shape == (2, 2, 4)
    assert searched == [(2, 8), (2, 2, 4)]
    assert run(truth, refines=False)[0].mesh.shape == (2, 8)


def test_meshes_that_cut_groups_off_are_skipped() -> None:
    found, _ = run({(2, 2): (3.0, 1.0, 2.0)})
    assert [trial.mesh.shape for trial in found.trials] == [(2, 2)]
    with pytest.raises(InfeasibleError, match="cut off"):
        search_meshes([Mesh((4,), ("0",))], _refused, _never, gap=0)


def _refused(mesh: Mesh) -> Look[str]:
    raise InfeasibleError(f"{mesh.notation} is cut off")


def _never(mesh: Mesh, look: Look[str]) -> Look[str]:
    raise AssertionError(f"{mesh.notation} {look.seconds}")


def test_late_searches_say_what_they_know() -> None:
    with under(Context(deadline=monotonic() - 1)):
        found, searched = run({(4,): (3.0, 1.0, 2.0), (2, 2): (5.0, 1.0, 1.0)})
    assert (found.best.seconds, searched) == (3.0, [])


def test_where_no_named_plan_fits_the_search_goes_on() -> None:
    with under(Context(deadline=monotonic() + 99)):
        found, searched = run({(4,): (inf, 2.0, inf), (2, 2): (inf, 1.0, 1.5)})
    assert (found.best.seconds, found.mesh.shape) == (1.5, (2, 2))
    assert (2, 2) in searched


def one(seconds: float, bound_s: float = 0.0) -> Look[str]:
    return Look(seconds, bound_s, "")


def line(*shape: int) -> Mesh:
    return Mesh(shape, tuple(map(str, range(len(shape)))))


def test_a_mesh_that_stands_twice_is_looked_at_once_and_the_rest_as_well() -> None:
    looked: list[str] = []

    def look(mesh: Mesh) -> Look[str]:
        looked.append(mesh.notation)
        if mesh.notation == "2,4":
            raise InfeasibleError("cut off")
        return one(float(mesh.shape[0]))

    meshes = [line(8), line(8), line(2, 4), line(4, 2), line(8)]
    found = search_meshes(meshes, look, _never, gap=1.0, refines=False)
    assert looked == ["8", "2,4", "4,2"]
    assert (found.mesh, found.best.seconds) == (line(4, 2), 4.0)
    assert [trial.mesh for trial in found.trials] == [line(8), line(4, 2)]


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


def test_meshes_are_searched_in_the_order_of_what_they_promise() -> None:
    """Of alike seconds the lower bound first; what is found leaves out those that cannot beat it."""
    looks = {(8,): one(5.0, 1.0), (2, 4): one(4.0, 3.0), (4, 2): one(4.0, 2.0)}
    found = {(4, 2): 3.0, (8,): 2.5}
    order = []

    def search(mesh: Mesh, before: Look[str]) -> Look[str]:
        order.append(mesh.shape)
        return one(found[mesh.shape], before.bound_s)

    best = search_meshes(
        [line(*shape) for shape in looks], lambda mesh: looks[mesh.shape], search, gap=0, refines=False
    )
    assert order == [(4, 2), (8,)]
    assert (best.mesh, best.bound_s) == (line(8), 1.0)


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


def test_of_meshes_without_a_plan_the_one_that_promises_most_is_told() -> None:
    looks = {(8,): one(inf, 3.0), (2, 4): one(inf, 2.0)}
    late = Context(deadline=monotonic() - 1)
    with under(late):
        found = search_meshes([line(8)], lambda mesh: looks[mesh.shape], lambda _, look: look, gap=0)
    assert found.best.bound_s == 3.0
    both = search_meshes(
        [line(8), line(2, 4)], lambda mesh: looks[mesh.shape], lambda _, look: look, gap=0, refines=False
    )
    assert both.mesh == line(2, 4)
