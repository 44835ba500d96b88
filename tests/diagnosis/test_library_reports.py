"""NCCL's tuner table, its picks, RAS and Inspector, in lines as NCCL 2.12 to 2.30 write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from samples.logs.nccl_logs import info
from treadle.api.diagnose import diagnose
from treadle.cli.main import main
from treadle.diagnosis.expected import choice, conditions
from treadle.diagnosis.log import Log
from treadle.diagnosis.log_reader import read_log
from treadle.machines.system import System, system_of
from treadle.schedules.collective import CollectiveKind
from treadle.topologies import dgx_h100

ALLREDUCE, ALLGATHER = CollectiveKind.ALLREDUCE, CollectiveKind.ALLGATHER


def lines_of(title: str, columns: list[str], **rows: list[str]) -> list[str]:
    """Lines of a tuner table."""
    return [
        f"{name:>13} |{''.join(f'{cell:>15} |' for cell in cells)}"
        for name, cells in ((title, columns), *rows.items())
    ]


THREE = ["LL", "LL128", "Simple"]
NEW = [
    f"  Algorithm   |{'Tree':>32}{'':>19}|{'Ring':>32}{'':>19}|",
    *lines_of(
        "Protocol",
        THREE * 2,
        AllReduce=["15.2/  37.1", "31.5/ 110.2", "64.4/   0.0", "15.0/  80.6", "40.6/ 176.0", "56.0/ 205.7"],
    ),
    f"  Algorithm   |{'NVLS':>32}{'':>19}|",
    *lines_of("Protocol", THREE, AllReduce=["0.0/   0.0", "0.0/   0.0", "25.0/ 300.0"]),
]


def read(folder: Path, lines: list[str]) -> Log:
    path = folder / "nccl.log"
    path.write_text("\n".join(lines) + "\n")
    return read_log(path)


def test_picks_replace_the_model(tmp_path: Path) -> None:
    """Names since 2.25, numbers before; an allgather's bytes are one rank's part."""
    lines = [
        info("AllReduce: 1048576 Bytes -> Algo TREE proto LL128 channel{Lo..Hi}={0..15}"),
        info("AllGather: 131072 Bytes -> Algo 1 proto 2 time 28.100000"),
        *(info(line) for line in NEW),
    ]
    log = read(tmp_path, lines)
    assert [(one.algorithm, one.protocol, one.channels) for one in log.picks] == [
        ("tree", "LL128", 16),
        ("ring", "Simple", 0),
    ]
    given = conditions(log, 8)
    system = system_of(dgx_h100(1))
    assert isinstance(system, System)
    chosen = [choice(system, kind, 2**20, given) for kind in (ALLREDUCE, ALLGATHER)]
    assert [one[0] for one in chosen if isinstance(one, tuple)] == [("tree", "LL128"), ("ring", "Simple")]
    large = choice(system, ALLREDUCE, 2**30, given)
    assert isinstance(large, tuple)
    assert large[0] == ("nvls", "Simple")
    assert large[1] == pytest.approx(25e-6 + 2**30 / 300e9)


def test_errors_of_ras_are_a_cause(tmp_path: Path) -> None:
    lines = [
        "Job summary",
        "  Nodes  Processes         GPUs  Processes     GPUs",
        "      4          8            1         32       32",
        "#0-0 (27a079b828ff1a75) MISMATCH",
        "  Communicator ranks have different AllReduce operation counts",
        "  31 ranks have launched up to operation 6650",
        "  Rank 5 has launched up to operation 6649 -- GPU 5 managed by process 4711 on node 192.0.2.7",
    ]
    (tmp_path / "ras.txt").write_text("\n".join(lines) + "\n")
    found = diagnose(tmp_path / "ras.txt")
    assert [one.name for one in found.causes] == ["ras"]
    assert "4 lines" in found.causes[0].text
    assert any("Rank 5 has launched up to operation 6649" in one.text for one in found.causes[0].lines)


def record(rank: int, number: int, time_us: int, **changes: object) -> str:
    performance = {
        "coll": "AllReduce",
        "coll_sn": number,
        "coll_msg_size_bytes": 17179869184,
        "coll_exec_time_us": time_us,
        "coll_timing_source": "kernel_gpu",
        "coll_algobw_gbs": 277.210914,
        "coll_busbw_gbs": 485.119099,
    }
    header = {"id": "0x7f8c496ae9f661", "rank": rank, "n_ranks": 8, "nnodes": 1}
    metadata = {"inspector_output_format_version": "v4.0", "hostname": "node0", "pid": 4000 + rank}
    return json.dumps({"header": header, "metadata": metadata, "coll_perf": performance | changes})


def test_inspectors_records_are_a_table(tmp_path: Path) -> None:
    """Of each call the slowest rank counts, of the calls the median; torn records are passed over."""
    lines = [record(rank, number, 60000 + 100 * rank + number) for number in range(3) for rank in range(8)]
    lines += [record(0, 9, 0), record(0, 9, 5, coll="SendRecv"), record(0, 9, 5)[:-40]]
    gathered = record(3, 1, 1000, coll="AllGather", coll_msg_size_bytes=2**20)
    log = read(tmp_path, [*lines, gathered])
    by_test = {one.test: one.rows for one in log.tables}
    (row,) = by_test["all_reduce"]
    assert (row.size, row.time_us) == (17179869184, 60701)
    assert row.busbw == pytest.approx(17179869184 / 60701 / 1e3 * 1.75)
    (row,) = by_test["all_gather"]
    assert row.size == 2**23
    found = diagnose(tmp_path / "nccl.log", topology=dgx_h100(1))
    assert [str(one.verdict.outcome) for one in found.checked_tables] == ["slow", "normal"]


def test_a_log_overrides_the_library_s_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    read(tmp_path, [info(line) for line in NEW])
    assert main(["bound", "dgx_h100:1", "allreduce", "--nccl-log", "nccl.log"]) == 0
    # 25 us + 1 GiB at 300 GB/s
    assert "nvls/Simple, 16 channels: 297.92 GB/s algbw" in " ".join(capsys.readouterr().out.split())
    assert main(["bound", "dgx_h100:1", "allreduce"]) == 0
    assert "270.29 GB/s algbw" in capsys.readouterr().out
    (tmp_path / "empty.log").write_text(info("no table") + "\n")
    assert main(["bound", "dgx_h100:1", "allreduce", "--nccl-log", "empty.log"]) == 2
    assert "run with NCCL_DEBUG_SUBSYS=INIT,TUNING" in capsys.readouterr().err
