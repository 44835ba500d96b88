"""The factor graph of a model on a mesh: what every variable costs, and every pair of neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod

import numpy as np
from numpy.typing import ArrayLike

from treadle.arrays import BoolArray
from treadle.parallelism.graph.compute_graph import ComputeGraph, OperatorKind, Phase, TensorRef, pairs
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.lifetimes import Moment
from treadle.parallelism.problem.loops import LoopChoice, Region
from treadle.parallelism.problem.operator_work import (
    adds_products,
    flops_of,
    fused_tensors,
    local_bytes,
    seconds_of,
)
from treadle.parallelism.problem.prices import StatePrices
from treadle.parallelism.problem.variable_table import ACTIVATION, End, VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, Scope, View, ascending
from treadle.parallelism.search.factor_graph import Factor, FloatArray, Quantities, factor
from treadle.parallelism.state.sharding import Sharding
from treadle.training.compute_times import ADAM_BYTES_PER_PARAMETER, RooflineTimes


@dataclass(frozen=True)
class ParameterBytes:
    """Bytes of a parameter's element, and how often in a step its gradient is reduced.

    Parameters
    ----------
    stored : int
        Weight, gradient and optimizer state.
    updated : int
        Moved by the optimizer's step.
    zero : int
        As `ParallelPlan.zero`.
    spread : int
        Of `stored`, what is sharded over all ranks.
    micro_batches : int
        Of a step: once in a step is 1 / micro_batches times in each.
    stages : int
        Of a pipeline. Bytes are those of its first stage, of as many layers as others, without the ends of
        the model: no more than that stage holds, so that bounds are bounds.
    """

    stored: int = 16
    updated: int = ADAM_BYTES_PER_PARAMETER
    zero: int = 0
    spread: int = 0
    micro_batches: int = 1
    stages: int = 1

    def stored_layers(self, repeats: int) -> int:
        """Return the layers whose parameters a rank holds, of a part that is repeated."""
        return repeats // self.stages

    def saved_layers(self, repeats: int) -> int:
        """Return how many layers' activations a rank holds at most, each for one micro-batch."""
        return min(self.stages, self.micro_batches) * (repeats // self.stages)


def partial_sum_fraction(zero: int, micro_batches: int) -> float:
    """Return what each micro-batch has of an allreduce of gradients that are only added up.

    It is done once in a step; with ZeRO-2 its first half, a reduce-scatter, for every micro-batch.
    """
    return (1 + micro_batches) / (2 * micro_batches) if zero == 2 else 1 / micro_batches


PLAIN = ParameterBytes()
"""bf16 weight and gradient, fp32 master weight and Adam's two moments, none of them sharded further."""


@dataclass(eq=False)
class Assembly:
    """Tables of a factor graph, summed up by scope and quantity.

    Parameters
    ----------
    table : VariableTable
    prices : Prices
    times : RooflineTimes
    names : Quantities
    parameters : ParameterBytes
    """

    table: VariableTable
    prices: StatePrices
    times: RooflineTimes
    names: Quantities
    parameters: ParameterBytes
    tables: dict[Scope, dict[int, FloatArray]] = field(default_factory=lambda: defaultdict(dict))
    forbidden: dict[Scope, BoolArray] = field(default_factory=dict)

    def add(self, scope: Scope, quantity: int, amounts: FloatArray) -> None:
        """Add amounts by the states of one variable, or of two in any order."""
        scope, amounts = ascending(scope, amounts)
        if amounts.any():
            found = self.tables[scope]
            found[quantity] = found[quantity] + amounts if quantity in found else amounts

    def forbid(self, scope: Scope, states: BoolArray) -> None:
        """Forbid states."""
        scope, states = ascending(scope, states)
        if states.any():
            self.forbidden[scope] = self.forbidden[scope] | states if scope in self.forbidden else states

    def factors(self) -> Iterator[Factor]:
        """Return the result, without copying: large tables would be in memory twice."""
        for scope in sorted({*self.tables, *self.forbidden}, key=lambda one: (len(one), one)):
            tables = self.tables.pop(scope, {})
            mask = self.forbidden.get(scope)
            if mask is not None:
                any_quantity = next(iter(tables), self.names.persistent)
                table = tables.get(any_quantity, np.zeros(mask.shape))
                tables[any_quantity] = np.where(mask, np.inf, table)
            yield factor(scope, tables)

    def run(self, moments: Mapping[int, Sequence[Moment]]) -> None:
        """Add everything.

        Parameters
        ----------
        moments : mapping from part to moments
            Emptied: their arrays are handed over.
        """
        self.n_moments_of = {part: len(some) for part, some in moments.items()}
        for quantity, moment in enumerate(chain.from_iterable(moments.values())):
            while moment:
                scope, held = moment.popitem()
                self.add(scope, self.names.transient(quantity), held)
        for part, values in enumerate(self.table.values):
            for at in range(len(values.clusters)):
                self.add_compute(part, at)
                self.add_inner_moves(part, at)
            for at, cluster in enumerate(values.clusters):
                if cluster.phase is Phase.FORWARD:
                    self.add_inputs(part, at)
        self.add_stored()
        self.add_boundary_bytes()
        for part, values in enumerate(self.table.values):
            for tensor in values.graph.tensors():
                if not values.is_free(tensor):
                    is_early = values.graph.nodes[tensor.node].phase is Phase.FORWARD
                    for phase in Phase if is_early else (Phase.BACKWARD,):
                        self.add_moves(part, tensor, phase)
        for (part, tensor), number in self.table.kept.items():
            self.add_saved_tensors(part, tensor, number)
        self.add_saved_for_others()
        for scope, states in loop_rules(self.table):
            self.forbid(scope, states)

    def add_compute(self, part: int, at: int) -> None:
        """Add the seconds of a cluster's members; twice where they are recomputed."""
        number, variable = self.table.numbered(part, at)
        graph = variable.graph
        fused = fused_tensors(graph)
        seconds = np.zeros(len(variable.strategies))
        for member in variable.cluster.members:
            node, made = graph.nodes[member], graph.results(member)
            if adds_products(graph, node):
                continue
            flops, is_attention = flops_of(graph, node), node.kind is OperatorKind.ATTENTION
            for row, strategy in enumerate(variable.strategies):
                sizes = [
                    (tensor in made, local_bytes(graph, tensor, state, self.table.sizes))
                    for tensor, _, state in strategy.sides(graph, member)
                    if tensor not in fused
                ]
                moved = sum(size for _, size in sizes)
                if node.kind in (OperatorKind.GATHER, OperatorKind.SCATTER):
                    # of a table only the rows that are looked up, or added to, are read and written
                    is_gather = node.kind is OperatorKind.GATHER
                    moved = 2 * max(size for is_made, size in sizes if is_made is is_gather)
                seconds[row] += seconds_of(self.times, flops / strategy.parts[member], moved, is_attention)
        amounts = variable.by_state(seconds) * (1 + variable.is_saved(ActivationPolicy.RECOMPUTED))
        launches = self.times.kernel_s * len(variable.cluster.members) * (1 / variable.fraction - 1)
        self.add((number,), self.names.serial(part), amounts + launches)

    def add_inner_moves(self, part: int, at: int) -> None:
        """Add the seconds between what members make and what others of the cluster take."""
        number, variable = self.table.numbered(part, at)
        graph, seconds = variable.graph, np.zeros(variable.size)
        for member in variable.cluster.members:
            for place, operand in enumerate(graph.nodes[member].operands):
                if operand.tensor.node in variable.cluster.member_set:
                    moves = []
                    for one in variable.strategies:
                        made, taken = one.results[operand.tensor], one.operands[member, place]
                        is_same = made == taken
                        price = 0.0 if is_same else self.price(graph, operand.tensor, made, taken)
                        moves.append(price)
                    seconds += variable.by_state(moves)
        n_runs = 1 + variable.is_saved(ActivationPolicy.RECOMPUTED)
        self.add((number,), self.names.serial(part), seconds * n_runs)

    def add_inputs(self, part: int, at: int) -> None:
        """Forbid that a recomputed operator lacks its inputs."""
        number, variable = self.table.numbered(part, at)
        again, producers = variable.is_saved(ActivationPolicy.RECOMPUTED), self.table.values[part].producer
        for tensor in variable.cluster.takes if again.any() else ():
            if tensor in producers:
                before, maker = self.table.numbered(part, producers[tensor])
                unused = maker.is_saved(ActivationPolicy.UNUSED)
                self.forbid((before, number), unused[:, None] & again[None, :])

    def add_stored(self) -> None:
        """Add the bytes of parameters with gradient and optimizer state, and the optimizer's seconds."""
        for number in sorted(set(self.table.stored.values())):
            variable = self.table.state(number)
            part = self.table.values[variable.part].part
            whole = part.graph.elements(variable.tensor)
            shards = [whole // state.n_shards(self.table.sizes) for state in variable.states]
            elements, own = np.array(shards, np.float64), self.parameters
            # with ZeRO each rank updates its share of every parameter, wherever it is stored
            spread = np.full_like(elements, whole // prod(self.table.sizes.values()))
            layers = own.stored_layers(part.repeats)
            held = layers * ((own.stored - own.spread) * elements + own.spread * spread)
            self.add((number,), self.names.persistent, held)
            moved = own.updated * (spread if own.zero else elements)
            seconds = np.array([seconds_of(self.times, 0.0, one) - self.times.kernel_s for one in moved])
            self.add((number,), self.names.serial(variable.part), seconds / own.micro_batches)

    def add_boundary_bytes(self) -> None:
        """Add the activations that enter each layer, which are kept for its backward pass."""
        number = self.table.boundary.get(ACTIVATION)
        if number is not None:
            variable = self.table.state(number)
            parts = [values.part for values in self.table.values]
            saved = self.parameters.saved_layers
            n_kept = sum(saved(part.repeats) for part in parts if part.enters is not None)
            held = self.table.held(variable.part, variable.tensor, variable.view)
            self.add((number,), self.names.persistent, n_kept * held)

    def add_moves(self, part: int, tensor: TensorRef, phase: Phase) -> None:
        """Add the seconds from the source of a tensor to its readers in a phase.

        In the backward pass those also read a tensor of the forward pass that are computed again.
        """
        table, values = self.table, self.table.values[part]
        is_late = values.graph.nodes[tensor.node].phase is not phase
        is_weight = (part, tensor) in table.stored
        # weights are gathered, and what was saved is moved, while something else is computed
        quantity = (self.names.overlapped if is_late or is_weight else self.names.serial)(part)
        origin, shared = table.origin(part, tensor, phase), table.shared.get((part, tensor, phase))
        if shared is not None:
            self.move(part, tensor, table.giver(part, tensor, phase), origin, quantity)
            if is_late:
                self.add_result_move(part, tensor, origin)
        for reader in values.readers(tensor, phase):
            times, target = self.n_readings(part, reader, tensor, phase), self.taken(part, reader, tensor)
            self.move(part, tensor, origin, target, quantity, times)
            if is_late and shared is None:
                self.add_result_move(part, tensor, target, times)
        if not is_late:
            owner = values.parameter_gradients.get(tensor)
            for target in table.targets(part, tensor):
                if owner is None or target[0] != table.stored[part, owner]:
                    self.move(part, tensor, origin, target, quantity)
                else:
                    share = self.gradient_fraction(origin[1], target[1])
                    self.move(part, tensor, origin, target, self.names.overlapped(part), share)
            return
        for reader in values.backward_readers(tensor):
            again = table.operator(part, reader).is_saved(ActivationPolicy.RECOMPUTED)
            times, target = self.n_readings(part, reader, tensor, phase), self.taken(part, reader, tensor)
            waits = self.names.overlapped(part) if is_weight else self.names.serial(part)
            self.move(part, tensor, origin, target, waits, times * again[None, :])
            if shared is not None:
                late = ~table.state(shared).early
                self.forbid((shared, target[0]), late[:, None] & again[None, :])

    def add_result_move(self, part: int, tensor: TensorRef, target: End, times: int = 1) -> None:
        """Add the seconds of recomputed results from the state in which they are made to their readers.

        What would have been saved is then in any state, at best in the one that they take: it costs nothing.
        """
        if (part, tensor) in self.table.kept:
            number, variable = self.table.numbered(part, self.table.values[part].producer[tensor])
            seconds = times * self.between(part, tensor, variable.result_states(tensor), target[1])
            seconds = seconds * variable.is_saved(ActivationPolicy.RECOMPUTED)[:, None]
            self.add((number, target[0]), self.names.serial(part), seconds)

    def n_readings(self, part: int, reader: int, tensor: TensorRef, phase: Phase) -> int:
        """Count a reader's payments: one per operand, unless its state is all that the phase needs."""
        is_only = self.table.is_only_reader(part, reader, tensor, phase)
        return 1 if is_only else self.table.operator(part, reader).n_readings(tensor)

    def taken(self, part: int, reader: int, tensor: TensorRef) -> End:
        """Return a reader, and the states in which it takes a tensor."""
        number, variable = self.table.numbered(part, reader)
        return number, variable.taken(tensor)

    def move(
        self, part: int, tensor: TensorRef, source: End, target: End, quantity: int, times: ArrayLike = 1
    ) -> None:
        """Add the seconds of transitions, as often as stated for the states of both ends."""
        seconds = np.asarray(times) * self.between(part, tensor, source[1], target[1])
        self.add((source[0], target[0]), quantity, seconds)

    def gradient_fraction(self, source: View, target: View) -> FloatArray:
        """Return the share of a gradient's transitions that each micro-batch has.

        Gradients that are only summed up where the parameter is stored are summed once in a step.
        """
        share = partial_sum_fraction(self.parameters.zero, self.parameters.micro_batches)
        dims = dict.fromkeys(one.dims for view in (source, target) for one in view.states)
        number = {one: at for at, one in enumerate(dims)}
        mine, theirs = (
            np.array([number[one.dims] for one in view.states])[view.index] for view in (source, target)
        )
        return np.where(mine[:, None] == theirs, share, 1.0)

    def between(self, part: int, tensor: TensorRef, source: View, target: View) -> FloatArray:
        """Return the seconds from each state of one variable to each of another."""
        graph = self.table.values[part].graph
        table = self.prices.seconds(graph, tensor, source.states, target.states)
        return table[np.ix_(source.index, target.index)]

    def price(self, graph: ComputeGraph, tensor: TensorRef, source: Sharding, target: Sharding) -> float:
        """Return the seconds from one state to another."""
        return float(self.prices.seconds(graph, tensor, [source], [target])[0, 0])

    def add_saved_tensors(self, part: int, tensor: TensorRef, number: int) -> None:
        """Add the seconds in which saved tensors move to their state, and their bytes."""
        values, view = self.table.values[part], self.table.state(number).view
        maker, variable = self.table.numbered(part, values.producer[tensor])
        saved = variable.is_saved(ActivationPolicy.SAVED)[:, None]
        seconds = self.between(part, tensor, variable.result_states(tensor), view)
        self.add((maker, number), self.names.overlapped(part), seconds * saved)
        held = self.parameters.saved_layers(values.part.repeats) * self.table.held(part, tensor, view)
        self.add_saved(part, (maker, number), np.where(saved, held[None, :], 0.0))

    def add_saved(self, part: int, scope: Scope, held: FloatArray) -> None:
        """Add bytes that stay until the part's backward pass: those of the last part at its own moments."""
        n_all, n_own = sum(self.n_moments_of.values()), self.n_moments_of.get(part, 0)
        if n_own == n_all or part < len(self.table.values) - 1:
            self.add(scope, self.names.persistent, held)
            return
        for moment in range(n_all - n_own, n_all):
            self.add(scope, self.names.transient(moment), held)

    def add_saved_for_others(self) -> None:
        """Add the bytes of tensors that only recomputed operators read: they are saved as they are made."""
        for (part, at), number in self.table.operators.items():
            values, variable = self.table.values[part], self.table.operator(part, at)
            saved = variable.is_saved(ActivationPolicy.SAVED)
            for tensor in variable.cluster.makes:
                readers = values.backward_readers(tensor)
                if (part, tensor) in self.table.kept or not readers or not saved.any():
                    continue
                made = variable.result_states(tensor)
                layers = self.parameters.saved_layers(values.part.repeats)
                held = layers * saved * self.table.held(part, tensor, made)
                wrong: BoolArray = saved & made.is_partial
                scope: Scope = (number,)
                if values.is_read_backward(at) and len(readers) == 1:
                    other, reader = self.table.numbered(part, readers[0])
                    again = reader.is_saved(ActivationPolicy.RECOMPUTED)[None, :]
                    held, wrong, scope = held[:, None] * again, wrong[:, None] & again, (number, other)
                self.add_saved(part, scope, held)
                self.forbid(scope, wrong)


Forbidden = tuple[Scope, BoolArray]
_Key = tuple[LoopChoice, tuple[str, ...]]


def loop_rules(table: VariableTable) -> Iterator[Forbidden]:
    """Yield scopes, and the states that no plan takes."""
    for part, regions in enumerate(table.regions):
        for region in regions:
            yield from _rules(table, part, region)


def _rules(table: VariableTable, part: int, region: Region) -> Iterator[Forbidden]:
    values = table.values[part]
    owners = {node: at for at, one in enumerate(values.clusters) for node in one.members}
    keys = {
        at: _keys(table, table.operator(part, at), region) for at in sorted({owners[n] for n in region.nodes})
    }
    for at, own in keys.items():
        yield (table.operators[part, at],), np.array([key is not None and key[1] == ("",) for key in own])
    joined = {
        (owners[tensor.node], owners[number])
        for tensor in region.tensors
        for number in region.nodes
        if any(operand.tensor == tensor for operand in values.graph.nodes[number].operands)
    }
    for maker, reader in sorted((maker, reader) for maker, reader in joined if maker != reader):
        numbering: dict[_Key | None, int] = {}
        mine, theirs = (
            np.array([numbering.setdefault(key, len(numbering)) for key in keys[at]])
            for at in (maker, reader)
        )
        clash = mine[:, None] != theirs[None, :]
        if values.clusters[maker].phase is not values.clusters[reader].phase:
            # of what is saved whole, a loop of the backward pass may still take chunks
            clash &= ~table.operator(part, maker).is_saved(ActivationPolicy.SAVED)[:, None]
        yield (table.operators[part, maker], table.operators[part, reader]), clash


def _keys(table: VariableTable, variable: OperatorVariable, region: Region) -> list[_Key | None]:
    """Return the loop of each state and its axes; ("",) where chunks do not divide."""
    graph, members = variable.graph, sorted(region.nodes & variable.cluster.member_set)

    def key(state: int) -> _Key | None:
        loop, strategy = variable.loop(state), variable.strategy(state)
        if loop is None or loop.region != region.number:
            return None
        roles = region.letters[loop.letter]
        axes = {
            sharding.dims[graph.factors(tensor).index(index)]
            for member in members
            for tensor, side, sharding in strategy.sides(graph, member)
            for index, role in pairs(side)
            if role == roles[member]
        }
        ranks = prod(table.sizes[axis] for one in axes for axis in one)
        divides = len(axes) == 1 and graph.size(roles[members[-1]]) % (ranks * loop.n_chunks) == 0
        return loop, next(iter(axes)) if divides else ("",)

    return [key(state) for state in range(variable.size)]
