"""``treadle testbed``: what it prints; the emulation itself is a stand-in, which needs no root."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import pytest

from harness.json_schema_judge import faults
from treadle.cli.main import main
from treadle.cli.settings.json_schema import json_schema
from treadle.planning.measuring.calibration import calibrate_rows
from treadle.planning.measuring.emulation import testbed
from treadle.planning.measuring.measurements import Measurement
from treadle.schedules.collective import CollectiveKind
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


def delayed(fabric: Topology, sizes: list[int], **options: object) -> object:
    """The same with what there is to say of a delay."""
    assert options["delay_ns"] == 5_000_000
    line = testbed.LineStatistics(1234, 5, 3e-4)
    plain = emulated(fabric, sizes, rate_bytes_per_s=2_500_000)
    return replace(plain, delay_ns=5_000_000, line=line)


def test_how_well_links_kept_their_delay_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testbed, "emulate", delayed)
    words = ["testbed", "ring:4", "--delay", "5ms"]
    assert main(words) == 0
    assert "links of 5.00 ms: 1234 frames, 5 dropped, at most 300 us late" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["frames"], result["frames_dropped"], result["frames_latest_s"]) == (1234, 5, 3e-4)
    schema = json_schema("testbed")
    assert faults(result, schema, schema) == []


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
