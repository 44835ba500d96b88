"""The values of a model: what is counted over layers, and what cannot be one."""

from __future__ import annotations

import pytest

from treadle.errors import TreadleError
from treadle.training.models.model_layer import ModelLayer, Weight, Work, WorkKind


def test_layers_that_cannot_be() -> None:
    with pytest.raises(TreadleError, match="must be given together"):
        ModelLayer("block", weights=(Weight("experts", 8, expert=True),))
    with pytest.raises(TreadleError, match="must be given together"):
        ModelLayer("block", routed_elements=8)
    with pytest.raises(TreadleError, match="0, 1 or 2 exchanges, found 3"):
        ModelLayer("block", routed_elements=8, exchanges=3)
    with pytest.raises(TreadleError, match="must be given together"):
        Work("scores", WorkKind.ATTENTION, flops_per_context=2)
