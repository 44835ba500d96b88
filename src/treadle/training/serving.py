"""Serving: the first token of a prompt, and each token after it, with tensor and expert parallelism.

Prefill passes entire prompts. Decoding passes one token per sequence, which reads the keys and values of
those before. A forward pass overlaps with nothing: computation waits for communication, layer by layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import ComputeTimes, LocalWork
from treadle.training.costs import Costs, RememberedCosts, Seconds
from treadle.training.device_memory import ActivationPolicy, MemoryParts, memory_parts
from treadle.training.devices import Accelerator
from treadle.training.forms.axes import AXIS_FORMS, ParallelLayout
from treadle.training.forms.issue import Chain, Issue
from treadle.training.forms.layer_forms import layer_passes, with_quicker_order
from treadle.training.forms.layer_passes import layer_seconds
from treadle.training.forms.rank_part import RankPart
from treadle.training.forms.suitable import check_positions, check_suitable
from treadle.training.models.model_layer import ModelLayer
from treadle.training.models.training_model import TrainingModel
from treadle.training.timeline.streams import run_tasks
from treadle.training.timeline.task import Category
from treadle.training.timeline.timeline import DeviceTime, Timeline
from treadle.training.training_options import TrainingOptions

SERVING_AXES = ("dp", "tp", "ep")
"""Supported axes of a mesh."""


class ServingPhase(StrEnum):
    """Phase of a request."""

    PREFILL = "prefill"
    """All tokens of the prompt together: the time to the first token."""
    DECODE = "decode"
    """One token after the others: the time per token."""


@brief("model", "phase", "mesh", "sequences")
@dataclass(frozen=True)
class ServingSetup:
    """Model, mesh, devices and load of a phase.

    Parameters
    ----------
    model : TrainingModel
        A model of tokens, some of whose layers keep keys and values.
    mesh : Mesh
        Has axes of `SERVING_AXES`; replicas have different sequences, and so have ranks of ep.
    device : Accelerator
    times : ComputeTimes
    phase : ServingPhase
    sequences : int
        Concurrent sequences on all ranks together.
    tokens : mapping of str to int
        Tokens of a prompt, or before the decoded token, by stream of the model.
    capacity_factor : Fraction
        Tokens sent to experts over tokens routed.
    weight_bytes, element_bytes : int
        Bytes of stored weights, and of activations, keys and values.
    block_weight_bytes : int, optional
        Bytes of stored weights of blocks (layers that leave keys and values), if they have another width.

    Raises
    ------
    ScheduleError
        If the mesh has other axes or the model nothing to shard along them, replicas do not divide the
        sequences, the model has no cache, or too few positions.
    """

    model: TrainingModel
    mesh: Mesh
    device: Accelerator
    times: ComputeTimes
    phase: ServingPhase
    sequences: int
    tokens: Mapping[str, int]
    capacity_factor: Fraction = Fraction(1)
    weight_bytes: int = 2
    element_bytes: int = 2
    block_weight_bytes: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "phase", ServingPhase(self.phase))
        layout = ParallelLayout(self.mesh)
        if others := [axis for axis in layout.among(*AXIS_FORMS) if axis not in SERVING_AXES]:
            raise ScheduleError(
                f"mesh {self.mesh.notation}: serving does not support an axis {others[0]}; expected some of "
                f"{', '.join(SERVING_AXES)}"
            )
        check_suitable(self.model, layout)
        if missing := [stream for stream in self.model.streams if self.tokens.get(stream, 0) < 1]:
            raise ScheduleError(f"model {self.model.name}: tokens of the stream {missing[0]!r} are missing")
        check_positions(self.model, self.tokens)
        if not any(layer.cache_elements for layer in self.model.layers):
            raise ScheduleError(f"model {self.model.name}: keeps no keys and values, so it cannot decode")
        if self.sequences < 1 or self.sequences % layout.replicas:
            raise ScheduleError(
                f"batch of {self.sequences}: expected a multiple of {layout.replicas}, the ranks of mesh "
                f"{self.mesh.notation} with different sequences"
            )

    @property
    def is_decoding(self) -> bool:
        """Whether one token of each sequence is computed."""
        return self.phase is ServingPhase.DECODE

    @cached_property
    def local(self) -> LocalWork:
        """A rank's part of the work."""
        layout = ParallelLayout(self.mesh)
        sequences = self.sequences // layout.replicas
        tp, ep = layout.size("tp"), layout.size("ep")
        return LocalWork(sequences, self.tokens, tp=tp, ep=ep, is_decoding=self.is_decoding)

    @property
    def read(self) -> LocalWork:
        """Tokens that have logits: the last one of each sequence."""
        return replace(self.local, tokens=dict.fromkeys(self.tokens, 1))

    @property
    def passes(self) -> list[tuple[ModelLayer, LocalWork]]:
        """Layers in order, with a rank's work in each.

        After the last layer that keeps keys and values (in the head), only a prompt's last token is needed.
        Decoding passes only the layers of the last layer's stream.
        """
        layers = self.model.layers
        last = max(place for place, layer in enumerate(layers) if layer.cache_elements)
        found = [(layer, self.local if place <= last else self.read) for place, layer in enumerate(layers)]
        if not self.is_decoding:
            return found
        return [(layer, self.local) for layer in layers if layer.stream == layers[-1].stream]


@brief("seconds", "tokens_per_s")
@dataclass(frozen=True)
class ServingOutcome:
    """A simulated phase."""

    setup: ServingSetup
    timeline: Timeline

    @property
    def seconds(self) -> Seconds:
        """Seconds to the first token, or per token."""
        return self.timeline.total_s

    @cached_property
    def device_time(self) -> DeviceTime:
        """Parts of the time."""
        return self.timeline.device_time(0)

    @property
    def tokens_per_s(self) -> float:
        """Tokens read (prefill; of all streams), or written (decode), on all ranks."""
        each = 1 if self.setup.is_decoding else sum(self.setup.tokens.values())
        return self.setup.sequences * each / float(self.seconds)

    @property
    def memory(self) -> MemoryParts:
        """Memory of a rank, with the keys and values of all its sequences."""
        keeping = ActivationPolicy(
            weight_bytes=self.setup.weight_bytes,
            element_bytes=self.setup.element_bytes,
            block_weight_bytes=self.setup.block_weight_bytes,
            is_training=False,
        )
        return memory_parts([self.setup.model.layers], (), self.setup.local, keeping, read=self.setup.read)


def simulate_phase(setup: ServingSetup, costs: Costs) -> ServingOutcome:
    """Simulate a phase of serving with the given costs of communication along tp and ep."""
    options = TrainingOptions(
        kappa=1,
        sequence_parallel=False,
        capacity_factor=setup.capacity_factor,
        element_bytes=setup.element_bytes,
    )
    issue, chain = Issue(RememberedCosts(costs), options), Chain(0)
    layout = ParallelLayout(setup.mesh)
    for layer, local in setup.passes:
        tokens = dict.fromkeys(local.tokens, 1) if setup.is_decoding else local.tokens
        plain = RankPart(layout, options, setup.sequences // layout.replicas, tokens)
        share = with_quicker_order(plain, [layer], issue.costs)
        passes = layer_passes(layer, layer_seconds(setup.times, layer, local), share)
        issue.act(chain, layer.name, passes.forward, Category.FORWARD)
    return ServingOutcome(setup, run_tasks(issue.tasks))
