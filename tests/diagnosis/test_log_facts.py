"""What lines of logs say, one by one, at their limits; and what the figures of a log tell."""

from __future__ import annotations

import pytest

from samples.logs.nccl_logs import info
from treadle.diagnosis import log_reader
from treadle.diagnosis.log import (
    ChannelCount,
    ListedRank,
    Log,
    LoggedNetwork,
    LoggedPattern,
    NetworkHop,
    ResultTable,
    RingEnds,
    SetVariable,
    SystemTree,
    TableRow,
    UsedTransport,
)
from treadle.diagnosis.log_lines import LogLine, message
from treadle.diagnosis.log_reader import FactReader
from treadle.diagnosis.log_values import kind_of, nvls_line, ranks_of, shows_fast_links, used_nics
from treadle.schedules.collective import CollectiveKind
from treadle.unsupported import Unsupported


def line(number: int) -> LogLine:
    return LogLine(number, f"line {number}")


# NCCL's lines


def facts(*lines: str) -> FactReader:
    reader = FactReader()
    for number, text in enumerate(lines, start=1):
        reader.take(message(number, text))
    return reader


def at(number: int, text: str) -> LogLine:
    return message(number, text).line


def test_networks_of_hosts() -> None:
    lines = (
        info("NET/IB : Using [0]mlx5_0:1/IB [1]={mlx5_1:1/IB,x} [2]mlx5_2;[3]a; OOB eth0:10.0.0.1<0> [9]no"),
        info("NET/IB : Using [0]again"),
        info("NET/Socket : Using [0]eth0:10.0.0.1<0>"),
        info("NET/IB : Using [0]mlx5_0:1/RoCE", host=1),
        info("NET/OFI Selected Provider is efa;rdmav2 (found 3 nics)", host=2),
        info("NET/OFI Selected Provider is efa (found 3 nics)", host=1),
        info("NET/IB : Using nothing", host=3),
    )
    found = facts(*lines)
    assert found.networks == [
        LoggedNetwork(at(1, lines[0]), "node0", "IB", ("mlx5_0:1/IB", "{mlx5_1:1/IB,x}", "mlx5_2", "a")),
        LoggedNetwork(at(3, lines[2]), "node0", "Socket", ("eth0:10.0.0.1<0>",)),
        LoggedNetwork(at(4, lines[3]), "node1", "IB", ("mlx5_0:1/RoCE",)),
        LoggedNetwork(at(5, lines[4]), "node2", "OFI", ("efa;rdmav2 0", "efa;rdmav2 1", "efa;rdmav2 2")),
    ]
    assert list(found.hosts) == ["node0", "node1", "node2", "node3"]
    assert found.n_messages == 7


def test_connections_and_hops() -> None:
    lines = (
        info("Channel 03/1 : 5[5] -> 8[0] [send] via NET/IB/2(7)/GDRDMA/Shared"),
        info("Channel 03/1 : 5[5] -> 8[0] [receive] via NET/IB/4"),
        info("Channel 3 : 5 -> 8 via SHM/direct"),
        info("Ring 02 : 1 -> 2 via SHM/x"),
        info("CollNet 01 : 7 [send] via COLLNET/SHARP/1/GDRDMA"),
        info("Channel 03/1 : 5[5] -> 9[0] via NET/IB/1"),
    )
    found = facts(*lines)
    assert found.transports == (
        UsedTransport(at(1, lines[0]), "NET/IB", True, 1),
        UsedTransport(at(2, lines[1]), "NET/IB", False, 2),
        UsedTransport(at(3, lines[2]), "SHM", False, 2),
        UsedTransport(at(5, lines[4]), "COLLNET/SHARP", True, 1),
    )
    assert found.hops == [
        NetworkHop(at(1, lines[0]), 3, (5, 8), True, 2),
        NetworkHop(at(2, lines[1]), 3, (5, 8), False, 4),
    ]
    assert "collnet" in found.remarks


def test_graphs_and_channels() -> None:
    pattern = "Pattern {}, crossNic 2, nChannels 3, bw 24.5/12.25, type NVL/PXB, sameChannels 1"
    lines = (
        info(pattern.format(4)),
        info(" 0 : NET/0-3 GPU/0 GPU/1 NET/2"),
        info(" 0 : NET/9 GPU/0 NET/9", host=1),
        info(pattern.format(1).replace("bw", "speed")),
        info(" 1 : NET/5 GPU/0 NET/6"),
        info("5 coll channels, 7 collnet channels, 3 nvls channels, 2 p2p channels"),
        info("6 coll channels, 2 p2p channels"),
    )
    found = facts(*lines)
    assert found.patterns == [
        LoggedPattern(at(1, lines[0]), 3, "NVL", "PXB"),
        LoggedPattern(at(4, lines[3]), 3, "NVL", "PXB"),
    ]
    assert found.ring_ends == [RingEnds(at(2, lines[1]), "NET/0-3", "NET/2")]
    assert found.channels == [ChannelCount(at(6, lines[5]), 5, 3), ChannelCount(at(7, lines[6]), 6, -1)]


def test_variables_as_nccl_or_a_command_names_them() -> None:
    lines = (
        info("NCCL_ALGO set by environment to Ring."),
        info("NCCL_ALGO set to Ring"),
        info("NCCL_PROTO set to 'LL' "),
        'mpirun -x NCCL_ALGO=Tree -x NCCL_NET="Socket" X_NCCL_A=1 NCCL_B=',
        "NCCL version 2.18.3+cuda12 NCCL_Z=1",
        "NCCL version 2.19.3 NCCL_Y=2",
    )
    found = facts(*lines)
    assert list(found.settings.values()) == [
        SetVariable(at(1, lines[0]), "NCCL_ALGO", "Ring"),
        SetVariable(at(3, lines[2]), "NCCL_PROTO", "LL"),
        SetVariable(at(4, lines[3]), "NCCL_ALGO", "Tree"),
        SetVariable(at(4, lines[3]), "NCCL_NET", "Socket"),
        SetVariable(at(4, lines[3]), "NCCL_B", ""),
        SetVariable(at(6, lines[5]), "NCCL_Y", "2"),
    ]
    assert found.version == "2.18.3+cuda12"


def test_sizes_are_those_of_the_largest_communicator() -> None:
    found = facts(
        info("comm 0x1 rank 1 nranks 2 x"),
        info("comm 0x1 rank 3 nRanks 4 nNodes 2 x", host=1),
        info("comm 0x1 rank 1 nranks 2 x", host=2),
        info("comm 0x1 rank 3 nRanks 4 nNodes 1 x", host=3),
    )
    assert (found.n_ranks, found.n_nodes, found.rank_hosts) == (4, 2, {3: "node1"})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Using network Socket", ["network", "network-socket"]),
        ("Using network IB", ["network"]),
        ("GPU Direct RDMA Disabled for HCA 0", ["gdr-disabled"]),
        ("Could not find a path for pattern 4", ["no-path"]),
        ("P2P is disabled between connected GPUs 1 and 0", ["p2p-disabled"]),
        ("NVLS comm 0x7", ["nvls"]),
        ("Connected Collnet Chains 2", ["collnet"]),
        ("Connected Collnet Chains 0", []),
        ("NET/IB : Got async event : Port Error", ["port"]),
        ("link down", ["port"]),
        ("NET/IB : No device found.", ["no-ib"]),
        ("NET/OFI Only EFA provider is supported", ["plugin-failed"]),
    ],
)
def test_remarks(text: str, names: list[str]) -> None:
    found = facts(info(text), info(text, host=1))
    assert list(found.remarks) == names
    assert {one.number for one in found.remarks.values()} <= {1}


def test_access_control_needs_both_words() -> None:
    assert list(facts("ACSCtl: SrcValid+", "ACSCtl: SrcValid+ again").remarks) == ["acs"]
    assert facts("ACSCtl: SrcValid-", "x SrcValid+").remarks == {}


def test_system_trees_are_gathered_by_process() -> None:
    """Of each host the first that is whole; of the others what there is, also of several processes."""
    tree = ["=== System : x ===", "CPU/0", "   + PCI[1] - GPU/0", "noise", "======"]
    lines = [info(text) for text in tree[:2]]
    lines += [info(text, device=1) for text in tree]
    lines += [info(text, device=2) for text in tree]  # a second whole one of the host
    lines += [info(tree[0], host=1), info(tree[1], host=1)]
    found = facts(*lines)
    texts = tuple(
        (at(number, lines[number - 1]), text) for number, text in zip((3, 4, 5), tree, strict=False)
    )
    assert found.trees == (
        SystemTree("node0", texts, True),
        SystemTree("node1", ((at(13, lines[12]), tree[0]), (at(14, lines[13]), tree[1])), False),
    )
    assert facts(info("======"), info("CPU/0")).trees == ()


def test_all_that_is_kept_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"_MOST": 256, "_MOST_HOPS": 8192, "_MOST_HOSTS": 8192, "_MOST_RANKS": 2**17}
    known |= {"_MOST_TREES": 64, "_MOST_TREE_LINES": 4096, "_MOST_WARNINGS": 20}
    assert {name: getattr(log_reader, name) for name in known} == known
    for name in ("_MOST_HOSTS", "_MOST_RANKS", "_MOST_TREES", "_MOST_TREE_LINES", "_MOST_HOPS", "_MOST"):
        monkeypatch.setattr(log_reader, name, 2)
    warned = facts(*(f"node0:1:2 [0] x.cc:1 NCCL WARN {k}" for k in range(22)))
    assert (len(warned.warnings), warned.n_warnings) == (20, 22)
    lines = [info(f"comm 0x1 rank {k} nRanks 4 x", host=k) for k in range(4)]
    lines += [info(f"NCCL_A{k} set to 1") for k in range(4)]
    lines += [info(f"Channel 00/0 : {k}[0] -> 9[0] [send] via NET/N{k}/1") for k in range(4)]
    found = facts(*lines)
    assert (len(found.hosts), len(found.rank_hosts), len(found.settings)) == (2, 2, 2)
    assert (len(found.hops), len(found.transports)) == (2, 2)
    trees = [
        info(text, host=host) for host in range(4) for text in ("=== System", "CPU/0", "CPU/1", "======")
    ]
    whole = facts(*trees).trees
    assert [(one.host, len(one.lines), one.is_whole) for one in whole] == [
        ("node0", 2, True),
        ("node1", 2, True),
    ]
    cut = facts(*(info("=== System", host=host) for host in range(4))).trees
    assert [one.host for one in cut] == ["node0", "node1"]


# figures


def table(
    *rows: tuple[float, float], test: str = "", reduces: bool | None = None, root: int | None = None
) -> ResultTable:
    found = tuple(TableRow(line(k), 8, algbw, busbw, 1.0, 0) for k, (algbw, busbw) in enumerate(rows))
    return ResultTable(found, test, reduces, root)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (table((1, 9), test="alltoall"), CollectiveKind.ALLTOALL),
        (table((10, 9.91), (1, 0.5), reduces=True, root=-1), CollectiveKind.ALLREDUCE),
        (table((10, 9.89), (1, 1.5), reduces=True), CollectiveKind.REDUCE_SCATTER),
        (table((10, 9.9), reduces=True, root=0), CollectiveKind.REDUCE),
        (table((10, 10), reduces=False, root=0), CollectiveKind.BROADCAST),
        (table((0, 0), reduces=True), CollectiveKind.REDUCE_SCATTER),
    ],
)
def test_the_collective_of_a_table(found: ResultTable, kind: CollectiveKind) -> None:
    assert kind_of(found) is kind


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (table((1, 1), test="sendrecv"), "sendrecv has no bound here"),
        (table((10, 9.89), root=0), "the log does not say which collective it is; give --collective"),
        (table((10, 10), root=-1), "the log does not say which collective it is; give --collective"),
        (table((10, 10)), "the log does not say which collective it is; give --collective"),
    ],
)
def test_collectives_that_are_not_told(found: ResultTable, message: str) -> None:
    refused = kind_of(found)
    assert isinstance(refused, Unsupported)
    assert str(refused) == message


@pytest.mark.parametrize("n", [2, 3, 5, 8, 16])
def test_how_many_ranks_figures_show(n: int) -> None:
    """busbw / algbw is 2 (n - 1) / n of an allreduce, (n - 1) / n of an allgather; the fastest row counts."""
    for kind, factor in ((CollectiveKind.ALLREDUCE, 2), (CollectiveKind.ALLGATHER, 1)):
        share = factor * (n - 1) / n
        assert ranks_of(table((1.5, 9.0), (200.0, round(200 * share, 2))), kind) == n


def test_figures_that_show_no_ranks() -> None:
    assert ranks_of(table((0.99, 0.5)), CollectiveKind.ALLGATHER) == 0
    assert ranks_of(table((100.0, 50.0)), CollectiveKind.BROADCAST) == 0
    assert ranks_of(table((100.0, 100.0)), CollectiveKind.ALLGATHER) == 0
    assert ranks_of(table((100.0, 200.0)), CollectiveKind.ALLREDUCE) == 0
    assert ranks_of(table((100.0, 99.9)), CollectiveKind.ALLGATHER) == 0
    assert ranks_of(table((1.0, 0.5)), CollectiveKind.ALLGATHER) == 2


def log(**more: object) -> Log:
    return Log("x.log", 9, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "count"),
    [
        ("mlx5_0", 1),
        ("mlx5_0,mlx5_3:1,", 2),
        ("=mlx5_0:1,mlx5_2", 2),
        ("^mlx5_0", 0),
        ("ib", 0),
        ("mlx5", 0),
        ("mlx5_0,mlx4:1", 0),
        ("rocep1s0f10", 1),
        ("mlx5_0,ib", 0),
        ("", 0),
    ],
)
def test_network_cards_by_the_variable(value: str, count: int) -> None:
    settings = (SetVariable(line(1), "NCCL_IB_HCA", value),)
    assert used_nics(log(settings=settings)) == count
    listed = (
        LoggedNetwork(line(2), "a", "Socket", ("x",) * 9),
        LoggedNetwork(line(2), "a", "IB", ("x",) * 2),
        LoggedNetwork(line(2), "b", "IB", ("x",) * 3),
    )
    assert used_nics(log(settings=settings, networks=listed)) == 3
    assert used_nics(log(networks=listed[:1])) == 0


def test_fast_links_by_the_tree_or_the_model() -> None:
    for text, fast in (("+ NVL[2] - x", True), ("+ XGMI[2] - x", True), ("+ PCI[2] - x", False)):
        tree = SystemTree("a", ((line(1), "CPU/0"), (line(2), text)), True)
        assert shows_fast_links(log(trees=(tree,))) is fast
    for model, fast in (("NVIDIA A100-SXM4", True), ("NVIDIA H100 NVL", True), ("NVIDIA A100-PCIE", False)):
        assert shows_fast_links(log(ranks={0: ListedRank(line(1), "a", 0, model)})) is fast
    assert not shows_fast_links(log())


def test_the_line_of_nvlink_sharp() -> None:
    channels = (ChannelCount(line(1), 2, 0), ChannelCount(line(2), 2, 1), ChannelCount(line(3), 2, 9))
    assert nvls_line(log(channels=channels, remarks={"nvls": line(7)})) == line(2)
    assert nvls_line(log(channels=channels[:1], remarks={"collnet": line(8), "nvls": line(7)})) == line(7)
    assert nvls_line(log(remarks={"collnet": line(8)})) == line(8)
    assert nvls_line(log()) is None


def test_a_log_is_asked_for_its_facts() -> None:
    settings = (
        SetVariable(line(1), "A", "1"),
        SetVariable(line(2), "B", "2"),
        SetVariable(line(3), "B", "3"),
    )
    ways = (
        UsedTransport(line(1), "P2P", False, 1),
        UsedTransport(line(2), "NET/Socket", False, 1),
        UsedTransport(line(3), "NET/IB", True, 1),
        UsedTransport(line(4), "NET/OFI", False, 1),
    )
    found = log(settings=settings, transports=ways)
    assert found.setting("C", "B", "A") is settings[1]
    assert found.setting("C") is None
    assert found.transport("NET") is ways[1]
    assert found.transport("SHM") is None
    assert (found.rdma(direct=True), found.rdma(direct=False)) == (ways[2], ways[3])
    assert log(transports=ways[:2]).rdma(direct=False) is None
    rows = tuple(TableRow(line(k), 8, 1.0, busbw, 1.0, 0) for k, busbw in enumerate((1.0, 3.0, 3.0)))
    assert ResultTable(rows).peak is rows[1]
    assert (log().n_warnings, ResultTable(rows).test) == (0, "")
