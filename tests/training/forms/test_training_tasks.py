"""What holds of every step, on random meshes with all forms at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from samples.training.small_steps import SmallStep, free_costs, mesh_of, small_step
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.costs import Seconds
from treadle.training.forms.layer_passes import LayerSeconds
from treadle.training.models.model_layer import ModelLayer, Weight

AXES = ("pp", "dp", "fsdp", "ep", "cp", "tp")


@dataclass(frozen=True)
class Case:
    mesh: Mesh
    layers: list[ModelLayer]
    seconds: list[LayerSeconds]
    options: dict[str, Any]

    def size(self, *axes: str) -> int:
        sizes = dict(zip(self.mesh.axis_names, self.mesh.shape, strict=True))
        found = 1
        for axis in axes:
            found *= sizes.get(axis, 1)
        return found

    @property
    def batches(self) -> int:
        return int(self.options["micro_batches"])


def random_case(random: Random) -> Case:
    names = random.sample(AXES, random.randint(1, 4))
    mesh = mesh_of(**{name: random.choice((1, 2, 2, 4)) for name in names})
    stages = mesh.shape[names.index("pp")] if "pp" in names else 1
    interleave = random.choice((1, 2)) if stages > 1 else 1
    layers = []
    for place in range(stages * interleave + random.randint(0, 4)):
        weights = [Weight(f"w{place}", 64), Weight(f"n{place}", 16, split=False)]
        fields: dict[str, Any] = {"reductions": random.randint(0, 2), "kv_elements": random.choice((0, 8))}
        if random.random() < 0.4:
            weights.append(Weight(f"e{place}", 256, expert=True))
            fields |= {"experts": 8, "top_k": 1, "routed_elements": 4, "exchanges": random.choice((1, 2))}
        layers.append(ModelLayer(f"l{place}", weights=tuple(weights), boundary_elements=2, **fields))
    seconds = [
        LayerSeconds(
            (random.randint(1, 5), random.randint(1, 9)),
            (random.randint(0, 3), random.randint(0, 5)),
            (random.randint(1, 3), random.randint(1, 3)) if layer.experts else (0, 0),
        )
        for layer in layers
    ]
    options = {
        "kappa": random.choice((1, Fraction(3, 2), 2)),
        "micro_batches": stages * random.randint(1, 3),
        "interleave": interleave,
        "prefetch": random.randint(0, 3),
        "reshard_after_forward": random.choice((None, True, False)),
        "sequence_parallel": random.choice((True, False)),
        "context_exchange": random.choice(("gather", "ring")),
        "streams": random.choice(("one", "per-axis")),
        "alltoall_overtakes": random.choice((True, False)),
        "bucket_bytes": random.choice((1, 100, 10**6)),
    }
    return Case(mesh, layers, seconds, options)


def run(case: Case) -> SmallStep:
    rates = {kind: 7 + place for place, kind in enumerate((None, *CollectiveKind))}
    costs = free_costs(case.mesh, rates)
    return small_step(case.layers, case.mesh, costs, seconds=case.seconds, tokens=8, **case.options)


def base(name: str) -> str:
    return name.partition(",")[0]


@pytest.mark.parametrize("seed", range(50))
def test_every_layer_passes_every_micro_batch_in_order(seed: int) -> None:
    case = random_case(Random(seed))
    step = run(case)
    check_work(case, step)
    check_order(case, step)
    check_gradients(case, step)
    check_gathers(case, step)


def check_work(case: Case, step: SmallStep) -> None:
    """The seconds of each layer and pass, for all micro-batches; and the parts of each device's time."""
    found: Counter[tuple[str, str]] = Counter()
    for task in step.timeline.tasks:
        if task.computes:
            found[base(task.name), task.category] += task.seconds  # type: ignore[assignment]
    for layer, one in zip(case.layers, case.seconds, strict=True):
        for place, category in enumerate(("forward", "backward")):
            total = sum(part[place] for part in (one.dense, one.attention, one.expert))
            assert found[layer.name, category] == case.batches * total
    for device in step.timeline.devices:
        parts = step.timeline.device_time(device)
        whole = parts.compute_s + parts.contention_s + parts.idle_s + sum(parts.exposed_s.values())
        assert whole == step.timeline.total_s


def spans(step: SmallStep, name: str, category: str) -> tuple[Seconds, Seconds]:
    times = step.times(name, category)
    return min(start for start, _ in times), max(end for _, end in times)


def check_order(case: Case, step: SmallStep) -> None:
    """A micro-batch goes through the layers and back; across stages a send lies between."""
    stage = {base(task.name): task.device for task in step.timeline.tasks if task.computes}
    for batch in range(case.batches):
        ending = f", micro-batch {batch}" if case.batches > 1 else ""
        path = [(layer.name, "forward") for layer in case.layers]
        path += [(layer.name, "backward") for layer in reversed(case.layers)]
        for (before, one), (after, other) in pairwise(path):
            end = spans(step, before + ending, one)[1]
            start = spans(step, after + ending, other)[0]
            assert start > end if stage[before] != stage[after] else start >= end


def check_gradients(case: Case, step: SmallStep) -> None:
    """Every weight's gradient is summed over all ranks that have it, once, or after each micro-batch."""
    moved: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for task in step.timeline.tasks:
        is_gradient = task.name.startswith(("gradients of l", "bucket"))
        if is_gradient and task.traffic is not None and task.traffic[0] is not None:
            moved[task.category, tuple(sorted(task.traffic[1]))] += task.size_bytes
    expected: Counter[tuple[str, tuple[str, ...]]] = Counter()
    shards, stays = case.size("fsdp"), case.options["reshard_after_forward"]
    stays = case.size("pp") > 1 if stays is None else not stays
    times = case.batches if shards > 1 and not stays else 1
    for layer in case.layers:
        for weight in layer.weights:
            size = weight.elements // (case.size("tp") if weight.split else 1)
            size //= case.size("ep") if weight.expert else 1
            others = ("cp",) if weight.expert else ("cp", "ep")
            summed = [axis for axis in ("dp", "fsdp", *others) if case.size(axis) > 1]
            scattered = [axis for axis in summed if axis != "dp"] if shards > 1 else []
            if scattered:
                expected["reduce-scatter", tuple(sorted(scattered))] += size * times
                size //= case.size(*scattered)
            if rest := sorted(set(summed) - set(scattered)):
                expected["allreduce", tuple(rest)] += size * times
    assert moved == expected


def check_gathers(case: Case, step: SmallStep) -> None:
    """A layer's first pass begins once its weights have been gathered."""
    if case.size("fsdp") == 1:
        assert not any(task.name.startswith("weights") for task in step.timeline.tasks)
        return
    for layer in case.layers:
        gathered = step.times(f"weights of {layer.name}", "allgather")
        assert gathered
        first = step.times(layer.name + (", micro-batch 0" if case.batches > 1 else ""), "forward")[0][0]
        assert gathered[0][1] <= first
