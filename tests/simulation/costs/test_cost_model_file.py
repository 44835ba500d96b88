"""Cost models as JSON files: round trips, and files of nobody's good will."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.errors import ScheduleError
from treadle.planning import as_cost_model, cost_presets, save_cost_model
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol

FULL = CostModel(
    "mine",
    "measured in June",
    (
        Protocol(
            "ll", ClassCost(600, 0, 5, Fraction(1, 3)), launch_ns=6600, channels=2, channel_bytes_per_s=7
        ),
        Protocol("simple", network=ClassCost(alpha_ns=14_000, occupancy_ns=3000)),
    ),
    reduction_bytes_per_s=10**11,
    bands={"simple.network.alpha_ns": (12_000.0, 16_000.0)},
)


@pytest.mark.parametrize("model", [FULL, *cost_presets().values()], ids=lambda model: model.name)
def test_written_and_read_it_is_the_same(model: CostModel, tmp_path: Path) -> None:
    save_cost_model(tmp_path / "model.json", model)
    assert as_cost_model(tmp_path / "model.json") == model
    assert hash(as_cost_model(str(tmp_path / "model.json"))) == hash(model)
    assert pickle.loads(pickle.dumps(model)) == model


@pytest.mark.parametrize(
    "values",
    [{"name": ""}, {"name": "x" * 41}, {"launch_ns": -1}, {"channels": 1}, {"channel_bytes_per_s": 2**60}],
)
def test_values_have_ranges(values: dict[str, object]) -> None:
    with pytest.raises(ScheduleError, match=r"expected|go together"):
        Protocol(**{"name": "p", **values})
