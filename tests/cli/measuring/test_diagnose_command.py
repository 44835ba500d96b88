"""``treadle diagnose``: its report within 80 columns, JSON, exit status, and logs with faults."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from samples.logs.nccl_logs import curve, info, ranks, system_tree, table
from treadle.cli.main import main
from treadle.schedules.collective import CollectiveKind

ALLREDUCE = CollectiveKind.ALLREDUCE


def whole() -> list[str]:
    """A log with all that is read."""
    devices = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(4))
    return [
        "mpirun -np 16 -x NCCL_DEBUG=INFO ./build/all_reduce_perf -b 8 -e 1G -f 2",
        *ranks(2, 8),
        "NCCL version 2.21.5+cuda12.4",
        info(f"NET/IB : Using {devices} [RO]; OOB eth0:10.0.0.1<0>"),
        info("NCCL_ALGO set by environment to Ring"),
        *system_tree(),
        *system_tree(host=1),
        info("Pattern 4, crossNic 0, nChannels 4, bw 24.000000/24.000000, type NVL/PHB, sameChannels 1"),
        info("Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/1"),
        info("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"),
        info("8 coll channels, 8 collnet channels, 0 nvls channels, 8 p2p channels"),
        "node0:1:2 [0] transport/net.cc:12 NCCL WARN something happened",
        *table(ALLREDUCE, 16, curve(40)),
    ]


def written(folder: Path, lines: list[str]) -> str:
    path = folder / "nccl.log"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_the_report_fits_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", written(tmp_path, whole())]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert max(map(len, out.splitlines())) <= 96
    for word in ("40 GB/s busbw", "100 GB/s   40%", "187.5 GB/s   21%", "the NICs of a box"):
        assert word in out
    assert "cause 1      no GPUDirect RDMA" in out
    assert "cause 2      NCCL_ALGO=Ring" in out
    assert "1 warning of NCCL" in out
    assert "one switch between them" in out


def test_json_has_all_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", written(tmp_path, whole()), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    (judged,) = values["judgements"]
    ring, optimum = judged["yardsticks"]
    assert (ring["name"], ring["busbw_exact"], ring["binds"]) == (
        "ring",
        "100000000000/1",
        "the NICs of a box",
    )
    assert (round(ring["share"], 2), round(optimum["share"], 2), judged["healthy"]) == (0.4, 0.21, False)
    assert judged["peak"]["size_bytes"] == 2**30
    assert ring["cut_bytes_per_s"] == 100 * 10**9
    assert [one["suspect"] for one in values["suspects"]] == ["no-gdr", "environment"]
    for one in values["suspects"]:
        for line in one["evidence"]:
            assert " ".join(whole()[line["line"] - 1].split()) == line["text"]
    assert (values["nics_used"], values["nics_of_fabric"]) == (4, 4)


def test_without_a_fabric_the_rest_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line.replace("NVIDIA A100", "some GPU") for line in whole() if "System" not in line]
    path = written(tmp_path, lines)
    assert main(["diagnose", path]) == 2
    out, err = capsys.readouterr()
    assert "cause 1      no GPUDirect RDMA" in out
    assert err.count("\n") == 1
    assert "--topology" in err
    assert main(["diagnose", path, "--topology", "dgx_a100:2"]) == 0
    assert "ring             200 GB/s" in capsys.readouterr().out
    assert main(["diagnose", path, "--topology", "dgx_a100:4"]) == 2
    assert "it has 16 ranks, the fabric 32" in capsys.readouterr().err
    assert main(["diagnose", path, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["missing"]


def test_a_log_without_a_table_is_judged_by_its_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, [info("Channel 00/0 : 7[7] -> 8[0] [send] via NET/Socket/0")])
    assert main(["diagnose", path]) == 0
    out, err = capsys.readouterr()
    assert "no table" in out
    assert "TCP" in out
    assert err == ""


def test_a_healthy_log_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in whole() if "WARN" not in line][: -len(table(ALLREDUCE, 16, curve(40)))]
    path = written(tmp_path, [*lines, *table(ALLREDUCE, 16, curve(96))])
    assert main(["diagnose", path]) == 0
    out = capsys.readouterr().out
    assert "causes       no line of the log explains a low value" in out
    assert "suspect 1" not in out


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["absent.log"], "cannot be read"),
        (["."], "cannot be read"),
        (["nccl.log", "--topology", "nothing"], "nothing"),
        (["nccl.log", "--nic-bandwidth", "25"], "no unit"),
        (["nccl.log", "--collective", "sum"], "sum"),
        (["nccl.log", "--network", "ring"], "--network"),
        (["nccl.log", "--boxes", "3"], "--topology"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    word: str,
) -> None:
    written(tmp_path, whole())
    monkeypatch.chdir(tmp_path)
    assert main(["diagnose", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert word in err


def mutant(lines: list[str], choose: random.Random) -> bytes:
    """A log with one to four faults."""
    data = bytearray("\n".join(lines).encode())
    for _ in range(choose.randrange(1, 5)):
        place = choose.randrange(len(data))
        kind = choose.randrange(6)
        if kind == 0:
            del data[place : place + choose.randrange(1, 400)]
        elif kind == 1:
            data[place:place] = bytes(choose.randrange(256) for _ in range(choose.randrange(1, 30)))
        elif kind == 2:
            data[place] = choose.choice(b"0123456789-.[]()/# \n\r\x00\x1b\xff")
        elif kind == 3:
            end = place + choose.randrange(1, 2000)
            data[place:place] = data[place:end]
        elif kind == 4:
            data = data[: max(place, 1)]
        else:
            numbers = [at for at, byte in enumerate(data) if chr(byte).isdigit()]
            at = choose.choice(numbers) if numbers else 0
            data[at : at + 1] = choose.choice([b"999999999999999999999", b"-1", b"0", b"1e400", b"nan"])
        if not data:
            data = bytearray(b"#")
    return bytes(data)


def test_mutated_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0 or 2, at most one line on stderr, never a traceback, and evidence for every suspect."""
    choose = random.Random(14)
    statuses = set()
    path = tmp_path / "nccl.log"
    for _ in range(50):
        path.write_bytes(mutant(whole(), choose))
        status = main(["diagnose", str(path)])
        out, err = capsys.readouterr()
        assert status in (0, 2)
        assert err.count("\n") == (1 if status else 0)
        assert "Traceback" not in err
        assert all(len(line) <= 96 for line in out.splitlines())
        assert out.count("remedy: ") == sum(line.startswith("suspect ") for line in out.splitlines())
        statuses.add(status)
    assert statuses == {0, 2}
