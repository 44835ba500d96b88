"""A step of training, simulated: model, mesh, devices and costs of communication in, times out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import ComputeTimes, LocalWork
from treadle.training.costs import Costs, RememberedCosts, Seconds
from treadle.training.device_memory import ActivationPolicy, MemoryParts, memory_parts
from treadle.training.devices import Accelerator
from treadle.training.forms.axes import ParallelLayout
from treadle.training.forms.layer_forms import with_quicker_order
from treadle.training.forms.layer_passes import LayerSeconds, layer_seconds
from treadle.training.forms.pipeline_parallel import stage_order
from treadle.training.forms.rank_part import RankPart, rank_part
from treadle.training.forms.suitable import check_positions, check_suitable
from treadle.training.forms.training_tasks import PlacedModel, divide_model, training_tasks
from treadle.training.models.training_model import TrainingModel
from treadle.training.timeline.contention import Contention
from treadle.training.timeline.streams import run_tasks
from treadle.training.timeline.task import Category
from treadle.training.timeline.timeline import DeviceTime, Timeline
from treadle.training.training_options import BUCKETS, ExpertOrder, TrainingOptions

MOST_PASSES = 2 * 10**6
"""Of layers with micro-batches, forward and backward: a minute or so of simulation."""


@brief("model", "mesh", "sequences")
@dataclass(frozen=True)
class TrainingSetup:
    """What is trained, on what, and how.

    Parameters
    ----------
    model : TrainingModel
    mesh : Mesh
        Its axes are called as in `treadle.training.forms.axes.AXIS_FORMS`.
    device : Accelerator
        Each rank's.
    precision : str
        Of matrix products: whose peak the MFU refers to.
    times : ComputeTimes
        Seconds of computing on a rank.
    sequences : int
        Of a step on all ranks together (samples, where the model's unit is one).
    tokens : mapping of str to int
        Of a sequence, by stream of the model; {"": 1} for samples.
    options : TrainingOptions

    Raises
    ------
    ScheduleError
        If the mesh's axes have no meaning or nothing to share in this model, the batch or the sequences
        cannot be shared equally, a stream is missing or too long for the model's positions, or there are more
        than `MOST_PASSES` to simulate.
    """

    model: TrainingModel
    mesh: Mesh
    device: Accelerator
    precision: str
    times: ComputeTimes
    sequences: int
    tokens: Mapping[str, int]
    options: TrainingOptions

    def __post_init__(self) -> None:
        if missing := [stream for stream in self.model.streams if stream not in self.tokens]:
            raise ScheduleError(f"model {self.model.name}: how many tokens has stream {missing[0]!r}?")
        check_suitable(self.model, ParallelLayout(self.mesh))
        check_positions(self.model, self.tokens)
        self.device.peak(self.precision)
        _ = self.rank_part
        passes = 2 * self.model.n_layers * self.options.micro_batches
        if passes > MOST_PASSES:
            raise ScheduleError(
                f"step of {passes} passes (2 x {self.model.n_layers} layers x {self.options.micro_batches} "
                f"micro-batches): expected at most {MOST_PASSES}; use fewer micro-batches"
            )

    @cached_property
    def rank_part(self) -> RankPart:
        """A rank's part of the step."""
        return rank_part(ParallelLayout(self.mesh), self.options, self.sequences, self.tokens)

    @property
    def local(self) -> LocalWork:
        """A rank's part of a micro-batch, as times of computing take it."""
        layout = self.rank_part.layout
        return LocalWork(
            self.rank_part.sequences,
            self.tokens,
            tp=layout.size("tp"),
            cp=layout.size("cp"),
            ep=layout.size("ep"),
            sequence_parallel=self.options.sequence_parallel and layout.size("tp") > 1,
        )

    @property
    def activation_policy(self) -> ActivationPolicy:
        """How a rank keeps what it must remember."""
        layout, options = self.rank_part.layout, self.options
        shards = {kind: layout.size(*layout.shard_axes(expert=kind)) for kind in (False, True)}
        states = {kind: layout.size(*self.rank_part.state_axes(expert=kind)) for kind in (False, True)}
        return ActivationPolicy(
            weight_shards=shards[False],
            expert_shards=shards[True],
            state_shards=states[False] // shards[False],
            expert_state_shards=states[True] // shards[True],
            shards_gradients=options.zero == 2,
            reshard_after_forward=self.rank_part.reshards,
            keeps_whole_gradients=not self.rank_part.reshards and options.micro_batches > 1,
            prefetch=options.prefetch,
            recompute=options.recompute.value,
            fused_attention=options.has_fused_attention,
            gathers_first=options.expert_order is ExpertOrder.GATHER_FIRST,
            weight_bytes=options.weight_bytes,
            element_bytes=options.element_bytes,
            gradient_bytes=options.gradient_bytes,
            optimizer_bytes=options.optimizer_bytes if options.has_optimizer else 0,
        )

    @property
    def flops(self) -> Fraction:
        """Model FLOPs of a step, forward and backward, without what is recomputed."""
        return self.sequences * self.model.step_flops(self.tokens)


def _layer_seconds(setup: TrainingSetup) -> list[LayerSeconds]:
    return [layer_seconds(setup.times, layer, setup.local) for layer in setup.model.layers]


def step_memory(setup: TrainingSetup, placed: PlacedModel | None = None) -> tuple[MemoryParts, ...]:
    """What a rank of each stage must hold; ScheduleError if the model cannot be cut into stages."""
    placed = placed or divide_model(setup.model.layers, _layer_seconds(setup), setup.rank_part)
    batches, interleave = setup.options.micro_batches, setup.options.interleave
    found = []
    for stage in range(placed.stages):
        chunks = placed.chunks[stage :: placed.stages]
        pieces = [[placed.layers[place] for place in chunk] for chunk in chunks]
        visits = stage_order(stage, placed.stages, batches, interleave)
        order = [(visit.chunk // placed.stages, visit.is_forward) for visit in visits]
        found.append(memory_parts(pieces, order, setup.local, setup.activation_policy))
    return tuple(found)


@brief("iteration_s", "mfu")
@dataclass(frozen=True)
class StepOutcome:
    """A simulated step.

    Parameters
    ----------
    setup : TrainingSetup
    placed : PlacedModel
        Which layers are on which stage; device s of the timeline is a rank of stage s.
    timeline : Timeline
        Every task, its start and its end.
    bucket_bytes : int, optional
        Of the gradients' buckets, where there are any: as given, or the best.
    """

    setup: TrainingSetup
    placed: PlacedModel
    timeline: Timeline
    bucket_bytes: int | None

    @property
    def iteration_s(self) -> Seconds:
        """Seconds of the step."""
        return self.timeline.total_s

    @cached_property
    def device_times(self) -> tuple[DeviceTime, ...]:
        """What the time of each stage's ranks goes to."""
        return tuple(map(self.timeline.device_time, self.timeline.devices))

    @property
    def compute_s(self) -> Seconds:
        """Seconds of computing without communication beside it; mean of the stages, as the three below."""
        return self._mean(one.compute_s for one in self.device_times)

    def _mean(self, seconds: Iterable[Seconds]) -> Seconds:
        return sum(seconds) / len(self.device_times)

    @property
    def contention_s(self) -> Seconds:
        """Seconds that computing takes longer because of the communication beside it."""
        return self._mean(one.contention_s for one in self.device_times)

    @property
    def exposed_s(self) -> dict[Category, Seconds]:
        """Seconds in which nothing is computed, by what is communicated then; only those that there are."""
        found = (
            (category, self._mean(one.exposed_s.get(category, 0) for one in self.device_times))
            for category in Category
        )
        return {category: seconds for category, seconds in found if seconds}

    @property
    def idle_s(self) -> Seconds:
        """Seconds in which a stage neither computes nor communicates."""
        return self._mean(one.idle_s for one in self.device_times)

    @cached_property
    def memory(self) -> tuple[MemoryParts, ...]:
        """What a rank of each stage must hold, part by part."""
        return step_memory(self.setup, self.placed)

    @property
    def mfu(self) -> float:
        """Model FLOPs utilisation: FLOPs of the model, none recomputed, over (peak x ranks x iteration)."""
        peak = self.setup.device.peak(self.setup.precision) * self.setup.mesh.n_ranks
        return float(self.setup.flops) / (peak * float(self.iteration_s))

    @property
    def flops_per_rank_per_s(self) -> float:
        """Model FLOP/s of a rank, as papers print it: no FLOPs of recomputation."""
        return float(self.setup.flops) / (self.setup.mesh.n_ranks * float(self.iteration_s))

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all streams (or samples) per second, on all ranks."""
        return self.setup.sequences * sum(self.setup.tokens.values()) / float(self.iteration_s)


def simulate_step(setup: TrainingSetup, costs: Costs) -> StepOutcome:
    """A step with these costs of communication.

    Parameters
    ----------
    setup : TrainingSetup
    costs : Costs
        Asked once for each kind, axes and size.

    Returns
    -------
    StepOutcome
        With the best of `BUCKETS`, where gradients are summed in buckets whose size is not given.

    Raises
    ------
    ScheduleError
        If the model cannot be cut into the stages of the mesh, or the micro-batches not be interleaved.
    """
    known = RememberedCosts(costs)
    setup = replace(setup, options=with_quicker_order(setup.rank_part, setup.model.layers, known).options)
    seconds = _layer_seconds(setup)
    placed = divide_model(setup.model.layers, seconds, setup.rank_part)
    layout, options = setup.rank_part.layout, setup.options
    has_buckets = layout.size("fsdp") == 1 and any(layout.replica_axes(expert=one) for one in (False, True))
    best: StepOutcome | None = None
    for capacity in BUCKETS if options.bucket_bytes is None and has_buckets else [options.bucket_bytes]:
        tasks = training_tasks(
            placed,
            seconds,
            setup.rank_part,
            known,
            optimizer_s=setup.times.optimizer_s,
            bucket_bytes=capacity or BUCKETS[0],
        )
        timeline = run_tasks(tasks, Contention(options.kappa, known.slowdowns))
        found = StepOutcome(setup, placed, timeline, capacity if has_buckets else None)
        if best is None or found.iteration_s < best.iteration_s:
            best = found
    assert best is not None
    return best
