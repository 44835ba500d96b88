"""Texts, defaults and limits of steps' parts: at the number that is still allowed and one beyond."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from treadle.errors import FormatError
from treadle.training.compute_times import (
    LocalWork,
    MeasuredLayer,
    MeasuredTimes,
    read_layer_times,
)
from treadle.training.models.model_layer import ModelLayer, Work, WorkKind
from treadle.training.models.training_model import TrainingModel


def test_measured_layers_are_told_and_found_in_order() -> None:
    times = MeasuredTimes((MeasuredLayer("b*", 1.0, 2.0), MeasuredLayer("*", 3.0, 4.0, 10)), 0.5)
    assert times.summary == "measured: 2 rows of layer times"
    assert times.optimizer_s(1e9) == 0.5
    layers = [ModelLayer(name, works=(Work("w", WorkKind.MATMUL, flops=1),)) for name in ("block", "head")]
    local = LocalWork(2, {"": 10})
    assert [times.work_times(layer, local)[0].forward_s for layer in layers] == [1.0, 6.0]
    assert [times.work_times(layer, local)[0].backward_s for layer in layers] == [2.0, 8.0]
    model = TrainingModel("m", tuple(replace(layers[0], name=name) for name in ("a", "b", "c", "d")))
    message = "layer times: no layer of m is called 'x': a, b, c, ..."
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        MeasuredTimes((MeasuredLayer("*", 1, 1), MeasuredLayer("x", 1, 1))).check(model)
    with pytest.raises(FormatError, match="no row for the layer 'd'; "):
        MeasuredTimes((MeasuredLayer("[abc]", 1, 1),)).check(model)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ("x,1000000,1", "layer times: line 2: expected seconds, 0 or more, found '1000000'"),
        ("x,1,-0.5", "layer times: line 2: expected seconds, 0 or more, found '-0.5'"),
        (f"x,1,1,{'1' * 13}", f"layer times: line 2: tokens: expected an integer, found '{'1' * 13}'"),
        ("x,1,1,-1", "layer times: line 2: tokens: expected an integer, found '-1'"),
    ],
)
def test_layer_times_out_of_range(cells: str, message: str) -> None:
    header = "layer,forward_s,backward_s" + (",tokens" if cells.count(",") > 2 else "")
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        read_layer_times(f"{header}\n{cells}\n")
