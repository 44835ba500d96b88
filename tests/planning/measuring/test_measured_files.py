"""Measured times, column by column and key by key, and what is told of a fit to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.render.fitting import calibration_rows
from treadle.render.rows import Row, Table, lines, values
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration import measurements
from treadle.simulation.calibration.calibration import (
    Calibration,
)
from treadle.simulation.calibration.measurements import (
    Measurement,
    read_measurements,
)
from treadle.simulation.calibration.regression import Estimate, LinearFit


def read(folder: Path, text: Any, **words: Any) -> list[tuple[int, float, float | None]]:
    path = folder / "measured"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return [(row.size_bytes, row.time_s, row.bytes_factor) for row in read_measurements(path, **words)]


HEAD = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"


def test_as_many_ranks_as_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "MAX_RANKS", 2)
    ranks = "\n".join(f"#  Rank  {rank} Group 0" for rank in range(4))
    text = f"{ranks}\n{HEAD}\n8 2 float sum -1 2 0.1 0.1 0"
    assert read(tmp_path, text, collective=CollectiveKind.ALLGATHER)[0][2] == 0.5


def test_rows_that_are_cut_off(tmp_path: Path) -> None:
    assert read(tmp_path, f"{HEAD}\n8 2 float sum -1 2.5 0.1 0.1")[0][0] == 8
    with pytest.raises(FormatError) as caught:
        read(tmp_path, f"{HEAD}\n\n8 2 float sum -1 2.5 0.1")
    assert str(caught.value) == f"{tmp_path / 'measured'}:3: a row has 7 columns; its heading has 13"


def test_as_many_rows_as_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "MAX_ROWS", 2)
    row = "8 2 float sum -1 2.5 0.1 0.1 0"
    assert len(read(tmp_path, "\n".join([HEAD, row, row]))) == 2
    with pytest.raises(FormatError, match=r"has more than 2 rows$"):
        read(tmp_path, "\n".join([HEAD, row, row, row]))
    own = {"size_bytes": 8, "time_s": 1.0}
    assert len(read(tmp_path, {"rows": [own] * 2})) == 2
    with pytest.raises(FormatError, match=r'"rows" has more than 2 rows$'):
        read(tmp_path, {"rows": [own] * 3})
    results = {"size": 8, "out_of_place": {"time": 1}}
    assert len(read(tmp_path, {"results": [results] * 2})) == 2
    with pytest.raises(FormatError, match=r'"results" has more than 2 rows$'):
        read(tmp_path, {"results": [results] * 3})


def fitted(*, steps: bool = True, **estimates: Estimate) -> Calibration:
    fit = LinearFit(estimates, (), 0.125, 0.25)
    return Calibration(fit, (Measurement(8, 1.0),) * 3, steps)


def text_of(view: Iterable[Row | Table]) -> list[str]:
    return lines(list(view))


def test_what_is_told_of_a_fit_without_figures() -> None:
    bare = fitted(steps=False)
    assert (bare.alpha_s, bare.bandwidth_bytes_per_s, bare.options(2)) == (0.0, None, {})
    assert text_of(calibration_rows(bare)) == [
        "error of the fit              mean 12.50%, max 25.00% over 3 times",
        "options of a graph, degree 1  none; say --steps for the latency of a link",
    ]
    told = values(calibration_rows(bare))
    assert (told["alpha_is"], told["bandwidth_bytes_per_s"]) == ("the whole collective", None)
    assert not {key for key in told if key.startswith(("alpha_s", "epsilon", "inverse"))}
    whole = fitted(steps=False, alpha=Estimate(1e-6, 0.0, 2e-6))
    assert text_of(calibration_rows(whole))[0] == "alpha (the whole collective)  1 (95 %: 0 to 2) us"
    assert "latency_ns" not in values(calibration_rows(whole))
    assert fitted(steps=True).options() == {"latency": "0ns"}
