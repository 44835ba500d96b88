"""A tensor through the step: where it is made, kept and taken, in which state, and what brings it there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.parallelism.explaining.state_format import dims_of, spelled_state
from treadle.parallelism.graph.compute_graph import Operand, OperatorKind, Phase, Source, TensorRef, factors
from treadle.parallelism.graph.model_graph import ModelPart
from treadle.parallelism.plan.fit import boundary_state
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy, PartPlan
from treadle.parallelism.state.sharding import Sharding, axis_sizes
from treadle.parallelism.state.transitions import Step, Transitions
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Costs


@dataclass(frozen=True)
class ReshardingStep:
    """A state that a tensor takes.

    Parameters
    ----------
    when : str
        ``forward``, ``backward``, ``gradient``.
    what : str
        ``stored``, ``query takes``.
    state : str
        As `state_words` spells it.
    local_bytes : int
        At a rank.
    steps : tuple of Step
        What brings it there, collectives only.
    """

    when: str
    what: str
    state: str
    local_bytes: int
    steps: tuple[Step, ...]

    @property
    def seconds(self) -> float:
        """Of the collectives."""
        return float(sum(step.seconds for step in self.steps))


@dataclass(frozen=True)
class TensorStory:
    """All states of a tensor, in the order of the step.

    Parameters
    ----------
    part, name : str
    kind : str
        ``parameter``, or what makes it.
    letters : str
    whole_bytes : int
    legs : tuple of Leg
    """

    part: str
    name: str
    kind: str
    letters: str
    whole_bytes: int
    legs: tuple[ReshardingStep, ...]


def tensor_story(
    plan: ParallelPlan, part: ModelPart, tensor: TensorRef, mesh: Mesh, costs: Costs
) -> TensorStory:
    """States of a tensor of a part, and of the gradient of a parameter.

    Parameters
    ----------
    plan : ParallelPlan
        Of the model that the part belongs to; of mixed layers the first one's is told.
    part : ModelPart
    tensor : TensorRef
    mesh : Mesh
        Without an axis of stages.
    costs : Costs
    """
    node = part.graph.nodes[tensor.node]
    return TensorStory(
        part.name,
        node.path or part.graph.spelled(tensor),
        "parameter" if node.source is Source.PARAMETER else node.kind.value.lower(),
        "".join(dims_of(part, tensor)),
        part.graph.nbytes(tensor),
        tuple(_Teller(plan, part, tensor, mesh, costs).steps()),
    )


class _Teller:
    def __init__(
        self, plan: ParallelPlan, part: ModelPart, tensor: TensorRef, mesh: Mesh, costs: Costs
    ) -> None:
        self.plan, self.part, self.tensor, self.mesh, self.costs = plan, part, tensor, mesh, costs
        self.own: PartPlan = plan.plan_of(part.name)
        self.graph = part.graph

    def steps(self) -> Iterator[ReshardingStep]:
        """In the order of the step."""
        graph, tensor = self.graph, self.tensor
        node, name = graph.nodes[tensor.node], graph.spelled(tensor)
        source, what = self.origin(tensor)
        yield self.make_step(tensor, node.phase.value, what, source, None)
        yield from self.readers(tensor, node.phase, source)
        saved = self.own.saved(name)
        if saved is not None:
            yield self.make_step(tensor, "forward", "kept", saved, source)
        if node.phase is Phase.FORWARD:
            operator = self.own.operators.get(node.name)
            if operator is not None and operator.keep is ActivationPolicy.RECOMPUTED:
                yield self.make_step(tensor, "backward", "made once more", source, None)
            yield from self.readers(tensor, Phase.BACKWARD, saved or source)
        if (gradient := graph.gradients.get(tensor)) is not None and node.source is Source.PARAMETER:
            made, what = self.origin(gradient)
            yield self.make_step(gradient, "gradient", what, made, None)
            yield self.make_step(gradient, "gradient", "stored", self.own.parameters[node.path], made)

    def origin(self, tensor: TensorRef) -> tuple[Sharding, str]:
        """Where a tensor comes from in its own phase."""
        node, graph = self.graph.nodes[tensor.node], self.graph
        if node.kind is not OperatorKind.PLACEHOLDER:
            return self.own.operators[node.name].outputs[tensor.slot], f"{node.name} makes"
        if node.source is Source.PARAMETER:
            return self.own.parameters[node.path], "stored"
        boundary = self.plan.boundary_of(self.part.name)
        if tensor == self.part.enters:
            return boundary_state(self.part, tensor, boundary.activation), "between layers"
        if self.part.leaves is not None and tensor == graph.tangents[self.part.leaves]:
            return boundary_state(self.part, tensor, boundary.gradient), "between layers"
        return self.own.inputs[node.name], "given"

    def readers(self, tensor: TensorRef, phase: Phase, source: Sharding) -> Iterator[ReshardingStep]:
        """What operators of a phase take; operators that run once more read in both."""
        shared = self.own.shared(self.graph.spelled(tensor), phase)
        if shared is not None:
            yield self.make_step(tensor, phase.value, "shared", shared, source)
            source = shared
        for node in self.graph.nodes:
            plan = self.own.operators.get(node.name)
            again = phase is Phase.BACKWARD and plan is not None and plan.keep is ActivationPolicy.RECOMPUTED
            if plan is None or (node.phase is not phase and not again):
                continue
            for operand, state in zip(node.operands, plan.inputs, strict=True):
                if operand.tensor == tensor:
                    words = f"{node.name} takes{' once more' if again else ''}"
                    yield self.make_step(
                        tensor, phase.value, words, self.over_factors(operand, state), source
                    )
        if tensor == self.part.leaves and phase is Phase.FORWARD:
            state = boundary_state(self.part, tensor, self.plan.boundary_of(self.part.name).activation)
            yield self.make_step(tensor, phase.value, "between layers", state, source)
        if self.part.enters is not None and tensor == self.graph.gradients.get(self.part.enters):
            state = boundary_state(self.part, tensor, self.plan.boundary_of(self.part.name).gradient)
            yield self.make_step(tensor, phase.value, "between layers", state, source)

    def over_factors(self, operand: Operand, state: Sharding) -> Sharding:
        """A state over an operand's factors as one over the tensor's."""
        place = dict(zip(factors(operand.dims), state.dims, strict=True))
        own = factors(self.graph.result(operand.tensor).dims)
        return Sharding(tuple(place.get(index, ()) for index in own), state.partial)

    def make_step(
        self, tensor: TensorRef, when: str, what: str, state: Sharding, source: Sharding | None
    ) -> ReshardingStep:
        """A state, and the way there from another."""
        result = self.graph.result(tensor)
        shape = tuple(self.graph.atoms[index.atom].size for index in factors(result.dims))
        steps: tuple[Step, ...] = ()
        if source is not None and source != state:
            transitions = Transitions(self.mesh, self.costs, shape, result.element_bytes)
            steps = transitions.cheapest(source, state).collectives
        local = self.graph.nbytes(tensor) // state.n_shards(axis_sizes(self.mesh))
        return ReshardingStep(when, what, spelled_state(dims_of(self.part, tensor), state), local, steps)
