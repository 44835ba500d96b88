"""Cost models as people give them: a value, the name of one that comes with Treadle, or a file."""

from __future__ import annotations

from pathlib import Path

from treadle.errors import FormatError
from treadle.simulation.costs.cost_model import ClassCost, CostModel, LinkClass, Protocol
from treadle.simulation.costs.cost_model_file import load_cost_model, save_cost_model
from treadle.simulation.costs.cost_presets import cost_presets

__all__ = [
    "ClassCost",
    "CostModel",
    "CostModelLike",
    "LinkClass",
    "Protocol",
    "as_cost_model",
    "cost_presets",
    "load_cost_model",
    "save_cost_model",
]

CostModelLike = CostModel | str | Path


def as_cost_model(given: CostModelLike) -> CostModel:
    """The cost model that a value, a name or a path means.

    Parameters
    ----------
    given : CostModel, str or Path
        A str that is the name of one that comes with Treadle means that one, whatever files there are.

    Raises
    ------
    FormatError
        If there is no such model, or its file is malformed.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.as_cost_model("reference").name
    'reference'
    """
    if isinstance(given, CostModel):
        return given
    if not isinstance(given, str | Path):
        raise FormatError(f"cost model: expected a CostModel, a name or a path, found {type(given).__name__}")
    presets = cost_presets()
    if isinstance(given, str) and given in presets:
        return presets[given]
    if not Path(given).is_file():
        raise FormatError(
            f"cost model {str(given)[:60]!r}: neither a file that exists nor one of {', '.join(presets)}"
        )
    return load_cost_model(given)
