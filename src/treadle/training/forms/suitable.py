"""Checks whether a model fits a mesh and the length of sequences."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.errors import ScheduleError
from treadle.training.forms.axes import ParallelLayout
from treadle.training.models.training_model import TrainingModel


def check_suitable(model: TrainingModel, layout: ParallelLayout) -> None:
    """Raise ScheduleError for axes along which the model has nothing to shard.

    tp requires layers with reductions and divides the heads of attention and of state spaces; cp requires
    keys and values in every layer that remembers tokens; ep requires experts and divides them.
    """
    experts = {layer.experts for layer in model.layers if layer.experts}
    requirements = {
        "tp": ("matrices that tensor parallelism cuts", any(layer.reductions for layer in model.layers)),
        "cp": (
            "keys and values to pass along cp in every layer that remembers tokens",
            any(layer.kv_elements for layer in model.layers)
            and all(layer.kv_elements for layer in model.layers if layer.cache_elements),
        ),
        "ep": ("experts to spread over ep", bool(experts)),
    }
    for axis, (words, has_them) in requirements.items():
        if layout.size(axis) > 1 and not has_them:
            raise ScheduleError(f"mesh {layout.mesh.notation}: {model.name} has no {words}")
    shape = model.shape
    for heads, words in (
        (shape.attention.heads if shape else 0, "attention"),
        (shape.state_space.heads if shape and shape.state_space else 0, "state-space"),
    ):
        if heads % layout.size("tp"):
            raise ScheduleError(
                f"mesh {layout.mesh.notation}: expected tp to divide the {heads} {words} heads of "
                f"{model.name}"
            )
    if spread := [number for number in experts if number % layout.size("ep")]:
        raise ScheduleError(
            f"mesh {layout.mesh.notation}: expected ep to divide the {spread[0]} experts of {model.name}"
        )


def check_positions(model: TrainingModel, tokens: Mapping[str, int]) -> None:
    """Raise ScheduleError if a stream has more tokens than the model has learned positions."""
    most = model.shape.positions if model.shape is not None else 0
    longest = max(tokens.values(), default=0)
    if most and longest > most:
        raise ScheduleError(
            f"model {model.name}: {longest} tokens; expected at most its {most} learned positions"
        )
