"""Models as people name them: of the zoo, a file of Hugging Face, a table of layers."""

from __future__ import annotations

from treadle.checking import unexpected
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.zoo import zoo_model


def as_model(value: object) -> TrainingModel:
    """The value itself, the zoo's of a name, or that of a file; TreadleError for what is none."""
    if isinstance(value, TrainingModel):
        return value
    if isinstance(value, str):
        return zoo_model(value)
    raise unexpected("model", "a TrainingModel, a name, or a file", value)
