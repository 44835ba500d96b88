"""The factor graph of a model on a mesh: what every variable costs, and every pair of neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from treadle.arrays import BoolArray
from treadle.parallelism.graph.compute_graph import Phase, TensorRef
from treadle.parallelism.plan.part_plan import Keep
from treadle.parallelism.problem.lifetimes import Moment
from treadle.parallelism.problem.loop_factors import loop_rules
from treadle.parallelism.problem.operator_work import flops_of, fused_tensors, local_bytes, seconds_of
from treadle.parallelism.problem.prices import StatePrices
from treadle.parallelism.problem.variable_table import ACTIVATION, VariableTable
from treadle.parallelism.problem.variables import StateVariable, View
from treadle.parallelism.search.factor_graph import Factor, FloatArray, Quantities, factor
from treadle.training.compute_times import ADAM_BYTES_PER_PARAMETER, RooflineTimes

Scope = tuple[int, ...]


class Assembly:
    """Tables of a factor graph, summed up by scope and quantity.

    Parameters
    ----------
    table : VariableTable
    prices : Prices
    times : RooflineTimes
    names : Quantities
    bytes_per_parameter : int
        Weight, gradient and optimizer state of an element, where it is stored.
    optimizer_bytes : int
        Moved by the optimizer's step, per element.
    """

    def __init__(
        self,
        table: VariableTable,
        prices: StatePrices,
        times: RooflineTimes,
        names: Quantities,
        bytes_per_parameter: int,
        optimizer_bytes: int = ADAM_BYTES_PER_PARAMETER,
    ) -> None:
        self.table, self.prices, self.times, self.names = table, prices, times, names
        self.bytes_per_parameter, self.optimizer_bytes = bytes_per_parameter, optimizer_bytes
        self.sizes = table.sizes
        self.tables: dict[Scope, dict[int, FloatArray]] = defaultdict(dict)
        self.forbidden: dict[Scope, BoolArray] = {}

    def add(self, scope: Scope, quantity: int, amounts: FloatArray) -> None:
        """Amounts by the states of one variable, or of two in any order."""
        if len(scope) == 2 and scope[0] > scope[1]:
            scope, amounts = (scope[1], scope[0]), amounts.T
        if not amounts.any():
            return
        found = self.tables[scope]
        found[quantity] = found[quantity] + amounts if quantity in found else amounts

    def forbid(self, scope: Scope, states: BoolArray) -> None:
        """States that no plan takes."""
        if len(scope) == 2 and scope[0] > scope[1]:
            scope, states = (scope[1], scope[0]), states.T
        if states.any():
            self.forbidden[scope] = self.forbidden[scope] | states if scope in self.forbidden else states

    def factors(self) -> Iterator[Factor]:
        """What was added; it is handed over, as large tables would stand in memory twice."""
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
                    self.add_needs(part, at)
        self.add_stored()
        self.add_boundary_bytes()
        for part, values in enumerate(self.table.values):
            for tensor in values.graph.tensors():
                if not values.is_free(tensor):
                    self.add_moves(part, tensor)
        for (part, tensor), number in self.table.kept.items():
            self.add_kept(part, tensor, number)
        self.add_saved_for_others()
        for scope, states in loop_rules(self.table):
            self.forbid(scope, states)

    def add_compute(self, part: int, at: int) -> None:
        """Seconds of a cluster's members; twice where they are computed again."""
        variable, number = self.table.operator(part, at), self.table.operators[part, at]
        graph = variable.graph
        fused = fused_tensors(graph)
        seconds = np.zeros(len(variable.strategies))
        for member in variable.cluster.members:
            node, flops = graph.nodes[member], flops_of(graph, graph.nodes[member])
            for row, strategy in enumerate(variable.strategies):
                moved = 0
                for place, operand in enumerate(node.operands):
                    if operand.tensor not in fused:
                        state = strategy.operands[member, place]
                        moved += local_bytes(graph, operand.tensor, state, self.sizes)
                for slot in range(len(node.results)):
                    tensor = TensorRef(member, slot)
                    if tensor not in fused:
                        moved += local_bytes(graph, tensor, strategy.results[tensor], self.sizes)
                seconds[row] += seconds_of(self.times, flops / strategy.parts[member], moved)
        amounts = variable.by_state(seconds) * (1 + variable.is_kept(Keep.RECOMPUTED))
        launches = self.times.kernel_s * len(variable.cluster.members) * (1 / variable.fraction - 1)
        self.add((number,), self.names.compute(part), amounts + launches)

    def add_inner_moves(self, part: int, at: int) -> None:
        """Seconds between what members make and what others of the cluster take."""
        variable, number = self.table.operator(part, at), self.table.operators[part, at]
        seconds = np.zeros(variable.size)
        for member in variable.cluster.members:
            for place, operand in enumerate(variable.graph.nodes[member].operands):
                if operand.tensor.node in variable.cluster.member_set:
                    made = [one.results[operand.tensor] for one in variable.strategies]
                    taken = [one.operands[member, place] for one in variable.strategies]
                    pairs = [
                        0.0
                        if mine == theirs
                        else float(
                            self.prices.seconds(variable.graph, operand.tensor, [mine], [theirs])[0, 0]
                        )
                        for mine, theirs in zip(made, taken, strict=True)
                    ]
                    seconds += variable.by_state(pairs)
        self.add((number,), self.names.communication(part), seconds * (1 + variable.is_kept(Keep.RECOMPUTED)))

    def add_needs(self, part: int, at: int) -> None:
        """Who is computed again needs what it reads."""
        values, variable = self.table.values[part], self.table.operator(part, at)
        if Keep.RECOMPUTED not in variable.keeps:
            return
        for tensor in variable.cluster.takes:
            producer = values.producer.get(tensor)
            if producer is None:
                continue
            before = self.table.operator(part, producer)
            unused = before.is_kept(Keep.UNUSED)
            if unused.any():
                scope = self.table.operators[part, producer], self.table.operators[part, at]
                self.forbid(scope, unused[:, None] & variable.is_kept(Keep.RECOMPUTED)[None, :])

    def add_stored(self) -> None:
        """Bytes of parameters with gradient and optimizer state, and the optimizer's seconds."""
        for number in sorted(set(self.table.stored.values())):
            variable = self.table.state(number)
            values = self.table.values[variable.part]
            elements = np.array(
                [
                    values.graph.elements(variable.tensor) // state.n_shards(self.sizes)
                    for state in variable.states
                ],
                np.float64,
            )
            repeats = values.part.repeats
            self.add((number,), self.names.persistent, repeats * self.bytes_per_parameter * elements)
            moved = self.optimizer_bytes * elements
            seconds = np.array([seconds_of(self.times, 0.0, one) - self.times.kernel_s for one in moved])
            self.add((number,), self.names.compute(variable.part), seconds)

    def add_boundary_bytes(self) -> None:
        """Activations that enter each layer are kept for its backward pass."""
        number = self.table.boundary.get(ACTIVATION)
        if number is None:
            return
        variable = self.table.state(number)
        n_kept = sum(values.part.repeats for values in self.table.values if values.part.enters is not None)
        self.add((number,), self.names.persistent, n_kept * self.held(variable))

    def held(self, variable: StateVariable) -> FloatArray:
        """Bytes of a tensor at one rank, by state."""
        graph = self.table.values[variable.part].graph
        return np.array(
            [local_bytes(graph, variable.tensor, one, self.sizes) for one in variable.states], np.float64
        )

    def add_moves(self, part: int, tensor: TensorRef) -> None:
        """Seconds from who gives a tensor to who reads it, through the state that they share."""
        values = self.table.values[part]
        given = values.graph.nodes[tensor.node].phase
        source = self.table.source(part, tensor)
        assert source is not None, "only free tensors have no source"
        shared = self.table.shared.get((part, tensor, given))
        origin = source
        if shared is not None:
            origin = shared, self.table.state(shared).view
            self.move(part, tensor, source, origin)
        for reader in values.readers(tensor, given):
            times = self.n_readings(part, reader, tensor, given)
            self.move(part, tensor, origin, self.taken(part, reader, tensor), times)
        for target in self.table.targets(part, tensor):
            self.move(part, tensor, origin, target)
        if given is Phase.FORWARD:
            self.add_backward_moves(part, tensor)

    def add_backward_moves(self, part: int, tensor: TensorRef) -> None:
        """The same for the backward pass: its own readers, and those that are computed again."""
        values = self.table.values[part]
        origin = self.table.backward_source(part, tensor)
        assert origin is not None, "only free tensors have no source"
        shared = self.table.shared.get((part, tensor, Phase.BACKWARD))
        if shared is not None:
            source, origin = origin, (shared, self.table.state(shared).view)
            self.move(part, tensor, source, origin)
            self.add_move_of_made(part, tensor, origin)
        for reader in values.readers(tensor, Phase.BACKWARD):
            times = self.n_readings(part, reader, tensor, Phase.BACKWARD)
            self.move(part, tensor, origin, self.taken(part, reader, tensor), times)
            if shared is None:
                self.add_move_of_made(part, tensor, self.taken(part, reader, tensor), times)
        for reader in values.again_readers(tensor):
            again = self.table.operator(part, reader).is_kept(Keep.RECOMPUTED)
            times = self.n_readings(part, reader, tensor, Phase.BACKWARD)
            target = self.taken(part, reader, tensor)
            self.move(part, tensor, origin, target, times, again)
            if shared is not None:
                late = ~self.table.state(shared).early
                self.forbid((shared, target[0]), late[:, None] & again[None, :])

    def add_move_of_made(
        self, part: int, tensor: TensorRef, target: tuple[int, View], times: int = 1
    ) -> None:
        """What is computed again goes to its readers from the state in which it is made.

        What would have been saved is then in any state, at best in the one that they take: it costs nothing.
        """
        if (part, tensor) not in self.table.kept:
            return
        producer = self.table.values[part].producer[tensor]
        variable = self.table.operator(part, producer)
        seconds = times * self.between(part, tensor, variable.made(tensor), target[1])
        seconds = seconds * variable.is_kept(Keep.RECOMPUTED)[:, None]
        number = self.table.operators[part, producer]
        self.add_pair(number, target[0], self.names.communication(part), seconds)

    def n_readings(self, part: int, reader: int, tensor: TensorRef, phase: Phase) -> int:
        """How often a reader pays: once for each operand, unless its state is all that the phase needs."""
        is_only = self.table.is_only_reader(part, reader, tensor, phase)
        return 1 if is_only else self.table.operator(part, reader).n_readings(tensor)

    def taken(self, part: int, reader: int, tensor: TensorRef) -> tuple[int, View]:
        """A reader, and the states in which it takes a tensor."""
        number = self.table.operators[part, reader]
        return number, self.table.operator(part, reader).taken(tensor)

    def move(
        self,
        part: int,
        tensor: TensorRef,
        source: tuple[int, View],
        target: tuple[int, View],
        times: int = 1,
        where: BoolArray | None = None,
    ) -> None:
        """Seconds of transitions, where the target's state says so."""
        seconds = times * self.between(part, tensor, source[1], target[1])
        if where is not None:
            seconds = seconds * where[None, :]
        self.add_pair(source[0], target[0], self.names.communication(part), seconds)

    def add_pair(self, first: int, second: int, quantity: int, amounts: FloatArray) -> None:
        """Amounts by the states of two variables, or of one that stands on both sides."""
        if first == second:
            self.add((first,), quantity, np.diagonal(amounts).copy())
        else:
            self.add((first, second), quantity, amounts)

    def between(self, part: int, tensor: TensorRef, source: View, target: View) -> FloatArray:
        """Seconds from each state of one variable to each of another."""
        graph = self.table.values[part].graph
        table = self.prices.seconds(graph, tensor, source.states, target.states)
        return table[np.ix_(source.index, target.index)]

    def add_kept(self, part: int, tensor: TensorRef, number: int) -> None:
        """What is saved moves to its state and takes memory."""
        values, kept = self.table.values[part], self.table.state(number)
        producer = values.producer[tensor]
        variable = self.table.operator(part, producer)
        saved = variable.is_kept(Keep.SAVED)
        made = variable.made(tensor)
        scope = self.table.operators[part, producer], number
        seconds = self.between(part, tensor, made, kept.view)
        self.add(scope, self.names.communication(part), seconds * saved[:, None])
        repeats = values.part.repeats
        self.add_saved(part, scope, np.where(saved[:, None], repeats * self.held(kept)[None, :], 0.0))

    def add_saved(self, part: int, scope: Scope, held: FloatArray) -> None:
        """Bytes that stay until the part's backward pass: those of the last part at its own moments."""
        n_later = sum(count for other, count in self.n_moments_of.items() if other >= part)
        n_all = sum(self.n_moments_of.values())
        if n_later == n_all or part < len(self.table.values) - 1:
            self.add(scope, self.names.persistent, held)
            return
        for moment in range(n_all - n_later, n_all):
            self.add(scope, self.names.transient(moment), held)

    def add_saved_for_others(self) -> None:
        """What only operators that are computed again read is saved as it is made."""
        for (part, at), number in self.table.operators.items():
            values, variable = self.table.values[part], self.table.operator(part, at)
            saved = variable.is_kept(Keep.SAVED)
            for tensor in variable.cluster.makes:
                readers = values.again_readers(tensor)
                if (part, tensor) in self.table.kept or not readers or not saved.any():
                    continue
                made = variable.made(tensor)
                held = np.array(
                    [local_bytes(values.graph, tensor, state, self.sizes) for state in made.states],
                    np.float64,
                )[made.index]
                summands = np.array([bool(state.partial) for state in made.states])[made.index]
                repeats = values.part.repeats
                if values.is_read_backward(at) and len(readers) == 1:
                    again = self.table.operator(part, readers[0]).is_kept(Keep.RECOMPUTED)
                    other = self.table.operators[part, readers[0]]
                    bytes_held = (saved * held)[:, None] * again[None, :]
                    self.add_saved(part, (number, other), repeats * bytes_held)
                    self.forbid((number, other), (saved & summands)[:, None] & again[None, :])
                else:
                    self.add_saved(part, (number,), repeats * saved * held)
                    self.forbid((number,), saved & summands)
