"""The independent evaluator: what a step takes, what it moves, and what a rank holds, for one plan.

It is the certificate of a search: it knows the graph, the plan, prices of collectives and the device, and
nothing of how the plan was found. Layers are counted one by one, each under its own plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.memory_at_moments import Moment
from treadle.parallelism.evaluation.model_run import ModelRun
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.evaluation.part_run import KEPT, LEAVES, SHARED, PartRun
from treadle.parallelism.evaluation.part_times import Movement, PartTimes
from treadle.parallelism.evaluation.reshardings import Reshardings
from treadle.parallelism.graph.compute_graph import Phase
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.plan.parallel_plan import OVERLAPS, ParallelPlan, Pipeline
from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs


@brief("seconds", "compute_s", "communication_s", "peak_bytes", "overlap")
@dataclass(frozen=True)
class Evaluation:
    """Cost of a plan.

    Parameters
    ----------
    seconds : float
        Of a step, as the search estimates it: of each layer the longer of computing with what it waits for
        and of the overlapped communication. `plan_timeline` has the step task by task.
    overlap : str
        Where communication hides behind compute: within each layer, nowhere, or over the whole model.
    parts : tuple of PartTimes
        One for each plan of each part.
    switches : tuple of Movement
        Between layers of different boundary states.
    moments : tuple of Moment
        Every operator of every plan, with all that is held then, at the layer when most is kept.
    """

    seconds: float
    overlap: str
    parts: tuple[PartTimes, ...]
    switches: tuple[Movement, ...]
    moments: tuple[Moment, ...]

    @property
    def switch_s(self) -> float:
        """Seconds between layers of different boundary states."""
        return sum(one.seconds for one in self.switches)

    @property
    def compute_s(self) -> float:
        """Seconds of all runs of one micro-batch, on all stages."""
        return sum(one.runs * one.compute_s for one in self.parts)

    @property
    def communication_s(self) -> float:
        """Seconds of all runs of one micro-batch, on all stages."""
        return sum(one.runs * one.communication_s for one in self.parts) + self.switch_s

    @cached_property
    def peak(self) -> Moment:
        """The fullest moment."""
        return max(self.moments, key=lambda one: one.n_bytes)

    @property
    def peak_bytes(self) -> int:
        """Bytes of the fullest moment."""
        return self.peak.n_bytes

    @cached_property
    def movements(self) -> tuple[tuple[int, Movement], ...]:
        """All collectives with how many runs of a step have them."""
        own = ((one.runs, movement) for one in self.parts for movement in one.movements)
        return (*own, *((1, movement) for movement in self.switches))

    @cached_property
    def collectives(self) -> Mapping[tuple[CollectiveKind, tuple[str, ...], int], int]:
        """Collectives of one micro-batch by kind, axes and bytes of a rank's larger buffer."""
        found: dict[tuple[CollectiveKind, tuple[str, ...], int], int] = {}
        for runs, one in self.movements:
            key = one.collective.kind, one.collective.axes, one.collective.size_bytes
            found[key] = found.get(key, 0) + runs * one.count
        return found

    @cached_property
    def by_axes(self) -> Mapping[tuple[str, ...], tuple[int, int, float]]:
        """Collectives of one micro-batch by axes: count, bytes of ranks' larger buffers, seconds."""
        found: dict[tuple[str, ...], tuple[int, int, float]] = {}
        for runs, one in self.movements:
            count, size, seconds = found.get(one.collective.axes, (0, 0, 0.0))
            calls = runs * one.count
            n_bytes = size + calls * one.collective.size_bytes
            found[one.collective.axes] = count + calls, n_bytes, seconds + runs * one.seconds
        return found


def evaluate(
    plan: ParallelPlan,
    model: ModelGraph,
    costs: Costs,
    numbers: DeviceNumbers,
    *,
    overlap: str = "layer",
    reshardings: Reshardings | None = None,
) -> Evaluation:
    """Return the seconds, collectives and memory of a plan.

    Parameters
    ----------
    plan : ParallelPlan
    model : ModelGraph
    costs : Costs
        Of the groups of the plan's mesh.
    numbers : DeviceNumbers
        Of a rank's device.
    overlap : str
        ``layer``: of each layer the longer counts of computing with what it waits for, and of the
        overlapped communication; ``none``: both; ``model``: the longer of the totals (no schedule reaches
        that where layers differ).
    reshardings : Reshardings, optional
        Of that mesh and these costs: plans that share them compute each once.

    Raises
    ------
    ScheduleError
        If the plan is of another model, or illegal: with the first of its faults (`ModelRun.faults`).
    """
    if overlap not in OVERLAPS:
        raise ScheduleError(f"overlap {overlap!r}; expected {', '.join(OVERLAPS)}")
    run = ModelRun(plan, model)
    for fault in run.faults():
        raise ScheduleError(f"plan of {plan.model}: {fault.place} {fault.reason}")
    if reshardings is None:
        reshardings = Reshardings(plan.sizes, costs)
    times = {key: _times(run, key, reshardings, numbers) for key in run.runs}
    switches = [tuple(_switch(run, at, reshardings)) for at in range(1, len(run.layers))]
    switch_s = [sum(one.seconds for one in some) for some in switches]
    layers = [times[key] for key in run.layers]
    return Evaluation(
        _seconds(layers, [0.0, *switch_s], overlap, plan.pipeline, numbers.kappa),
        overlap,
        tuple(times.values()),
        tuple(one for some in switches for one in some),
        tuple(run.moments(numbers)),
    )


def _seconds(
    layers: list[PartTimes], switches: list[float], overlap: str, pipeline: Pipeline | None, kappa: float
) -> float:
    """Return the seconds of a step; in a pipeline all micro-batches on the slowest stage, and others once."""
    if pipeline is None:
        return _in_a_row(layers, switches, overlap, 1, kappa)
    batches = pipeline.micro_batches
    found, start = [0.0] * pipeline.stages, 0
    for piece, count in enumerate(pipeline.layers):
        own = slice(start, start + count)
        found[piece % pipeline.stages] += _in_a_row(layers[own], switches[own], overlap, batches, kappa)
        start += count
    return batches * max(found) + (sum(found) - max(found)) / pipeline.interleave


def _in_a_row(
    layers: list[PartTimes], switches: list[float], overlap: str, micro_batches: int, kappa: float
) -> float:
    """Return the seconds of layers with one micro-batch."""
    pairs = [(one.serial_s(micro_batches), one.overlapped_s(micro_batches)) for one in layers]
    if overlap == "layer":
        return sum(together_s(*pair, kappa) for pair in pairs) + sum(switches)
    serial, beside = map(sum, zip(*pairs, strict=True))
    if overlap == "none":
        return serial + beside + sum(switches)
    return together_s(serial + sum(switches), beside, kappa)


def together_s(serial_s: float, beside_s: float, kappa: float) -> float:
    """Return the seconds of two concurrent tasks, each kappa times as slow while the other runs."""
    return max(serial_s, beside_s) + (kappa - 1) * min(serial_s, beside_s)


def _times(
    run: ModelRun, key: tuple[int, int], reshardings: Reshardings, numbers: DeviceNumbers
) -> PartTimes:
    """Return the seconds of a part under one plan."""
    part, n_runs = run.runs[key], run.layers.count(key)
    forward, backward = (
        sum(part.seconds(number, numbers) for number in part.running[phase]) for phase in Phase
    )
    optimizer = run.updated_elements(key) * numbers.optimizer_bytes / numbers.memory_bytes_per_s
    movements = tuple(_movements(part, key[1], reshardings))
    name, zero = part.part.name, run.plan.zero
    return PartTimes(name, key[1], n_runs, forward, backward, optimizer, movements, zero)


def _movements(run: PartRun, plan: int, reshardings: Reshardings) -> Iterator[Movement]:
    graph, enters = run.graph, run.part.enters
    for passing in run.passings:
        tensor, phase, reader, n_chunks = passing.tensor, passing.phase, passing.reader, passing.n_chunks
        found = reshardings.cheapest(
            passing.source,
            passing.target,
            shape=run.shape(passing),
            element_bytes=graph.result(tensor).element_bytes,
        )
        goes_on = phase is Phase.FORWARD or (enters is not None and graph.gradients.get(enters) == tensor)
        ends = {SHARED: "shared", KEPT: "saved", LEAVES: "boundary" if goes_on else "stored"}
        why, role = ends.get(reader) or graph.nodes[reader].name, run.role(passing)
        for one in found.collectives:
            seconds, name = n_chunks * reshardings.time_s(one), graph.spelled(tensor)
            yield Movement(one, n_chunks, seconds, run.part.name, plan, name, phase, why, role, reader)


def _switch(run: ModelRun, at: int, reshardings: Reshardings) -> Iterator[Movement]:
    """Yield the collectives from layer ``at - 1`` to the next and back, where boundary states differ."""
    before, after = (run.runs[run.layers[place]].boundary for place in (at - 1, at))
    key = run.layers[at]
    part = run.runs[key].part
    assert part.enters is not None, "a model graph has checked that layers feed each other"
    shape = tuple(size for _, size in part.factors(part.enters))
    element_bytes = part.graph.result(part.enters).element_bytes
    ends = {
        Phase.FORWARD: (before.activation, after.activation),
        Phase.BACKWARD: (after.gradient, before.gradient),
    }
    for phase, (source, target) in ends.items():
        found = reshardings.cheapest(source, target, shape=shape, element_bytes=element_bytes)
        for one in found.collectives:
            yield Movement(one, 1, reshardings.time_s(one), part.name, key[1], "boundary", phase, "switch")
