"""``--cost-model``: what messages cost, in place of one alpha for all."""

from __future__ import annotations

from treadle import planning
from treadle.errors import FormatError


def given_cost_model(given: str | None, alpha: object) -> planning.CostModel | None:
    """The model that is asked for; FormatError if alpha is given beside it, or there is no such model."""
    if given is None:
        return None
    if alpha is not None:
        raise FormatError("--cost-model and --alpha: a cost model has latencies; expected one of the two")
    return planning.as_cost_model(given)
