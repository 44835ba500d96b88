"""Logs of nccl-tests and NCCL: every form in which they come gives the same values."""

from __future__ import annotations

from pathlib import Path

import pytest

from places import ROOT
from samples.logs.nccl_logs import curve, info, ranks, table
from treadle.diagnosis import log_lines
from treadle.diagnosis.log import Log
from treadle.diagnosis.log_reader import read_log
from treadle.errors import FormatError
from treadle.schedules.collective import CollectiveKind

SAMPLES = ROOT.parent / "shared" / "samples"
ALLREDUCE = CollectiveKind.ALLREDUCE


def read(folder: Path, lines: list[str] | str, *, ending: str = "\n") -> Log:
    path = folder / "nccl.log"
    text = lines if isinstance(lines, str) else ending.join(lines) + ending
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return read_log(path)


def whole() -> list[str]:
    """A log of two hosts with all kinds of lines."""
    return [
        "mpirun -np 16 -x NCCL_DEBUG=INFO -x NCCL_IB_HCA=mlx5_0 ./build/all_reduce_perf -b 8 -e 1G -f 2",
        *ranks(2, 8),
        "NCCL version 2.21.5+cuda12.4",
        info("NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>"),
        info("Using network IB"),
        info("NCCL_ALGO set by environment to Ring", device=3),
        info("NCCL_MAX_NCHANNELS set by environment to 2."),
        info("Pattern 4, crossNic 0, nChannels 1, bw 24.000000/12.000000, type NVL/PXB, sameChannels 1"),
        info("Channel 00/02 :    0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15"),
        info("Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/1/GDRDMA"),
        info("Channel 01/0 : 7[7] -> 8[0] [send] via NET/IB/0(6)/GDRDMA/Shared", device=7),
        info("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read"),
        info("Channel 00 : 2[2] -> 3[3] via SHM/direct/direct", device=2),
        info("Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0", host=1),
        info("2 coll channels, 2 collnet channels, 0 nvls channels, 2 p2p channels"),
        info("comm 0x55 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0"),
        "node0:1:2 [0] transport/net.cc:12 NCCL WARN something happened",
        *table(ALLREDUCE, 16, curve(20)),
    ]


def told(log: Log) -> dict[str, object]:
    """What a log says, without places in the file."""
    (found,) = log.tables
    return {
        "rows": [(row.size, row.algbw, row.busbw) for row in found.rows],
        "test": (found.test, found.reduces, found.root),
        "ranks": {rank: (one.host, one.device, one.model) for rank, one in found.ranks.items()},
        "network": [(one.host, one.kind, one.devices) for one in log.networks],
        "ways": [(one.kind, one.is_direct, one.count) for one in log.transports],
        "hops": [(one.channel, one.ranks, one.sends, one.nic) for one in log.hops],
        "patterns": [(one.channels, one.inner, one.outer) for one in log.patterns],
        "channels": [(one.collective, one.nvls) for one in log.channels],
        "settings": [(one.name, one.value) for one in log.settings],
        "counts": (log.version, log.n_ranks, log.n_nodes, log.hosts, log.n_warnings),
    }


@pytest.mark.parametrize(
    "prefix", ["", "node0:4000:4000 [0] NCCL INFO ", "0: node0:4000:4000 [0] NCCL INFO "]
)
def test_the_version_stands_in_a_line_of_nccls_own_too(tmp_path: Path, prefix: str) -> None:
    assert read(tmp_path, [f"{prefix}NCCL version 2.21.5+cuda12.4", *whole()]).version == "2.21.5+cuda12.4"
    other = [line for line in whole() if not line.startswith("NCCL version")]
    assert read(tmp_path, [*other, f"{prefix}NCCL version 2.30.3"]).version == "2.30.3"


@pytest.mark.parametrize(
    "prefix", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "<stdout>:", "0: ", "[0] ", "[1,3]:"]
)
def test_launchers_prefixes_change_nothing(tmp_path: Path, prefix: str) -> None:
    plain = told(read(tmp_path, whole()))
    assert told(read(tmp_path, [prefix + line for line in whole()])) == plain


def test_files_that_are_no_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FormatError, match="no line of nccl-tests or of NCCL"):
        read(tmp_path, ["hello", "1 2 3"])
    with pytest.raises(FormatError, match="cannot be read"):
        read_log(tmp_path / "absent.log")
    with pytest.raises(FormatError, match="cannot be read"):
        read_log(tmp_path)
    monkeypatch.setattr(log_lines, "MAX_LOG_BYTES", 1000)
    with pytest.raises(FormatError, match="is larger than"):
        read(tmp_path, whole())


@pytest.mark.parametrize("number", [128, 182, 398, 1453])
def test_excerpts_of_public_threads(number: int) -> None:
    path = SAMPLES / f"nccl_log_excerpt_{number}.txt"
    if not path.is_file():
        pytest.skip(f"no {path}")
    log = read_log(path)
    if number == 128:
        assert log.networks[0].devices == ("mlx5_0:1/IB",)
        assert [row.busbw for row in log.tables[0].rows] == [7.45, 10.86]
    elif number == 182:
        assert (log.patterns[0].inner, log.patterns[0].outer) == ("LOC", "PHB")
        assert log.setting("NCCL_IB_HCA") is not None
        assert len(log.trees[0].lines) == 4
    elif number == 398:
        assert [one.kind for one in log.transports] == ["P2P", "NET/Socket"]
    else:
        assert log.tables[0].peak.busbw == 29.5
        assert log.tables[0].rows[-1].busbw == 5.33
