"""A model on a mesh, ready to be searched, and what was found there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from treadle.parallelism.problem.search_problem import SearchProblem
from treadle.parallelism.search.branching import Incumbent
from treadle.parallelism.search.one_plan import MemoryShortage
from treadle.parallelism.search.slices import Domains
from treadle.training.costs import Costs


@dataclass(frozen=True, eq=False)
class MeshProblem:
    """A model on a mesh, ready to be searched.

    Parameters
    ----------
    problem : SearchProblem
    costs : Costs
    named : mapping of str to tuple of int
        Plans by the book.
    within : Domains
        States that pins leave.
    """

    problem: SearchProblem
    costs: Costs
    named: Mapping[str, tuple[int, ...]]
    within: Domains


@dataclass(frozen=True, eq=False)
class MeshResult:
    """What a look or a search found on a mesh.

    Parameters
    ----------
    posed : MeshProblem
    plan : tuple of int, optional
        The best that fits.
    shortage : MemoryShortage, optional
        Where it is proven that none fits.
    is_late : bool
    proof : Incumbent, optional
        The search whose bound is the best one known.
    """

    posed: MeshProblem
    plan: tuple[int, ...] | None
    shortage: MemoryShortage | None = None
    is_late: bool = False
    proof: Incumbent | None = None
