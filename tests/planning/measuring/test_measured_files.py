"""Measured times, column by column and key by key, and what is told of a fit to them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.render.fitting import calibration_rows
from treadle.render.quantities import Rates
from treadle.render.rows import Row, Table, lines, values
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration import measurements
from treadle.simulation.calibration.calibration import (
    ALPHA,
    EPSILON,
    INVERSE_BANDWIDTH,
    Calibration,
    calibrate,
    calibrate_rows,
)
from treadle.simulation.calibration.measurements import (
    MAX_FILE_BYTES,
    MAX_RANKS,
    MAX_ROWS,
    Measurement,
    _kind,
    _measurement,
    _number,
    read_measurements,
)
from treadle.simulation.calibration.regression import Estimate, LinearFit


def read(folder: Path, text: Any, **words: Any) -> list[tuple[int, float, float | None]]:
    path = folder / "measured"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return [(row.size_bytes, row.time_s, row.bytes_factor) for row in read_measurements(path, **words)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("all_reduce_perf", "allreduce"),
        (" /opt/nccl/build/all_gather_perf_mpi ", "allgather"),
        (r"C:\tests\reduce_scatter", "reduce-scatter"),
        ("reduce_perf", "reduce"),
        ("broadcast_mpi", "broadcast"),
        ("alltoall_perf", "alltoall"),
        ("sendrecv_perf", None),
        ("all_reduce_perf_x", None),
    ],
)
def test_names_of_programs(name: str, kind: str | None) -> None:
    assert _kind(name) == (None if kind is None else CollectiveKind(kind))


@pytest.mark.parametrize(
    ("word", "number"),
    [("2.5", 2.5), (3, 3.0), ("N/A", 0.0), (True, 0.0), (None, 0.0), ("inf", 0.0), ("nan", 0.0), ([1], 0.0)],
)
def test_numbers(word: object, number: float) -> None:
    assert _number(word) == number
    assert _number(10**400) == 0.0


def test_rows_that_say_nothing() -> None:
    assert _measurement(8.9, 2.0, 0.5, 3) == Measurement(8, 2.0, 0.5, 3)
    assert _measurement(2**60, 1e6, None) == Measurement(2**60, 1e6)
    for size, time in ((0, 1.0), (-1, 1.0), (2**60 + 2**10, 1.0), (8, 0.0), (8, -1.0), (8, 1e6 + 1)):
        assert _measurement(size, time, None) is None
    assert (MAX_FILE_BYTES, MAX_ROWS, MAX_RANKS) == (16 * 2**20, 100_000, 2**20)


HEAD = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong"


def test_the_first_columns_of_a_heading_count(tmp_path: Path) -> None:
    """Out of place; ranks by their lines, the collective by its own."""
    text = f"""
# Collective test starting: reduce_scatter_perf
#  Rank  0 Group 0
#  Rank  1 Group 0
#  Rank  3 Group 0
#  Rank  3 Group 0
8 2 f s -1 1 1 1 0 0 0 0 0
{HEAD}
8 2 float sum -1 2 0.1 0.1 0 7.5 0.1 0.1 0
[1,0]<stdout>: 16 4 float sum -1 4 0.1 0.1 0 7.5 0.1 0.1 0
0 0 float sum -1 4 0.1 0.1 0 7.5 0.1 0.1 0
32 8 float sum -1 N/A 0.1 0.1 0 7.5 0.1 0.1 0
# Avg bus bandwidth
"""
    third = 2 / 3
    assert read(tmp_path, text) == [(8, 2e-6, third), (16, 4e-6, third)]
    assert read(tmp_path, text.replace("# size", "#size")) == read(tmp_path, text)
    assert read(tmp_path, text, n_ranks=2) == [(8, 2e-6, 0.5), (16, 4e-6, 0.5)]
    assert read(tmp_path, text, collective=CollectiveKind.ALLREDUCE)[0] == (8, 2e-6, 4 / 3)
    assert read(tmp_path, text, collective=CollectiveKind.ALLREDUCE, n_ranks=2)[0][2] == 1.0


def test_as_many_ranks_as_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurements, "MAX_RANKS", 2)
    ranks = "\n".join(f"#  Rank  {rank} Group 0" for rank in range(4))
    text = f"{ranks}\n{HEAD}\n8 2 float sum -1 2 0.1 0.1 0"
    assert read(tmp_path, text, collective=CollectiveKind.ALLGATHER)[0][2] == 0.5


def test_without_names_the_fastest_row_says_how_busbw_follows(tmp_path: Path) -> None:
    rows = ["8 2 float sum -1 2 4.0 6.0 0", "16 2 float sum -1 2 5.0 8.0 0", "32 2 float sum -1 2 3.0 9.0 0"]
    assert {row[2] for row in read(tmp_path, "\n".join([HEAD, *rows]))} == {1.6}
    assert {row[2] for row in read(tmp_path, "\n".join([HEAD, "8 2 float sum -1 2 1.0 0.5 0"]))} == {0.5}
    slow = "8 2 float sum -1 2 0.99 0.5 0"
    assert {row[2] for row in read(tmp_path, f"{HEAD}\n{slow}")} == {None}
    none = "8 2 float sum -1 2 4.0 0.0 0"
    assert {row[2] for row in read(tmp_path, f"{HEAD}\n{none}")} == {None}


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


def test_json_of_others(tmp_path: Path) -> None:
    """Out of place, else in place; the time of the GPU, else of the CPU."""
    value: dict[str, Any] = {
        "args": ["/x/all_reduce_perf", "-b"],
        "devices": [{}, {}, {}, {}],
        "results": [
            {"size": 8, "out_of_place": {"time": 2, "cpu_time": 9}, "in_place": {"time": 7}},
            {"size": "16", "out_of_place": {}, "in_place": {"cpu_time": 3}},
            {"size": 24, "out_of_place": 3},
            {"size": 32, "in_place": {"time": 4, "alg_bw": 2.0, "bus_bw": 5.0}},
        ],
    }
    assert read(tmp_path, value) == [(8, 2e-6, 1.5), (16, 3e-6, 1.5), (32, 4e-6, 1.5)]
    assert read(tmp_path, value, n_ranks=2)[0][2] == 1.0
    assert read(tmp_path, value, collective=CollectiveKind.ALLGATHER)[0][2] == 0.75
    for key in ("args", "devices"):
        less = {name: part for name, part in value.items() if name != key}
        assert [row[2] for row in read(tmp_path, less)] == [None, None, 2.5]
    odd: dict[str, Any]
    for odd in ({"args": []}, {"args": [3]}, {"args": "all_reduce_perf"}, {"devices": []}, {"devices": 4}):
        assert read(tmp_path, {**value, **odd})[0][2] is None
    slow = {"size": 32, "in_place": {"time": 4, "alg_bw": 0.9, "bus_bw": 5.0}}
    edge = {"size": 32, "in_place": {"time": 4, "alg_bw": 1, "bus_bw": 5.0}}
    none = {"size": 32, "in_place": {"time": 4, "alg_bw": 1, "bus_bw": 0}}
    assert [row[2] for row in read(tmp_path, {"results": [slow, edge, none]})] == [None, 5.0, None]


def test_json_of_our_own(tmp_path: Path) -> None:
    row = {"size_bytes": 8, "time_s": 1.0}
    assert read(tmp_path, {"collective": "allgather", "ranks": 2, "rows": [row]}) == [(8, 1.0, 0.5)]
    assert read(tmp_path, {"collective": "allgather", "ranks": 2**20, "rows": [row]})[0][2] is not None
    for ranks in (1, 2**20 + 1, "2", None):
        assert read(tmp_path, {"collective": "allgather", "ranks": ranks, "rows": [row]})[0][2] is None
    for kind in ("gossip", None, 3, ["allgather"], {}):
        assert read(tmp_path, {"collective": kind, "ranks": 2, "rows": [row]})[0][2] is None
    own = {**row, "bytes_factor": 0.25}
    assert read(tmp_path, {"collective": "allgather", "ranks": 2, "rows": [own]})[0][2] == 0.25
    assert read(tmp_path, {"rows": [{**row, "bytes_factor": -1}]})[0][2] == 0.0
    assert read(tmp_path, {"rows": [row]}, collective=CollectiveKind.ALLREDUCE, n_ranks=4)[0][2] == 1.5


def fitted(*, steps: bool = True, **estimates: Estimate) -> Calibration:
    fit = LinearFit(estimates, (), 0.125, 0.25)
    return Calibration(fit, (Measurement(8, 1.0),) * 3, steps)


def text_of(view: Iterable[Row | Table]) -> list[str]:
    return lines(list(view))


def test_what_is_told_of_a_fit() -> None:
    found = fitted(
        alpha=Estimate(2.5e-6, 2e-6, 3e-6),
        epsilon=Estimate(4e-6, -inf, inf),
        inverse_bandwidth=Estimate(4e-10, 3e-10, 5e-10),
    )
    assert (found.alpha_s, found.latency_ns, found.bandwidth_bytes_per_s) == (2.5e-6, 2500, 2_500_000_000)
    assert found.options() == {"latency": "2500ns", "bandwidth": "2500000000B/s"}
    assert found.options(3) == {"latency": "2500ns", "bandwidth": "833333333B/s"}
    assert found.options(10**10)["bandwidth"] == "1B/s"
    assert values(calibration_rows(found, 3)) == {
        "measurements": 3,
        "alpha_is": "a step",
        "latency_ns": 2500,
        "bandwidth_bytes_per_s": 2_500_000_000,
        "degree": 3,
        "options": found.options(3),
        "mean_error": 0.125,
        "max_error": 0.25,
        "alpha_s": 2.5e-6,
        "alpha_s_95": [2e-6, 3e-6],
        "epsilon_s": 4e-6,
        "epsilon_s_95": None,
        "inverse_bandwidth_s_per_byte": 4e-10,
        "inverse_bandwidth_s_per_byte_95": [3e-10, 5e-10],
    }
    assert text_of(calibration_rows(found, 3)) == [
        "alpha (a step)                2.5 (95 %: 2 to 3) us",
        "epsilon (constant)            4 (no confidence interval) us",
        "1/B                           0.0004 (95 %: 0.0003 to 0.0005) us/byte",
        "B (bandwidth of a node)       2.5 GB/s",
        "error of the fit              mean 12.50%, max 25.00% over 3 times",
        'options of a graph, degree 3  latency="2500ns", bandwidth="833333333B/s"',
    ]
    assert text_of(calibration_rows(found, rates=Rates("bit/s")))[3].endswith(" 20000000000 bit/s")
    assert values(calibration_rows(found))["degree"] == 1


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


def test_steps_count_where_all_are_known() -> None:
    """1 us a step and 2 ns a byte, of 4 and of 14 steps; the file's steps before those that are given."""
    rows = [
        Measurement(size, 1e-6 * steps + 2e-9 * 0.5 * size, 0.5, steps)
        for steps in (4, 14)
        for size in (10, 1000, 10**5)
    ]
    found = calibrate_rows(rows, steps=99)
    assert found.has_steps
    assert found.alpha_s == pytest.approx(1e-6, rel=1e-6)
    assert found.fit.value(INVERSE_BANDWIDTH) == pytest.approx(2e-9, rel=1e-6)
    assert EPSILON not in found.fit.estimates or abs(found.fit.value(EPSILON)) < 1e-12
    mixed = [Measurement(row.size_bytes, 1e-6 * 4 + 1e-9 * row.size_bytes, 0.5) for row in rows[:2]] + rows[
        :3
    ]
    assert calibrate_rows(mixed, steps=4).alpha_s == pytest.approx(1e-6, rel=1e-6)
    whole = calibrate_rows(mixed)
    assert not whole.has_steps
    assert whole.alpha_s == pytest.approx(4e-6, rel=1e-6)
    assert list(whole.fit.estimates) == [INVERSE_BANDWIDTH, ALPHA]
    moved = calibrate_rows([Measurement(10, 1.0), Measurement(1000, 1.0)])
    assert moved.bandwidth_bytes_per_s is None, "bytes that nobody knows do not count"


def test_files_that_do_not_say_what_was_measured(tmp_path: Path) -> None:
    path = tmp_path / "measured"
    path.write_text(json.dumps({"rows": [{"size_bytes": 8, "time_s": 1.0}]}))
    with pytest.raises(FormatError) as caught:
        calibrate(path)
    assert str(caught.value) == (
        f"{path}: does not say which collective of how many ranks was measured; give --collective and --ranks"
    )
    assert calibrate(path, collective="allgather", n_ranks=4).measurements[0].bytes_factor == 0.75
