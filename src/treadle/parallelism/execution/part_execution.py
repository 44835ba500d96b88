"""One run of a part of a model at one rank, forward and backward, as its plan says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle.errors import ScheduleError
from treadle.parallelism.execution.counting import RankHoldings
from treadle.parallelism.execution.local_operators import LocalOperator
from treadle.parallelism.execution.run_order import OrderedUnit, units_of
from treadle.parallelism.execution.tensor_blocks import BlockPosition, block
from treadle.parallelism.graph.compute_graph import (
    Dims,
    Index,
    Operand,
    Phase,
    Source,
    TensorRef,
    factors,
    pairs,
)
from treadle.parallelism.graph.model_graph import ModelPart
from treadle.parallelism.plan.fit import boundary_state, over_factors, stored_state
from treadle.parallelism.plan.part_plan import Boundary, PartPlan
from treadle.parallelism.state.sharding import Sharding

if TYPE_CHECKING:
    from torch import Tensor

Move = Callable[["Tensor", tuple[int, ...], int, Sharding, Sharding], "Tensor"]
"""From (a rank's part, the whole's shape, bytes of an element, state before, state after) to the new part."""

_SUMS = ("sum", "mm", "bmm", "mv", "dot", "embedding_dense_backward")
"""Operators whose results over chunks add up to the whole result."""


@dataclass(frozen=True)
class Local:
    """A rank's part of a tensor: a dimension for each factor of its result, and the state."""

    value: Tensor
    state: Sharding


class PartExecution:
    """A part with the values that it keeps.

    Parameters
    ----------
    part : ModelPart
    plan : PartPlan
    boundary : Boundary
        States of what enters and leaves.
    place : Place
    move : Move
    holdings : Holdings
        What the rank holds, over all parts.
    """

    def __init__(
        self,
        part: ModelPart,
        plan: PartPlan,
        boundary: Boundary,
        *,
        place: BlockPosition,
        move: Move,
        holdings: RankHoldings,
    ) -> None:
        self.part, self.graph, self.plan = part, part.graph, plan
        self.boundary, self.place, self.move, self.holdings = boundary, place, move, holdings
        self.stored: dict[TensorRef, Local] = {}
        self.sources: dict[TensorRef, Local] = {}
        self.kept: dict[TensorRef, Local] = {}
        self.left: dict[TensorRef, int] = {}
        self._shared: dict[tuple[TensorRef, Phase], Local] = {}
        self._wanted: dict[TensorRef, Operand] = {}
        self._finished: dict[TensorRef, Local] = {}
        holdings.add(self, self._held)

    def _held(self) -> list[Tensor]:
        tables = (self.stored, self.sources, self.kept, self._shared)
        return [one.value for table in tables for one in table.values()]

    def stored_state(self, number: int) -> Sharding:
        """Return the state of a placeholder."""
        return stored_state(self.part, self.plan, self.boundary, TensorRef(number))

    def forward(self) -> list[Local]:
        """Run the forward pass, and return the outputs; what leaves is in the boundary's state."""
        for tensor, local in self.stored.items():
            saved = self.plan.saved(self.graph.spelled(tensor))
            if saved is not None:
                self.kept[tensor] = self._to(tensor, local, saved)
        self._run(Phase.FORWARD, [operand.tensor for operand in self.outputs])
        found = []
        for operand in self.outputs:
            local = self._reading(operand.tensor, Phase.FORWARD)
            if operand.tensor == self.part.leaves:
                target = boundary_state(self.part, operand.tensor, self.boundary.activation)
                local = self._to(operand.tensor, local, target)
            found.append(self._seen(operand, local))
        self.sources.clear()
        self._shared.clear()
        return found

    def backward(self) -> dict[TensorRef, Local]:
        """Run the backward pass, and return the gradients of parameters and inputs.

        A gradient moves to its parameter's state as soon as it is made, and counts as stored from then on.
        """
        operands = self.graph.nodes[-1].operands[-len(self.graph.gradients) or None :]
        pairs = zip(self.graph.gradients, operands, strict=True)
        self._wanted = {owner: self._oriented(owner, operand) for owner, operand in pairs}
        self._finished.clear()
        self._run(Phase.BACKWARD, [operand.tensor for operand in self._wanted.values()])
        for owner in self._wanted:
            self._finish(owner)
        found = dict(self._finished)
        self.sources.clear()
        self._shared.clear()
        self.kept.clear()
        nodes = self.graph.nodes
        self.stored = {t: v for t, v in self.stored.items() if nodes[t.node].source is Source.PARAMETER}
        return found

    def _finish(self, owner: TensorRef) -> None:
        """Bring a gradient where it is stored."""
        if owner in self._finished:
            return
        operand = self._wanted[owner]
        local = self._reading(operand.tensor, Phase.BACKWARD)
        is_entering = owner == self.part.enters
        # the gradient of an input that no part feeds stays as it is made
        if is_entering or self.graph.nodes[owner.node].source is Source.PARAMETER:
            state = self.boundary.gradient
            if not is_entering:
                stored = self.stored_state(owner.node)
                sizes = zip(self.graph.factor_sizes(owner), stored.dims, strict=True)
                state = Sharding(tuple(axes for size, axes in sizes if size > 1), stored.partial)
            target = over_factors(self.graph, operand.tensor, operand.dims, state)
            local = self._to(operand.tensor, local, target)
        self._finished[owner] = self._seen(operand, local)
        self._used(operand.tensor)

    def _oriented(self, owner: TensorRef, operand: Operand) -> Operand:
        """Return a gradient as the graph's output has it, its factors in the order of its owner."""
        graph = self.graph
        wanted = [index for index in graph.factors(owner) if graph.size(index) > 1]
        found = [index for index in factors(operand.dims) if graph.size(index) > 1]
        if [i.atom for i in wanted] != [i.atom for i in found]:
            by_atom = {index.atom: index for index in found}
            if len(by_atom) < len(found):
                raise ScheduleError(
                    f"plan of {self.part.name}: the gradient of {graph.spelled(owner)} is turned, and a "
                    "dimension appears in it twice"
                )
            found = [by_atom[index.atom] for index in wanted]
        dims = tuple((index,) for index in found)
        return Operand(operand.tensor, dims, dims)

    def _seen(self, operand: Operand, local: Local) -> Local:
        """Return A result in the order of an output, without factors of one element."""
        by_index = dict(zip(self.graph.factors(operand.tensor), local.state.dims, strict=True))
        value = self.ordered(operand, local.value)
        long = [(n, i) for n, i in enumerate(factors(operand.dims)) if self.graph.size(i) > 1]
        value = value.reshape([value.shape[n] for n, _ in long])
        return Local(value, Sharding(tuple(by_index[index] for _, index in long), local.state.partial))

    @property
    def outputs(self) -> list[Operand]:
        """Results of the part, in the order of the graph's output."""
        operands = self.graph.nodes[-1].operands
        return list(operands[: len(operands) - len(self.graph.gradients)])

    def _run(self, phase: Phase, outputs: Sequence[TensorRef]) -> None:
        units = units_of(self.graph, self.plan, phase)
        self.left = dict.fromkeys(outputs, 1)
        for unit in units:
            for number in unit.numbers:
                for operand in self.graph.nodes[number].operands:
                    self.left[operand.tensor] = self.left.get(operand.tensor, 0) + 1
        for unit in units:
            if unit.chunk is None:
                self._run_operator(unit.numbers[0], phase)
            else:
                _Loop(self, unit, phase).run_all()
            for number in unit.numbers:
                for operand in self.graph.nodes[number].operands:
                    self._used(operand.tensor)
            for owner, operand in self._wanted.items() if phase is Phase.BACKWARD else ():
                if operand.tensor.node in unit.numbers:
                    self._finish(owner)

    def _used(self, tensor: TensorRef) -> None:
        self.left[tensor] -= 1
        if not self.left[tensor]:
            self.sources.pop(tensor, None)
            for phase in Phase:
                self._shared.pop((tensor, phase), None)

    def _run_operator(self, number: int, phase: Phase) -> None:
        node, plan = self.graph.nodes[number], self.plan.operators[self.graph.nodes[number].name]
        taken = [self.taken(o, state, phase) for o, state in zip(node.operands, plan.inputs, strict=True)]
        made = LocalOperator(self.graph, node, plan, self.place).run(taken)
        self.holdings.measure(f"{phase.value} {self.part.name} {node.name}", [*taken, *made])
        for slot, (value, state) in enumerate(zip(made, plan.outputs, strict=True)):
            self.make(TensorRef(number, slot), Local(value, state), phase)

    def make(self, tensor: TensorRef, local: Local, phase: Phase) -> None:
        """Note a result; keep it for the backward pass where the plan says so."""
        saved = self.plan.saved(self.graph.spelled(tensor))
        if phase is Phase.FORWARD and saved is not None:
            self.kept[tensor] = self._to(tensor, local, saved)
        shared = self.plan.shared(self.graph.spelled(tensor), phase)
        if self.left.get(tensor) and shared is not None:
            self._shared[tensor, phase] = self._to(tensor, local, shared)
        elif self.left.get(tensor):
            self.sources[tensor] = local

    def _source(self, tensor: TensorRef, phase: Phase) -> Local:
        if phase is Phase.BACKWARD and tensor in self.kept:
            return self.kept[tensor]
        return (self.sources if self.graph.nodes[tensor.node].computes else self.stored)[tensor]

    def _reading(self, tensor: TensorRef, phase: Phase) -> Local:
        """Return the state from which readers of a phase take a tensor."""
        shared = self.plan.shared(self.graph.spelled(tensor), phase)
        if shared is None:
            return self._source(tensor, phase)
        if (tensor, phase) not in self._shared:
            self._shared[tensor, phase] = self._to(tensor, self._source(tensor, phase), shared)
        return self._shared[tensor, phase]

    def _to(self, tensor: TensorRef, local: Local, state: Sharding) -> Local:
        return self.moved(tensor, self.graph.factor_sizes(tensor), local, state)

    def moved(self, tensor: TensorRef, shape: tuple[int, ...], local: Local, state: Sharding) -> Local:
        """Return A tensor, or a chunk of it of this shape, in another state."""
        if local.state == state:
            return local
        bytes_each = self.graph.result(tensor).element_bytes
        return Local(self.move(local.value, shape, bytes_each, local.state, state), state)

    def ordered(self, operand: Operand, value: Tensor) -> Tensor:
        """Return A tensor in the order of the operand's factors."""
        dims, wanted = self.graph.factors(operand.tensor), factors(operand.dims)
        rest = [place for place, index in enumerate(dims) if index not in wanted]
        order = [*(dims.index(index) for index in wanted), *rest]
        value = value.permute(order)
        return value.reshape(value.shape[: len(wanted)])  # others have one element

    def taken(self, operand: Operand, state: Sharding, phase: Phase) -> Tensor:
        """Return an operand in the state that an operator takes it in, in the order of its factors."""
        tensor = operand.tensor
        target = over_factors(self.graph, tensor, operand.dims, state)
        return self.ordered(operand, self._to(tensor, self._reading(tensor, phase), target).value)


class _Loop:
    """A loop of a part: inputs are complete, results without the dimension are summed.

    Raises
    ------
    ScheduleError
        If operators of the loop shard its dimension differently, or read results of its end.
    """

    def __init__(self, run: PartExecution, unit: OrderedUnit, phase: Phase) -> None:
        assert unit.chunk is not None
        self.count = unit.chunk.n_chunks
        self.run, self.unit, self.phase = run, unit, phase
        inside = set(unit.numbers)
        chunks = {n: run.plan.operators[run.graph.nodes[n].name].chunk for n in unit.numbers}
        self.roles = {n: role_of(run.part, one.letter) for n, one in chunks.items() if one is not None}
        self.operators = {n: _operator(run, n, self.roles[n], self.count) for n in unit.numbers}
        if len({one.cuts.get(self.roles[n], ()) for n, one in self.operators.items()}) > 1:
            letter = unit.chunk.letter
            raise ScheduleError(
                f"plan of {run.part.name}: a loop over {letter} chunks it along several dimensions"
            )
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

    def run_all(self) -> None:
        """Run it, and hand on what is read after it."""
        import torch

        for chunk in range(self.count):
            self.go_round(chunk)
        graph = self.run.graph
        for tensor, parts in self.gathered.items():
            roles, role = factors(graph.result(tensor).roles), self.roles[tensor.node]
            value = torch.cat(parts, roles.index(role)) if role in roles else parts[0]
            state = self.run.plan.operators[graph.nodes[tensor.node].name].outputs[tensor.slot]
            self.run.make(tensor, Local(value, state), self.phase)

    def go_round(self, chunk: int) -> None:
        """Run all operators on one chunk."""
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
        tensor, of_chunk = operand.tensor, factors(owner.roles).index(made_by)
        seen = [index for index, role in pairs(operand) if role == self.roles[number]]
        if factors(owner.dims)[of_chunk] not in seen:
            raise ScheduleError(f"plan of {run.part.name}: {node.name} reads chunks of another dimension")
        shape = list(run.graph.factor_sizes(tensor))
        shape[of_chunk] //= self.count
        state = over_factors(run.graph, tensor, operand.dims, run.plan.operators[node.name].inputs[at])
        shared = run.plan.shared(run.graph.spelled(tensor), self.phase)
        if shared is not None:  # the state from which all readers of a chunk take it
            made[tensor] = run.moved(tensor, tuple(shape), made[tensor], shared)
        return run.ordered(operand, run.moved(tensor, tuple(shape), made[tensor], state).value)

    def _gather(self, tensor: TensorRef, value: Tensor) -> None:
        parts = self.gathered.get(tensor)
        if parts and self._is_sum(tensor):
            parts[0] = parts[0] if parts[0] is value else parts[0] + value
        elif parts is not None:
            parts.append(value)

    def _is_sum(self, tensor: TensorRef) -> bool:
        """Whether what chunks give of a result adds up to it."""
        return self.roles[tensor.node] not in factors(self.run.graph.result(tensor).roles)


def _operator(run: PartExecution, number: int, role: Index, count: int) -> LocalOperator:
    node = run.graph.nodes[number]
    operator = LocalOperator(run.graph, node, run.plan.operators[node.name], run.place, (role, count))
    has_role = role in (*node.read, *node.result_roles)
    if not has_role or role in operator.whole or role in node.whole or operator.size(role) < 1:
        raise ScheduleError(f"plan of {run.part.name}: {node.name} cannot run in chunks of that dimension")
    lacks = any(role not in factors(result.roles) for result in node.results)
    if lacks and operator.name not in _SUMS:
        raise ScheduleError(f"plan of {run.part.name}: chunks of {node.name} do not add up")
    return operator


def _leaving(run: PartExecution, inside: set[int], phase: Phase) -> list[TensorRef]:
    """Return the results that are read after the loop, or kept."""
    read = Counter(operand.tensor for n in inside for operand in run.graph.nodes[n].operands)
    return [
        tensor
        for number in sorted(inside)
        for tensor in run.graph.results(number)
        if run.left.get(tensor, 0) > read[tensor]
        or (phase is Phase.FORWARD and run.plan.saved(run.graph.spelled(tensor)) is not None)
    ]


def _narrowed(value: Tensor, roles: Dims, role: Index, chunk: int, count: int) -> Tensor:
    """Return the chunk of an operand, which has a dimension for each factor."""
    if role not in (flat := factors(roles)):
        return value
    size = value.shape[flat.index(role)] // count
    return value.narrow(flat.index(role), chunk * size, size)


def role_of(part: ModelPart, letter: str) -> Index:
    """Return a role by its name, with a ``'`` for each repetition."""
    name, names = letter.rstrip("'"), [atom.name for atom in part.graph.atoms]
    if name not in names:
        raise ScheduleError(f"plan of {part.name}: chunks of {letter!r}, which is not a dimension of it")
    return Index(names.index(name), len(letter) - len(name))


def as_local(value: Tensor, state: Sharding, shape: Sequence[int], place: BlockPosition) -> Local:
    """Return A rank's part of a whole tensor, a dimension for each factor."""
    cut = block(state, shape, place.sizes, place.at)
    return Local(value.reshape(list(shape))[cut].clone(), state)
