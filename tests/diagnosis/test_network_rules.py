"""What each rule about the network says, word for word, at its limits and one beyond them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from treadle.diagnosis.cause import Case, PcieLimit
from treadle.diagnosis.log import (
    Log,
    LoggedNetwork,
    NetworkHop,
    RingEnds,
    SetVariable,
)
from treadle.diagnosis.log_lines import LogLine
from treadle.diagnosis.network_rules import crossed_rails, pcie


def line(number: int) -> LogLine:
    return LogLine(number, f"line {number}")


def log(**facts: object) -> Log:
    return Log("nccl.log", 99, **facts)  # type: ignore[arg-type]


def variable(number: int, name: str, value: str) -> SetVariable:
    return SetVariable(line(number), name, value)


IB = LoggedNetwork(line(51), "node0", "IB", ("mlx5_0:1/IB",))


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


ENDS = (RingEnds(line(1), "NET/2", "NET/2"), RingEnds(line(2), "NET/3", "NET/2"))


@pytest.mark.parametrize(("value", "is_shown"), [("0", False), ("1", True), ("2", True)])
def test_the_variable_that_lets_rails_cross_is_shown(value: str, is_shown: bool) -> None:
    settings = (variable(30, "NCCL_CROSS_NIC", value),)
    more = (line(30),) if is_shown else ()
    (found,) = crossed_rails(Case(log=log(hops=HOPS, settings=settings), n_hosts=2), ())
    assert found.lines == (line(4), line(3), *more)
    (found,) = crossed_rails(Case(log=log(ring_ends=ENDS, settings=settings), n_hosts=2), ())
    assert found.lines == (line(2), *more)


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
