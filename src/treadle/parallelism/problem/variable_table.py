"""All variables of a model on a mesh, and which of them stands for what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from treadle.errors import ScheduleError
from treadle.parallelism.graph.compute_graph import ComputeGraph, Index, Phase, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.part_plan import Keep
from treadle.parallelism.problem.choices import cluster_choices, cluster_strategies, uncut_atoms
from treadle.parallelism.problem.loops import N_CHUNKS, LoopChoice, Region, regions_of
from treadle.parallelism.problem.operator_clusters import factors, shown
from treadle.parallelism.problem.values import PartValues, values_of
from treadle.parallelism.problem.variables import (
    OperatorVariable,
    StateVariable,
    Variable,
    View,
    Wait,
    states_over,
)
from treadle.parallelism.state.sharding import Sharding

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
    """By part and cluster."""
    stored: dict[tuple[int, TensorRef], int] = field(default_factory=dict)
    """By part and parameter."""
    boundary: dict[str, int] = field(default_factory=dict)
    """`ACTIVATION`, `GRADIENT`."""
    kept: dict[tuple[int, TensorRef], int] = field(default_factory=dict)
    shared: dict[tuple[int, TensorRef, Phase], int] = field(default_factory=dict)
    regions: list[tuple[Region, ...]] = field(default_factory=list)
    """By part."""
    cut: list[dict[TensorRef, set[Index]]] = field(default_factory=list)
    """By part and tensor the factors that some cluster may cut."""

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
        """The number of a new variable."""
        if variable.size == 0:
            raise ScheduleError(f"{variable.name} cannot be laid out on the mesh")
        self.variables.append(variable)
        return len(self.variables) - 1

    def operator(self, part: int, cluster: int) -> OperatorVariable:
        """How a cluster runs."""
        found = self.variables[self.operators[part, cluster]]
        assert isinstance(found, OperatorVariable)
        return found

    def state(self, number: int) -> StateVariable:
        """A variable that is a state."""
        found = self.variables[number]
        assert isinstance(found, StateVariable)
        return found

    def _add_operators(self, number: int) -> None:
        values, graph = self.values[number], self.values[number].graph
        uncut = uncut_atoms(graph)
        for at, cluster in enumerate(values.clusters):
            choices = cluster_choices(graph, cluster, uncut)
            for choice in choices:
                for (member, place), what in choice.taken.items():
                    if isinstance(what, Index):
                        tensor = graph.nodes[member].operands[place].tensor
                        self.cut[number].setdefault(tensor, set()).add(what)
                for tensor, what in choice.made.items():
                    if isinstance(what, Index):
                        self.cut[number].setdefault(tensor, set()).add(what)
            keeps: tuple[Keep | None, ...] = (None,)
            if cluster.phase is Phase.FORWARD:
                keeps = (Keep.UNUSED,)
                if values.is_read_backward(at):
                    keeps = (Keep.SAVED, Keep.RECOMPUTED)
                elif values.is_needed_again[at]:
                    keeps = (Keep.UNUSED, Keep.SAVED, Keep.RECOMPUTED)
            keeps, loops = self._looped(number, at, keeps)
            name = f"{values.part.name}/{shown(graph, cluster)}"
            strategies = tuple(cluster_strategies(graph, cluster, choices, self.sizes))
            self.operators[number, at] = self.add(
                OperatorVariable(name, number, cluster, graph, strategies, keeps, loops)
            )

    def _looped(
        self, number: int, at: int, keeps: tuple[Keep | None, ...]
    ) -> tuple[tuple[Keep | None, ...], tuple[LoopChoice | None, ...]]:
        """Flags of a cluster: what it may be without a loop, and in each loop of a region that it is in.

        In a loop, what makes the region's tensors is computed again if the backward pass needs it, and what
        only reads them is not: the loop of the backward pass would wait for what waits for it.
        """
        cluster = self.values[number].clusters[at]
        all_keeps = list(keeps)
        found: list[LoopChoice | None] = [None for _ in keeps]
        for region in self.regions[number]:
            inside = region.nodes & cluster.member_set
            if not inside:
                continue
            makes = any(tensor.node in cluster.member_set for tensor in region.tensors)
            refused = (Keep.SAVED,) if makes else (Keep.RECOMPUTED,)
            for letter in range(len(region.letters)):
                for n_chunks in N_CHUNKS:
                    some = [keep for keep in keeps if keep not in refused]
                    all_keeps += some
                    found += [LoopChoice(region.number, letter, n_chunks)] * len(some)
        return tuple(all_keeps), tuple(found)

    def states_of(self, part: int, tensor: TensorRef, *, all_orders: bool = False) -> list[Sharding]:
        """Every state of a tensor that no summand is."""
        graph = self.values[part].graph
        own = factors(graph, tensor)
        cut = frozenset(at for at, index in enumerate(own) if index in self.cut[part].get(tensor, ()))
        factor_sizes = [graph.atoms[index.atom].size for index in own]
        return list(states_over(factor_sizes, cut, self.sizes, all_orders=all_orders))

    def _add_boundary(self) -> None:
        """States of activations between parts and of their gradient, without factors of one element."""
        for what in (ACTIVATION, GRADIENT):
            ends = []
            for number, values in enumerate(self.values):
                gradient, entered = values.tangent, values.entered_gradient
                pair = (values.part.leaves, values.part.enters) if what == ACTIVATION else (gradient, entered)
                ends += [(number, tensor) for tensor in pair if tensor is not None]
            if not ends:
                continue
            possible: dict[Sharding, None] = {}
            for number, tensor in ends:
                wide = self.wide(number, tensor)
                for state in self.states_of(number, tensor):
                    possible[Sharding(tuple(state.dims[at] for at in wide))] = None
            number, tensor = ends[0]
            name = f"boundary/{what}"
            self.boundary[what] = self.add(
                StateVariable(name, Wait.BOUNDARY, number, tensor, tuple(possible), tuple(self.sizes))
            )

    def wide(self, part: int, tensor: TensorRef) -> tuple[int, ...]:
        """Places of a tensor's factors of more than one element."""
        graph = self.values[part].graph
        own = factors(graph, tensor)
        return tuple(at for at, index in enumerate(own) if graph.atoms[index.atom].size > 1)

    def widened(self, part: int, tensor: TensorRef, view: View) -> View:
        """A view over factors of more than one element, as one over all factors of a tensor."""
        graph = self.values[part].graph
        own, wide = factors(graph, tensor), self.wide(part, tensor)
        states = []
        for state in view.states:
            dims: list[tuple[str, ...]] = [()] * len(own)
            for at, axes in zip(wide, state.dims, strict=True):
                dims[at] = axes
            states.append(Sharding(tuple(dims), state.partial))
        return View(tuple(states), view.index)

    def _add_parameters(self, number: int) -> None:
        values = self.values[number]
        for path, tensor in values.part.parameters.items():
            first = self._tied_to(number, path)
            if first is not None:
                self.stored[number, tensor] = first
                continue
            states = tuple(self.states_of(number, tensor, all_orders=True))
            name = f"{values.part.name}/{path}"
            self.stored[number, tensor] = self.add(
                StateVariable(name, Wait.STORED, number, tensor, states, tuple(self.sizes))
            )

    def _tied_to(self, number: int, path: str) -> int | None:
        for tie in self.model.ties:
            if tie.second == (self.model.parts[number].name, path):
                for part, values in enumerate(self.values):
                    if values.part.name == tie.first[0]:
                        return self.stored[part, values.part.parameters[tie.first[1]]]
        return None

    def stored_view(self, part: int, tensor: TensorRef) -> View:
        """States in which a parameter is stored, over this part's factors of it."""
        variable = self.state(self.stored[part, tensor])
        if variable.part == part and variable.tensor == tensor:
            return variable.view
        wide = self.wide(variable.part, variable.tensor)
        narrow = tuple(
            Sharding(tuple(state.dims[at] for at in wide), state.partial) for state in variable.states
        )
        return self.widened(part, tensor, View(narrow, variable.view.index))

    def source(self, part: int, tensor: TensorRef) -> tuple[int, View] | None:
        """Who gives a tensor in its own phase; None where it lies at every rank."""
        values = self.values[part]
        if tensor in values.producer:
            number = self.operators[part, values.producer[tensor]]
            return number, self.operator(part, values.producer[tensor]).made(tensor)
        if (part, tensor) in self.stored:
            return self.stored[part, tensor], self.stored_view(part, tensor)
        for what, at in ((ACTIVATION, values.part.enters), (GRADIENT, values.tangent)):
            if tensor == at:
                number = self.boundary[what]
                return number, self.widened(part, tensor, self.state(number).view)
        return None

    def backward_source(self, part: int, tensor: TensorRef) -> tuple[int, View] | None:
        """Who gives a tensor to the backward pass."""
        number = self.kept.get((part, tensor))
        return self.source(part, tensor) if number is None else (number, self.state(number).view)

    def targets(self, part: int, tensor: TensorRef) -> list[tuple[int, View]]:
        """What is no operator and receives a tensor: a boundary, a parameter for its gradient."""
        values, found = self.values[part], []
        for what, at in ((ACTIVATION, values.part.leaves), (GRADIENT, values.entered_gradient)):
            if tensor == at:
                number = self.boundary[what]
                found.append((number, self.widened(part, tensor, self.state(number).view)))
        owner = values.parameter_gradients.get(tensor)
        if owner is not None:
            found.append((self.stored[part, owner], self.as_gradient(part, owner, tensor)))
        return found

    def is_only_reader(self, part: int, reader: int, tensor: TensorRef, phase: Phase) -> bool:
        """Whether a tensor has no other reader in a phase: its members share what they take."""
        values = self.values[part]
        if values.clusters[reader].phase is not phase:
            return len(values.again_readers(tensor)) == 1 and not values.readers(tensor, phase)
        return (part, tensor, phase) not in self.shared

    def as_gradient(self, part: int, owner: TensorRef, gradient: TensorRef) -> View:
        """The state of a parameter over the factors of its gradient."""
        graph: ComputeGraph = self.values[part].graph
        view = self.stored_view(part, owner)
        mine, theirs = factors(graph, owner), factors(graph, gradient)
        if mine == theirs:
            return view
        left = list(range(len(mine)))
        order: list[int | None] = []
        for index in theirs:
            match = next((at for at in left if mine[at] == index), None)
            if match is None:
                match = next((at for at in left if mine[at].atom == index.atom), None)
            if match is not None:
                left.remove(match)
            order.append(match)
        states = tuple(
            Sharding(tuple(() if at is None else state.dims[at] for at in order), state.partial)
            for state in view.states
        )
        return View(states, view.index)

    def _add_waits(self, number: int) -> None:
        values = self.values[number]
        for cluster in values.clusters:
            if cluster.phase is not Phase.FORWARD:
                continue
            for tensor in cluster.makes:
                if values.readers(tensor, Phase.BACKWARD):
                    states = tuple(self.states_of(number, tensor))
                    name = f"{values.part.name}/{values.graph.spelled(tensor)} kept"
                    self.kept[number, tensor] = self.add(
                        StateVariable(name, Wait.KEPT, number, tensor, states, tuple(self.sizes))
                    )
        for tensor in values.graph.tensors():
            if values.is_free(tensor):
                continue
            for phase in Phase:
                self._add_shared(number, tensor, phase)

    def _add_shared(self, number: int, tensor: TensorRef, phase: Phase) -> None:
        values = self.values[number]
        own = values.readers(tensor, phase)
        is_backward = phase is Phase.BACKWARD
        made_forward = values.graph.nodes[tensor.node].phase is Phase.FORWARD
        again = values.again_readers(tensor) if is_backward and made_forward and own else ()
        own_phase = values.graph.nodes[tensor.node].phase is phase
        targets = self.targets(number, tensor) if own_phase else []
        if not own or len(own) + len(again) + len(targets) < 2:
            return
        source = self.backward_source(number, tensor) if is_backward else self.source(number, tensor)
        if source is None:
            return
        states: dict[Sharding, None] = {}
        takes_summands = False
        for reader in (*own, *again):
            for state in self.operator(number, reader).taken(tensor).states:
                states[state] = None
                takes_summands |= bool(state.partial)
        for _, view in targets:
            states.update(dict.fromkeys(view.states))
        for state in source[1].states:
            if takes_summands or not state.partial:
                states[state] = None
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
