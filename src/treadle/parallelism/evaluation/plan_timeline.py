"""The step of a plan, task by task, in the simulator of `train`.

Each layer computes its operators in order and waits for what they wait for. Weights are gathered ahead and
gradients reduced behind, as FSDP and DDP do; tensors that were saved are moved while the operator before
computes, those to be saved while the next one does. Collectives of a layer that have the same kind and axes,
and for which nothing waits, are one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

from treadle.parallelism.evaluation.evaluation import Evaluation
from treadle.parallelism.evaluation.model_run import ModelRun
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.part_run import KEPT, SHARED, PartRun
from treadle.parallelism.evaluation.part_times import Movement, PartTimes, Role
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import ParallelPlan, Pipeline
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, RememberedCosts
from treadle.training.forms.layer_passes import Communication, LayerAction, LayerPart
from treadle.training.forms.stage_tasks import BucketKind, PipelineCut, StageLayer, stage_tasks
from treadle.training.timeline.contention import Contention
from treadle.training.timeline.streams import run_tasks
from treadle.training.timeline.timeline import Timeline
from treadle.training.training_options import BUCKETS, CommunicationStreams, TrainingOptions
from treadle.unsupported import Unsupported


def plan_timeline(
    plan: ParallelPlan,
    model: ModelGraph,
    costs: Costs,
    numbers: DeviceNumbers,
    evaluation: Evaluation,
) -> Timeline:
    """Simulate the step of a plan.

    Parameters
    ----------
    plan : ParallelPlan
    model : ModelGraph
    costs : Costs
        Of the groups of the plan's mesh.
    numbers : DeviceNumbers
        Of a rank's device.
    evaluation : Evaluation
        Of this plan.

    Returns
    -------
    Timeline
        Device s is a rank of pipeline stage s; gradients are summed in the best of `BUCKETS`.
    """
    run, pipeline = ModelRun(plan, model), plan.pipeline or Pipeline("pp", (1, 1), 1)
    pieces = (len(run.layers),) if plan.pipeline is None else pipeline.layers
    ends = [0, *accumulate(pieces)]
    cut = PipelineCut(
        tuple(range(*pair) for pair in pairwise(ends)),
        1 if plan.pipeline is None else pipeline.stages,
    )
    by_name = {(one.part, one.plan): one for one in evaluation.parts}
    times = {key: by_name[own.part.name, key[1]] for key, own in run.runs.items()}
    made = {key: _layer(own, times[key], numbers, plan.zero) for key, own in run.runs.items()}
    layers = [made[key] for key in run.layers]
    optimizer = [times[key].optimizer_s for key in run.layers]
    entering = [run.entering_bytes(key) for key in run.layers]
    options = TrainingOptions(
        kappa=numbers.kappa,
        micro_batches=pipeline.micro_batches,
        interleave=pipeline.interleave,
        streams=CommunicationStreams.PER_AXIS,
    )
    known = RememberedCosts(costs)
    by_stage = [sum(optimizer[at] for at in cut.stage_layers(stage)) for stage in range(cut.stages)]

    def timeline(bucket_bytes: int) -> Timeline:
        tasks = stage_tasks(
            layers,
            cut,
            known,
            options,
            sent_bytes=[entering[end] for end in ends[1:-1]] + [0],
            optimizer_s=by_stage,
            bucket_bytes=bucket_bytes,
            ties=_ties(run, cut),
        )
        return run_tasks(tasks, Contention(numbers.kappa, known.slowdowns))

    # gradients of many micro-batches are reduced once, so that the size of buckets hardly matters
    has_choice = plan.pipeline is None and any(layer.buckets for layer in layers)
    return min(map(timeline, BUCKETS if has_choice else BUCKETS[2:3]), key=lambda one: one.total_s)


def _ties(run: ModelRun, cut: PipelineCut) -> Iterable[tuple[int, int, str, int]]:
    """Yield the gradients of parameters that two stages hold, with their bytes."""
    places = {run.model.parts[at].name: place for place, (at, _) in enumerate(run.layers)}
    for tie in run.model.ties:
        first, second = (cut.stage_of(places[part]) for part, _ in (tie.first, tie.second))
        if first != second:
            own = run.runs[run.layers[places[tie.first[0]]]]
            tensor = own.part.parameters[tie.first[1]]
            size = own.local_bytes(tensor, own.stored(tensor))
            yield first, second, f"gradient of {tie.first[1]}", size


def _layer(run: PartRun, times: PartTimes, numbers: DeviceNumbers, zero: int) -> StageLayer:
    """Return a part under one plan as a layer of a stage."""
    chains: dict[tuple[Role, Phase, str], list[Movement]] = defaultdict(list)
    for one in times.movements:
        if one.role in (Role.WEIGHT, Role.GRADIENT, Role.SUM):
            chains[one.role, one.phase, f"{one.tensor} {one.reader}"].append(one)
    gathers: dict[bool, dict[BucketKind, int]] = {True: defaultdict(int), False: defaultdict(int)}
    reductions: dict[tuple[BucketKind, ...], list[int]] = {}
    buckets: dict[BucketKind, list[int]] = defaultdict(list)
    for (role, phase, _), moves in chains.items():
        kinds = tuple((one.collective.kind, one.collective.axes) for one in moves)
        amounts = [one.count * one.collective.size_bytes for one in moves]
        if role is Role.GRADIENT:
            before = reductions.get(kinds, [0] * len(kinds))
            reductions[kinds] = [one + more for one, more in zip(before, amounts, strict=True)]
        for bucket, size in zip(kinds, amounts, strict=True):
            if role is Role.WEIGHT:
                gathers[phase is Phase.FORWARD][bucket] += size
            elif role is Role.SUM:
                buckets[bucket].append(size)
    drops = bool(reductions or any(gathers.values()))
    if zero and not drops:
        # each rank updates a shard of every parameter: half of an allreduce is then a gather of weights
        sums, buckets = buckets, defaultdict(list)
        for (kind, axes), some in sums.items():
            is_total = kind is CollectiveKind.ALLREDUCE
            for gathered in gathers.values() if is_total else ():
                gathered[CollectiveKind.ALLGATHER, axes] += sum(some)
            buckets[CollectiveKind.REDUCE_SCATTER if is_total else kind, axes] += some
    return StageLayer(
        run.part.name,
        LayerPart(*(_actions(run, times, phase, numbers) for phase in Phase)),
        {
            is_forward: tuple(Communication(*kind, size) for kind, size in some.items())
            for is_forward, some in gathers.items()
        },
        drops,
        not drops and zero < 2,
        tuple(
            tuple(Communication(*kind, size) for kind, size in zip(kinds, amounts, strict=True))
            for kinds, amounts in reductions.items()
        ),
        tuple((kind, tuple(some)) for kind, some in buckets.items()),
    )


def _actions(run: PartRun, times: PartTimes, phase: Phase, numbers: DeviceNumbers) -> tuple[LayerAction, ...]:
    """Return what a pass of a part does, one after the other."""
    units = run.units(phase)
    assert not isinstance(units, Unsupported), "a plan that was evaluated is legal"
    order = [number for unit in units for number in unit.nodes]
    due = _due(run, times, phase, order)
    found: list[LayerAction] = []
    seconds, is_again, beside = 0.0, False, list[Communication]()
    kept: list[Communication] = []

    def flush() -> None:
        nonlocal seconds
        # as many equal parts as there is to move beside them
        part = seconds * Fraction(1, max(len(beside), 1))
        found.extend(LayerAction(part, exchange, is_again) for exchange in beside)
        if seconds and not beside:
            found.append(LayerAction(seconds, None, is_again))
        seconds = 0.0
        beside.clear()

    for number in order:
        waits = due[number]
        again = phase is Phase.BACKWARD and run.graph.nodes[number].phase is Phase.FORWARD
        saved = [one for one in waits if one.role is Role.SAVED]
        beside += map(_communication, saved)
        if waits or again is not is_again:
            flush()
        is_again = again
        found += [LayerAction(exchange=_communication(one)) for one in waits if one.role is Role.WAIT]
        # nothing waits for what is moved only to be saved
        beside += kept
        seconds += run.seconds(number, numbers)
        kept = list(map(_communication, due[~number]))
    beside += kept
    flush()
    return (*found, *(LayerAction(exchange=_communication(one)) for one in due[len(run.graph.nodes)]))


def _due(run: PartRun, times: PartTimes, phase: Phase, order: Sequence[int]) -> dict[int, list[Movement]]:
    """Return what is moved before each operator, after it (under ``~number``), or in the end.

    What readers share is moved before the first of them, what is saved after the operator that makes it.
    """
    names = {run.graph.spelled(tensor): tensor for tensor in run.graph.tensors()}
    found: dict[int, list[Movement]] = defaultdict(list)
    for one in times.movements:
        if one.phase is not phase or one.role not in (Role.WAIT, Role.SAVED):
            continue
        tensor, place = names[one.tensor], one.reader
        if place == SHARED:
            readers = {reading.node for reading in run.readings[tensor, phase]}
            place = next((number for number in order if number in readers), len(run.graph.nodes))
        elif place == KEPT:
            place = ~tensor.node
        elif place < 0:
            place = len(run.graph.nodes)
        found[place].append(one)
    return found


def _communication(one: Movement) -> Communication:
    return Communication(one.collective.kind, one.collective.axes, one.count * one.collective.size_bytes)
