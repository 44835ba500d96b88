"""``treadle testbed``: what it prints; the emulation itself is a stand-in, which needs no root."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from treadle.cli.main import main
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration.calibration import calibrate_rows
from treadle.simulation.calibration.measurements import Measurement
from treadle.testbed import testbed
from treadle.topologies.topology import Topology


def emulated(
    fabric: Topology, sizes: list[int], *, rate_bytes_per_s: int, **_: object
) -> testbed.EmulationResult:
    """Times of alpha = 1 ms a step and B = 25 MB/s, exactly."""
    times = [3e-3 + size * 0.75 / 25e6 for size in sizes]
    measured = [Measurement(size, time, 0.75, 3) for size, time in zip(sizes, times, strict=True)]
    rows = tuple(
        testbed.EmulationRow(
            CollectiveKind.ALLGATHER, "bfb", size, 3, 0.75, 0.75, time, time, 1, 0, True, time
        )
        for size, time in zip(sizes, times, strict=True)
    )
    node = Fraction(2 * rate_bytes_per_s)
    return testbed.EmulationResult(fabric, rate_bytes_per_s, node, rows, calibrate_rows(measured), ())


@pytest.mark.parametrize(
    ("words", "link", "node"),
    [([], "12.5 MB/s", "25 MB/s"), (["--unit", "Mbit/s"], "100 Mbit/s", "200 Mbit/s")],
)
def test_rates_have_the_unit_that_is_asked(
    words: list[str],
    link: str,
    node: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(testbed, "emulate", emulated)
    assert main(["testbed", "ring:4", *words]) == 0
    out = capsys.readouterr().out
    assert f"emulated on this host, {link} a link and more" in out
    assert f"B {node} (nominal {node})" in out


def test_plans_bring_their_fabric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "ring.plan")
    assert main(["solve", "ring:3", "allgather", "--algorithm", "bfb", "-q", "-o", plan]) == 0
    asked: list[tuple[str, int]] = []

    def answer(fabric: Topology, sizes: list[int], **options: Any) -> testbed.EmulationResult:
        asked.append((fabric.name, len(options["plans"])))
        return emulated(fabric, sizes, rate_bytes_per_s=options["rate_bytes_per_s"])

    monkeypatch.setattr(testbed, "emulate", answer)
    assert main(["testbed", "--plan", plan, "--plan", plan]) == 0
    assert "every element is right" in capsys.readouterr().out
    assert main(["testbed", "ring:4", "--plan", plan, "-q"]) == 0
    # the fabric of the settings stands in only where there is neither
    monkeypatch.setenv("TREADLE_FABRIC", "ring:5")
    assert main(["testbed", "--plan", plan, "-q"]) == 0
    assert main(["testbed", "-q"]) == 0
    monkeypatch.delenv("TREADLE_FABRIC")
    assert asked == [("ring(3)", 2), ("ring(4)", 1), ("ring(3)", 1), ("ring(5)", 0)]
    assert main(["testbed"]) == 2
    assert capsys.readouterr().err == "treadle: expected a TOPOLOGY, --plan or --clean\n"
    assert main(["testbed", "ring:4", "--rate", "0Mbit/s"]) == 2
    assert capsys.readouterr().err == "treadle: rate '0Mbit/s': expected more than 0\n"
