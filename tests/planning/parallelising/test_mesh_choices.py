"""Meshes that are tried: each grouping once, and finer ones that hold the coarser one's groups."""

from __future__ import annotations

from itertools import combinations

from treadle.planning.parallelising.mesh_choices import coarse_meshes, finer_meshes
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


def test_tiles_of_a_grid() -> None:
    """Of a torus of 4 x 4: blocks of 2 x 2 as well, which no row-by-row mesh has."""
    tiled = [mesh for mesh in coarse_meshes(16, "torus(4, 4)") if mesh.rank_order is not None]
    block = frozenset((0, 1, 4, 5))
    assert any(block in one for mesh in tiled for one in groups(mesh))
    plain = [mesh for mesh in coarse_meshes(16) if mesh.rank_order is None]
    assert not any(block in one for mesh in plain for one in groups(mesh))
    for mesh in tiled:
        assert sorted(mesh.rank_order or ()) == list(range(16))


def test_names_that_are_no_grid_have_no_tiles() -> None:
    assert all(mesh.rank_order is None for mesh in coarse_meshes(16, "dgx_h100(2)"))
    assert all(mesh.rank_order is None for mesh in coarse_meshes(16, "torus(8, 8)"))


def test_finer_meshes_keep_all_groups() -> None:
    for coarse in coarse_meshes(16, "torus(4, 4)"):
        for fine in finer_meshes(coarse):
            assert len(fine.shape) == len(coarse.shape) + 1
            assert groups(coarse) <= groups(fine)
