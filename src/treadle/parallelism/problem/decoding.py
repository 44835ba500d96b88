"""States of variables as a plan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treadle.parallelism.graph.compute_graph import Phase, TensorRef, factors
from treadle.parallelism.plan.fit import stored_inputs
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import (
    ActivationPolicy,
    Boundary,
    Chunk,
    OperatorPlan,
    PartPlan,
    TensorPlan,
)
from treadle.parallelism.problem.loops import MOST_LETTERS
from treadle.parallelism.problem.variable_table import ACTIVATION, GRADIENT, VariableTable
from treadle.parallelism.problem.variables import OperatorVariable
from treadle.parallelism.state.sharding import Sharding, replicated
from treadle.schedules.mesh import Mesh


def decoded(table: VariableTable, mesh: Mesh, plan: Sequence[int], *, zero: int) -> ParallelPlan:
    """Return the plan that picks these states, one for each variable."""
    model = table.model
    numbers = (table.boundary.get(what) for what in (ACTIVATION, GRADIENT))
    boundary = Boundary(
        *(replicated(0) if number is None else table.state(number).states[plan[number]] for number in numbers)
    )
    parts = {
        values.part.name: (_Decoding(table, plan, number).part_plan(),)
        for number, values in enumerate(table.values)
    }
    return ParallelPlan(model.name, model.digest, mesh, boundary, parts, zero=zero)


def tidied(table: VariableTable, plan: Sequence[int]) -> tuple[int, ...]:
    """Return the same plan without unused states (`SearchProblem.tidied`)."""
    found = list(plan)
    readings = [_Decoding(table, plan, part) for part in range(len(table.values))]
    for (part, tensor), number in table.kept.items():
        own, values = readings[part], table.values[part]
        if own.policy(values.producer[tensor]) is ActivationPolicy.RECOMPUTED:
            shared = table.shared.get((part, tensor, Phase.BACKWARD))
            if shared is not None:
                wanted = own.waiting(shared)
            else:
                (reader,) = values.readers(tensor, Phase.BACKWARD)
                wanted = own.taken(tensor, reader)
            states = table.state(number).states
            # of partial sums a shard is as good: each rank makes its term from it at once
            found[number] = states.index(wanted) if wanted in states else found[number]
    for (part, tensor, phase), number in table.shared.items():
        variable, state = table.state(number), plan[number]
        if phase is Phase.BACKWARD and variable.early[state]:
            readers = table.values[part].backward_readers(tensor)
            if not any(readings[part].policy(reader) is ActivationPolicy.RECOMPUTED for reader in readers):
                late = zip(variable.states, variable.early, strict=True)
                found[number] = list(late).index((variable.states[state], False))
    return tuple(found)


class _Decoding:
    def __init__(self, table: VariableTable, plan: Sequence[int], part: int) -> None:
        self.table, self.plan, self.part = table, plan, part
        self.values = table.values[part]
        self.graph = self.values.graph

    def chosen(self, cluster: int) -> tuple[OperatorVariable, int]:
        """Return the variable of a cluster, and its state in the plan."""
        number, variable = self.table.numbered(self.part, cluster)
        return variable, self.plan[number]

    def policy(self, cluster: int) -> ActivationPolicy | None:
        variable, state = self.chosen(cluster)
        return variable.policy(state)

    def taken(self, tensor: TensorRef, reader: int) -> Sharding:
        variable, state = self.chosen(reader)
        return variable.taken(tensor).state(state)

    def waiting(self, number: int) -> Sharding:
        """Return the state that a variable of a tensor has in the plan."""
        return self.table.state(number).states[self.plan[number]]

    def part_plan(self) -> PartPlan:
        operators: dict[str, OperatorPlan] = {}
        for at in range(len(self.values.clusters)):
            operators.update((one.node, one) for one in self._operators(at))
        tensors = {}
        for tensor in self.graph.tensors():
            name = self.graph.spelled(tensor)
            for phase in Phase:
                shared = self._shared(tensor, phase)
                saved = self.saved(tensor) if phase is Phase.FORWARD else None
                if shared is not None or saved is not None:
                    tensors[name, phase] = TensorPlan(name, phase, shared, saved)
        parameters = {}
        for path, tensor in self.values.part.parameters.items():
            state = self.plan[self.table.stored[self.part, tensor]]
            parameters[path] = self.table.stored_view(self.part, tensor).state(state)
        inputs = {
            name: replicated(len(self.graph.factors(tensor)))
            for name, tensor in stored_inputs(self.values.part).items()
        }
        return PartPlan(operators, tensors, parameters, inputs)

    def _operators(self, at: int) -> Iterator[OperatorPlan]:
        variable, state = self.chosen(at)
        strategy = variable.strategy(state)
        for member in variable.cluster.members:
            node, results = self.graph.nodes[member], self.graph.results(member)
            inputs = []
            for place, operand in enumerate(node.operands):
                taken = strategy.operands[member, place]
                by_factor = dict(zip(self.graph.factors(operand.tensor), taken.dims, strict=True))
                inputs.append(Sharding(tuple(by_factor[i] for i in factors(operand.dims)), taken.partial))
            keep = variable.policy(state)
            if keep is ActivationPolicy.SAVED and all(self.saved(tensor) is None for tensor in results):
                keep = ActivationPolicy.UNUSED
            outputs, chunk = tuple(strategy.results[tensor] for tensor in results), None
            if (loop := variable.loop(state)) is not None:
                role = self.table.regions[self.part][loop.region].letters[loop.letter].get(member)
                if role is not None:
                    name, number = self.graph.dim_name(role), loop.region * MOST_LETTERS + loop.letter
                    chunk = Chunk(name + "'" * role.prime, loop.n_chunks, number)
            yield OperatorPlan(node.name, tuple(inputs), outputs, strategy.parts[member], keep, chunk)

    def _shared(self, tensor: TensorRef, phase: Phase) -> Sharding | None:
        number = self.table.shared.get((self.part, tensor, phase))
        if number is not None:
            return self.waiting(number)
        readers = self.values.readers(tensor, phase)
        if phase is Phase.BACKWARD and self.graph.nodes[tensor.node].phase is Phase.FORWARD:
            again = self.values.backward_readers(tensor)
            readers += tuple(one for one in again if self.policy(one) is ActivationPolicy.RECOMPUTED)
        if self.values.is_free(tensor) or len(readers) != 1:
            return None
        is_repeated = self.chosen(readers[0])[0].n_readings(tensor) > 1
        return self.taken(tensor, readers[0]) if is_repeated else None

    def saved(self, tensor: TensorRef) -> Sharding | None:
        """Return the state in which a tensor is kept for the backward pass."""
        producer = self.values.producer.get(tensor)
        if producer is None or self.policy(producer) is not ActivationPolicy.SAVED:
            return None
        number = self.table.kept.get((self.part, tensor))
        if number is not None:
            return self.waiting(number)
        readers = map(self.policy, self.values.backward_readers(tensor))
        variable, state = self.chosen(producer)
        is_read_again = ActivationPolicy.RECOMPUTED in readers
        return variable.strategy(state).results[tensor] if is_read_again else None
