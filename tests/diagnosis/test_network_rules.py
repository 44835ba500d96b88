"""What each rule about the network says, word for word, at its limits and one beyond them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from treadle.diagnosis.cause import Case, Cause, PcieLimit
from treadle.diagnosis.log import (
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
from treadle.diagnosis.log_lines import LogLine
from treadle.diagnosis.network_rules import acs, crossed_rails, idle_nics, no_gdr, pcie, ports, tcp


def line(number: int) -> LogLine:
    return LogLine(number, f"line {number}")


def log(**facts: object) -> Log:
    return Log("nccl.log", 99, **facts)  # type: ignore[arg-type]


def variable(number: int, name: str, value: str) -> SetVariable:
    return SetVariable(line(number), name, value)


SOCKET = LoggedNetwork(line(50), "node0", "Socket", ("eth0",))
IB = LoggedNetwork(line(51), "node0", "IB", ("mlx5_0:1/IB",))
ROCE = LoggedNetwork(line(52), "node1", "IB", ("mlx5_1:1/RoCE",))


def idle(
    used: int, fabric: int, *settings: SetVariable, networks: tuple[LoggedNetwork, ...] = ()
) -> list[Cause]:
    case = Case(log=log(settings=settings, networks=networks), used_nics=used, fabric_nics=fabric)
    return idle_nics(case, ())


def test_a_variable_that_leaves_nics_idle_is_named_with_the_network_line() -> None:
    value = "mlx5_0," + "x" * 40
    expected = Cause(
        "idle-nics",
        f"2 of 3 NICs of a box used: NCCL_IB_HCA={value[:40]}",
        (line(7), line(51)),
        "unset NCCL_IB_HCA or name all 3 in it",
    )
    assert idle(2, 3, variable(7, "NCCL_IB_HCA", value), networks=(SOCKET, IB, ROCE)) == [expected]
    named = variable(8, "NCCL_SOCKET_IFNAME", "eth0")
    expected = Cause(
        "idle-nics",
        "1 of 3 NICs of a box used: NCCL_SOCKET_IFNAME=eth0",
        (line(8),),
        "unset NCCL_SOCKET_IFNAME or name all 3 in it",
    )
    assert idle(1, 3, named, networks=(SOCKET,)) == [expected]


def test_idle_nics_without_a_variable_are_not_found() -> None:
    expected = Cause(
        "idle-nics",
        "1 of 2 NICs of a box used",
        (line(51),),
        "see why the others are not found: ibstat, ulimit -l, devices passed into the container",
    )
    assert idle(1, 2, networks=(SOCKET, IB)) == [expected]


@pytest.mark.parametrize(("used", "fabric"), [(0, 2), (2, 2), (3, 2), (0, 0)])
def test_no_nic_is_idle_where_all_are_used_or_none_is_known(used: int, fabric: int) -> None:
    assert idle(used, fabric, networks=(IB,)) == []


def test_idle_nics_need_a_line_that_shows_them() -> None:
    assert idle(1, 2, networks=(SOCKET,)) == []


def narrowed(used: int = 2, gpus: int = 8, value: str = "mlx5_0,mlx5_1", **more: object) -> list[Cause]:
    settings = (variable(7, "NCCL_IB_HCA", value),)
    facts = {"n_hosts": 2, **more}
    return idle_nics(Case(log=log(settings=settings), used_nics=used, gpus_per_host=gpus, **facts), ())  # type: ignore[arg-type]


@pytest.mark.parametrize(("used", "gpus", "words"), [(2, 8, "2 NICs"), (1, 4, "1 NIC"), (1, 5, "1 NIC")])
def test_few_nics_for_many_gpus_of_a_box(used: int, gpus: int, words: str) -> None:
    expected = Cause(
        "idle-nics",
        f"NCCL_IB_HCA=mlx5_0,mlx5_1 leaves NCCL {words} for {gpus} GPUs of a box",
        (line(7),),
        "unset NCCL_IB_HCA or name all NICs in it, if the boxes have more",
    )
    assert narrowed(used, gpus) == [expected]


def test_a_long_list_of_nics_is_cut_off() -> None:
    (found,) = narrowed(value="m" * 41)
    assert found.text == f"NCCL_IB_HCA={'m' * 40} leaves NCCL 2 NICs for 8 GPUs of a box"


@pytest.mark.parametrize(
    "facts",
    [
        {"gpus": 7},
        {"used": 0},
        {"value": "^mlx5_2"},
        {"n_hosts": 1},
        {"is_low": False},
    ],
)
def test_nics_are_not_narrowed(facts: dict[str, object]) -> None:
    assert narrowed(**facts) == []  # type: ignore[arg-type]


def test_a_variable_that_names_no_nics_narrows_nothing() -> None:
    settings = (variable(7, "NCCL_SOCKET_IFNAME", "eth0"),)
    case = Case(log=log(settings=settings), used_nics=1, gpus_per_host=8, n_hosts=2)
    assert idle_nics(case, ()) == []


TCP = "boxes exchange data by TCP (NET/Socket): no RDMA, and copies by the CPU"
RDMA = "make RDMA available: drivers, /dev/infiniband in the container, the network's plugin"


def by(number: int, kind: str, *, is_direct: bool = False, count: int = 1) -> UsedTransport:
    return UsedTransport(line(number), kind, is_direct, count)


def test_connections_by_tcp_show_it_even_in_a_box() -> None:
    case = Case(log=log(transports=(by(3, "P2P"), by(4, "NET/Socket"))), n_hosts=1)
    assert tcp(case, ()) == [Cause("tcp", TCP, (line(4),), RDMA)]


def test_a_network_of_sockets_counts_between_boxes_only() -> None:
    remarks = {"network-socket": line(5), "network": line(5)}
    assert tcp(Case(log=log(remarks=remarks), n_hosts=2), ()) == [Cause("tcp", TCP, (line(5),), RDMA)]
    assert tcp(Case(log=log(remarks=remarks), n_hosts=1), ()) == []
    assert tcp(Case(log=log(remarks=remarks)), ()) == []
    assert tcp(Case(log=log(transports=(by(4, "NET/IB"),)), n_hosts=2), ()) == []


@pytest.mark.parametrize("name", ["NCCL_IB_DISABLE", "NCCL_NET"])
def test_tcp_by_a_variable_and_at_most_four_lines(name: str) -> None:
    remarks = {"plugin-failed": line(8), "no-ib": line(7), "network-socket": line(5)}
    found = log(transports=(by(4, "NET/Socket"),), remarks=remarks, settings=(variable(9, name, "1"),))
    expected = Cause("tcp", TCP, (line(4), line(5), line(7), line(8)), f"unset {name}")
    assert tcp(Case(log=found, n_hosts=2), ()) == [expected]
    del remarks["no-ib"]
    expected = Cause("tcp", TCP, (line(4), line(5), line(8), line(9)), f"unset {name}")
    assert tcp(Case(log=found, n_hosts=2), ()) == [expected]


STAGED = "no GPUDirect RDMA: data for the network passes through the CPU's memory"
NEARER = (
    "load nvidia-peermem (or use DMA-BUF), use a NIC below the GPU's own PCIe switch, and do not lower "
    "NCCL_NET_GDR_LEVEL"
)


def pattern(number: int, outer: str) -> LoggedPattern:
    return LoggedPattern(line(number), 2, "PXB", outer)


@pytest.mark.parametrize("outer", ["PHB", "SYS"])
def test_all_that_shows_data_through_the_cpu(outer: str) -> None:
    found = log(
        transports=(by(3, "NET/IB", count=5), by(2, "NET/IB", is_direct=True, count=7)),
        patterns=(pattern(10, "PIX"), pattern(11, outer), pattern(12, "PHB")),
        remarks={"gdr-disabled": line(20)},
        settings=(variable(21, "NCCL_NET_GDR_LEVEL", "loc"),),
    )
    text = f"{STAGED} (5 of 12 connections); NICs are reached by {outer} (type PXB/{outer})"
    lines = (line(3), line(11), line(20), line(21))
    assert no_gdr(Case(log=found), ()) == [Cause("no-gdr", text, lines, NEARER)]


def test_staged_connections_alone_show_it() -> None:
    found = log(transports=(by(3, "NET/IB"), by(4, "NET/Socket")))
    assert no_gdr(Case(log=found), ()) == [Cause("no-gdr", STAGED, (line(3),), NEARER)]


@pytest.mark.parametrize(("level", "is_shown"), [("0", True), ("LOC", True), ("1", False), ("PIX", False)])
def test_a_level_that_switches_gpudirect_off_is_shown(level: str, is_shown: bool) -> None:
    found = log(transports=(by(3, "NET/IB"),), settings=(variable(21, "NCCL_IB_GDR_LEVEL", level),))
    (suspect,) = no_gdr(Case(log=found), ())
    assert suspect.lines == ((line(3), line(21)) if is_shown else (line(3),))


def test_far_cards_or_a_refusal_show_it_where_no_connection_is_direct() -> None:
    far = log(patterns=(pattern(11, "SYS"),))
    text = f"{STAGED}; NICs are reached by SYS (type PXB/SYS)"
    assert no_gdr(Case(log=far), ()) == [Cause("no-gdr", text, (line(11),), NEARER)]
    refused = log(remarks={"gdr-disabled": line(20)})
    assert no_gdr(Case(log=refused), ()) == [Cause("no-gdr", STAGED, (line(20),), NEARER)]
    assert no_gdr(Case(log=log(patterns=(pattern(11, "PXB"),))), ()) == []
    direct = (by(2, "NET/IB", is_direct=True),)
    assert no_gdr(Case(log=log(patterns=(pattern(11, "SYS"),), transports=direct)), ()) == []
    assert no_gdr(Case(log=log(remarks={"gdr-disabled": line(20)}, transports=direct)), ()) == []


def hop(number: int, channel: int, *, sends: bool, nic: int, ranks: tuple[int, int] = (7, 8)) -> NetworkHop:
    return NetworkHop(line(number), channel, ranks, sends, nic)


HOPS = (
    hop(1, 0, sends=False, nic=2),
    hop(2, 0, sends=True, nic=2),
    hop(3, 1, sends=False, nic=0),
    hop(4, 1, sends=True, nic=3),
    hop(5, 1, sends=True, nic=1),  # what a hop says twice counts as it said first
    hop(6, 1, sends=True, nic=1, ranks=(9, 7)),
    hop(7, 2, sends=False, nic=1),
)
ORDER = "set NCCL_CROSS_NIC=0, and see that NICs have the same order in all boxes"


def test_hops_that_change_rails() -> None:
    text = "1 of 2 hops between boxes change rails: channel 1 sends by NIC 3 and receives by NIC 0"
    case = Case(log=log(hops=HOPS), n_hosts=2)
    assert crossed_rails(case, ()) == [Cause("crossed-rails", text, (line(4), line(3)), ORDER)]
    assert crossed_rails(Case(log=log(hops=HOPS), n_hosts=2, is_one_switch=True), ()) == []


ENDS = (RingEnds(line(1), "NET/2", "NET/2"), RingEnds(line(2), "NET/3", "NET/2"))


@pytest.mark.parametrize(("value", "is_shown"), [("0", False), ("1", True), ("2", True)])
def test_the_variable_that_lets_rails_cross_is_shown(value: str, is_shown: bool) -> None:
    settings = (variable(30, "NCCL_CROSS_NIC", value),)
    more = (line(30),) if is_shown else ()
    (found,) = crossed_rails(Case(log=log(hops=HOPS, settings=settings), n_hosts=2), ())
    assert found.lines == (line(4), line(3), *more)
    (found,) = crossed_rails(Case(log=log(ring_ends=ENDS, settings=settings), n_hosts=2), ())
    assert found.lines == (line(2), *more)


def test_rings_tell_only_where_no_hop_is_shown_from_both_ends() -> None:
    text = "1 of 2 rings leave a box by another NIC than they came by: NET/3, NET/2"
    remedy = "on rails set NCCL_CROSS_NIC=0, so that rings stay on theirs"
    expected = [Cause("crossed-rails", text, (line(2),), remedy)]
    assert crossed_rails(Case(log=log(ring_ends=ENDS, hops=HOPS[5:]), n_hosts=2), ()) == expected
    assert crossed_rails(Case(log=log(ring_ends=ENDS, hops=HOPS[:2]), n_hosts=2), ()) == []
    assert crossed_rails(Case(log=log(ring_ends=ENDS), n_hosts=1), ()) == []
    assert crossed_rails(Case(log=log(ring_ends=ENDS[:1]), n_hosts=2), ()) == []


def tree(first: int) -> SystemTree:
    texts = [
        "=== System",
        "+ PCI[24.0] - PCI/1000",
        "+ NVL[24.0] - GPU/0",
        "+ PCI[12.0] - GPU/1",
        "+ PCI[9] - GPU/2",
    ]
    return SystemTree("node0", tuple((line(first + at), text) for at, text in enumerate(texts)), True)


def table() -> ResultTable:
    return ResultTable((TableRow(line(40), 8, 1.0, 2.0, 3.0, 0), TableRow(line(41), 16, 2.0, 3.0, 4.0, 0)))


def test_pcie_that_cannot_feed_the_nics_of_one_gpu() -> None:
    found = log(
        trees=(tree(60), tree(70)),
        networks=(SOCKET, IB, ROCE),
        settings=(variable(7, "NCCL_IB_HCA", "mlx5"),),
    )
    limit = PcieLimit(bandwidth=63_000_000_000, nics=200_000_000_000, n_nics=4)
    remedy = "more NICs per GPU do not help; use more GPUs of the box, each with a NIC of its own"
    text = "the GPU's PCIe binds: 63.0 GB/s for 4 NICs of 200.0 GB/s together"
    lines = (line(63), line(51), line(7), line(41))
    case = Case(log=found, pcie=limit, gpus_per_host=3, table=table())
    assert pcie(case, ()) == [Cause("pcie", text, lines, remedy)]
    assert pcie(Case(log=found, gpus_per_host=3, table=table()), ()) == []
    assert pcie(Case(log=log(trees=(), networks=(SOCKET,)), gpus_per_host=3, pcie=limit), ()) == []


def test_pcie_that_is_slow_between_gpus_and_their_nics() -> None:
    limit = PcieLimit(bandwidth=8_000_000_000, nics=50_000_000_000, n_nics=4)
    (found,) = pcie(Case(log=log(networks=(IB,)), pcie=limit, gpus_per_host=4), ())
    assert found.text == "PCIe between GPUs and NICs binds: 8.0 GB/s where 4 NICs carry 50.0 GB/s together"
    (one,) = pcie(Case(log=log(networks=(IB,)), pcie=replace(limit, n_nics=1), gpus_per_host=4), ())
    assert one.text == "PCIe between GPUs and NICs binds: 8.0 GB/s where 1 NIC carries 50.0 GB/s together"
    assert found.lines == (line(51),)
    assert found.fix == (
        "see lspci -vv for LnkSta (downgraded): reseat the cards, check slots and BIOS; if PCIe is no "
        "faster, faster NICs do not help"
    )


def test_single_lines_about_the_network() -> None:
    assert (acs(Case(log=log()), ()), ports(Case(log=log()), ())) == ([], [])
    found = log(remarks={"acs": line(3), "port": line(4)})
    assert acs(Case(log=found), ()) == [
        Cause(
            "acs",
            "ACS is on: what GPU and NIC exchange goes up to the CPU instead of across the PCIe switch",
            (line(3),),
            "disable ACS on the PCIe switches (setpci, or the BIOS); lspci -vvv then shows SrcValid-",
        )
    ]
    assert ports(Case(log=found), ()) == [
        Cause(
            "port",
            "a network port failed or changed its speed during the run",
            (line(4),),
            "see ibstat and the switch's counters; replace the cable or module",
        )
    ]


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (idle_nics, ("NCCL_IB_HCA", "NCCL_SOCKET_IFNAME")),
        (tcp, ("NCCL_IB_DISABLE", "NCCL_NET")),
        (no_gdr, ("NCCL_NET_GDR_LEVEL", "NCCL_IB_GDR_LEVEL")),
    ],
)
def test_of_two_variables_that_are_set_the_first_is_named(
    rule: Callable[[Case, tuple[Cause, ...]], list[Cause]], names: tuple[str, str]
) -> None:
    settings = (variable(1, names[1], "0"), variable(2, names[0], "0"))
    facts = log(settings=settings, transports=(by(3, "NET/Socket"), by(4, "NET/IB")))
    (found,) = rule(Case(log=facts, used_nics=1, fabric_nics=2), ())
    assert line(2) in found.lines
    assert line(1) not in found.lines
