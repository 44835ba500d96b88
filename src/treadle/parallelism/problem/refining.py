"""A plan of a mesh as one of a finer mesh: an axis that was split does with its parts what it did whole.

Groups of an axis are groups over all its parts, so that the plan is as quick on the finer mesh.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from treadle.parallelism.problem.search_problem import SearchProblem
from treadle.parallelism.problem.variables import OperatorVariable, Variable
from treadle.parallelism.state.sharding import Sharding
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import DerivedCosts, Seconds, Traffic

AxisParts = Mapping[str, tuple[str, ...]]
"""Fine axes of each coarse axis, in the order of the mesh."""


@dataclass(frozen=True)
class JoinedCosts(DerivedCosts):
    """Costs of a mesh as those of a coarser one.

    Parameters
    ----------
    costs : Costs
        Of the fine mesh.
    parts : mapping from axis to axes
        What each axis of the coarse mesh is made of.
    """

    parts: AxisParts

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Seconds:
        """Return the seconds of a collective along all parts of these axes."""
        return self.costs.time_s(kind, tuple(part for axis in axes for part in self.parts[axis]), size_bytes)

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        """Return the seconds of sending along the last part, which has the same neighbours."""
        return self.costs.send_s(self.parts[axis][-1], size_bytes)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """Return no slowdown: plans to begin with need no contention."""
        return tuple(1 for _ in running)


def refined(
    coarse: SearchProblem, fine: SearchProblem, parts: AxisParts, plan: Sequence[int]
) -> tuple[int, ...] | None:
    """Return the states of the fine problem that mean the same; None where it lacks one of them.

    Parameters
    ----------
    coarse, fine : SearchProblem
        Of one model.
    parts : mapping from axis to axes
        Of every axis of the coarse mesh that has more than one rank.
    plan : sequence of int
        A state for each variable of the coarse problem.
    """
    places = {axis: at for at, axis in enumerate(coarse.table.sizes)}
    whole_of = [places[axis] for one in fine.table.sizes for axis, own in parts.items() if one in own]
    found = []
    for before, after, state in zip(coarse.table.variables, fine.table.variables, plan, strict=True):
        meaning = _meaning(before, state, parts, whole_of)
        same = next((at for at in range(after.size) if _meaning(after, at) == meaning), None)
        if same is None:
            return None
        found.append(same)
    return tuple(found) if fine.graph.is_allowed(found) else None


def _meaning(
    variable: Variable, state: int, parts: AxisParts | None = None, whole_of: Sequence[int] = ()
) -> Hashable:
    """Return the key of a state; with the parts of axes that of the same state on the fine mesh."""
    if isinstance(variable, OperatorVariable):
        choices = variable.strategy(state).choices
        own = choices if parts is None else [choices[at] for at in whole_of]
        return tuple(one.letter for one in own), variable.policy(state), variable.loop(state)
    sharding = variable.states[state]
    if parts is not None:
        dims = tuple(tuple(part for axis in axes for part in parts[axis]) for axes in sharding.dims)
        sharding = Sharding(dims, frozenset(part for axis in sharding.partial for part in parts[axis]))
    return sharding, bool(variable.is_early and variable.is_early[state])
