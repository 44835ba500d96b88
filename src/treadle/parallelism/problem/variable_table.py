"""All variables of a model on a mesh, and which of them stands for what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import Index, Phase, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.fit import boundary_state
from treadle.parallelism.plan.part_plan import ActivationPolicy
from treadle.parallelism.problem.choices import cluster_choices, cluster_strategies, unsharded_dims
from treadle.parallelism.problem.loops import N_CHUNKS, LoopChoice, Region, regions_of
from treadle.parallelism.problem.operator_clusters import format_cluster
from treadle.parallelism.problem.operator_work import local_bytes
from treadle.parallelism.problem.values import PartValues, values_of
from treadle.parallelism.problem.variables import (
    OperatorVariable,
    StateVariable,
    Variable,
    View,
    Wait,
    states_over,
)
from treadle.parallelism.search.factor_graph import FloatArray
from treadle.parallelism.state.sharding import Sharding

End = tuple[int, View]
"""A variable, and the states in which it gives or takes a tensor."""
ACTIVATION, GRADIENT = "activation", "gradient"


@dataclass(eq=False)
class VariableTable:
    """Variables by what they stand for.

    Parameters
    ----------
    model : ModelGraph
    sizes : mapping from axis to its ranks
    """

    model: ModelGraph
    sizes: Mapping[str, int]
    variables: list[Variable] = field(default_factory=list)
    values: list[PartValues] = field(default_factory=list)
    operators: dict[tuple[int, int], int] = field(default_factory=dict)
    """Variables by part and cluster."""
    stored: dict[tuple[int, TensorRef], int] = field(default_factory=dict)
    """Variables by part and parameter."""
    boundary: dict[str, int] = field(default_factory=dict)
    """`ACTIVATION`, `GRADIENT`."""
    kept: dict[tuple[int, TensorRef], int] = field(default_factory=dict)
    shared: dict[tuple[int, TensorRef, Phase], int] = field(default_factory=dict)
    regions: list[tuple[Region, ...]] = field(default_factory=list)
    """Variables by part."""
    cut: list[dict[TensorRef, set[Index]]] = field(default_factory=list)
    """Factors of each part's tensors that some cluster may shard."""

    def __post_init__(self) -> None:
        for number, part in enumerate(self.model.parts):
            self.values.append(values_of(part))
            self.regions.append(regions_of(self.values[-1]))
            self.cut.append({})
            self._add_operators(number)
        self._add_boundary()
        for number in range(len(self.values)):
            self._add_parameters(number)
        for number in range(len(self.values)):
            self._add_waits(number)

    def add(self, variable: Variable) -> int:
        """Add a variable, and return its number."""
        if variable.size == 0:
            raise ScheduleError(f"{variable.name} cannot be laid out on the mesh")
        self.variables.append(variable)
        return len(self.variables) - 1

    def _add_state(
        self, name: str, wait: Wait, part: int, tensor: TensorRef, states: Iterable[Sharding]
    ) -> int:
        return self.add(StateVariable(name, wait, part, tensor, tuple(states), tuple(self.sizes)))

    def operator(self, part: int, cluster: int) -> OperatorVariable:
        """Make the variable of a cluster's execution."""
        return self.numbered(part, cluster)[1]

    def numbered(self, part: int, cluster: int) -> tuple[int, OperatorVariable]:
        """Return the variable of a cluster, and its number."""
        number = self.operators[part, cluster]
        found = self.variables[number]
        assert isinstance(found, OperatorVariable)
        return number, found

    def state(self, number: int) -> StateVariable:
        """Return A variable that is a state."""
        found = self.variables[number]
        assert isinstance(found, StateVariable)
        return found

    def held(self, part: int, tensor: TensorRef, view: View) -> FloatArray:
        """Return the bytes of a tensor at one rank, by state of the variable."""
        graph = self.values[part].graph
        held = [local_bytes(graph, tensor, state, self.sizes) for state in view.states]
        return np.array(held, np.float64)[view.index]

    def _add_operators(self, number: int) -> None:
        values, graph = self.values[number], self.values[number].graph
        uncut = unsharded_dims(graph)
        for at, cluster in enumerate(values.clusters):
            choices = cluster_choices(graph, cluster, uncut)
            for choice in choices:
                taken = ((graph.nodes[m].operands[at].tensor, what) for (m, at), what in choice.taken.items())
                for tensor, what in (*taken, *choice.made.items()):
                    if isinstance(what, Index):
                        self.cut[number].setdefault(tensor, set()).add(what)
            keeps: tuple[ActivationPolicy | None, ...] = (None,)
            if cluster.phase is Phase.FORWARD:
                keeps = (ActivationPolicy.UNUSED,)
                if values.is_read_backward(at):
                    keeps = (ActivationPolicy.SAVED, ActivationPolicy.RECOMPUTED)
                elif values.is_reread[at]:
                    keeps = (ActivationPolicy.UNUSED, ActivationPolicy.SAVED, ActivationPolicy.RECOMPUTED)
            keeps, loops = self._looped(number, at, keeps)
            name = f"{values.part.name}/{format_cluster(graph, cluster)}"
            strategies = tuple(cluster_strategies(graph, cluster, choices, self.sizes))
            self.operators[number, at] = self.add(
                OperatorVariable(name, number, cluster, graph, strategies, keeps, loops)
            )

    def _looped(
        self, number: int, at: int, keeps: tuple[ActivationPolicy | None, ...]
    ) -> tuple[tuple[ActivationPolicy | None, ...], tuple[LoopChoice | None, ...]]:
        """Return the policies of a cluster without a loop, and in each loop of a region that it is in.

        In a loop, what makes the region's tensors is computed again if the backward pass needs it, and what
        only reads them is not: the loop of the backward pass would wait for what waits for it.
        """
        members = self.values[number].clusters[at].member_set
        found: list[tuple[ActivationPolicy | None, LoopChoice | None]] = [(keep, None) for keep in keeps]
        for region in self.regions[number]:
            if region.nodes & members:
                makes = any(tensor.node in members for tensor in region.tensors)
                excluded = ActivationPolicy.SAVED if makes else ActivationPolicy.RECOMPUTED
                found += [
                    (keep, LoopChoice(region.number, letter, n_chunks))
                    for letter in range(len(region.letters))
                    for n_chunks in N_CHUNKS
                    for keep in keeps
                    if keep is not excluded
                ]
        return tuple(keep for keep, _ in found), tuple(loop for _, loop in found)

    def states_of(self, part: int, tensor: TensorRef, *, all_orders: bool = False) -> list[Sharding]:
        """Return every state of a tensor that is not partial."""
        graph = self.values[part].graph
        may_cut = self.cut[part].get(tensor, ())
        cut = frozenset(at for at, index in enumerate(graph.factors(tensor)) if index in may_cut)
        return list(states_over(graph.factor_sizes(tensor), cut, self.sizes, all_orders=all_orders))

    def _add_boundary(self) -> None:
        """Add the states of activations between parts and of their gradient."""
        pairs = {
            ACTIVATION: [(values.part.leaves, values.part.enters) for values in self.values],
            GRADIENT: [(values.tangent, values.entered_gradient) for values in self.values],
        }
        for what, by_part in pairs.items():
            ends = [(at, tensor) for at, pair in enumerate(by_part) for tensor in pair if tensor is not None]
            if ends:
                narrow = (self._narrowed(*end, self.states_of(*end)) for end in ends)
                possible = dict.fromkeys(chain.from_iterable(narrow))
                self.boundary[what] = self._add_state(f"boundary/{what}", Wait.BOUNDARY, *ends[0], possible)

    def wide(self, part: int, tensor: TensorRef) -> tuple[int, ...]:
        """Return the places of a tensor's factors of more than one element."""
        sizes = self.values[part].graph.factor_sizes(tensor)
        return tuple(at for at, size in enumerate(sizes) if size > 1)

    def _narrowed(self, part: int, tensor: TensorRef, states: Iterable[Sharding]) -> list[Sharding]:
        """Return the states over a tensor's factors of more than one element."""
        wide = self.wide(part, tensor)
        return [Sharding(tuple(state.dims[at] for at in wide), state.partial) for state in states]

    def widened(self, part: int, tensor: TensorRef, states: Iterable[Sharding]) -> tuple[Sharding, ...]:
        """Return the states over factors of more than one element, as states over all factors of a tensor."""
        own = self.values[part].part
        return tuple(boundary_state(own, tensor, state) for state in states)

    def _boundary_end(self, part: int, tensor: TensorRef, what: str) -> End:
        """Return the boundary's variable, its states over all factors of a tensor."""
        number = self.boundary[what]
        view = self.state(number).view
        return number, View(self.widened(part, tensor, view.states), view.index)

    def _add_parameters(self, number: int) -> None:
        part, owners = self.model.parts[number], {tie.second: tie.first for tie in self.model.ties}
        for path, tensor in part.parameters.items():
            if (owner := owners.get((part.name, path))) is not None:  # stored once, by the first part
                first = [one.name for one in self.model.parts].index(owner[0])
                stored = self.stored[first, self.model.parts[first].parameters[owner[1]]]
            else:
                states = self.states_of(number, tensor, all_orders=True)
                stored = self._add_state(f"{part.name}/{path}", Wait.STORED, number, tensor, states)
            self.stored[number, tensor] = stored

    def stored_view(self, part: int, tensor: TensorRef) -> View:
        """Return the states in which a parameter is stored, over this part's factors of it."""
        variable = self.state(self.stored[part, tensor])
        if variable.part == part and variable.tensor == tensor:
            return variable.view
        narrow = self._narrowed(variable.part, variable.tensor, variable.states)
        return View(self.widened(part, tensor, narrow), variable.view.index)

    def source(self, part: int, tensor: TensorRef) -> End:
        """Return the variable of a tensor's producer in its phase; replicated tensors have none."""
        values = self.values[part]
        if tensor in values.producer:
            number, variable = self.numbered(part, values.producer[tensor])
            return number, variable.result_states(tensor)
        if (part, tensor) in self.stored:
            return self.stored[part, tensor], self.stored_view(part, tensor)
        assert tensor in (values.part.enters, values.tangent), "only free tensors have no source"
        return self._boundary_end(part, tensor, ACTIVATION if tensor == values.part.enters else GRADIENT)

    def giver(self, part: int, tensor: TensorRef, phase: Phase) -> End:
        """Return the variable that provides a tensor to a phase: the saved one for the backward pass."""
        number = self.kept.get((part, tensor)) if phase is Phase.BACKWARD else None
        return self.source(part, tensor) if number is None else (number, self.state(number).view)

    def origin(self, part: int, tensor: TensorRef, phase: Phase) -> End:
        """Return the state from which readers of a phase take a tensor: the shared one, or its source."""
        number = self.shared.get((part, tensor, phase))
        return self.giver(part, tensor, phase) if number is None else (number, self.state(number).view)

    def targets(self, part: int, tensor: TensorRef) -> list[End]:
        """Return a tensor's receiver other than operators: a boundary, or a parameter for its gradient."""
        values = self.values[part]
        ends = ((ACTIVATION, values.part.leaves), (GRADIENT, values.entered_gradient))
        found = [self._boundary_end(part, tensor, what) for what, end in ends if tensor == end]
        owner = values.parameter_gradients.get(tensor)
        if owner is not None:
            found.append((self.stored[part, owner], self.as_gradient(part, owner, tensor)))
        return found

    def is_only_reader(self, part: int, reader: int, tensor: TensorRef, phase: Phase) -> bool:
        """Whether a tensor has no other reader in a phase: its members share what they take."""
        values = self.values[part]
        if values.clusters[reader].phase is not phase:
            return len(values.backward_readers(tensor)) == 1 and not values.readers(tensor, phase)
        return (part, tensor, phase) not in self.shared

    def as_gradient(self, part: int, owner: TensorRef, gradient: TensorRef) -> View:
        """Return the state of a parameter over the factors of its gradient."""
        graph, view = self.values[part].graph, self.stored_view(part, owner)
        mine, theirs = graph.factors(owner), graph.factors(gradient)
        if mine == theirs:
            return view
        left = list(range(len(mine)))
        order: list[int | None] = []
        for index in theirs:
            same = [at for at in left if mine[at] == index]
            same += [at for at in left if mine[at].atom == index.atom]
            if same:
                left.remove(same[0])
            order.append(same[0] if same else None)
        states = (
            Sharding(tuple(() if at is None else state.dims[at] for at in order), state.partial)
            for state in view.states
        )
        return View(tuple(states), view.index)

    def _add_waits(self, number: int) -> None:
        values = self.values[number]
        for cluster in values.clusters:
            for tensor in cluster.makes if cluster.phase is Phase.FORWARD else ():
                if values.readers(tensor, Phase.BACKWARD):
                    name = f"{values.part.name}/{values.graph.spelled(tensor)} kept"
                    states = self.states_of(number, tensor)
                    self.kept[number, tensor] = self._add_state(name, Wait.KEPT, number, tensor, states)
        for tensor in values.graph.tensors():
            for phase in () if values.is_free(tensor) else Phase:
                self._add_shared(number, tensor, phase)

    def _add_shared(self, number: int, tensor: TensorRef, phase: Phase) -> None:
        values = self.values[number]
        own = values.readers(tensor, phase)
        own_phase = values.graph.nodes[tensor.node].phase
        is_late = phase is Phase.BACKWARD and own_phase is Phase.FORWARD
        again = values.backward_readers(tensor) if is_late and own else ()
        targets = self.targets(number, tensor) if own_phase is phase else []
        if not own or len(own) + len(again) + len(targets) < 2:
            return
        taken = [self.operator(number, reader).taken(tensor).states for reader in (*own, *again)]
        states = dict.fromkeys(chain(*taken, *(view.states for _, view in targets)))
        takes_summands = any(state.partial for some in taken for state in some)
        _, given = self.giver(number, tensor, phase)
        states.update((state, None) for state in given.states if takes_summands or not state.partial)
        name = f"{values.part.name}/{values.graph.spelled(tensor)} shared {phase.value}"
        early: tuple[bool, ...] = ()
        all_states = tuple(states)
        if again:
            # early first: where it costs nothing, ties leave readers free to be computed again
            early = (True,) * len(states) + (False,) * len(states)
            all_states *= 2
        self.shared[number, tensor, phase] = self.add(
            StateVariable(name, Wait.SHARED, number, tensor, all_states, tuple(self.sizes), early)
        )
