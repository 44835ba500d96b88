"""Memory of a rank while each operator runs, besides persistent tensors: from creation to last use.

At a moment (an operator that runs) there are, besides parameters, saved tensors and outputs of layers:

- tensors that wait for a reader, in the state from which it takes them, unless that is the saved one;
- what the operator takes in another state than the one in which it waits;
- what it makes.

What is computed again is there from the beginning of the backward pass to its last reader; moments while it
is being computed again are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from treadle.parallelism.graph.compute_graph import Phase, Source, TensorRef
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.variable_table import VariableTable
from treadle.parallelism.problem.variables import OperatorVariable, Scope, View, ascending, same_states
from treadle.parallelism.search.factor_graph import FloatArray


@dataclass(frozen=True, eq=False)
class Term:
    """Bytes that are held from one operator of a phase to another, by states of one variable or of two."""

    scope: Scope
    held: FloatArray
    first: int = 0
    last: int = 0

    @classmethod
    def of_pair(cls, first: int, second: int, held: FloatArray, start: int = 0, last: int = 0) -> Term:
        """Return the table by the states of two variables in any order."""
        return cls(*ascending((first, second), held), start, last)


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
        """Yield one moment for each operator."""
        for phase in Phase:
            terms = [term for term in self._terms(phase) if term.held.any()]
            sums: dict[tuple[int, ...], FloatArray] = {}
            for place, node in enumerate(self.order[phase]):
                found: dict[Scope, list[FloatArray]] = defaultdict(list)
                for term in terms:
                    if term.first <= place <= term.last:
                        found[term.scope].append(term.held)
                held = {}
                for scope, some in found.items():
                    # equal sums share one array among moments
                    key = tuple(map(id, some))
                    if key not in sums:
                        sums[key] = some[0] if len(some) == 1 else np.sum(some, axis=0)
                    held[scope] = sums[key]
                own = (self._taken(node, phase), self._made(node, phase), self._of_loop(node, phase))
                for term in chain(*own):
                    if term.held.any():
                        held[term.scope] = held[term.scope] + term.held if term.scope in held else term.held
                yield held

    def bytes_of(self, tensor: TensorRef, view: View) -> FloatArray:
        """Return the bytes at one rank, by state of the variable."""
        return self.table.held(self.part, tensor, view)

    def result_bytes(self, tensor: TensorRef, variable: OperatorVariable) -> FloatArray:
        """Return the bytes of what a cluster makes; of a tensor within its loop those of a chunk."""
        return self.bytes_of(tensor, variable.result_states(tensor)) * self.part_of(tensor, variable)

    def part_of(self, tensor: TensorRef, variable: OperatorVariable) -> FloatArray:
        """Return the fraction of a cluster's input or result that exists simultaneously, by state."""
        if any(tensor in region.tensors for region in self.table.regions[self.part]):
            return variable.fraction
        return np.ones(variable.size)

    def _terms(self, phase: Phase) -> Iterator[Term]:
        for tensor in self.graph.tensors():
            node = self.graph.nodes[tensor.node]
            readers = self.readers[tensor, phase]
            if self.values.is_free(tensor):
                if node.source is Source.TANGENT and readers:
                    # a gradient from outside: whole at every rank until its last reader, whatever the plan
                    number, variable = self.table.numbered(self.part, 0)
                    held = np.full(variable.size, float(self.graph.nbytes(tensor)))
                    yield Term((number,), held, 0, max(readers))
            elif node.phase is phase:
                yield from self._waiting(tensor, phase, readers)
            elif phase is Phase.BACKWARD and readers:
                yield from self._waiting_late(tensor, readers)

    def _waiting(self, tensor: TensorRef, phase: Phase, readers: list[int]) -> Iterator[Term]:
        """Yield the bytes of a tensor in the phase in which it is made."""
        last = max(readers, default=-1)
        if tensor == self.values.entered_gradient:
            last = len(self.order[phase]) - 1  # it waits for the part before
        shared = self.table.shared.get((self.part, tensor, phase))
        producer = self.values.producer.get(tensor)
        if producer is None:
            yield from self._waiting_from_before(tensor, shared, readers, last)
        elif (first := self.place[tensor.node] + 1) <= last:
            yield replace(self._held(tensor, producer, shared), first=first, last=last)

    def _held(self, tensor: TensorRef, producer: int, shared: int | None) -> Term:
        """Return the results of a cluster while they wait, unless they wait in their saved state."""
        number, variable = self.table.numbered(self.part, producer)
        made = variable.result_states(tensor)
        kept = self.table.kept.get((self.part, tensor))
        saved = variable.is_saved(ActivationPolicy.SAVED) & (tensor in variable.cluster.makes)
        if shared is not None:
            view = self.table.state(shared).view
            is_saved_so = saved[:, None] & (same_states(made, view) | made.is_partial[:, None])
            held = np.where(is_saved_so, 0.0, self.bytes_of(tensor, view)[None, :])
            return Term.of_pair(number, shared, held * self.part_of(tensor, variable)[:, None])
        made_bytes = self.result_bytes(tensor, variable)
        if kept is None:
            return Term((number,), np.where(saved, 0.0, made_bytes))
        is_saved_so = saved[:, None] & same_states(made, self.table.state(kept).view)
        return Term.of_pair(number, kept, np.where(is_saved_so, 0.0, made_bytes[:, None]))

    def _waiting_from_before(
        self, tensor: TensorRef, shared: int | None, readers: list[int], last: int
    ) -> Iterator[Term]:
        """Yield extra bytes of tensors from before: none in their stored state, but an entering gradient."""
        number, given = self.table.source(self.part, tensor)
        is_gradient = self.graph.nodes[tensor.node].source is Source.TANGENT
        if shared is not None:
            view = self.table.state(shared).view
            is_stored_so = same_states(given, view) & (not is_gradient)
            held = np.where(is_stored_so, 0.0, self.bytes_of(tensor, view)[None, :])
            yield Term.of_pair(number, shared, held, min(readers, default=0), last)
        elif is_gradient:
            yield Term((number,), self.bytes_of(tensor, given), 0, last)

    def _waiting_late(self, tensor: TensorRef, readers: list[int]) -> Iterator[Term]:
        """Yield the bytes of forward tensors in the backward phase."""
        first, last = min(readers), max(readers)
        shared = self.table.shared.get((self.part, tensor, Phase.BACKWARD))
        if shared is not None:
            source, given = self.table.giver(self.part, tensor, Phase.BACKWARD)
            variable = self.table.state(shared)
            shared_bytes = self.bytes_of(tensor, variable.view)
            held = np.where(same_states(given, variable.view), 0.0, shared_bytes[None, :])
            yield Term.of_pair(source, shared, held, first, last)
            yield Term.of_pair(source, shared, held * variable.early[None, :], 0, first - 1)
        if (self.part, tensor) in self.table.kept:
            number, producer = self.table.numbered(self.part, self.values.producer[tensor])
            again = producer.is_saved(ActivationPolicy.RECOMPUTED)
            if shared is None:
                yield Term((number,), again * self.result_bytes(tensor, producer), 0, last)
            else:
                there = again * self.part_of(tensor, producer)
                yield Term.of_pair(number, shared, there[:, None] * shared_bytes[None, :], 0, last)

    def _of_loop(self, node: int, phase: Phase) -> Iterator[Term]:
        """Yield outside inputs and results of other members of its loop: they exist with each member."""
        for region in self.table.regions[self.part]:
            for mate in sorted(region.nodes - {node}) if node in region.nodes else ():
                if self.graph.nodes[mate].phase is not phase:
                    continue
                number, variable = self.table.numbered(self.part, self.owner[mate])
                runs = variable.fraction < 1
                read = {operand.tensor for operand in self.graph.nodes[mate].operands}
                inner = [tensor for tensor in region.tensors if tensor.node == mate or tensor in read]
                terms = list(self._taken(mate, phase, without=inner))
                if mate > node and not any(tensor.node == mate for tensor in inner):
                    terms += self._made(mate, phase)
                for term in terms:
                    where = runs[:, None] if len(term.scope) == 2 and term.scope[0] == number else runs
                    yield Term(term.scope, term.held * where)

    def _taken(self, node: int, phase: Phase, without: Sequence[TensorRef] = ()) -> Iterator[Term]:
        """Yield the inputs of an operator in another state than that in which they wait."""
        number, variable = self.table.numbered(self.part, self.owner[node])
        seen = set(without)
        for at, operand in enumerate(self.graph.nodes[node].operands):
            tensor = operand.tensor
            if tensor in seen:
                continue
            seen.add(tensor)
            taken = variable.operand(node, at)
            taken_bytes = self.bytes_of(tensor, taken)
            if self.values.is_free(tensor):
                is_cut = np.array([bool(state.axes or state.partial) for state in taken.states])[taken.index]
                yield Term((number,), is_cut * taken_bytes)
                continue
            taken_bytes = taken_bytes * self.part_of(tensor, variable)
            source, given = self.table.origin(self.part, tensor, phase)
            held = np.where(same_states(given, taken), 0.0, taken_bytes[None, :])
            yield Term.of_pair(source, number, held)
            is_shared = (self.part, tensor, phase) in self.table.shared
            if not is_shared and phase is Phase.BACKWARD and (self.part, tensor) in self.table.kept:
                maker, producer = self.table.numbered(self.part, self.values.producer[tensor])
                again = producer.is_saved(ActivationPolicy.RECOMPUTED)[:, None]
                same = same_states(producer.result_states(tensor), taken)
                yield Term.of_pair(maker, number, np.where(again & ~same, taken_bytes[None, :], 0.0))

    def _made(self, node: int, phase: Phase) -> Iterator[Term]:
        """Yield the results of an operator; those saved in this state count as saved."""
        number, variable = self.table.numbered(self.part, self.owner[node])
        for tensor in self.graph.results(node):
            if phase is Phase.FORWARD:
                yield self._held(tensor, self.owner[node], None)
            else:
                yield Term((number,), self.result_bytes(tensor, variable))


def without_dominated(moments: list[Moment]) -> list[Moment]:
    """Return the moments that no other one dominates, i.e. holds as much as whatever the plan."""
    known: dict[tuple[int, int], float] = {}
    return [
        one
        for at, one in enumerate(moments)
        if not any(
            _is_below(one, other, known) and not (_is_below(other, one, known) and place > at)
            for place, other in enumerate(moments)
            if place != at
        )
    ]


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
