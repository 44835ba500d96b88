"""Settings near those of a step that does not fit into memory, found by computing the memory of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, TypeAlias

from treadle.errors import TreadleError
from treadle.schedules.mesh import Mesh
from treadle.training.step import TrainingSetup, step_memory
from treadle.training.train_options import check_options_matter
from treadle.training.training_options import Recompute

_MOST_ALTERNATIVES = 3
_MOST_TP = 8
"""Ranks of tensor parallelism that share a box on most machines."""

_KINDS = ("recompute", "micro-batches", "zero", "fsdp", "tp", "pp")
"""Of changes, from the least on."""
_Change: TypeAlias = tuple[dict[str, str], Mapping[str, Any]]
"""Options on the command line, and fields of the mesh's or the step's options."""


@dataclass(frozen=True)
class Alternative:
    """Settings that take less memory than those given.

    Parameters
    ----------
    options : str
        On the command line, in place of those given.
    memory_bytes : float
        Of a rank of the pipeline stage that needs most.
    fits : bool
    """

    options: str
    memory_bytes: float
    fits: bool


def fitting_settings(setup: TrainingSetup) -> tuple[Alternative, ...]:
    """Settings that fit, with one change each, or two where one is not enough; else the least found."""
    least: Alternative | None = None
    for n_changes in (1, 2):
        found: list[Alternative] = []
        for kinds in combinations(_KINDS, n_changes):
            for given, size in _changed(setup, kinds, {}):
                words = " ".join(f"{name} {value}" for name, value in given.items())
                one = Alternative(words, size, size <= setup.device.memory_bytes)
                least = one if least is None or size < least.memory_bytes else least
                if one.fits:
                    found.append(one)
                    break
            if len(found) == _MOST_ALTERNATIVES:
                break
        if found:
            return tuple(found)
    return () if least is None else (least,)


def _changed(
    setup: TrainingSetup, kinds: Sequence[str], given: dict[str, str]
) -> Iterator[tuple[dict[str, str], float]]:
    """Options with a change of each kind, and the bytes of a rank with them, smaller changes first."""
    if not kinds:
        yield given, max(parts.total_bytes for parts in step_memory(setup))
        return
    for more, fields in _changes(setup, kinds[0]):
        own = dict(fields)
        mesh = own.pop("mesh", setup.mesh)
        with suppress(TreadleError):  # the model or the batch cannot be cut so
            changed = replace(setup, mesh=mesh, options=replace(setup.options, **own))
            check_options_matter(setup.model, mesh, changed.options)
            yield from _changed(changed, kinds[1:], {**given, **more})


def _changes(setup: TrainingSetup, kind: str) -> Iterator[_Change]:
    """All changes of a kind, smaller ones first."""
    options, mesh = setup.options, setup.mesh
    if kind == "recompute":
        for more in list(Recompute)[list(Recompute).index(options.recompute) + 1 :]:
            yield {"--recompute": more.value}, {"recompute": more}
    elif kind == "micro-batches":
        sequences = setup.rank_part.sequences * options.micro_batches
        for count in range(options.micro_batches + 1, sequences + 1):
            if sequences % count == 0:
                yield {"--micro-batches": str(count)}, {"micro_batches": count}
    elif kind == "zero":
        for stage in range(options.zero + 1, 3):
            yield {"--zero": str(stage)}, {"zero": stage}
    elif kind != "fsdp":
        yield from _more(setup, kind, _MOST_TP if kind == "tp" else setup.model.n_layers)
    elif "dp" in mesh.axis_names and "fsdp" not in mesh.axis_names:
        names = tuple("fsdp" if name == "dp" else name for name in mesh.axis_names)
        unset = {"--zero": "0"} if options.zero else {}
        sharded = replace(mesh, axis_names=names)
        yield {"--mesh": sharded.notation, **unset}, {"mesh": sharded, "zero": 0}


def _more(setup: TrainingSetup, axis: str, most: int) -> Iterator[_Change]:
    """Twice as many ranks along an axis, and so on, taken from replicas or shards."""
    sizes = dict(zip(setup.mesh.axis_names, setup.mesh.shape, strict=True))
    if axis not in sizes:  # stages are far apart, ranks of tensor parallelism are neighbours
        sizes = {axis: 1, **sizes} if axis == "pp" else {**sizes, axis: 1}
    factor = 2
    while setup.mesh.rank_order is None and sizes[axis] * factor <= most:
        source = next((one for one in ("dp", "fsdp") if sizes.get(one, 1) % factor == 0), None)
        if source is None:
            return
        changed = {**sizes, axis: sizes[axis] * factor, source: sizes[source] // factor}
        kept = {name: size for name, size in changed.items() if size > 1}
        mesh = Mesh(tuple(kept.values()), tuple(kept))
        yield {"--mesh": mesh.notation}, {"mesh": mesh}
        factor *= 2
