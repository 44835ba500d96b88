"""Routes between states of tensors, each found once for all ranks."""

from __future__ import annotations

from treadle.parallelism.state.sharding import Sharding
from treadle.parallelism.state.transitions import Step, Transitions
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs


class Routes:
    """Cheapest routes on a mesh.

    Parameters
    ----------
    mesh : Mesh
    costs : Costs
    """

    def __init__(self, mesh: Mesh, costs: Costs) -> None:
        self._mesh, self._costs = mesh, costs
        self._transitions: dict[tuple[tuple[int, ...], int], Transitions] = {}
        self._found: dict[tuple[object, ...], tuple[Step, ...]] = {}

    def steps(
        self, shape: tuple[int, ...], element_bytes: int, before: Sharding, after: Sharding
    ) -> tuple[Step, ...]:
        """Steps of the cheapest route.

        Parameters
        ----------
        shape : tuple of int
            Of the whole tensor.
        element_bytes : int
        before, after : Sharding
        """
        key = (shape, element_bytes, before, after)
        if key not in self._found:
            if key[:2] not in self._transitions:
                self._transitions[key[:2]] = Transitions(self._mesh, self._costs, shape, element_bytes)
            self._found[key] = self._transitions[key[:2]].cheapest(before, after).steps
        return self._found[key]
