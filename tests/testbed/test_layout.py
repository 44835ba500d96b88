"""Emulated networks as text: commands, routes, rates and what cannot be emulated."""

import pytest

from treadle.errors import ScheduleError, TopologyError
from treadle.planning import solve
from treadle.program.any_schedule import lower
from treadle.testbed.launch import meeting_s
from treadle.testbed.layout import (
    DELAY_LINE,
    burst_bytes,
    check_paths,
    link_rates,
    make_layout,
    set_up_commands,
)
from treadle.topologies import parse
from treadle.topologies.topology import TopologyBuilder

RATE = 12_500_000


def test_commands_of_a_ring_of_three() -> None:
    layout = make_layout(parse("ring(3)"), RATE, prefix="t")
    spaces, cables, _, addresses, shaping, *rest = set_up_commands(layout)
    assert spaces.lines == ("netns add t-0", "netns add t-1", "netns add t-2")
    assert cables.lines == (
        "link add l0 mtu 9000 netns t-0 type veth peer name l0 mtu 9000 netns t-1",
        "link add l1 mtu 9000 netns t-0 type veth peer name l1 mtu 9000 netns t-2",
        "link add l2 mtu 9000 netns t-1 type veth peer name l2 mtu 9000 netns t-2",
    )
    assert addresses.words == ("ip", "-n", "t-0", "-batch", "-")
    assert addresses.lines == (
        "link set lo up",
        "link add node type bridge",
        "addr add 10.87.0.1/24 dev node",
        "link set node up",
        "link set l0 up",
        "link set l1 up",
        "route add 10.87.0.2/32 via 10.87.0.2 dev l0 onlink src 10.87.0.1",
        "route add 10.87.0.3/32 via 10.87.0.3 dev l1 onlink src 10.87.0.1",
    )
    assert shaping.words == ("tc", "-n", "t-0", "-batch", "-")
    assert shaping.lines == (
        "qdisc add dev l0 root tbf rate 100000000bit burst 32000 limit 8388608",
        "qdisc add dev l1 root tbf rate 100000000bit burst 32000 limit 8388608",
    )
    assert len(rest) == 6


def test_links_with_a_delay_are_a_process_that_nothing_else_shapes() -> None:
    layout = make_layout(parse("ring(3, bidirectional=False)"), RATE, prefix="t", delay_ns=2_000_000)
    spaces, line, settings, addresses, *rest = set_up_commands(layout)
    assert spaces.lines == ("netns add t-0", "netns add t-1", "netns add t-2")
    assert line.words == (DELAY_LINE,)
    assert line.lines == (
        "l0 /run/netns/t-0 12500000 2000000 /run/netns/t-1 0 2000000",
        "l1 /run/netns/t-1 12500000 2000000 /run/netns/t-2 0 2000000",
        "l2 /run/netns/t-2 12500000 2000000 /run/netns/t-0 0 2000000",
    )
    assert "echo 0 > ipv4/tcp_slow_start_after_idle" in settings.lines
    assert addresses.lines[4:] == (
        "link set l0 mtu 9000 txqueuelen 10000",
        "link set l2 mtu 9000 txqueuelen 10000",
        "link set l0 up",
        "link set l2 up",
        "route add 10.87.0.2/32 via 10.87.0.2 dev l0 onlink src 10.87.0.1 initcwnd 1000 initrwnd 1000",
        "route add 10.87.0.3/32 via 10.87.0.2 dev l0 onlink src 10.87.0.1 initcwnd 1000 initrwnd 1000",
    )
    assert len(rest) == 4
    assert not any("tbf" in text for command in rest for text in command.lines)


@pytest.mark.parametrize(
    ("fabric", "delay_ns", "seconds"),
    [
        ("ring(8)", 5_000_000, 4 * 4 * 5e-3 + 5e-3),
        ("complete(5)", 10**6, 4 * 1e-3 + 5e-3),
        ("ring(8)", None, 0),
    ],
)
def test_ranks_meet_before_they_start(fabric: str, delay_ns: int | None, seconds: float) -> None:
    layout = make_layout(parse(fabric), 1000, prefix="t", delay_ns=delay_ns)
    assert meeting_s(layout) == pytest.approx(seconds)


def test_a_one_way_link_is_shaped_one_way_and_nothing_is_routed_against_it() -> None:
    layout = make_layout(parse("ring(4, bidirectional=False)"), RATE, prefix="t")
    assert [(c.one, c.other, c.forward_bytes_per_s, c.backward_bytes_per_s) for c in layout.cables] == [
        (0, 1, RATE, 0),
        (1, 2, RATE, 0),
        (2, 3, RATE, 0),
        (3, 0, RATE, 0),
    ]
    assert layout.next_hop[1] == (2, 1, 2, 2)


def test_parallel_links_and_unequal_ones_keep_their_proportions() -> None:
    builder = TopologyBuilder("unequal")
    one, other = builder.compute("a"), builder.compute("b")
    builder.duplex(one, other, 5)
    builder.duplex(one, other, 5)
    builder.link(one, one, 7)
    third = builder.compute("c")
    builder.duplex(other, third, 15)
    rates = link_rates(builder.build(), 1000)
    assert rates == {(0, 1): 2000, (1, 0): 2000, (1, 2): 3000, (2, 1): 3000}


def test_the_burst_is_half_a_millisecond_but_not_below_32_kb() -> None:
    assert burst_bytes(RATE) == 32_000
    assert burst_bytes(125_000_000) == 62_500


@pytest.mark.parametrize(
    ("fabric", "rate", "message"),
    [
        ("dgx_h100(1)", RATE, "is a switch"),
        ("ring(33)", RATE, "takes 2 to 32"),
        ("complete(16)", RATE, "use a lower --rate"),
        ("ring(4)", 2**40, "use a lower --rate"),
    ],
)
def test_what_cannot_be_emulated_is_refused(fabric: str, rate: int, message: str) -> None:
    with pytest.raises(TopologyError, match=message):
        make_layout(parse(fabric), rate, prefix="t")


def test_a_fabric_with_an_unreachable_node_is_refused() -> None:
    builder = TopologyBuilder("dead end")
    one, other = builder.compute("a"), builder.compute("b")
    builder.link(one, other, 1)
    with pytest.raises(TopologyError, match="no path from 'b' to 'a'"):
        make_layout(builder.build(), RATE, prefix="t")


def test_sends_off_the_routes_are_refused() -> None:
    """Packets between neighbours take the link; a path the other way round the ring is not theirs."""
    plan = solve("ring(4)", "allgather", algorithm="bfb").plan
    program = lower(plan.topology, plan.collective, plan.schedule_for(1))
    layout = make_layout(plan.topology, RATE, prefix="t")
    check_paths(plan.topology, program, layout)
    other = make_layout(parse("circulant(4, 1)"), RATE, prefix="t")
    detours = tuple(tuple((u - 1) % 4 if u != v else u for v in range(4)) for u in range(4))
    broken = type(other)(other.namespaces, other.cables, detours)
    with pytest.raises(ScheduleError, match="shortest paths"):
        check_paths(plan.topology, program, broken)
