"""Loops over chunks of a letter: operators on a part of their operands at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle.errors import ScheduleError
from treadle.parallelism.execution.local_operators import LocalOperator
from treadle.parallelism.execution.run_order import OrderedUnit
from treadle.parallelism.graph.compute_graph import Dims, Index, Operand, Phase, TensorRef
from treadle.parallelism.plan.part_plan import factors
from treadle.parallelism.state.sharding import Sharding

if TYPE_CHECKING:
    from torch import Tensor

    from treadle.parallelism.execution.part_execution import Local, PartExecution

_SUMS = ("sum", "mm", "bmm", "mv", "dot", "embedding_dense_backward")
"""Operators whose results over chunks add up to the whole result."""


def run_loop(run: PartExecution, unit: OrderedUnit, phase: Phase) -> None:
    """Run a loop of a part: what enters is taken whole, results without the letter are summed.

    Raises
    ------
    ScheduleError
        If operators of the loop cut its letter differently, or read what only its end brings.
    """
    loop = _Loop(run, unit, phase)
    for chunk in range(loop.count):
        loop.go_round(chunk)
    loop.leave()


class _Loop:
    def __init__(self, run: PartExecution, unit: OrderedUnit, phase: Phase) -> None:
        from treadle.parallelism.execution.part_execution import role_of

        assert unit.chunk is not None
        self.count = unit.chunk.n_chunks
        self.run, self.unit, self.phase = run, unit, phase
        inside = set(unit.numbers)
        chunks = {n: run.plan.operators[run.graph.nodes[n].name].chunk for n in unit.numbers}
        self.roles = {n: role_of(run.part, one.letter) for n, one in chunks.items() if one is not None}
        self.operators = {n: _operator(run, n, self.roles[n], self.count) for n in unit.numbers}
        if len({one.cuts.get(self.roles[n], ()) for n, one in self.operators.items()}) > 1:
            letter = unit.chunk.letter
            raise ScheduleError(f"plan of {run.part.name}: a loop over {letter} cuts it in several ways")
        self.entering: dict[tuple[int, int], Tensor] = {}
        self.last_use: dict[TensorRef, int] = {}
        for number in unit.numbers:
            node = run.graph.nodes[number]
            for at, operand in enumerate(node.operands):
                self.last_use[operand.tensor] = number
                if operand.tensor.node not in inside:
                    state = run.plan.operators[node.name].inputs[at]
                    self.entering[number, at] = run.taken(operand, state, phase)
        self.gathered: dict[TensorRef, list[Tensor]] = {t: [] for t in _leaving(run, inside, phase)}

    def go_round(self, chunk: int) -> None:
        """All operators on one chunk."""
        from treadle.parallelism.execution.part_execution import Local

        run, made = self.run, dict[TensorRef, Local]()
        for number in self.unit.numbers:
            node = run.graph.nodes[number]
            plan = run.plan.operators[node.name]
            taken = [self._taken(number, at, chunk, made) for at in range(len(node.operands))]
            before = self.gathered.get(TensorRef(number, 0))
            into = before[0] if before and self._is_sum(TensorRef(number, 0)) else None
            for slot, value in enumerate(self.operators[number].run(taken, into)):
                made[TensorRef(number, slot)] = Local(value, plan.outputs[slot])
                self._gather(TensorRef(number, slot), value)
            held = [*taken, *self.entering.values(), *(one.value for one in made.values())]
            run.holdings.measure(
                f"{self.phase.value} {run.part.name} {node.name} chunk {chunk}",
                [*held, *(part for parts in self.gathered.values() for part in parts)],
            )
            for tensor in [one for one in made if self.last_use.get(one, -1) <= number]:
                del made[tensor]

    def _taken(self, number: int, at: int, chunk: int, made: dict[TensorRef, Local]) -> Tensor:
        run, node = self.run, self.run.graph.nodes[number]
        operand = node.operands[at]
        if (number, at) in self.entering:
            return _narrowed(self.entering[number, at], operand.roles, self.roles[number], chunk, self.count)
        owner, made_by = run.graph.result(operand.tensor), self.roles[operand.tensor.node]
        if made_by not in factors(owner.roles):
            raise ScheduleError(f"plan of {run.part.name}: {node.name} reads a sum over chunks in their loop")
        shape, of_chunk = list(run.shape(operand.tensor)), factors(owner.roles).index(made_by)
        if factors(owner.dims)[of_chunk] not in _factors_of(operand, self.roles[number]):
            raise ScheduleError(f"plan of {run.part.name}: {node.name} reads chunks of another letter")
        shape[of_chunk] //= self.count
        state = run.state_of(operand, run.plan.operators[node.name].inputs[at])
        local = self._shared(operand.tensor, tuple(shape), made)
        return run.ordered(operand, self._moved(local, operand.tensor, tuple(shape), state).value)

    def _shared(self, tensor: TensorRef, shape: tuple[int, ...], made: dict[TensorRef, Local]) -> Local:
        """A chunk in the state from which all its readers take it."""
        shared = self.run.plan.shared(self.run.graph.spelled(tensor), self.phase)
        if shared is not None:
            made[tensor] = self._moved(made[tensor], tensor, shape, shared)
        return made[tensor]

    def _moved(self, local: Local, tensor: TensorRef, shape: tuple[int, ...], state: Sharding) -> Local:
        from treadle.parallelism.execution.part_execution import Local

        if local.state == state:
            return local
        element_bytes = self.run.graph.result(tensor).element_bytes
        return Local(self.run.move(local.value, shape, element_bytes, local.state, state), state)

    def _gather(self, tensor: TensorRef, value: Tensor) -> None:
        if tensor not in self.gathered:
            return
        parts = self.gathered[tensor]
        if not self._is_sum(tensor) or not parts:
            parts.append(value)
        elif parts[0] is not value:
            parts[0] = parts[0] + value

    def _is_sum(self, tensor: TensorRef) -> bool:
        """Whether what chunks give of a result adds up to it."""
        return self.roles[tensor.node] not in factors(self.run.graph.result(tensor).roles)

    def leave(self) -> None:
        """Hand on what is read after the loop."""
        import torch

        from treadle.parallelism.execution.part_execution import Local

        graph = self.run.graph
        for tensor, parts in self.gathered.items():
            roles, role = factors(graph.result(tensor).roles), self.roles[tensor.node]
            value = torch.cat(parts, roles.index(role)) if role in roles else parts[0]
            state = self.run.plan.operators[graph.nodes[tensor.node].name].outputs[tensor.slot]
            self.run.make(tensor, Local(value, state), self.phase)


def _operator(run: PartExecution, number: int, role: Index, count: int) -> LocalOperator:
    node = run.graph.nodes[number]
    operator = LocalOperator(run.graph, node, run.plan.operators[node.name], run.place, (role, count))
    has_role = role in (*node.read, *node.made)
    if not has_role or role in operator.whole or role in node.whole or operator.size(role) < 1:
        raise ScheduleError(f"plan of {run.part.name}: {node.name} cannot run in chunks of that letter")
    lacks = any(role not in factors(result.roles) for result in node.results)
    if lacks and operator.name not in _SUMS:
        raise ScheduleError(f"plan of {run.part.name}: chunks of {node.name} do not add up")
    return operator


def _leaving(run: PartExecution, inside: set[int], phase: Phase) -> list[TensorRef]:
    """Results that are read after the loop, or kept."""
    found = []
    for number in sorted(inside):
        node = run.graph.nodes[number]
        for slot in range(len(node.results)):
            tensor = TensorRef(number, slot)
            within = sum(o.tensor == tensor for n in inside for o in run.graph.nodes[n].operands)
            is_kept = phase is Phase.FORWARD and run.plan.saved(run.graph.spelled(tensor)) is not None
            if run.left.get(tensor, 0) > within or is_kept:
                found.append(tensor)
    return found


def _factors_of(operand: Operand, role: Index) -> list[Index]:
    """Factors of a tensor that an operator sees as a role."""
    pairs = zip(factors(operand.dims), factors(operand.roles), strict=True)
    return [index for index, one in pairs if one == role]


def _narrowed(value: Tensor, roles: Dims, role: Index, chunk: int, count: int) -> Tensor:
    """The chunk of an operand, which has a dimension for each factor."""
    flat = factors(roles)
    if role not in flat:
        return value
    at = flat.index(role)
    size = value.shape[at] // count
    return value.narrow(at, chunk * size, size)
