"""The problem of sharding a model on a mesh, as a factor graph.

What is left out, so that bounds are bounds over what is in:

- axes that cut one factor for an operator do so in the order of the mesh; a stored parameter takes any order;
- matrix products take no partial inputs (each rank would multiply full matrices);
- dimensions within a head are cut nowhere;
- maxima are not split over what they are taken over;
- pointwise operators are sharded with their inputs, by `clusters`;
- a parameter that forward and backward pass shard equally is gathered in each of them, and again where an
  operator is computed again, unless those of the backward pass share a state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.problem.assembly import PLAIN, Assembly, ParameterBytes
from treadle.parallelism.problem.constraints import constrained_domains
from treadle.parallelism.problem.decoding import decoded, tidied
from treadle.parallelism.problem.lifetimes import Lifetimes, without_dominated
from treadle.parallelism.problem.presets import Domains, preset_domains
from treadle.parallelism.problem.prices import StatePrices
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.search.factor_graph import FactorGraph, Quantities
from treadle.parallelism.state.sharding import axis_sizes
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.costs import Costs


@dataclass(frozen=True, eq=False)
class SearchProblem:
    """A model on a mesh, as choices.

    Parameters
    ----------
    model : ModelGraph
    mesh : Mesh
    table : VariableTable
    graph : FactorGraph
    zero : int
        As `ParallelPlan.zero`.
    """

    model: ModelGraph
    mesh: Mesh
    table: VariableTable
    graph: FactorGraph
    zero: int = 0

    def tidied(self, labels: Sequence[int]) -> tuple[int, ...]:
        """Return the same plan without unused states that cost something; no quantity grows.

        What is computed again is kept as it is taken; what is shared is there early only for who needs it so.
        """
        return tidied(self.table, labels)

    def decode(self, labels: Sequence[int]) -> ParallelPlan:
        """Return the plan that picks these states, one for each variable."""
        return decoded(self.table, self.mesh, labels, zero=self.zero)

    def named(self) -> dict[str, Domains]:
        """Return the allowed states of each preset, ascending, per variable."""
        return preset_domains(self.table)

    def constrained(self, constraints: Mapping[str, str]) -> Domains:
        """Return the states that keep to what a user fixes, ascending, per variable.

        Parameters
        ----------
        constraints : mapping from name to state
            Of parameters and tensors (`constraints.constrained_domains`).

        Raises
        ------
        ScheduleError
            For a name or a state that is not there.
        """
        return constrained_domains(self.table, constraints)


def make_problem(
    model: ModelGraph,
    mesh: Mesh,
    costs: Costs,
    times: RooflineTimes,
    *,
    parameters: ParameterBytes = PLAIN,
    kappa: float = 1.0,
) -> SearchProblem:
    """Return the problem of laying out a model.

    Parameters
    ----------
    model : ModelGraph
    mesh : Mesh
    costs : Costs
        Of its groups.
    times : RooflineTimes
        Of one rank's device.
    parameters : ParameterBytes
    kappa : float
        As `FactorGraph.kappa`.

    Raises
    ------
    ScheduleError
        If costs lack a rate.
    """
    sizes = axis_sizes(mesh)
    table = VariableTable(model, sizes)
    is_staged = parameters.stages > 1
    timed = [
        at
        for at, part in enumerate(model.parts)
        if part.enters is not None and (part.repeats > 1 or not is_staged)
    ] or [0]
    moments = {at: without_dominated(list(Lifetimes(table, at).moments())) for at in timed}
    names = Quantities(len(model.parts), sum(map(len, moments.values())))
    assembly = Assembly(table, StatePrices(sizes, costs), times, names, parameters)
    assembly.run(moments)
    graph = FactorGraph(
        tuple(variable.size for variable in table.variables),
        names,
        tuple(assembly.factors()),
        tuple(part.repeats for part in model.parts),
        tuple(variable.state_keys for variable in table.variables),
        tuple(table.boundary.values()),
        kappa,
    )
    return SearchProblem(model, mesh, table, graph, parameters.zero)
