"""The fit of the alpha-beta model, and the files of measured times that it reads."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.errors import ScheduleError
from treadle.simulation.calibration.calibration import (
    ALPHA,
    INVERSE_BANDWIDTH,
    calibrate,
    calibrate_rows,
)
from treadle.simulation.calibration.measurements import Measurement, read_measurements
from treadle.simulation.calibration.regression import fit_times
from treadle.topologies.files import load_topology

SIZES = [2**power for power in range(10, 31, 2)]


def times(alpha_s: float, per_byte_s: float, *, factor: float, noise: float = 0.0) -> list[float]:
    generator = random.Random(0)
    return [(alpha_s + per_byte_s * factor * size) * (1 + generator.uniform(-noise, noise)) for size in SIZES]


def json_output(values: Sequence[float], *, ranks: int, program: str) -> dict[str, object]:
    return {
        "version": 1,
        "args": [program, "-b", "1K"],
        "devices": [{"rank": rank} for rank in range(ranks)],
        "results": [
            {
                "size": size,
                "count": size // 4,
                "type": "float",
                "redop": "sum",
                "root": "    -1",
                "out_of_place": {"time": value * 1e6, "alg_bw": 1.0, "bus_bw": 9.0, "nwrong": None},
                "in_place": {"time": value * 2e6, "alg_bw": 1.0, "bus_bw": 9.0, "nwrong": 0},
            }
            for size, value in zip(SIZES, values, strict=True)
        ],
    }


def test_one_number_of_steps_cannot_tell_alpha_from_epsilon() -> None:
    rows = [Measurement(size, 1e-5 * 6 + 1e-10 * size, 1.0, 6) for size in SIZES]
    fit = calibrate_rows(rows).fit
    assert set(fit.estimates) == {ALPHA, INVERSE_BANDWIDTH}
    assert fit.value(ALPHA) == pytest.approx(1e-5, rel=1e-6)


@pytest.mark.parametrize(("factor", "error"), [(10, 0.8), (0.5, 0.9)])
def test_an_outlier_hardly_moves_a_robust_fit(factor: float, error: float) -> None:
    values = times(2e-5, 1e-10, factor=1.75, noise=0.01)
    values[3] *= factor
    rows = [Measurement(size, value, 1.75) for size, value in zip(SIZES, values, strict=True)]
    fit = calibrate_rows(rows).fit
    assert fit.value(ALPHA) == pytest.approx(2e-5, rel=0.03)
    assert fit.value(INVERSE_BANDWIDTH) == pytest.approx(1e-10, rel=0.03)
    assert fit.max_error > error


def test_times_that_fall_with_size_have_no_bandwidth() -> None:
    rows = [Measurement(size, 1e-3 / (place + 1), 1.0) for place, size in enumerate(SIZES)]
    result = calibrate_rows(rows)
    assert result.bandwidth_bytes_per_s is None
    assert result.alpha_s > 0
    with pytest.raises(ScheduleError, match="positive"):
        fit_times({"alpha": [1.0]}, [0.0])


@pytest.mark.parametrize(("program", "factor"), [("./build/all_reduce_perf", 1.75), ("alltoall_perf", 0.875)])
def test_json_of_nccl_tests(program: str, factor: float, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    value = json_output(times(3e-5, 4e-11, factor=factor), ranks=8, program=program)
    path.write_text(json.dumps(value), encoding="utf-8")
    result = calibrate(path)
    assert result.alpha_s == pytest.approx(3e-5, rel=1e-4)
    assert result.bandwidth_bytes_per_s == pytest.approx(2.5e10, rel=1e-4)


def test_the_command_writes_options_and_a_fabric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, fit, fabric = tmp_path / "in.json", tmp_path / "fit.json", tmp_path / "fabric.json"
    value = json_output(times(1.4e-4, 1e-11, factor=1.75), ranks=8, program="all_reduce_perf")
    path.write_text(json.dumps(value), encoding="utf-8")
    arguments = ["calibrate", str(path), "--steps", "14", "--degree", "4", "-o", str(fit)]
    assert main([*arguments, "--fabric", "torus(3, 3)", "--fabric-output", str(fabric)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert 'latency="10000ns", bandwidth="25000000000B/s"' in text.replace("24999999999", "25000000000")
    assert "100 GB/s" in text
    assert main([*arguments, "--unit", "Gbit/s"]) == 0
    assert "800 Gbit/s" in capsys.readouterr().out
    options = json.loads(fit.read_text(encoding="utf-8"))["options"]
    assert options["latency"] == "10000ns"
    written = load_topology(fabric)
    assert set(written.latencies_ns.tolist()) == {10_000}
    assert written.bandwidths[0] == pytest.approx(25e9, rel=1e-6)
    assert (
        main(["topology", "show", f"torus(3, 3, latency='10000ns', bandwidth='{options['bandwidth']}')"]) == 0
    )


def test_the_latency_of_a_whole_collective_is_none_of_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """22.4 us of 14 steps: a ring's links have 1.6 us, and 14 times too much if no one says how many."""
    path, fabric = tmp_path / "in.json", tmp_path / "fabric.json"
    value = json_output(times(22.4e-6, 1e-11, factor=1.75), ranks=8, program="all_reduce_perf")
    path.write_text(json.dumps(value), encoding="utf-8")
    written = ["--fabric", "ring(8)", "--fabric-output", str(fabric)]
    assert main(["calibrate", str(path), *written]) == 2
    error = capsys.readouterr().err
    assert error.startswith(
        "treadle: --fabric: takes the latency of a step, and the file does not say how many"
    )
    assert "--steps" in error
    assert not fabric.exists()
    assert main(["calibrate", str(path)]) == 0
    options = " ".join(" ".join(capsys.readouterr().out.splitlines()[-2:]).split())
    assert "latency=" not in options
    assert options.endswith('B/s"; say --steps for the latency of a link')
    assert main(["calibrate", str(path), *written, "--steps", "14"]) == 0
    assert set(load_topology(fabric).latencies_ns.tolist()) == {1600}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no measured row"),
        ("hello\n", "no measured row"),
        ("{", "malformed JSON"),
        ("{}", "neither"),
        ('{"rows": 3}', "list of objects"),
        ('{"rows": [3]}', "list of objects"),
        ('{"results": [{"size": "big"}]}', "no measured row"),
        ('{"results": [{"size": 1e400, "out_of_place": {"time": 1}}]}', "no measured row"),
        ('{"results": [{"size": 8, "out_of_place": {"time": "nan"}}]}', "no measured row"),
        ('{"rows": [{"size_bytes": 8, "time_s": -1}]}', "no measured row"),
        ('{"rows": [{"size_bytes": 8, "time_s": 1}]}', "--collective and --ranks"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[" * 100_000, "no measured row"),
        ('{"a": ' * 100_000, "nested too deeply"),
        ("\ufeff# size count time algbw busbw\n8 2\n", "columns"),
    ],
)
def test_bad_files_end_in_one_line(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad"
    path.write_text(content, encoding="utf-8")
    assert main(["calibrate", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("told", "kept"), [(1, 1), (2**31 - 1, 2**31 - 1), (0, None), (2**31, None), ("7", None), (None, None)]
)
def test_steps_of_a_row_count_if_they_are_a_number_of_steps(
    tmp_path: Path, told: object, kept: int | None
) -> None:
    path = tmp_path / "run.json"
    row = {"size_bytes": 2**20, "time_s": 1e-3, "bytes_factor": 1.5, "steps": told}
    path.write_text(json.dumps({"collective": "allreduce", "ranks": 8, "rows": [row]}))
    assert [found.steps for found in read_measurements(path)] == [kept]
