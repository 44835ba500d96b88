"""Serving: the first token of a prompt, and each token after it, with tensor and expert parallelism.

Prefill passes whole prompts, decoding one token for each sequence, which reads the keys and values of those
before. A forward pass has nothing to overlap with: what is computed waits for what is communicated, layer by
layer.
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
"""That a mesh for serving may have."""


class ServingPhase(StrEnum):
    """What is done for a request."""

    PREFILL = "prefill"
    """All tokens of the prompt at once: the time to the first token."""
    DECODE = "decode"
    """One token after the others: the time per token."""


@brief("model", "phase", "mesh", "sequences")
@dataclass(frozen=True)
class ServingSetup:
    """What is served, on what, and how much at once.

    Parameters
    ----------
    model : TrainingModel
        Of tokens, some of whose layers keep keys and values.
    mesh : Mesh
        With axes of `SERVING_AXES`: replicas have sequences of their own, and so have ranks of ep.
    device : Accelerator
    times : ComputeTimes
    phase : ServingPhase
    sequences : int
        At once, on all ranks together.
    tokens : mapping of str to int
        Of a prompt, or before the token that is decoded, by stream of the model.
    capacity_factor : Fraction
        Tokens sent to experts over tokens routed.
    weight_bytes, element_bytes : int
        Of weights as they are kept, of activations and of keys and values.
    block_weight_bytes : int, optional
        Of weights of blocks (layers that leave keys and values), where these are kept in other widths.

    Raises
    ------
    ScheduleError
        If the mesh has other axes or the model nothing to share along them, replicas do not share the
        sequences equally, the model keeps nothing from token to token, or has too few positions.
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
                f"mesh {self.mesh.notation}: serving knows no axis {others[0]}; expected some of "
                f"{', '.join(SERVING_AXES)}"
            )
        check_suitable(self.model, layout)
        if missing := [stream for stream in self.model.streams if self.tokens.get(stream, 0) < 1]:
            raise ScheduleError(f"model {self.model.name}: how many tokens has stream {missing[0]!r}?")
        check_positions(self.model, self.tokens)
        if not any(layer.cache_elements for layer in self.model.layers):
            raise ScheduleError(
                f"model {self.model.name}: keeps no keys and values, so that nothing is decoded"
            )
        if self.sequences < 1 or self.sequences % layout.replicas:
            raise ScheduleError(
                f"batch of {self.sequences}: expected a multiple of {layout.replicas}, the ranks of mesh "
                f"{self.mesh.notation} with sequences of their own"
            )

    @property
    def is_decoding(self) -> bool:
        """One token of each sequence."""
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
        """What logits are made of: the last token of each sequence."""
        return replace(self.local, tokens=dict.fromkeys(self.tokens, 1))

    @property
    def passes(self) -> list[tuple[ModelLayer, LocalWork]]:
        """Layers in order, and what a rank does in each.

        After the last layer that keeps keys and values (in the head) a prompt's last token is all that
        counts; decoding passes the layers of the last layer's stream only.
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
    """A simulated phase.

    Parameters
    ----------
    setup : ServingSetup
    timeline : Timeline
    """

    setup: ServingSetup
    timeline: Timeline

    @property
    def seconds(self) -> Seconds:
        """To the first token, or per token."""
        return self.timeline.total_s

    @cached_property
    def device_time(self) -> DeviceTime:
        """What they go to."""
        return self.timeline.device_time(0)

    @property
    def tokens_per_s(self) -> float:
        """Tokens read (prefill; of all streams), or written (decode), on all ranks."""
        each = 1 if self.setup.is_decoding else sum(self.setup.tokens.values())
        return self.setup.sequences * each / float(self.seconds)

    @property
    def memory(self) -> MemoryParts:
        """What a rank must hold, with the keys and values of all its sequences."""
        keeping = ActivationPolicy(
            weight_bytes=self.setup.weight_bytes,
            element_bytes=self.setup.element_bytes,
            block_weight_bytes=self.setup.block_weight_bytes,
            is_training=False,
        )
        return memory_parts([self.setup.model.layers], (), self.setup.local, keeping, read=self.setup.read)


def simulate_phase(setup: ServingSetup, costs: Costs) -> ServingOutcome:
    """A phase of serving with these costs of communication.

    Parameters
    ----------
    setup : ServingSetup
    costs : Costs
        Along tp and ep, of the sizes of one forward pass.
    """
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
