"""A plan timed by ``treadle train``: as the layout of named axes that it comes nearest to.

`train` knows what an axis does to a whole model (replicas, sharded weights, tensors, context, experts,
stages); a plan says it of every operator. Each axis of the plan's mesh is given the form that most of the
work is done in, and what of the plan that form does not say is listed, with its share of the work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.evaluation import evaluate
from treadle.parallelism.evaluation.node_work import DeviceNumbers, operations
from treadle.parallelism.evaluation.part_times import Role
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase, factors
from treadle.parallelism.graph.model_graph import ModelGraph, ModelPart
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.parallelism.plan.part_plan import ActivationPolicy, PartPlan, sides
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.spelling import counted
from treadle.training.compute_times import RooflineTimes
from treadle.training.costs import Costs, DerivedCosts, Seconds, Traffic
from treadle.training.models.training_model import TrainingModel
from treadle.training.prices.contention_presets import contention_of
from treadle.training.step import StepOutcome, TrainingSetup, simulate_step
from treadle.training.training_options import CommunicationStreams, Recompute, TrainingOptions
from treadle.unsupported import Unsupported

_OWN_AXES = ("pp", "dp", "fsdp", "cp", "ep", "tp")


@dataclass(frozen=True)
class NamedLayout:
    """The named layout that a plan comes nearest to.

    Parameters
    ----------
    axes : mapping from form to axes of the plan's mesh
        ``fsdp`` -> (``ib``, ``nv``): of `treadle.training.forms.axes.AXIS_FORMS`.
    recompute : Recompute
    left_out : tuple of str
        What of the plan it does not say.
    """

    axes: Mapping[str, tuple[str, ...]]
    recompute: Recompute
    left_out: tuple[str, ...]

    def shape(self, plan: ParallelPlan) -> dict[str, int]:
        """Return the ranks of each form."""
        sizes = dict(zip(plan.mesh.axis_names, plan.mesh.shape, strict=True))
        return {form: prod(sizes[axis] for axis in axes) for form, axes in self.axes.items()}

    def options(self, plan: ParallelPlan, given: TrainingOptions) -> TrainingOptions:
        """Return the options of a step, with what the plan says of them."""
        pipeline = plan.pipeline or Pipeline("pp", (1, 1), 1)
        cuts = any(axis in plan.boundary.activation.axes for axis in self.axes.get("tp", ()))
        return replace(
            given,
            recompute=self.recompute,
            micro_batches=pipeline.micro_batches,
            interleave=pipeline.interleave,
            layers_per_chunk=None if plan.pipeline is None else pipeline.layers,
            zero=0 if "fsdp" in self.axes else plan.zero,
            reshard_after_forward=True,  # plans gather weights for each pass
            sequence_parallel=cuts,
        )


@dataclass(frozen=True)
class Resimulated:
    """A plan's nearest layout, timed.

    Parameters
    ----------
    layout : Layout
    mesh : str
        Of the layout.
    outcome : StepOutcome
    """

    layout: NamedLayout
    mesh: str
    outcome: StepOutcome


def resimulate(
    plan: ParallelPlan,
    model: ModelGraph,
    training: TrainingModel,
    costs: Costs,
    times: RooflineTimes,
    options: TrainingOptions | None = None,
) -> Resimulated | Unsupported:
    """Simulate a step of the plan's nearest layout by `simulate_step`.

    Parameters
    ----------
    plan : ParallelPlan
    model : ModelGraph
    training : TrainingModel
        The same model, as layers.
    costs : Costs
        Of the groups of the plan's mesh.
    times : RooflineTimes
    options : TrainingOptions, optional
        By default contention is that of the device's preset, and axes communicate concurrently;
        micro-batches and recomputation are the plan's in any case.

    Returns
    -------
    Resimulated, or why no layout of `train` is near, or why `train` rejects it
    """
    layout = nearest_layout(plan, model)
    if isinstance(layout, Unsupported):
        return layout
    shards = {axis for form in ("fsdp", "cp", "ep") for axis in layout.axes.get(form, ())}
    found = evaluate(plan, model, costs, DeviceNumbers.of(times))
    gathered = {axes for _, one in found.movements if one.role is Role.WEIGHT for axes in one.collective.axes}
    left_out = [*layout.left_out]
    if gathered - shards:
        left_out.append(f"weights gathered along {', '.join(sorted(gathered - shards))} as well")
    if any(map(_has_biases, model.parts)):
        left_out.append("biases added by operators of their own")
    layout, shape = replace(layout, left_out=tuple(left_out)), layout.shape(plan)
    mesh = Mesh(tuple(shape.values()) or (1,), tuple(shape) or ("dp",))
    if options is None:
        kappa = contention_of(None, times.device.name).kappa
        options = TrainingOptions(kappa=kappa, streams=CommunicationStreams.PER_AXIS)
    own = layout.options(plan, options)
    tokens = model.sequence_tokens
    n_sequences = own.micro_batches * (model.tokens // tokens)
    streams = dict.fromkeys(training.streams, tokens)
    try:
        setup = TrainingSetup(training, mesh, times.device, times.precision, times, n_sequences, streams, own)
        outcome = simulate_step(setup, _ByForm(costs, layout.axes, plan.mesh.axis_names))
    except ScheduleError as error:
        return Unsupported(str(error), "train")
    return Resimulated(layout, ",".join(f"{form}={n}" for form, n in shape.items()), outcome)


@dataclass(frozen=True)
class _ByForm(DerivedCosts):
    """Costs of a plan's axes, by form."""

    axes: Mapping[str, tuple[str, ...]]
    order: tuple[str, ...]

    def _own(self, forms: tuple[str, ...]) -> tuple[str, ...]:
        wanted = {axis for form in forms for axis in self.axes[form]}
        return tuple(axis for axis in self.order if axis in wanted)

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Seconds:
        return self.costs.time_s(kind, self._own(axes), size_bytes)

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        (own,) = self._own((axis,))
        return self.costs.send_s(own, size_bytes)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        return self.costs.slowdowns(tuple((kind, self._own(axes)) for kind, axes in running))


def nearest_layout(plan: ParallelPlan, model: ModelGraph) -> NamedLayout | Unsupported:
    """Return the form of each axis of a plan, by the floating-point operations that are done so."""
    axes: dict[str, list[str]] = {}
    left_out: list[str] = []
    if plan.pipeline is not None:
        axes["pp"] = [plan.pipeline.axis]
    for axis, size in plan.sizes.items():
        by_form = _work_by_form(plan, model, axis)
        form = max(by_form, key=lambda one: by_form[one], default="")
        total = sum(by_form.values())
        same, of_samples = by_form.get(form, 0.0), by_form.get("ep", 0.0) + by_form.get("dp", 0.0)
        if by_form.get("ep") and of_samples > total / 2:
            form, same = "ep", of_samples
        if not form:
            return Unsupported(f"most of the work is done {size} times along {axis}", "train")
        if same < total:
            left_out.append(f"{1 - same / total:.0%} of the work along {axis}, which is not {form}'s")
        if form == "dp" and _is_sharded(plan, model, axis):
            form = "fsdp"
        axes.setdefault(form, []).append(axis)
    left_out += _other_shards(plan, model, axes)
    recompute, words = _recomputed(plan, model)
    left_out += words
    mixed = [name for name, plans in plan.parts.items() if len(plans) > 1]
    if mixed:
        left_out.append(f"mixed layers of {', '.join(mixed)}")
    if plan.n_chunked:
        left_out.append(f"{plan.n_chunked} operators in loops over chunks")
    ordered = {form: tuple(axes[form]) for form in _OWN_AXES if form in axes}
    return NamedLayout(ordered, recompute, tuple(left_out))


def _runs(plan: ParallelPlan, model: ModelGraph) -> list[tuple[ModelPart, PartPlan, int]]:
    """Return each plan of each part, and the number of layers that run under it."""
    return [
        (part, one, plan.layers.get(part.name, (0,) * part.repeats).count(number))
        for part in model.parts
        for number, one in enumerate(plan.parts[part.name])
    ]


def _work_by_form(plan: ParallelPlan, model: ModelGraph, axis: str) -> dict[str, float]:
    """Return the operations of the forward pass by `train`'s name of their sharding, if any."""
    forms = dict.fromkeys(_expert_dims(model), "ep")
    forms |= {model.sequence: "cp", model.batch: "dp", "": ""}
    found: dict[str, float] = {}
    for part, own, count in _runs(plan, model):
        for node in part.graph.nodes:
            if node.computes and node.phase is Phase.FORWARD:
                dim = ""
                for side, state in sides(node, own.operators[node.name]):
                    for role, axes in zip(factors(side.roles), state.dims, strict=True):
                        dim = part.graph.dim_name(role) if axis in axes else dim
                form = forms.get(dim, "tp")
                if flops := count * operations(part.graph, node):
                    found[form] = found.get(form, 0.0) + flops
    return found


def _expert_dims(model: ModelGraph) -> frozenset[str]:
    return frozenset(
        part.graph.dim_name(next(role for role in factors(node.results[0].roles) if role not in node.read))
        for part in model.parts
        for node in part.graph.nodes
        if node.kind is OperatorKind.DISPATCH
    )


def _is_sharded(plan: ParallelPlan, model: ModelGraph, axis: str, *, expert: bool = True) -> bool:
    """Return whether most elements of parameters, or of those of no expert, are stored in shards."""
    cut = total = 0
    expert_dims = _expert_dims(model)
    for part, own, count in _runs(plan, model):
        for path, tensor in part.parameters.items():
            dims = {part.graph.dim_name(index) for index in part.graph.factors(tensor)}
            if expert or expert_dims.isdisjoint(dims):
                elements = count * part.graph.elements(tensor)
                total += elements
                cut += elements * (axis in own.parameters[path].axes)
    return 2 * cut > total


def _has_biases(part: ModelPart) -> bool:
    """Return whether sums of products with parameters are operators of a part."""
    nodes, parameters = part.graph.nodes, set(part.parameters.values())
    return any(
        node.kind is OperatorKind.ELEMENTWISE
        and len(node.operands) == 2
        and nodes[node.operands[0].tensor.node].kind is OperatorKind.EINSUM
        and node.operands[1].tensor in parameters
        for node in nodes
    )


def _other_shards(plan: ParallelPlan, model: ModelGraph, axes: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield what is sharded, or gathered, along axes in another way than their forms say."""
    if "cp" in axes:
        yield "keys and values gathered during the backward pass of the output product"
    if "fsdp" not in axes:
        for axis in (*axes.get("cp", ()), *axes.get("ep", ())):
            if _is_sharded(plan, model, axis, expert=False):
                yield f"weights sharded along {axis}"
    elif plan.zero and "dp" in axes:
        yield "optimizer states sharded over replicas"
    for axis in axes.get("ep", ()):
        for part, own, _ in _runs(plan, model):
            routes = (one for one in part.graph.nodes if one.kind is OperatorKind.DISPATCH)
            if any(axis not in own.operators[one.name].inputs[0].axes for one in routes):
                yield f"tokens gathered, not exchanged, along {axis}"
                break


def _recomputed(plan: ParallelPlan, model: ModelGraph) -> tuple[Recompute, list[str]]:
    """Return the kind of recomputation nearest to the plan, and what it leaves out."""
    again = attention = total = unused = 0.0
    light = 0
    for part, own, count in _runs(plan, model):
        if part.enters is None or part.leaves is None:
            continue  # `train` recomputes blocks
        for node in part.graph.nodes:
            if node.computes and node.phase is Phase.FORWARD:
                flops, keep = count * operations(part.graph, node), own.operators[node.name].keep
                total += flops * (keep is not ActivationPolicy.UNUSED)
                unused += flops * (keep is ActivationPolicy.UNUSED)
                again += flops * (keep is ActivationPolicy.RECOMPUTED)
                light += (not flops) * (keep is ActivationPolicy.RECOMPUTED)
                attention += flops * (node.kind is OperatorKind.ATTENTION)
    choices = {Recompute.NONE: 0.0, Recompute.ATTENTION: attention, Recompute.FULL: total}
    near = min(choices, key=lambda one: abs(choices[one] - again))
    words = []
    if total and abs(choices[near] - again) > 0.01 * total:
        words.append(f"{again / total:.0%} of the work is done again in blocks, not {near.value}'s")
    if near is Recompute.FULL and unused > 0.01 * total:
        words.append(f"{unused / (total + unused):.0%} of the work is not done again, as nothing reads it")
    if light and near is not Recompute.FULL:
        words.append(f"{counted(light, 'pointwise operator')} recomputed")
    return near, words
