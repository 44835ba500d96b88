"""States of variables as a plan."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.parallelism.graph.compute_graph import Phase, TensorRef
from treadle.parallelism.plan.fit import stored_inputs
from treadle.parallelism.plan.parallel_plan import ParallelPlan, PlanClaim
from treadle.parallelism.plan.part_plan import (
    Boundary,
    Chunk,
    Keep,
    OperatorPlan,
    PartPlan,
    TensorPlan,
    factors,
)
from treadle.parallelism.problem.loops import MOST_LETTERS, LoopChoice
from treadle.parallelism.problem.variable_table import ACTIVATION, GRADIENT, VariableTable
from treadle.parallelism.state.sharding import Sharding, replicated
from treadle.schedules.mesh import Mesh


def decoded(
    table: VariableTable, mesh: Mesh, plan: Sequence[int], claim: PlanClaim | None = None
) -> ParallelPlan:
    """The plan that picks these states.

    Parameters
    ----------
    table : VariableTable
    mesh : Mesh
    plan : sequence of int
        A state for each variable.
    claim : Claim, optional
        What the search says of it.
    """
    model = table.model
    boundary = Boundary(*(_boundary(table, what, plan) for what in (ACTIVATION, GRADIENT)))
    parts = {
        values.part.name: (_Decoding(table, plan, number).part_plan(),)
        for number, values in enumerate(table.values)
    }
    return ParallelPlan(model.name, model.digest, mesh, boundary, parts, claim=claim)


def tidied(table: VariableTable, plan: Sequence[int]) -> tuple[int, ...]:
    """The same plan without states that nobody needs (`SearchProblem.tidied`)."""
    found = list(plan)
    for (part, tensor), number in table.kept.items():
        values = table.values[part]
        maker = values.producer[tensor]
        if table.operator(part, maker).keep(plan[table.operators[part, maker]]) is Keep.RECOMPUTED:
            shared = table.shared.get((part, tensor, Phase.BACKWARD))
            if shared is not None:
                wanted = table.state(shared).states[plan[shared]]
            else:
                (reader,) = values.readers(tensor, Phase.BACKWARD)
                view = table.operator(part, reader).taken(tensor)
                wanted = view.states[int(view.index[plan[table.operators[part, reader]]])]
            states = table.state(number).states
            # of summands a shard is all the same: each rank makes its summand from it at once
            found[number] = states.index(wanted) if wanted in states else found[number]
    for (part, tensor, phase), number in table.shared.items():
        variable = table.state(number)
        if phase is Phase.BACKWARD and variable.is_early and variable.is_early[found[number]]:
            readers = table.values[part].again_readers(tensor)
            keeps = [table.operator(part, at).keep(plan[table.operators[part, at]]) for at in readers]
            if Keep.RECOMPUTED not in keeps:
                state = variable.states[found[number]]
                found[number] = next(
                    at for at, one in enumerate(variable.states) if one == state and not variable.is_early[at]
                )
    return tuple(found)


def _boundary(table: VariableTable, what: str, plan: Sequence[int]) -> Sharding:
    number = table.boundary.get(what)
    return replicated(0) if number is None else table.state(number).states[plan[number]]


class _Decoding:
    def __init__(self, table: VariableTable, plan: Sequence[int], part: int) -> None:
        self.table, self.plan, self.part = table, plan, part
        self.values = table.values[part]
        self.graph = self.values.graph

    def keep(self, cluster: int) -> Keep | None:
        return self.table.operator(self.part, cluster).keep(
            self.plan[self.table.operators[self.part, cluster]]
        )

    def part_plan(self) -> PartPlan:
        operators: dict[str, OperatorPlan] = {}
        for at in range(len(self.values.clusters)):
            operators.update(self._operators(at))
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
            view = self.table.stored_view(self.part, tensor)
            label = self.plan[self.table.stored[self.part, tensor]]
            parameters[path] = view.states[int(view.index[label])]
        inputs = {
            name: replicated(len(factors(self.graph.result(tensor).dims)))
            for name, tensor in stored_inputs(self.values.part).items()
        }
        return PartPlan(operators, tensors, parameters, inputs)

    def _operators(self, at: int) -> dict[str, OperatorPlan]:
        variable = self.table.operator(self.part, at)
        label = self.plan[self.table.operators[self.part, at]]
        strategy = variable.strategy(label)
        found = {}
        for member in variable.cluster.members:
            node = self.graph.nodes[member]
            inputs = []
            for place, operand in enumerate(node.operands):
                own = factors(self.graph.result(operand.tensor).dims)
                state = strategy.operands[member, place]
                by_factor = dict(zip(own, state.dims, strict=True))
                dims = tuple(by_factor[index] for index in factors(operand.dims))
                inputs.append(Sharding(dims, state.partial))
            results = [TensorRef(member, slot) for slot in range(len(node.results))]
            keep = self.keep(at)
            if keep is Keep.SAVED and all(self.saved(tensor) is None for tensor in results):
                keep = Keep.UNUSED
            outputs = tuple(strategy.results[tensor] for tensor in results)
            chunk = self._chunk(variable.loop(label), member)
            found[node.name] = OperatorPlan(
                node.name, tuple(inputs), outputs, strategy.parts[member], keep, chunk
            )
        return found

    def _chunk(self, loop: LoopChoice | None, member: int) -> Chunk | None:
        if loop is None:
            return None
        region = self.table.regions[self.part][loop.region]
        role = region.letters[loop.letter].get(member)
        if role is None:
            return None
        number = loop.region * MOST_LETTERS + loop.letter
        return Chunk(self.graph.atoms[role.atom].name + "'" * role.prime, loop.n_chunks, number)

    def _shared(self, tensor: TensorRef, phase: Phase) -> Sharding | None:
        number = self.table.shared.get((self.part, tensor, phase))
        if number is not None:
            return self.table.state(number).states[self.plan[number]]
        readers = self.values.readers(tensor, phase)
        if phase is Phase.BACKWARD and self.graph.nodes[tensor.node].phase is Phase.FORWARD:
            again = self.values.again_readers(tensor)
            readers += tuple(one for one in again if self.keep(one) is Keep.RECOMPUTED)
        if self.values.is_free(tensor) or len(readers) != 1:
            return None
        variable = self.table.operator(self.part, readers[0])
        if variable.n_readings(tensor) < 2:
            return None
        view = variable.taken(tensor)
        return view.states[int(view.index[self.plan[self.table.operators[self.part, readers[0]]]])]

    def saved(self, tensor: TensorRef) -> Sharding | None:
        """The state in which a tensor is kept for the backward pass."""
        producer = self.values.producer.get(tensor)
        if producer is None or self.keep(producer) is not Keep.SAVED:
            return None
        number = self.table.kept.get((self.part, tensor))
        if number is not None:
            return self.table.state(number).states[self.plan[number]]
        if any(self.keep(one) is Keep.RECOMPUTED for one in self.values.again_readers(tensor)):
            variable = self.table.operator(self.part, producer)
            return variable.strategy(self.plan[self.table.operators[self.part, producer]]).results[tensor]
        return None
