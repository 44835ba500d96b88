"""Meshes that are tried: each grouping once, and finer ones that hold the coarser one's groups."""

from __future__ import annotations

from itertools import combinations

from treadle.parallelism.searching.mesh_choices import coarse_meshes, finer_meshes, joined_meshes
from treadle.schedules.mesh import Mesh


def groups(mesh: Mesh) -> set[frozenset[frozenset[int]]]:
    """What collectives can run in: of each set of axes the groups, as sets of ranks."""
    names = mesh.axis_names
    subsets = [axes for n in range(1, len(names) + 1) for axes in combinations(names, n)]
    return {frozenset(map(frozenset, mesh.groups(axes))) for axes in subsets}


def test_meshes_of_two_axes_are_all_factorisations() -> None:
    found = [mesh.shape for mesh in coarse_meshes(12)]
    assert found == [(12,), (2, 6), (3, 4), (4, 3), (6, 2)]
    assert [mesh.shape for mesh in coarse_meshes(7, "ring(7)")] == [(7,)]


def test_names_that_are_no_grid_have_no_tiles() -> None:
    assert all(mesh.rank_order is None for mesh in coarse_meshes(16, "dgx_h100(2)"))
    assert all(mesh.rank_order is None for mesh in coarse_meshes(16, "torus(8, 8)"))


def test_finer_meshes_keep_all_groups() -> None:
    for coarse in coarse_meshes(16, "torus(4, 4)"):
        for fine in finer_meshes(coarse):
            assert len(fine.shape) == len(coarse.shape) + 1
            assert groups(coarse) <= groups(fine)


def test_tiles_are_cut_in_two_dimensions_and_are_no_rows() -> None:
    """Of 2 x 2 x 3: (1, 2, 3) is a row of rows and (2, 2, 3) all; columns of 2 x 3 and of 2 x 2 are left."""
    tiled = [mesh for mesh in coarse_meshes(12, "mesh(2, 2, 3)") if mesh.rank_order is not None]
    assert [(mesh.shape, mesh.axis_names, mesh.rank_order) for mesh in tiled] == [
        ((2, 6), ("0", "1"), (0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11)),
        ((3, 4), ("0", "1"), (0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11)),
    ]
    (only,) = (mesh for mesh in coarse_meshes(8, "torus(2, 4, bandwidth='1GB/s')") if mesh.rank_order)
    assert (only.shape, only.rank_order) == ((2, 4), (0, 1, 4, 5, 2, 3, 6, 7))


def test_tiles_of_four_dimensions() -> None:
    """Of 11 ways to cut two or more in halves, all four is the whole, and the last two or three are rows."""
    tiled = [mesh for mesh in coarse_meshes(16, "torus(2, 2, 2, 2)") if mesh.rank_order is not None]
    assert len(tiled) == 11 - 1 - 2
    assert len(set(tiled)) == len(tiled)
    assert (0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15) in {mesh.rank_order for mesh in tiled}


def test_joined_meshes_leave_axes_of_one_rank_out() -> None:
    order = (*range(23, -1, -1),)
    found = list(joined_meshes(Mesh((4, 1, 2, 3), ("a", "b", "c", "d"), order)))
    assert [(mesh.shape, mesh.rank_order, parts) for mesh, parts in found] == [
        ((4, 6), order, {"0": ("a",), "1": ("c", "d")}),
        ((8, 3), order, {"0": ("a", "c"), "1": ("d",)}),
    ]
    assert list(joined_meshes(Mesh((4, 1, 2), ("a", "b", "c")))) == []
