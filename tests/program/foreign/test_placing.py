"""Messages on links: which way each takes, and what cannot be placed."""

from __future__ import annotations

from collections import Counter

from treadle.program.foreign.placing import route_messages
from treadle.program.foreign.switch_names import find_switches
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.topologies import TopologyBuilder, parse
from treadle.topologies.topology import Topology


def boxes(*, twice: bool = False) -> Topology:
    """Two boxes of two ranks, each with a switch of its own, and one or two switches between all ranks."""
    builder = TopologyBuilder("boxes")
    ranks = [builder.compute(f"g{number}") for number in range(4)]
    for number, switch in enumerate(("left", "right")):
        builder.switch(switch)
        for rank in ranks[2 * number : 2 * number + 2]:
            builder.duplex(rank, switch, 100)
    for switch in ("ib", "ib2")[: 1 + twice]:
        builder.switch(switch)
        for rank in ranks:
            builder.duplex(rank, switch, 10)
    return builder.build()


def test_loads_of_equal_ways_end_up_even() -> None:
    fabric = boxes(twice=True)
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    messages = [(one, other, (), 1) for one in range(4) for other in range(4) if one // 2 != other // 2] * 3
    found = route_messages(fabric, collective, messages)
    loads = Counter(link for way in found.ways if way for link in way)
    assert set(loads.values()) == {3}
    assert len(loads) == 16


def test_switches_of_a_file_are_found_by_their_neighbours() -> None:
    fabric = boxes()
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    ways = [(0, ("7",), 1), (1, ("7",), 0), (2, ("8",), 3), (0, ("9",), 3), (1, ("9",), 2)]
    found = find_switches(fabric, collective, ways)
    meant = {name: fabric.node_names[node] for name, node in found.nodes.items()}
    assert meant["9"] == "ib"
    assert (meant["7"], meant["8"]) == ("left", "right")


def test_different_names_mean_different_switches_where_that_can_be() -> None:
    fabric = boxes(twice=True)
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    found = find_switches(
        fabric, collective, [(0, ("p",), 2), (0, ("q",), 2), (1, ("p",), 3), (1, ("q",), 3)]
    )
    assert {fabric.node_names[node] for node in found.nodes.values()} == {"ib", "ib2"}
    assert sorted(found.others) == ["p", "q"]
    assert all(not set(nodes) & {found.nodes[name]} for name, nodes in found.others.items())
    placed = route_messages(fabric, collective, [(0, 2, ("p",), 1), (1, 3, ("q",), 1)])
    assert placed.notes == (
        "switches of the file may be several of the fabric's: p is taken as ib, and may be ib2; q is "
        "taken as ib2, and may be ib",
    )


def test_a_named_switch_is_taken_though_another_is_faster() -> None:
    fabric = boxes()
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    found = route_messages(fabric, collective, [(0, 1, ("9",), 1), (0, 2, ("9",), 1), (2, 3, ("9",), 1)])
    assert all(way and fabric.link_name(way[0]).endswith("->ib") for way in found.ways)
    exact = route_messages(fabric, collective, [(0, 1, ("ib",), 1)])
    assert exact.ways[0] is not None
    assert fabric.link_name(exact.ways[0][0]) == "g0->ib"


def test_several_names_may_mean_one_switch() -> None:
    """A file with six NVSwitches, a fabric that has them as one."""
    fabric = parse("dgx_a100(1)")
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    ways = [(rank, (str(plane),), (rank + 1) % 8) for rank in range(8) for plane in range(3)]
    found = find_switches(fabric, collective, ways)
    assert {fabric.node_names[node] for node in found.nodes.values()} == {"box0.nvswitch"}


def test_names_that_the_fabric_has_are_its_own() -> None:
    """Others are looked for among the rest, and are strangers in a file whose ways are binding."""
    fabric = boxes(twice=True)
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    messages = [(0, 2, ("ib2",), 1), (1, 3, ("ghost",), 1)]
    found = find_switches(fabric, collective, [(one, way, other) for one, other, way, _ in messages])
    assert {name: fabric.node_names[node] for name, node in found.nodes.items()} == {
        "ib2": "ib2",
        "ghost": "ib",
    }
    assert found.strangers == ("ghost",)
    places = {(0, ("ib2",), 2): "line 2", (1, ("ghost",), 3): "line 7"}
    assert route_messages(fabric, collective, messages, places).faults == (
        "line 7: the path from rank 1 to rank 3 passes ghost, which boxes does not have",
    )


def test_a_named_way_that_is_none_is_told_or_a_fault() -> None:
    fabric = boxes()
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    messages = [(0, 2, ("left",), 1), (0, 1, ("left",), 1)]
    found = route_messages(fabric, collective, messages)
    assert not found.faults
    assert "1 named path of the file not in the fabric, first 0 to 2 via left" in found.notes[0]
    places = {(0, ("left",), 2): "line 3", (0, ("left",), 1): "line 3"}
    assert route_messages(fabric, collective, messages, places).faults == (
        "line 3: the path from rank 0 to rank 2 passes left, but boxes does not have all of its links",
    )


def test_switches_without_counterpart_are_said() -> None:
    fabric = parse("complete(4)")
    collective = on_all_ranks(fabric, CollectiveKind.ALLGATHER)
    found = route_messages(fabric, collective, [(0, 1, ("sw",), 1)])
    assert found.ways[0] is not None
    assert not found.faults
    assert "no counterpart" in found.notes[0]
