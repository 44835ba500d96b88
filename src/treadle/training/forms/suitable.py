"""Whether a model can be spread over a mesh and take such sequences: what each needs of its layers."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.errors import ScheduleError
from treadle.training.forms.axes import ParallelLayout
from treadle.training.models.training_model import TrainingModel


def check_suitable(model: TrainingModel, layout: ParallelLayout) -> None:
    """Refuses axes along which the model has nothing to share.

    Raises
    ------
    ScheduleError
        If no layer has reductions for tp or experts for ep, a layer that remembers tokens no keys and values
        for cp, or tp does not divide the heads of attention and of state spaces, ep the experts.
    """
    experts = {layer.experts for layer in model.layers if layer.experts}
    needs = {
        "tp": ("matrices that tensor parallelism cuts", any(layer.reductions for layer in model.layers)),
        "cp": (
            "keys and values to pass along cp in every layer that remembers tokens",
            any(layer.kv_elements for layer in model.layers)
            and all(layer.kv_elements for layer in model.layers if layer.cache_elements),
        ),
        "ep": ("experts to spread over ep", bool(experts)),
    }
    for axis, (words, has_them) in needs.items():
        if layout.size(axis) > 1 and not has_them:
            raise ScheduleError(f"mesh {layout.mesh.notation}: {model.name} has no {words}")
    shape = model.shape
    for heads, words in (
        (shape.attention.heads if shape else 0, "attention"),
        (shape.state_space.heads if shape and shape.state_space else 0, "state-space"),
    ):
        if heads % layout.size("tp"):
            raise ScheduleError(
                f"mesh {layout.mesh.notation}: expected tp to divide the {heads} {words} heads of {model.name}"
            )
    if spread := [number for number in experts if number % layout.size("ep")]:
        raise ScheduleError(
            f"mesh {layout.mesh.notation}: expected ep to divide the {spread[0]} experts of {model.name}"
        )


def check_positions(model: TrainingModel, tokens: Mapping[str, int]) -> None:
    """Refuses sequences for which the model has no positions.

    Raises
    ------
    ScheduleError
        If a stream has more tokens than there are learned positions.
    """
    most = model.shape.positions if model.shape is not None else 0
    longest = max(tokens.values(), default=0)
    if most and longest > most:
        raise ScheduleError(
            f"model {model.name}: {longest} tokens; expected at most its {most} learned positions"
        )
