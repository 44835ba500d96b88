"""Logs of nccl-tests and NCCL: every form in which they come gives the same values."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from places import ROOT
from samples.logs.nccl_logs import HEADING, curve, info, ranks, rows, table
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


def test_a_log_says_all_of_this(tmp_path: Path) -> None:
    log = read(tmp_path, whole())
    values = told(log)
    assert values["test"] == ("all_reduce", True, -1)
    assert [row[0] for row in values["rows"]] == [2**power for power in range(18, 31)]  # type: ignore[attr-defined]
    assert log.tables[0].peak.busbw == 20
    assert log.tables[0].ranks[9].host == "node1"
    assert log.tables[0].ranks[9].model == "NVIDIA A100-SXM4-80GB"
    assert values["network"] == [("node0", "IB", ("mlx5_0:1/IB", "mlx5_1:1/RoCE"))]
    assert values["ways"] == [("NET/IB", True, 2), ("P2P", False, 1), ("SHM", False, 1), ("NET/IB", False, 1)]
    assert values["hops"] == [(0, (15, 0), False, 1), (1, (7, 8), True, 0), (0, (7, 8), True, 0)]
    assert values["patterns"] == [(1, "NVL", "PXB")]
    assert values["channels"] == [(2, 0)]
    assert ("NCCL_IB_HCA", "mlx5_0") in values["settings"]  # type: ignore[operator]
    assert ("NCCL_MAX_NCHANNELS", "2") in values["settings"]  # type: ignore[operator]
    assert values["counts"] == ("2.21.5+cuda12.4", 16, 2, ("node0", "node1"), 1)
    line = log.networks[0].line
    assert whole()[line.number - 1].startswith("node0")
    assert "NET/IB" in line.text


@pytest.mark.parametrize(
    "prefix", ["[1,0]<stdout>:", "[1,0]<stdout>: ", "<stdout>:", "0: ", "[0] ", "[1,3]:"]
)
def test_launchers_prefixes_change_nothing(tmp_path: Path, prefix: str) -> None:
    plain = told(read(tmp_path, whole()))
    assert told(read(tmp_path, [prefix + line for line in whole()])) == plain


def test_colours_and_line_ends_change_nothing(tmp_path: Path) -> None:
    plain = told(read(tmp_path, whole()))
    assert told(read(tmp_path, whole(), ending="\r\n")) == plain
    assert told(read(tmp_path, [f"\x1b[32m{line}\x1b[0m" for line in whole()])) == plain
    assert told(read(tmp_path, ["\ufeff" + whole()[0], *whole()[1:]])) == plain
    stamped = [line.replace("node0:", "[2026-01-02 03:04:05] node0:", 1) for line in whole()]
    assert told(read(tmp_path, stamped)) == plain


def test_lines_of_ranks_may_stand_in_any_order(tmp_path: Path) -> None:
    lines = whole()
    facts = [line for line in lines if "NCCL INFO" in line]
    others = [line for line in lines if "NCCL INFO" not in line]
    random.Random(3).shuffle(facts)
    mixed = told(read(tmp_path, [*others[:5], *facts[:7], *others[5:], *facts[7:]]))
    plain = told(read(tmp_path, lines))
    for key in ("rows", "ranks", "network"):
        assert mixed[key] == plain[key]
    for key in ("ways", "hops", "settings"):
        assert sorted(mixed[key]) == sorted(plain[key])  # type: ignore[call-overload]


@pytest.mark.parametrize("kind", [CollectiveKind.ALLGATHER, CollectiveKind.BROADCAST, CollectiveKind.REDUCE])
def test_tables_of_other_collectives(tmp_path: Path, kind: CollectiveKind) -> None:
    (found,) = read(tmp_path, table(kind, 8, curve(100))).tables
    assert found.reduces is kind.reduces
    assert found.root == (0 if kind.is_rooted else -1)
    assert found.peak.busbw == 100


def test_tables_of_old_versions(tmp_path: Path) -> None:
    old = [
        "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error",
        "#        (B)    (elements)            (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)",
        "     1048576        262144   float    45.82   22.88   20.02  2e-07    38.17   27.47   24.04  2e-07",
    ]
    (found,) = read(tmp_path, old).tables
    assert (found.rows[0].busbw, found.rows[0].wrong, found.root, found.reduces) == (24.04, 0, None, None)
    rooted = [
        "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw",
        "     1048576        262144   float       0    45.82   22.88   22.88    N/A    38.17   27.47   27.47",
    ]
    (found,) = read(tmp_path, rooted).tables
    assert (found.rows[0].busbw, found.root) == (27.47, 0)


def test_times_of_day_and_iterations_do_not_shift_columns(tmp_path: Path) -> None:
    row = "  1048576  262144  float  sum  -1  50.0  20.97  36.70  0  49.0  21.40  37.45  0  2026-01-02 03:04"
    (found,) = read(tmp_path, [*HEADING, row]).tables
    assert (found.rows[0].busbw, found.rows[0].wrong) == (37.45, 0)
    side = "time  algbw  busbw  #wrong  i_min  i_max  i_p99  i_cv"
    heading = f"#  size  count  type  redop  root  {side}  {side}"
    one = "50.0  20.97  36.70  0  49.0  51.0  50.9  0.01"
    two = "49.0  21.40  37.45  3  48.0  50.0  49.9  0.01"
    (found,) = read(tmp_path, [heading, f"1048576  262144  float  sum  -1  {one}  {two}"]).tables
    assert (found.rows[0].busbw, found.rows[0].wrong) == (37.45, 3)


def test_wrong_results_and_several_tables(tmp_path: Path) -> None:
    lines = [*ranks(1, 8), *table(ALLREDUCE, 8, curve(100), wrong=7)]
    lines += [*ranks(1, 4), *table(CollectiveKind.ALLGATHER, 4, curve(50))]
    first, second = read(tmp_path, lines).tables
    assert first.out_of_bounds is not None
    assert first.rows[0].wrong == 14
    assert [round(one.average or 0, 1) for one in (first, second)] == [76.0, 38.0]
    assert (first.test, len(first.ranks)) == ("all_reduce", 8)
    assert (second.test, len(second.ranks), second.out_of_bounds) == ("all_gather", 4, None)


def test_a_test_that_starts_ends_the_one_before(tmp_path: Path) -> None:
    """Its closing lines may be missing; what is not ours has no name, whatever was started before it."""
    begun = table(ALLREDUCE, 8, curve(100))[:-3]
    foreign = ["$ ./all_reduce_perf -b 8", "# Collective test starting: my_own_perf", *HEADING]
    last = rows(CollectiveKind.ALLGATHER, 8, [(2**20, 10.0)])
    first, second = read(tmp_path, [*begun, *foreign, *last]).tables
    assert (first.test, len(first.rows)) == ("all_reduce", 13)
    assert (second.test, len(second.rows)) == ("", 1)
    listed = read(tmp_path, [*begun, *ranks(1, 4)[3:], *HEADING, *last]).tables
    assert [(len(one.ranks), len(one.rows)) for one in listed] == [(0, 13), (4, 1)]
    over = [*begun, "# Collective test starting: all_gather_perf", *last]
    assert [(one.test, len(one.rows)) for one in read(tmp_path, over).tables] == [
        ("all_reduce", 13),
        ("all_gather", 1),
    ]
    assert [len(one.rows) for one in read(tmp_path, [*begun, "$ ./all_gather_perf", *last]).tables] == [14]
    ended = [
        *begun,
        "# Collective test concluded: all_reduce_perf",
        *table(ALLREDUCE, 8, curve(50), named=False),
    ]
    assert [one.test for one in read(tmp_path, ended).tables] == ["all_reduce", ""]


def test_what_is_cut_off_or_torn_is_passed_over(tmp_path: Path) -> None:
    lines = whole()
    text = "\n".join(lines)
    for length in range(0, len(text), 997):
        if "NCCL INFO" in text[:length]:
            assert read(tmp_path, text[:length]).n_lines <= len(lines)
    torn = [
        *HEADING,
        "  1048576  262144  float  sum  -1node0:1:2 [0] NCCL INFO Using network IB",
    ]
    assert read(tmp_path, torn).tables == ()


def test_long_lines_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "nccl.log"
    lines = "\n".join(whole()).encode()
    path.write_bytes(b"x" * 3_000_000 + b" NCCL \xff\xfe\x00" * 1000 + b"\n" + lines)
    log = read_log(path)
    assert log.tables[0].rows[0].line.number == whole().index(table(ALLREDUCE, 16, curve(20))[5]) + 2


def test_a_system_tree_is_kept_whole_though_ranks_speak_at_once(tmp_path: Path) -> None:
    tree = [
        "=== System : maxBw 12.0 totalBw 12.0 ===",
        "CPU/0 (1/2/-1)",
        "+ PCI[12.0] - GPU/3000 (0)",
        "=" * 42,
    ]
    lines = [info(text, host=host, device=device) for text in tree for host in (0, 1) for device in (0, 1)]
    log = read(tmp_path, lines)
    assert [(one.host, one.is_whole, len(one.lines)) for one in log.trees] == [
        ("node0", True, 3),
        ("node1", True, 3),
    ]
    cut = read(tmp_path, [info(text) for text in tree[:3]])
    assert [(one.is_whole, len(one.lines)) for one in cut.trees] == [(False, 3)]


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


def test_logs_pasted_without_their_number_signs(tmp_path: Path) -> None:
    lines = [line.replace("#", " ", 1) if line.startswith("#") else line for line in whole()]
    plain = told(read(tmp_path, whole()))
    pasted = told(read(tmp_path, [*lines[:5], "all_reduce_perf", *lines[5:]]))
    for key in ("rows", "ranks", "ways"):
        assert pasted[key] == plain[key]


def test_hosts_of_a_communicator(tmp_path: Path) -> None:
    """Init lines say who is where; of several communicators the largest counts."""
    lines = [
        info(
            f"ncclCommInitRank comm 0x7f rank {rank} nranks 4 cudaDev 0 busId 1000 - Init COMPLETE",
            host=rank // 2,
        )
        for rank in (3, 1, 0, 2)
    ]
    small = info("ncclCommInitRank comm 0x7e rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE", host=1)
    log = read(tmp_path, [small, *lines, small])
    assert log.n_ranks == 4
    assert log.rank_hosts == {0: "node0", 1: "node0", 2: "node1", 3: "node1"}


def test_plug_ins_of_networks(tmp_path: Path) -> None:
    lines = [
        info("NET/OFI Selected Provider is efa (found 4 nics)"),
        info("Channel 00/0 : 7[7] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA"),
        info("Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IBext_v8/0"),
    ]
    log = read(tmp_path, lines)
    assert (log.networks[0].kind, len(log.networks[0].devices)) == ("OFI", 4)
    assert [(one.kind, one.is_direct) for one in log.transports] == [
        ("NET/AWS Libfabric", True),
        ("NET/IBext_v8", False),
    ]
    assert log.rdma(direct=False) is log.transports[1]
    assert [hop.nic for hop in log.hops] == [0, 0]
