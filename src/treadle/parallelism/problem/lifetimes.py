"""What a rank holds while each operator runs, beside what stays: tensors from being made to their last use.

At a moment (an operator that runs) there are, beside parameters, what is saved, and what layers give on:

- tensors that wait for a reader, in the state from which it takes them, unless that is the saved one;
- what the operator takes in another state than the one in which it waits;
- what it makes.

What is computed again is there from the beginning of the backward pass to its last reader; moments while it
is being computed again are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from treadle.parallelism.graph.compute_graph import OperatorKind, Phase, Source, TensorRef
from treadle.parallelism.plan.part_plan import Keep
from treadle.parallelism.problem.operator_work import local_bytes
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, View, same_states
from treadle.parallelism.search.factor_graph import FloatArray

Scope = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Term:
    """Bytes that are held from one operator of a phase to another, by states of one variable or of two."""

    first: int
    last: int
    scope: Scope
    held: FloatArray


Moment = dict[Scope, FloatArray]
"""Bytes by states of variables, of which some plan's add up to what it holds then."""


class Lifetimes:
    """Moments of one part.

    Parameters
    ----------
    table : VariableTable
    part : int
    """

    def __init__(self, table: VariableTable, part: int) -> None:
        self.table, self.part = table, part
        self.values = table.values[part]
        self.graph = self.values.graph
        self.owner = {node: at for at, one in enumerate(self.values.clusters) for node in one.members}
        self.order = {
            phase: sorted(node for node in self.owner if self.graph.nodes[node].phase is phase)
            for phase in Phase
        }
        self.place = {node: place for order in self.order.values() for place, node in enumerate(order)}
        self.readers: dict[tuple[TensorRef, Phase], list[int]] = defaultdict(list)
        for node, place in self.place.items():
            for operand in self.graph.nodes[node].operands:
                self.readers[operand.tensor, self.graph.nodes[node].phase].append(place)

    def moments(self) -> Iterator[Moment]:
        """One for each operator."""
        for phase in Phase:
            terms = [term for term in self._terms(phase) if term.held.any()]
            sums: dict[tuple[int, ...], FloatArray] = {}
            for place, node in enumerate(self.order[phase]):
                found: dict[Scope, list[Term]] = defaultdict(list)
                for term in terms:
                    if term.first <= place <= term.last:
                        found[term.scope].append(term)
                held = {scope: _summed(some, sums) for scope, some in found.items()}
                own = (*self._taken(node, phase), *self._made(node, phase), *self._of_loop(node, phase))
                for term in own:
                    if term.held.any():
                        held[term.scope] = held[term.scope] + term.held if term.scope in held else term.held
                yield held

    def bytes_of(self, tensor: TensorRef, view: View) -> FloatArray:
        """Bytes at one rank, by state of the variable."""
        held = [local_bytes(self.graph, tensor, state, self.table.sizes) for state in view.states]
        return np.array(held, np.float64)[view.index]

    def made_bytes(self, tensor: TensorRef, variable: OperatorVariable) -> FloatArray:
        """Bytes of what a cluster makes; of a tensor within its loop those of a chunk."""
        return self.bytes_of(tensor, variable.made(tensor)) * self.part_of(tensor, variable)

    def part_of(self, tensor: TensorRef, variable: OperatorVariable) -> FloatArray:
        """By state of a cluster how much of a tensor that it makes or takes is there at once."""
        if any(tensor in region.tensors for region in self.table.regions[self.part]):
            return variable.fraction
        return np.ones(variable.size)

    def operator(self, cluster: int) -> tuple[int, OperatorVariable]:
        """The variable of a cluster, and its number."""
        return self.table.operators[self.part, cluster], self.table.operator(self.part, cluster)

    def _pair(self, first: int, second: int, held: FloatArray, start: int, last: int) -> Term:
        if first == second:
            return Term(start, last, (first,), np.diagonal(held).copy())
        if first > second:
            return Term(start, last, (second, first), held.T)
        return Term(start, last, (first, second), held)

    def _terms(self, phase: Phase) -> Iterator[Term]:
        for tensor in self.graph.tensors():
            node = self.graph.nodes[tensor.node]
            readers = self.readers[tensor, phase]
            if node.source is Source.TANGENT and self.values.is_free(tensor):
                yield from self._given(tensor, readers)
                continue
            if node.kind is OperatorKind.OUTPUT or self.values.is_free(tensor):
                continue
            if node.phase is Phase.FORWARD and phase is Phase.BACKWARD:
                yield from self._waiting_late(tensor, readers)
            elif node.phase is phase:
                yield from self._waiting(tensor, phase, readers)

    def _given(self, tensor: TensorRef, readers: list[int]) -> Iterator[Term]:
        """A gradient from outside: whole at every rank until its last reader, whatever the plan."""
        if readers:
            number, variable = self.operator(0)
            n_bytes = self.graph.nbytes(tensor)
            yield Term(0, max(readers), (number,), np.full(variable.size, float(n_bytes)))

    def _waiting(self, tensor: TensorRef, phase: Phase, readers: list[int]) -> Iterator[Term]:
        """In the phase in which it is made."""
        last = max(readers, default=-1)
        if tensor == self.values.entered_gradient:
            last = len(self.order[phase]) - 1  # it waits for the part before
        shared = self.table.shared.get((self.part, tensor, phase))
        producer = self.values.producer.get(tensor)
        if producer is None:
            yield from self._waiting_from_before(tensor, shared, readers, last)
            return
        first = self.place[tensor.node] + 1
        if first <= last:
            yield from self._held(tensor, producer, shared, first, last)

    def _held(
        self, tensor: TensorRef, producer: int, shared: int | None, first: int, last: int
    ) -> Iterator[Term]:
        """What a cluster makes, as it waits, unless that is as it is saved."""
        number, variable = self.operator(producer)
        made = variable.made(tensor)
        kept = self.table.kept.get((self.part, tensor))
        saved = variable.is_kept(Keep.SAVED) & (tensor in variable.cluster.makes)
        if shared is None:
            if kept is None:
                yield Term(first, last, (number,), np.where(saved, 0.0, self.made_bytes(tensor, variable)))
                return
            is_saved_so = saved[:, None] & same_states(made, self.table.state(kept).view)
            held = np.where(is_saved_so, 0.0, self.made_bytes(tensor, variable)[:, None])
            yield self._pair(number, kept, held, first, last)
            return
        view = self.table.state(shared).view
        summands = np.array([bool(state.partial) for state in made.states])[made.index]
        is_saved_so = saved[:, None] & (same_states(made, view) | summands[:, None])
        held = np.where(is_saved_so, 0.0, self.bytes_of(tensor, view)[None, :])
        held = held * self.part_of(tensor, variable)[:, None]
        yield self._pair(number, shared, held, first, last)

    def _waiting_from_before(
        self, tensor: TensorRef, shared: int | None, readers: list[int], last: int
    ) -> Iterator[Term]:
        """What is stored takes no memory of its own as it is stored; a gradient that enters does."""
        source = self.table.source(self.part, tensor)
        assert source is not None, "only free tensors have no source"
        is_gradient = self.graph.nodes[tensor.node].source is Source.TANGENT
        if shared is None:
            if is_gradient:
                yield Term(0, last, (source[0],), self.bytes_of(tensor, source[1]))
            return
        view = self.table.state(shared).view
        held = np.broadcast_to(self.bytes_of(tensor, view)[None, :], (len(source[1].index), len(view.index)))
        if not is_gradient:
            held = np.where(same_states(source[1], view), 0.0, held)
        yield self._pair(source[0], shared, held, min(readers, default=0), last)

    def _waiting_late(self, tensor: TensorRef, readers: list[int]) -> Iterator[Term]:
        """What the forward phase had, in the backward one."""
        last = max(readers, default=-1)
        if last < 0:
            return
        source = self.table.backward_source(self.part, tensor)
        assert source is not None, "only free tensors have no source"
        shared = self.table.shared.get((self.part, tensor, Phase.BACKWARD))
        if shared is not None:
            variable = self.table.state(shared)
            is_there = same_states(source[1], variable.view)
            held = np.where(is_there, 0.0, self.bytes_of(tensor, variable.view)[None, :])
            yield self._pair(source[0], shared, held, min(readers), last)
            early = held * variable.early[None, :]
            yield self._pair(source[0], shared, early, 0, min(readers) - 1)
        if (self.part, tensor) in self.table.kept:
            number, producer = self.operator(self.values.producer[tensor])
            again = producer.is_kept(Keep.RECOMPUTED)
            if shared is None:
                yield Term(0, last, (number,), again * self.made_bytes(tensor, producer))
            else:
                there = again * self.part_of(tensor, producer)
                held = self.bytes_of(tensor, self.table.state(shared).view)
                yield self._pair(number, shared, there[:, None] * held[None, :], 0, last)

    def _of_loop(self, node: int, phase: Phase) -> Iterator[Term]:
        """What others of its loop take from outside and give to it: it is there with each of them."""
        for region in self.table.regions[self.part]:
            if node not in region.nodes:
                continue
            for mate in sorted(region.nodes - {node}):
                if self.graph.nodes[mate].phase is not phase:
                    continue
                number, variable = self.operator(self.owner[mate])
                runs = variable.fraction < 1
                inner = [
                    tensor for tensor in region.tensors if tensor.node == mate or self._reads(mate, tensor)
                ]
                terms = list(self._taken(mate, phase, without=inner))
                if mate > node and not any(tensor.node == mate for tensor in inner):
                    terms += self._made(mate, phase)
                for term in terms:
                    where = runs[:, None] if len(term.scope) == 2 and term.scope[0] == number else runs
                    yield Term(0, 0, term.scope, term.held * where)

    def _reads(self, node: int, tensor: TensorRef) -> bool:
        return any(operand.tensor == tensor for operand in self.graph.nodes[node].operands)

    def _taken(self, node: int, phase: Phase, without: Sequence[TensorRef] = ()) -> Iterator[Term]:
        """What an operator takes in another state than that in which it waits."""
        number, variable = self.operator(self.owner[node])
        seen = set(without)
        for at, operand in enumerate(self.graph.nodes[node].operands):
            tensor = operand.tensor
            if tensor in seen:
                continue
            seen.add(tensor)
            taken = variable.operand(node, at)
            if self.values.is_free(tensor):
                is_cut = np.array([bool(state.axes or state.partial) for state in taken.states])[taken.index]
                yield Term(0, 0, (number,), is_cut * self.bytes_of(tensor, taken))
                continue
            shared = self.table.shared.get((self.part, tensor, phase))
            if shared is not None:
                origin: tuple[int, View] | None = (shared, self.table.state(shared).view)
            elif phase is Phase.BACKWARD:
                origin = self.table.backward_source(self.part, tensor)
            else:
                origin = self.table.source(self.part, tensor)
            assert origin is not None, "only free tensors have no source"
            taken_bytes = self.bytes_of(tensor, taken) * self.part_of(tensor, variable)
            held = np.where(same_states(origin[1], taken), 0.0, taken_bytes[None, :])
            yield self._pair(origin[0], number, held, 0, 0)
            if shared is None and phase is Phase.BACKWARD and (self.part, tensor) in self.table.kept:
                maker, producer = self.operator(self.values.producer[tensor])
                again = producer.is_kept(Keep.RECOMPUTED)[:, None]
                same = same_states(producer.made(tensor), taken)
                held = np.where(again & ~same, taken_bytes[None, :], 0.0)
                yield self._pair(maker, number, held, 0, 0)

    def _made(self, node: int, phase: Phase) -> Iterator[Term]:
        """What an operator makes; what is saved so is counted as saved."""
        number, variable = self.operator(self.owner[node])
        for slot in range(len(self.graph.nodes[node].results)):
            tensor = TensorRef(node, slot)
            if phase is Phase.FORWARD:
                yield from self._held(tensor, self.owner[node], None, 0, 0)
            else:
                yield Term(0, 0, (number,), self.made_bytes(tensor, variable))


def _summed(terms: Sequence[Term], known: dict[tuple[int, ...], FloatArray]) -> FloatArray:
    """What terms of one scope hold together; the same array for the same terms: moments share them."""
    if len(terms) == 1:
        return terms[0].held
    key = tuple(map(id, terms))
    if key not in known:
        known[key] = np.sum([term.held for term in terms], axis=0)
    return known[key]


def without_dominated(moments: list[Moment]) -> list[Moment]:
    """Moments of which no other holds as much whatever the plan."""
    kept: list[Moment] = []
    known: dict[tuple[int, int], float] = {}
    for at, one in enumerate(moments):
        if not any(
            _is_below(one, other, known) and not (_is_below(other, one, known) and place > at)
            for place, other in enumerate(moments)
            if place != at
        ):
            kept.append(one)
    return kept


def _is_below(one: Moment, other: Moment, known: dict[tuple[int, int], float]) -> bool:
    """Whether one holds no more than the other for every plan: scope by scope, or by extremes.

    Moments share their arrays, so that what one holds above another is worked out once for a pair of them.
    """
    excess = 0.0
    for scope in {*one, *other}:
        mine, theirs = one.get(scope), other.get(scope)
        if mine is theirs:
            continue
        key = id(mine), id(theirs)
        if key not in known:
            known[key] = float(np.max((0.0 if mine is None else mine) - (0.0 if theirs is None else theirs)))
        excess += known[key]
    return excess <= 0
