"""Models as people name them: of the zoo, a file of Hugging Face, a table of layers."""

from __future__ import annotations

from pathlib import Path

from treadle.checking import unexpected
from treadle.errors import FormatError
from treadle.input_files import is_file, read_input_string
from treadle.spelling import similarly_spelt
from treadle.training.models.layer_table import read_model
from treadle.training.models.training_model import TrainingModel
from treadle.training.models.zoo import MODELS, zoo_model

_MOST_FILE = 10**7
_SUFFIXES = (".json", ".csv")


def as_model(value: object, *, samples: bool = False) -> TrainingModel:
    """The value itself, the zoo's of a name, or that of a file; TreadleError for what is none.

    Parameters
    ----------
    value : TrainingModel, str or Path
        A name of the zoo wins over a file; ``./name`` is the file.
    samples : bool
        A table's layers count per sample, not per token.
    """
    if isinstance(value, TrainingModel):
        return value
    if not isinstance(value, str | Path):
        raise unexpected("model", "a TrainingModel, a name, or a file", value)
    text = str(value)
    names_file = isinstance(value, Path) or "/" in text or text.lower().endswith(_SUFFIXES)
    if not names_file and (similarly_spelt(text, MODELS) is not None or not is_file(text[:200])):
        return zoo_model(text)
    content = read_input_string(text, _MOST_FILE, expected="a config.json, or layers as CSV")
    try:
        return read_model(content, name=Path(text).stem, unit="sample" if samples else "token")
    except FormatError as error:
        if str(error).startswith(text):
            raise
        raise FormatError(str(error), source=text) from None
