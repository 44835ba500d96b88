"""One run of a part as planned: what runs in which order, and from which state to which tensors go.

Follows the words at the head of ``plan.part_plan``. Loops over chunks run as one: their operators follow each
other, and what lies between two of them is there one chunk at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush
from math import prod

from treadle.parallelism.evaluation.legality import operator_faults, role_fault
from treadle.parallelism.evaluation.node_work import DeviceNumbers, operator_seconds, unmoved
from treadle.parallelism.evaluation.part_times import Role
from treadle.parallelism.graph.compute_graph import (
    Index,
    OperatorKind,
    Phase,
    Source,
    TensorRef,
    factors,
    pairs,
)
from treadle.parallelism.graph.model_graph import ModelPart
from treadle.parallelism.plan.fit import boundary_state, over_factors, stored_state
from treadle.parallelism.plan.part_plan import (
    ActivationPolicy,
    Boundary,
    Chunk,
    OperatorPlan,
    PartPlan,
    sides,
)
from treadle.parallelism.state.sharding import Sharding
from treadle.unsupported import Unsupported


@dataclass(frozen=True)
class Reading:
    """A reader of a tensor in a state: an operator, or (-1) the end of the part."""

    node: int
    state: Sharding
    factor: int | None = None
    """The tensor's factor of which the operator's loop takes a chunk at a time."""


@dataclass(frozen=True)
class Passing:
    """A tensor goes from one state to another.

    Parameters
    ----------
    tensor : TensorRef
    phase : Phase
    reader : int
        The node that takes it, or `LEAVES` (the boundary, or where a parameter is stored), `SHARED`, `KEPT`.
    source, target : Sharding
        Over the tensor's factors.
    factor, n_chunks : int or None, int
        One chunk of this factor at a time, so often.
    """

    tensor: TensorRef
    phase: Phase
    reader: int
    source: Sharding
    target: Sharding
    factor: int | None = None
    n_chunks: int = 1


LEAVES, SHARED, KEPT = -1, -2, -3


@dataclass(frozen=True)
class RunUnit:
    """An uninterrupted unit of execution: an operator, or a loop."""

    nodes: tuple[int, ...]
    chunk: Chunk | None = None


class PartRun:
    """A part under one of its plans.

    Parameters
    ----------
    part : ModelPart
    plan : PartPlan
        That fits it (`plan.fit.check_fit`).
    boundary : Boundary
    sizes : mapping from axis to its ranks
    """

    def __init__(self, part: ModelPart, plan: PartPlan, boundary: Boundary, sizes: Mapping[str, int]) -> None:
        self.part, self.plan, self.boundary, self.sizes = part, plan, boundary, dict(sizes)
        self.graph = part.graph

    def operator(self, node: int) -> OperatorPlan:
        """Return the plan of an operator."""
        return self.plan.operators[self.graph.nodes[node].name]

    @cached_property
    def running(self) -> dict[Phase, tuple[int, ...]]:
        """Operators that run in each phase: in the backward one first those that run once more."""
        own = [(number, node.phase) for number, node in enumerate(self.graph.nodes) if node.computes]
        again = [number for number, _ in own if self.operator(number).keep is ActivationPolicy.RECOMPUTED]
        forward, backward = ([number for number, one in own if one is phase] for phase in Phase)
        return {Phase.FORWARD: tuple(forward), Phase.BACKWARD: (*again, *backward)}

    @cached_property
    def running_sets(self) -> dict[Phase, frozenset[int]]:
        """The same operators as sets."""
        return {phase: frozenset(nodes) for phase, nodes in self.running.items()}

    def stored(self, tensor: TensorRef) -> Sharding:
        """Return the state of a placeholder."""
        return stored_state(self.part, self.plan, self.boundary, tensor)

    def source(self, tensor: TensorRef, phase: Phase) -> Sharding | Unsupported:
        """Return the state from which readers of a phase take a tensor, unless they share another."""
        node, name = self.graph.nodes[tensor.node], self.graph.spelled(tensor)
        is_late = node.phase is Phase.FORWARD and phase is Phase.BACKWARD
        if is_late and (saved := self.plan.saved(name)) is not None:
            return saved
        if node.kind is OperatorKind.PLACEHOLDER:
            return self.stored(tensor)
        made = self.operator(tensor.node)
        if is_late and made.keep is not ActivationPolicy.RECOMPUTED:
            return Unsupported(f"is read in the backward pass, but {_GONE[made.keep]}", name)
        return made.outputs[tensor.slot]

    def held(self, tensor: TensorRef, phase: Phase) -> Sharding:
        """Return the state in which a tensor waits for its readers."""
        shared = self.plan.shared(self.graph.spelled(tensor), phase)
        if shared is not None:
            return shared
        source = self.source(tensor, phase)
        assert isinstance(source, Sharding)
        return source

    @cached_property
    def readings(self) -> dict[tuple[TensorRef, Phase], tuple[Reading, ...]]:
        """Readers of each tensor and phase, with their states."""
        found: dict[tuple[TensorRef, Phase], list[Reading]] = {}
        for phase, nodes in self.running.items():
            for number in nodes:
                node, plan = self.graph.nodes[number], self.operator(number)
                role = self.chunk_role(number)
                for operand, state in zip(node.operands, plan.inputs, strict=True):
                    chunked = [index for index, one in pairs(operand) if one == role]
                    factor = self.graph.factors(operand.tensor).index(chunked[0]) if chunked else None
                    taken = over_factors(self.graph, operand.tensor, operand.dims, state)
                    found.setdefault((operand.tensor, phase), []).append(Reading(number, taken, factor))
        for tensor, phase, state in self._leaving():
            found.setdefault((tensor, phase), []).append(Reading(LEAVES, state))
        return {key: tuple(rows) for key, rows in found.items()}

    def _leaving(self) -> Iterator[tuple[TensorRef, Phase, Sharding]]:
        leaves = self.part.leaves
        if leaves is not None:
            yield leaves, Phase.FORWARD, boundary_state(self.part, leaves, self.boundary.activation)
        for owner, gradient in self.graph.gradients.items():
            if owner == self.part.enters:
                state = boundary_state(self.part, owner, self.boundary.gradient)
            elif self.graph.nodes[owner.node].source is Source.PARAMETER:
                state = self.stored(owner)
            else:
                continue
            dims = self.graph.result(owner).dims
            yield gradient, Phase.BACKWARD, over_factors(self.graph, gradient, dims, state)

    def chunk_role(self, number: int) -> Index | None:
        """Return the role of which an operator's loop does one chunk at a time."""
        chunk, node = self.operator(number).chunk, self.graph.nodes[number]
        roles = (*node.read, *node.result_roles) if chunk is not None else ()
        names = {self.graph.dim_name(role) + "'" * role.prime: role for role in reversed(roles)}
        return None if chunk is None else names.get(chunk.letter)

    def in_one_loop(self, first: int, second: int) -> bool:
        """Whether two operators run in one loop, where they run in one phase."""
        chunk, other = self.operator(first).chunk, None if second < 0 else self.operator(second).chunk
        return chunk is not None and other is not None and chunk.of_loop == other.of_loop

    @cached_property
    def passings(self) -> tuple[Passing, ...]:
        """All of them, also those for which nothing is moved."""
        return tuple(self._passings())

    def _passings(self) -> Iterator[Passing]:
        for (tensor, phase), readings in self.readings.items():
            source = self.source(tensor, phase)
            if isinstance(source, Unsupported):
                continue  # a fault
            shared = self.plan.shared(self.graph.spelled(tensor), phase)
            found = []
            for one in readings:
                chunk = None if one.node < 0 else self.operator(one.node).chunk
                is_made = tensor.node in self.running_sets[phase] and self.in_one_loop(tensor.node, one.node)
                # a reader in the loop that makes the tensor takes it chunk by chunk
                is_cut = chunk is not None and one.factor is not None and is_made
                chunks = (one.factor, chunk.n_chunks) if chunk is not None and is_cut else ()
                found.append(Passing(tensor, phase, one.node, shared or source, one.state, *chunks))
            if shared is not None:
                first = next((one for one in found if one.factor is not None), found[0])
                yield replace(first, reader=SHARED, source=source, target=shared)
            yield from found
        for tensor in self.graph.tensors():
            saved = self.plan.saved(self.graph.spelled(tensor))
            if saved is not None:
                source = self.source(tensor, Phase.FORWARD)
                assert isinstance(source, Sharding)
                yield Passing(tensor, Phase.FORWARD, KEPT, source, saved)

    def role(self, passing: Passing) -> Role:
        """Return what a tensor is moved as; what is computed again waits for all that it reads."""
        tensor, node, reader = passing.tensor, self.graph.nodes[passing.tensor.node], passing.reader
        if node.source is Source.PARAMETER or reader == KEPT:
            return Role.SAVED if reader == KEPT else Role.WEIGHT
        if reader == LEAVES and tensor in self._parameter_gradients:
            return Role.SUM if passing.source.dims == passing.target.dims else Role.GRADIENT
        is_late = node.phase is not passing.phase
        if not is_late or (reader >= 0 and self.graph.nodes[reader].phase is Phase.FORWARD):
            return Role.WAIT
        is_again = node.computes and self.operator(tensor.node).keep is ActivationPolicy.RECOMPUTED
        is_shared = self.plan.shared(self.graph.spelled(tensor), passing.phase) is not None
        return Role.WAIT if is_again and (reader == SHARED or not is_shared) else Role.SAVED

    @cached_property
    def _parameter_gradients(self) -> frozenset[TensorRef]:
        owners = self.graph.gradients.items()
        return frozenset(one for own, one in owners if self.graph.nodes[own.node].source is Source.PARAMETER)

    def shape(self, passing: Passing) -> tuple[int, ...]:
        """Return the elements of each factor of what is moved at a time."""
        sizes = list(self.graph.factor_sizes(passing.tensor))
        if passing.factor is not None:
            sizes[passing.factor] //= passing.n_chunks
        return tuple(sizes)

    @cached_property
    def _unmoved(self) -> frozenset[TensorRef]:
        return unmoved(self.graph)

    def seconds(self, number: int, numbers: DeviceNumbers) -> float:
        """Return the seconds of a rank's part of an operator."""
        plan = self.operator(number)
        return operator_seconds(
            self.graph, number, plan, sizes=self.sizes, numbers=numbers, fused=self._unmoved
        )

    def local_bytes(self, tensor: TensorRef, state: Sharding) -> int:
        """Return the bytes of a tensor at one rank."""
        return self.graph.nbytes(tensor) // prod(self.sizes[axis] for axis in state.axes)

    def units(self, phase: Phase) -> tuple[RunUnit, ...] | Unsupported:
        """Return the order in which a phase runs: that of the graph, loops without anything in between."""
        nodes, groups = self.graph.nodes, dict[object, list[int]]()
        for number in self.running[phase]:
            chunk = self.operator(number).chunk
            groups.setdefault(number if chunk is None else chunk.of_loop, []).append(number)
        order = {number: at for at, number in enumerate(self.running[phase])}
        units = [RunUnit(tuple(some), self.operator(some[0]).chunk) for some in groups.values()]
        unit_of = {number: at for at, unit in enumerate(units) for number in unit.nodes}
        due, sorter = [], TopologicalSorter[int]()
        for at, unit in enumerate(units):
            # a loop of the backward pass runs when its first operator of that phase is due
            own = [number for number in unit.nodes if nodes[number].phase is phase]
            due.append(min(order[number] for number in own or unit.nodes))
            read = [operand.tensor.node for number in unit.nodes for operand in nodes[number].operands]
            sorter.add(at, *{unit_of[number] for number in read if number in unit_of} - {at})
        try:
            sorter.prepare()
        except CycleError as error:
            stuck = min(at for at in error.args[1] if units[at].chunk)
            name = nodes[units[stuck].nodes[0]].name
            return Unsupported("its loop waits for operators that wait for the loop", name)
        ready, done = list[tuple[int, int]](), list[RunUnit]()
        while sorter.is_active():
            for at in sorter.get_ready():
                heappush(ready, (due[at], at))
            _, at = heappop(ready)
            done.append(units[at])
            sorter.done(at)
        return tuple(done)

    def faults(self) -> Iterator[Unsupported]:
        """Yield why the part cannot run as planned."""
        for phase, numbers in self.running.items():
            for number in numbers:
                node = self.graph.nodes[number]
                if node.phase is phase:
                    yield from operator_faults(node, self.operator(number), self.sizes)
                    yield from self._loop_faults(number)
        sources = (self.source(tensor, phase) for tensor, phase in self.readings)
        yield from (source for source in sources if isinstance(source, Unsupported))
        for number in self.running[Phase.FORWARD]:
            is_saved = self.operator(number).keep is ActivationPolicy.SAVED
            for name in () if is_saved else map(self.graph.spelled, self.graph.results(number)):
                if self.plan.saved(name) is not None:
                    yield Unsupported("is saved, though its operator's results are not", name)
        by_name = {self.graph.spelled(tensor): tensor for tensor in self.graph.tensors()}
        for (name, phase), entry in self.plan.tensors.items():
            tensor = by_name[name]
            if entry.shared is not None and (tensor, phase) not in self.readings:
                yield Unsupported(f"is gathered in the {phase.value} pass, where it is not read", name)
            if entry.saved is not None and self.graph.nodes[tensor.node].phase is not Phase.FORWARD:
                yield Unsupported("is saved, but made in the backward pass", name)
        yield from (units for units in map(self.units, Phase) if isinstance(units, Unsupported))

    def _loop_faults(self, number: int) -> Iterator[Unsupported]:
        """Check that a loop takes one chunk at a time of every operand with its dimension."""
        node, plan = self.graph.nodes[number], self.operator(number)
        if plan.chunk is None:
            return
        role = self.chunk_role(number)
        if role is None:
            yield Unsupported(f"runs in a loop over {plan.chunk.letter}, which it has not", node.name)
            return
        fault = role_fault(node, role, "in a loop")
        if fault:
            yield fault
        for axes in self._loop_axes(number, role):
            rest = self.graph.size(role) // prod(self.sizes[axis] for axis in axes)
            if rest % plan.chunk.n_chunks:
                yield Unsupported(f"{plan.chunk.n_chunks} chunks of {rest} elements at a rank", node.name)
                return
        for phase in Phase:
            for other in self.running[phase] if number in self.running_sets[phase] else ():
                yield from self._link_faults(number, other, role)

    def _link_faults(self, number: int, other: int, role: Index) -> Iterator[Unsupported]:
        """Check that between two operators of a loop chunks of one factor go, cut over the same axes."""
        if not self.in_one_loop(number, other):
            return
        node, mine = self.graph.nodes[number], list(self._loop_axes(number, role))
        far = self.chunk_role(other)
        if far is not None and [*self._loop_axes(other, far), *mine][:1] != mine[:1]:
            reason = f"{self.graph.nodes[other].name} of its loop chunks the dimension differently"
            yield Unsupported(reason, node.name)
        for operand in [operand for operand in node.operands if operand.tensor.node == other]:
            made = {index for index, one in pairs(self.graph.result(operand.tensor)) if one == far}
            if not made or made != {index for index, one in pairs(operand) if one == role}:
                name = self.graph.spelled(operand.tensor)
                reason = f"takes {name} within its loop, of which no chunk is there alone"
                yield Unsupported(reason, node.name)

    def _loop_axes(self, number: int, role: Index) -> Iterator[tuple[str, ...]]:
        """Yield the axes that shard the loop's dimension in an operator's inputs and results."""
        for side, state in sides(self.graph.nodes[number], self.operator(number)):
            cutting = zip(factors(side.roles), state.dims, strict=True)
            yield from (axes for one, axes in cutting if one == role)


_GONE = {
    ActivationPolicy.SAVED: "no state is saved",
    ActivationPolicy.UNUSED: "its operator is unused there",
    None: "gone",
}
