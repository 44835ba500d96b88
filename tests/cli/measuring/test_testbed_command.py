"""``treadle testbed``: what it prints; the emulation itself is a stand-in, which needs no root."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from harness.json_schema_judge import faults
from treadle.cli.main import main
from treadle.cli.settings.json_schema import json_schema
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration.calibration import calibrate_rows
from treadle.simulation.calibration.measurements import Measurement
from treadle.testbed import testbed
from treadle.testbed.crossovers import Crossover
from treadle.testbed.network_fit import NetworkModel
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


def test_the_whole_report_of_a_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three of 1,000 bytes and one half as long as predicted; two elements are wrong."""
    asked: dict[str, object] = {}

    def answer(fabric: Topology, sizes: list[int], **options: Any) -> testbed.EmulationResult:
        options.pop("on_case")
        asked.update(options, sizes=sizes, fabric=fabric.name)
        plain = emulated(fabric, [1000, 4096, 10**6], rate_bytes_per_s=25_000_000)
        first, *others = plain.rows
        odd = replace(
            first, algorithm="ring-steps", steps=5, wrong=2, is_fitted=False, predicted_s=first.time_s / 2
        )
        skip = testbed.Skipped(CollectiveKind.ALLREDUCE, "tsmcf", "serves no allreduce")
        return replace(plain, rows=(odd, *others), skipped=(skip,))

    monkeypatch.setattr(testbed, "emulate", answer)
    assert main(["testbed", "ring:4"]) == 1
    out, err = capsys.readouterr()
    assert [" ".join(line.split()) for line in out.splitlines()] == [
        "measured on ring(4), emulated on this host, 25 MB/s a link and more:",
        "collective algorithm size steps T_B (M/B) measured predicted error",
        "allgather ring-steps 1000B 5 0.7500 3.030 ms 1.515 ms -50.0%",
        "allgather bfb 4KB 3 0.7500 3.123 ms 3.123 ms +0.0% fitted",
        "allgather bfb 976.56KB 3 0.7500 33.000 ms 33.000 ms +0.0% fitted",
        "",
        "alpha 1000.0 us a step, epsilon 0.0 us, B 25 MB/s (nominal 50 MB/s)",
        "error: mean 16.7%, max 50.0%",
        "2 elements WRONG",
        "skipped allreduce by tsmcf: serves no allreduce",
    ]
    assert err == "treadle: 2 elements are wrong\n"
    assert asked == {
        "fabric": "ring(4)",
        "sizes": [2**10, 2**18, 2**20, 2**22, 2**23],
        "rate_bytes_per_s": 12_500_000,
        "delay_ns": None,
        "collectives": [CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE],
        "algorithms": ("bfb", "ring-steps", "tsmcf"),
        "plans": [],
        "timing": testbed.Timing(iterations=200, rounds=1),
        "with_crossovers": False,
    }
    words = "--collectives allreduce,reduce-scatter --algorithms swing --size 2K --rate 1Gbit/s --delay 3us"
    assert main(["testbed", "ring:4", *words.split(), "--iterations", "7", "--rounds", "2"]) == 1
    assert [asked[key] for key in ("sizes", "rate_bytes_per_s", "delay_ns", "algorithms", "timing")] == [
        [2048],
        125_000_000,
        3000,
        ("swing",),
        testbed.Timing(iterations=7, rounds=2),
    ]
    assert asked["collectives"] == [CollectiveKind.ALLREDUCE, CollectiveKind.REDUCE_SCATTER]


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


def test_what_needs_no_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def commands(fabric: Topology, rate: int, *, delay_ns: int | None) -> list[str]:
        return [f"make {fabric.name} {rate} {delay_ns}", "more"]

    monkeypatch.setattr(testbed, "dry_run", commands)
    words = ["testbed", "ring:4", "--dry-run", "--rate", "8kbit/s", "--delay", "1us"]
    assert main(words) == 0
    assert capsys.readouterr().out == "make ring(4) 1000 1000\nmore\n"
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["commands"] == ["make ring(4) 1000 1000", "more"]
    for left, said in (([], "nothing was left\n"), (["a", "b"], "removed a\nremoved b\n")):
        monkeypatch.setattr(testbed, "clean_leftovers", lambda left=left: left)
        assert main(["testbed", "--clean"]) == 0
        assert capsys.readouterr().out == said
        assert main(["testbed", "--clean", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["removed"] == left
