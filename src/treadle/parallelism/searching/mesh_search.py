"""The mesh as an outer loop: cheap looks at many meshes, whole searches on few, finer meshes where it pays.

A look is the best preset and the first bound. Meshes of one axis and of two come first; they are searched
in the order of their best presets, and left out where the bound says that they cannot beat what is known.
Then the best mesh is split along one of its axes in every way: each plan is one of the finer mesh too, so
that nothing is lost but time. Finer meshes are looked at and searched equally.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Generic, TypeVar

from treadle.context import context
from treadle.errors import InfeasibleError
from treadle.parallelism.searching.mesh_choices import finer_meshes
from treadle.parallelism.searching.parallel_result import MeshTrial
from treadle.schedules.mesh import Mesh

_Found = TypeVar("_Found")
MOST_AXES = 3
"""Largest number of axes of tried meshes; one of four axes takes minutes and gigabytes."""


@dataclass(frozen=True)
class Look(Generic[_Found]):
    """Known facts of a mesh.

    Parameters
    ----------
    seconds : float
        Of the best plan; infinity without one that fits.
    bound_s : float
        No plan there takes less.
    found : object
        Whatever goes with it.
    """

    seconds: float
    bound_s: float
    found: _Found


@dataclass(frozen=True)
class MeshSearch(Generic[_Found]):
    """Result of a search over meshes.

    Parameters
    ----------
    best : Look
    mesh : Mesh
    trials : tuple of MeshTrial
        All meshes that were looked at, in that order.
    """

    best: Look[_Found]
    mesh: Mesh
    trials: tuple[MeshTrial, ...]

    @property
    def bound_s(self) -> float:
        """No plan on any of these meshes takes less."""
        return min(trial.bound_s for trial in self.trials)


def search_meshes(
    meshes: Iterable[Mesh],
    look: Callable[[Mesh], Look[_Found]],
    search: Callable[[Mesh, Look[_Found]], Look[_Found]],
    *,
    gap: float,
    refines: bool = True,
) -> MeshSearch[_Found]:
    """Return the best mesh, and what was found there.

    Parameters
    ----------
    meshes : iterable of Mesh
        To begin with.
    look, search : callables
        A cheap and a whole search; the second is given what the first found.
    gap : float
        A mesh is left out where its bound promises no more than this share.
    refines : bool
        Also try finer meshes than the best of these.

    Raises
    ------
    InfeasibleError
        If ranks of groups do not reach each other on any mesh, as the last one says.
    """
    known: dict[Mesh, Look[_Found]] = {}
    searched: set[Mesh] = set()
    failure = InfeasibleError("no mesh: expected at least one")

    def merit(mesh: Mesh) -> tuple[float, float]:
        """Return the sort key: the fastest first; where nothing fits, the smallest bound."""
        return known[mesh].seconds, known[mesh].bound_s

    def try_all(meshes: Iterable[Mesh]) -> Mesh | None:
        """Look at all, then search those that may hold something better; return the best of all known."""
        nonlocal failure
        new = []
        for mesh in meshes:
            if mesh in known or (known and context().is_late):
                continue
            context().announce(f"mesh {mesh.notation}")
            try:
                known[mesh] = look(mesh)
                new.append(mesh)
            except InfeasibleError as error:
                failure = error
        for mesh in sorted(new, key=merit):
            least = min(one.seconds for one in known.values())
            if context().is_late and isfinite(least):
                break
            if known[mesh].bound_s < least * (1 - gap):
                context().announce(f"mesh {mesh.notation}")
                known[mesh] = search(mesh, known[mesh])
                searched.add(mesh)
        return min(known, key=merit, default=None)

    best, before = try_all(meshes), None
    while refines and best not in (None, before) and not context().is_late:
        assert best is not None
        if len(best.shape) >= MOST_AXES:
            break
        best, before = try_all(finer_meshes(best)), best
    if best is None:
        raise failure
    trials = (MeshTrial(mesh, one.seconds, one.bound_s, mesh in searched) for mesh, one in known.items())
    return MeshSearch(known[best], best, tuple(trials))
