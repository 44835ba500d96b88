"""Whether a model can be spread over a mesh: what each axis needs of its layers."""

from __future__ import annotations

from treadle.errors import ScheduleError
from treadle.training.forms.axes import ParallelLayout
from treadle.training.models.training_model import TrainingModel


def check_suitable(model: TrainingModel, layout: ParallelLayout) -> None:
    """Refuses axes along which the model has nothing to share.

    Raises
    ------
    ScheduleError
        If no layer has reductions for tp, keys and values for cp or experts for ep, or ep does not divide
        the experts.
    """
    experts = {layer.experts for layer in model.layers if layer.experts}
    needs = {
        "tp": ("matrices that tensor parallelism cuts", any(layer.reductions for layer in model.layers)),
        "cp": ("keys and values to pass along cp", any(layer.kv_elements for layer in model.layers)),
        "ep": ("experts to spread over ep", bool(experts)),
    }
    for axis, (words, has_them) in needs.items():
        if layout.size(axis) > 1 and not has_them:
            raise ScheduleError(f"mesh {layout.mesh.text}: {model.name} has no {words}")
    if spread := [number for number in experts if number % layout.size("ep")]:
        raise ScheduleError(
            f"mesh {layout.mesh.text}: expected ep to divide the {spread[0]} experts of {model.name}"
        )
