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
from treadle.planning.measuring.emulation.crossovers import Crossover
from treadle.planning.measuring.emulation.network_fit import NetworkModel
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
    """The same with what there is to say of a delay and of crossovers."""
    assert (options["delay_ns"], options["with_crossovers"]) == (5_000_000, True)
    model = NetworkModel(1e-3, 2e-3, 0.97)
    found = (
        Crossover(CollectiveKind.ALLREDUCE, "trivance", "ring-steps", 2**18, 2**17, ("bfb", "swing"), model),
        Crossover(CollectiveKind.ALLREDUCE, "swing", "bfb", None, 3 * 2**10, ("trivance",), model),
    )
    line = testbed.LineStatistics(1234, 5, 3e-4)
    plain = emulated(fabric, sizes, rate_bytes_per_s=2_500_000)
    return replace(plain, delay_ns=5_000_000, line=line, crossovers=found)


def test_crossovers_are_told_with_what_they_were_predicted_from(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testbed, "emulate", delayed)
    words = ["testbed", "ring:4", "--delay", "5ms", "--crossovers"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "links of 5.00 ms: 1234 frames, 5 dropped, at most 300 us late" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("allreduce")]
    assert rows == [
        ["allreduce", "trivance", "ring-steps", "256KB", "128KB", "2.00", "bfb,", "swing"],
        ["allreduce", "swing", "bfb", "none", "3KB", "trivance"],
    ]
    assert main([*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["frames"], result["frames_dropped"], result["frames_latest_s"]) == (1234, 5, 3e-4)
    first, second = result["crossovers"]
    assert first == {
        "collective": "allreduce",
        "small": "trivance",
        "large": "ring-steps",
        "predicted_bytes": 2**18,
        "measured_bytes": 2**17,
        "ratio": 2.0,
        "fitted_to": ["bfb", "swing"],
        "alpha_s": 1e-3,
        "epsilon_s": 2e-3,
        "share_of_rate": 0.97,
    }
    assert (second["predicted_bytes"], second["ratio"]) == (None, None)
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
