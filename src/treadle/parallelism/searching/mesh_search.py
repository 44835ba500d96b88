"""The mesh as an outer loop: cheap looks at many meshes, whole searches on few, finer meshes where it pays.

A look is the best named plan and the first bound. Meshes of one axis and of two come first; they are searched
in the order of their best named plans, and left out where the bound says that they cannot beat what is known.
Then the best mesh is split along one of its axes in every way: each plan is one of the finer mesh too, so
that nothing is lost but time. Finer meshes are looked at, and searched, in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Generic, TypeVar

from treadle.context import context
from treadle.errors import InfeasibleError
from treadle.parallelism.searching.mesh_choices import finer_meshes
from treadle.parallelism.searching.parallel_result import MeshTrial
from treadle.schedules.mesh import Mesh

_Found = TypeVar("_Found")
MOST_AXES = 3
"""Of meshes that are tried; one of four axes takes minutes and gigabytes."""


@dataclass(frozen=True)
class Look(Generic[_Found]):
    """What is known of a mesh.

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
    """What a search over meshes found.

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
    """The best mesh, and what was found there.

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
    state = _Search(look, search, gap)
    state.try_all(meshes)
    while refines and state.best is not None and not context().is_late:
        before = state.best
        if len(before.shape) >= MOST_AXES:
            break
        state.try_all(finer_meshes(before))
        if state.best == before:
            break
    if state.best is None:
        raise state.refused or InfeasibleError("no mesh: expected at least one")
    trials = tuple(
        MeshTrial(mesh, one.seconds, one.bound_s, mesh in state.searched) for mesh, one in state.known.items()
    )
    return MeshSearch(state.known[state.best], state.best, trials)


class _Search(Generic[_Found]):
    def __init__(
        self,
        look: Callable[[Mesh], Look[_Found]],
        search: Callable[[Mesh, Look[_Found]], Look[_Found]],
        gap: float,
    ) -> None:
        self.look, self.search, self.gap = look, search, gap
        self.known: dict[Mesh, Look[_Found]] = {}
        self.searched: set[Mesh] = set()
        self.refused: InfeasibleError | None = None

    @property
    def best(self) -> Mesh | None:
        """Of those known: the quickest, or where nothing fits the one that promises most."""
        return min(
            self.known, key=lambda mesh: (self.known[mesh].seconds, self.known[mesh].bound_s), default=None
        )

    def try_all(self, meshes: Iterable[Mesh]) -> None:
        """Look at all, then search those that may hold something better."""
        new = []
        for mesh in meshes:
            if mesh in self.known or (self.known and context().is_late):
                continue
            context().announce(f"mesh {mesh.text}")
            try:
                self.known[mesh] = self.look(mesh)
            except InfeasibleError as error:
                self.refused = error
                continue
            new.append(mesh)
        for mesh in sorted(new, key=lambda one: (self.known[one].seconds, self.known[one].bound_s)):
            if context().is_late and isfinite(self.least):
                return
            if self.known[mesh].bound_s < self.least * (1 - self.gap):
                context().announce(f"mesh {mesh.text}")
                self.known[mesh] = self.search(mesh, self.known[mesh])
                self.searched.add(mesh)

    @property
    def least(self) -> float:
        """Seconds of the best plan so far."""
        return min((one.seconds for one in self.known.values()), default=inf)
