"""The fit of the alpha-beta model, and the files of measured times that it reads."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from scipy import stats

from treadle.cli.main import main
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration import measurements
from treadle.simulation.calibration.calibration import (
    ALPHA,
    EPSILON,
    INVERSE_BANDWIDTH,
    calibrate,
    calibrate_rows,
)
from treadle.simulation.calibration.measurements import Measurement, read_measurements
from treadle.simulation.calibration.regression import fit_times, student_t
from treadle.topologies.files import load_topology

SIZES = [2**power for power in range(10, 31, 2)]
HALF = "    time   algbw   busbw #wrong"
TEXT_HEAD = f"""\
# nThread 1 nGpus 1 minBytes 1024 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
#
# Using devices
{{devices}}
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root {HALF} {HALF}
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""


def times(alpha_s: float, per_byte_s: float, *, factor: float, noise: float = 0.0) -> list[float]:
    generator = random.Random(0)
    return [(alpha_s + per_byte_s * factor * size) * (1 + generator.uniform(-noise, noise)) for size in SIZES]


def text_output(values: Sequence[float], *, ranks: int, factor: float, wrong: str = "0") -> str:
    devices = "\n".join(
        f"#  Rank {rank:2} Group  0 Pid {1000 + rank} on    host{rank // 8} device {rank % 8:2} [0000:00] GPU"
        for rank in range(ranks)
    )
    rows = []
    for size, value in zip(SIZES, values, strict=True):
        algbw = size / value / 1e9
        half = f"{value * 1e6:7.2f} {algbw:7.2f} {algbw * factor:7.2f} {wrong:>6}"
        rows.append(f"{size:12} {size // 4:13} {'float':>9} {'sum':>7} {-1:7} {half} {half}")
    return TEXT_HEAD.format(devices=devices) + "\n".join(rows) + "\n# Out of bounds values : 0 OK\n"


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


@pytest.mark.parametrize("freedom", [1, 2, 3, 5, 10, 100])
def test_quantiles_of_students_t(freedom: int) -> None:
    assert student_t(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1.3e-3)


def test_exact_times_give_the_coefficients_back() -> None:
    rows = [
        Measurement(size, 13.33e-6 * x + 21.6e-6 + 1.018e-10 * size * 1.75, 1.75, x)
        for x in (4, 14)
        for size in SIZES
    ]
    fit = calibrate_rows(rows).fit
    assert fit.value(ALPHA) == pytest.approx(13.33e-6, rel=1e-6)
    assert fit.value(EPSILON) == pytest.approx(21.6e-6, rel=1e-6)
    assert fit.value(INVERSE_BANDWIDTH) == pytest.approx(1.018e-10, rel=1e-6)
    assert fit.max_error < 1e-9


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


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    generator, held = random.Random(1), 0
    for _ in range(200):
        values = [(2e-5 + 1e-10 * size) * (1 + generator.gauss(0, 0.02)) for size in SIZES]
        estimate = fit_times({"beta": SIZES, "alpha": [1.0] * len(SIZES)}, values).estimates["alpha"]
        held += estimate.low <= 2e-5 <= estimate.high
    assert 160 <= held <= 199


def test_times_that_fall_with_size_have_no_bandwidth() -> None:
    rows = [Measurement(size, 1e-3 / (place + 1), 1.0) for place, size in enumerate(SIZES)]
    result = calibrate_rows(rows)
    assert result.bandwidth_bytes_per_s is None
    assert result.alpha_s > 0
    with pytest.raises(ScheduleError, match="positive"):
        fit_times({"alpha": [1.0]}, [0.0])


def test_text_of_nccl_tests(tmp_path: Path) -> None:
    factor = 2 * 7 / 8
    path = tmp_path / "out.txt"
    text = text_output(times(3e-5, 4e-11, factor=factor), ranks=8, factor=factor)
    path.write_text(text, encoding="utf-8")
    result = calibrate(path, collective="allreduce", steps=14)
    assert result.fit.value(ALPHA) == pytest.approx(3e-5 / 14, rel=0.01)
    assert result.fit.value(INVERSE_BANDWIDTH) == pytest.approx(4e-11, rel=0.01)
    # without the collective's name the printed bandwidths say the same
    assert calibrate(path).bandwidth_bytes_per_s == pytest.approx(2.5e10, rel=0.01)
    tagged = "\n".join(f"[1,0]<stdout>: {line}" for line in text.splitlines())
    path.write_text(tagged, encoding="utf-8")
    assert calibrate(path, collective="allreduce", steps=14).fit == result.fit


def test_new_text_names_the_collective(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    text = text_output(times(3e-5, 4e-11, factor=0.75), ranks=4, factor=0.0, wrong="N/A")
    path.write_text("# Collective test starting: all_gather_perf\n" + text, encoding="utf-8")
    assert {row.bytes_factor for row in read_measurements(path)} == {0.75}


@pytest.mark.parametrize(("program", "factor"), [("./build/all_reduce_perf", 1.75), ("alltoall_perf", 0.875)])
def test_json_of_nccl_tests(program: str, factor: float, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    value = json_output(times(3e-5, 4e-11, factor=factor), ranks=8, program=program)
    path.write_text(json.dumps(value), encoding="utf-8")
    result = calibrate(path)
    assert result.alpha_s == pytest.approx(3e-5, rel=1e-4)
    assert result.bandwidth_bytes_per_s == pytest.approx(2.5e10, rel=1e-4)


def test_json_of_our_own_sweeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, sweep = tmp_path / "ring.plan", tmp_path / "sweep.json"
    assert main(["solve", "ring(4)", "allreduce", "-q", "-o", str(plan)]) == 0
    capsys.readouterr()
    assert main(["run", str(plan), "--size", "1K,64K,4M", "--iterations", "2", "--json"]) == 0
    sweep.write_text(capsys.readouterr().out, encoding="utf-8")
    rows = read_measurements(sweep)
    assert [row.size_bytes for row in rows] == [1024, 65536, 2**22]
    assert {row.bytes_factor for row in rows} == {1.5}


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


def test_limits_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bytes"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="UTF-8"):
        read_measurements(path)
    with pytest.raises(FormatError, match="cannot be read"):
        read_measurements(tmp_path / "absent")
    monkeypatch.setattr(measurements, "MAX_ROWS", 3)
    path.write_text(text_output(times(1e-5, 1e-10, factor=1.0), ranks=2, factor=1.0), encoding="utf-8")
    with pytest.raises(FormatError, match="more than 3 rows"):
        read_measurements(path, collective=CollectiveKind.BROADCAST)
    path.write_text(json.dumps({"rows": [{"size_bytes": 8, "time_s": 1.0}] * 4}), encoding="utf-8")
    with pytest.raises(FormatError, match='"rows" has more than 3 rows'):
        read_measurements(path, collective=CollectiveKind.BROADCAST, n_ranks=2)
    monkeypatch.setattr(measurements, "MAX_FILE_BYTES", 100)
    with pytest.raises(FormatError, match="larger than 100 bytes"):
        read_measurements(path)


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


def test_what_is_known_of_times_is_no_matter_of_the_fit() -> None:
    """A known part that no column is like: the rest is fitted as if alone, errors are of all."""
    columns = {"steps": [1.0, 2, 3, 4], "bytes": [1.0, 4, 9, 25]}
    known = [5.0, 0, 7, 1]
    exact = [given + 2 * step + 3 * size for given, step, size in zip(known, *columns.values(), strict=True)]
    fit = fit_times(columns, exact, known_s=known)
    assert (fit.value("steps"), fit.value("bytes")) == pytest.approx((2, 3))
    assert fit.predicted_s == pytest.approx(exact)
    assert fit.max_error == pytest.approx(0, abs=1e-9)
    assert fit_times(columns, exact).max_error > 0.05
