"""``treadle testbed``: what it prints; the emulation itself is a stand-in, which needs no root."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.cli.main import main
from treadle.planning.measuring.calibration import calibrate_rows
from treadle.planning.measuring.emulation import testbed
from treadle.planning.measuring.measurements import Measurement
from treadle.schedules.collective import CollectiveKind
from treadle.topologies.topology import Topology


def emulated(fabric: Topology, sizes: list[int], *, rate_bytes_per_s: int, **_: object) -> object:
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
