"""The check that waits for a GPU: where there is none it says so, and it notices what is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tools.gpu_check import Report, main, sweep

from tools import gpu_check
from treadle.planning import RunResult, run
from treadle.runtime.device.kernel_build import GPU_LIBRARY


def test_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(GPU_LIBRARY, str(tmp_path / "none.so"))
    assert main(["--out", str(tmp_path / "figures.md")]) == 0
    assert capsys.readouterr().out.startswith("SKIPPED: TREADLE_GPU_LIBRARY=")
    assert (tmp_path / "figures.md").read_text().startswith("SKIPPED: ")


def test_wrong_elements_and_slow_launches_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*given: object, **_: object) -> RunResult:
        found = run(given[0], [1024])  # type: ignore[arg-type]
        rows = tuple(replace(row, wrong=3, time_s=1.0, protocol="LL") for row in found.rows)
        return replace(found, rows=rows)

    monkeypatch.setattr(gpu_check, "run", wrong)
    report = Report(None)
    sweep(report, [1024], ["allreduce"])
    assert report.faults == [
        "allreduce by Simple of 1KB: 3 elements wrong",
        "allreduce by LL of 1KB: 3 elements wrong",
        "allreduce by LL of 1KB: 1000000.0 us a launch, expected at most 15",
    ]
    assert "| allreduce | LL | 1KB | 1000000.0 | 3 |" in report.lines
