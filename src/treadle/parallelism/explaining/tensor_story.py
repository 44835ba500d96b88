"""A tensor through the step: where it is made, kept and taken, in which state, and what brings it there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from treadle.parallelism.evaluation.part_run import LEAVES, PartRun
from treadle.parallelism.explaining.state_format import dims_of, spelled_state
from treadle.parallelism.graph.compute_graph import Phase, Source, TensorRef
from treadle.parallelism.graph.model_graph import ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan
from treadle.parallelism.plan.part_plan import ActivationPolicy
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
        """Seconds of the collectives."""
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
    legs : tuple of ReshardingStep
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
    """Return the states of a tensor of a part, and of the gradient of a parameter.

    Parameters
    ----------
    plan : ParallelPlan
        Of the model that the part belongs to; for mixed layers that of the first one.
    part : ModelPart
    tensor : TensorRef
    mesh : Mesh
        Without an axis of stages.
    costs : Costs
    """
    node = part.graph.nodes[tensor.node]
    run = PartRun(part, plan.plan_of(part.name), plan.boundary_of(part.name), axis_sizes(mesh))
    return TensorStory(
        part.name,
        node.path or part.graph.spelled(tensor),
        "parameter" if node.source is Source.PARAMETER else node.kind.value.lower(),
        "".join(dims_of(part, tensor)),
        part.graph.nbytes(tensor),
        tuple(_steps(run, tensor, mesh, costs)),
    )


def _steps(run: PartRun, tensor: TensorRef, mesh: Mesh, costs: Costs) -> Iterator[ReshardingStep]:
    """Yield the states of a tensor in the order of the step."""
    graph, node = run.graph, run.graph.nodes[tensor.node]

    def step(
        tensor: TensorRef, when: str, what: str, state: Sharding, source: Sharding | None = None
    ) -> ReshardingStep:
        """Return a state, with the collectives that lead to it from another one."""
        collectives: tuple[Step, ...] = ()
        if source is not None and source != state:
            element_bytes = graph.result(tensor).element_bytes
            transitions = Transitions(mesh, costs, graph.factor_sizes(tensor), element_bytes)
            collectives = transitions.cheapest(source, state).collectives
        words = spelled_state(dims_of(run.part, tensor), state)
        return ReshardingStep(when, what, words, run.local_bytes(tensor, state), collectives)

    def readers(phase: Phase, source: Sharding) -> Iterator[ReshardingStep]:
        shared = run.plan.shared(graph.spelled(tensor), phase)
        if shared is not None:
            yield step(tensor, phase.value, "shared", shared, source)
        readings = run.readings.get((tensor, phase), ())
        for one in sorted(readings, key=lambda one: (one.node == LEAVES, one.node)):
            if one.node == LEAVES:
                if tensor in (run.part.leaves, run.part.enters and graph.gradients.get(run.part.enters)):
                    yield step(tensor, phase.value, "between layers", one.state, shared or source)
                continue
            reader = graph.nodes[one.node]
            again = " once more" if reader.phase is not phase else ""
            yield step(tensor, phase.value, f"{reader.name} takes{again}", one.state, shared or source)

    source, what = _origin(run, tensor)
    yield step(tensor, node.phase.value, what, source)
    yield from readers(node.phase, source)
    saved = run.plan.saved(graph.spelled(tensor))
    if saved is not None:
        yield step(tensor, "forward", "kept", saved, source)
    if node.phase is Phase.FORWARD:
        if node.computes and run.operator(tensor.node).keep is ActivationPolicy.RECOMPUTED:
            yield step(tensor, "backward", "made once more", source)
        yield from readers(Phase.BACKWARD, saved or source)
    if (gradient := graph.gradients.get(tensor)) is not None and node.source is Source.PARAMETER:
        made, what = _origin(run, gradient)
        yield step(gradient, "gradient", what, made)
        yield step(gradient, "gradient", "stored", run.stored(tensor), made)


def _origin(run: PartRun, tensor: TensorRef) -> tuple[Sharding, str]:
    """Return the first state of a tensor, and where it comes from."""
    node, part = run.graph.nodes[tensor.node], run.part
    if node.computes:
        return run.operator(tensor.node).outputs[tensor.slot], f"{node.name} makes"
    if node.source is Source.PARAMETER:
        return run.stored(tensor), "stored"
    ends = (part.enters, part.leaves and run.graph.tangents[part.leaves])
    return run.stored(tensor), "between layers" if tensor in ends else "given"
