"""Cabling lists of three racks reckoned by hand: lengths, media, bundles, boxes in the middle."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import treadle
from treadle.finder.building.build_prices import BuildPrices
from treadle.finder.building.cable_sheet import CableSheet, cable_sheet
from treadle.finder.building.floor import Floor, Rack
from treadle.finder.building.optical_planes import OpticalBox
from treadle.finder.building.placement import RackPlacement, cable_metres, cable_totals
from treadle.topologies import Topology, TopologyBuilder

RACKS = (
    Rack("A", Fraction(0), Fraction(0)),
    Rack("B", Fraction(5), Fraction(0)),
    Rack("C", Fraction(1), Fraction(3)),
)
FLOOR = Floor(
    RACKS, units=10, node_units=2, unit_height=Fraction(1, 10), tray=Fraction(1, 2), slack=Fraction(1, 4)
)
# a unit is 10 cm high, a node two of them: the middle of one that begins at the first is 1.4 m below the tray
BELOW = {unit: Fraction(15, 10) - Fraction(unit, 10) for unit in range(1, 11)}


def fabric() -> Topology:
    """Duplex cables a-b, a-c and b-c, and one-way links b to d, d to a; d has a port joined to itself."""
    builder = TopologyBuilder("odd")
    a, b, c, d = (builder.compute(name) for name in "abcd")
    builder.duplex(a, b, 10**9)
    builder.duplex(a, c, 2 * 10**9)
    builder.duplex(b, c, 10**9)
    builder.link(d, a, 10**9)
    builder.link(b, d, 3 * 10**9)
    return builder.build()


def placed() -> RackPlacement:
    """a and d in rack A, b in B, c in C."""
    rack = np.array([0, 1, 2, 0], dtype=np.int32)
    unit = np.array([1, 3, 5, 7], dtype=np.int32)
    return RackPlacement(FLOOR, RACKS, 2, rack, unit, None)


# by cable, in the order of their tails and ports: a-b, a-c, b-c, b to d, d to a
DIRECT = (
    BELOW[1] + 5 + BELOW[3] + Fraction(1, 4),
    BELOW[1] + 1 + 3 + BELOW[5] + Fraction(1, 4),
    BELOW[3] + 4 + 3 + BELOW[5] + Fraction(1, 4),
    BELOW[3] + 5 + BELOW[7] + Fraction(1, 4),
    Fraction(6, 10) + Fraction(1, 4),
)


def test_ways_of_cables() -> None:
    assert FLOOR.height_below_tray(1) == BELOW[1] == Fraction(14, 10)
    assert tuple(cable_metres(fabric(), placed())) == DIRECT
    totals = cable_totals(fabric(), placed())
    assert (totals.cables, totals.metres) == (5, sum(DIRECT))
    assert (totals.bundles, totals.in_rack, totals.longest) == (3, 1, max(DIRECT))


def test_a_list_without_racks() -> None:
    sheet = cable_sheet(fabric(), None, None, BuildPrices())
    assert (sheet.metres, sheet.media, sheet.planes, sheet.placement) == ((), (), None, None)
    assert sheet.csv().splitlines() == [
        "cable,from_node,from_port,to_node,to_port,duplex,bandwidth",
        "0,a,0,b,0,yes,1 GB/s",
        "1,a,1,c,0,yes,2 GB/s",
        "2,b,1,c,1,yes,1 GB/s",
        "3,b,2,d,0,no,3 GB/s",
        "4,d,0,a,2,no,1 GB/s",
    ]


@pytest.mark.parametrize(("beyond", "medium"), [(Fraction(0), "copper"), (Fraction(1, 1000), "optical")])
def test_copper_reaches_as_far_as_it_is_told(beyond: Fraction, medium: str) -> None:
    sheet = cable_sheet(fabric(), placed(), None, BuildPrices(copper_reach=DIRECT[1] - beyond))
    # 7.1, 6.7, 9.45, 7.05 and 0.85 m
    assert sheet.media == ("optical", medium, "optical", "optical", "copper")
    assert sheet.metres == DIRECT


def test_a_list_with_racks() -> None:
    sheet = cable_sheet(fabric(), placed(), None, BuildPrices())
    assert sheet.csv().splitlines() == [
        "cable,from_node,from_port,to_node,to_port,duplex,bandwidth,"
        "from_rack,from_unit,to_rack,to_unit,length_m,medium,bundle",
        f"0,a,0,b,0,yes,1 GB/s,A,1,B,3,{float(DIRECT[0]):.2f},optical,A--B",
        f"1,a,1,c,0,yes,2 GB/s,A,1,C,5,{float(DIRECT[1]):.2f},optical,A--C",
        f"2,b,1,c,1,yes,1 GB/s,B,3,C,5,{float(DIRECT[2]):.2f},optical,B--C",
        f"3,b,2,d,0,no,3 GB/s,B,3,A,7,{float(DIRECT[3]):.2f},optical,A--B",
        "4,d,0,a,2,no,1 GB/s,A,7,A,1,0.85,copper,A",
    ]


def boxed() -> CableSheet:
    return cable_sheet(fabric(), placed(), OpticalBox(8), BuildPrices(copper_reach=Fraction(1000)))


def test_ways_through_boxes_in_the_middle() -> None:
    """Two fibres each: up, to the middle of all racks (2, 1) and down to the box at half height."""
    down = BELOW[5]
    way = {"A": 3, "B": 4, "C": 3}  # of Manhattan
    fibre = {
        "a": BELOW[1] + way["A"] + down + Fraction(1, 4),
        "b": BELOW[3] + way["B"] + down + Fraction(1, 4),
        "c": BELOW[5] + way["C"] + down + Fraction(1, 4),
        "d": BELOW[7] + way["A"] + down + Fraction(1, 4),
    }
    sheet = boxed()
    assert sheet.metres == tuple(fibre[one] + fibre[other] for one, other in ("ab", "ac", "bc", "bd", "da"))
    assert set(sheet.media) == {"optical"}, "whatever copper reaches"


def test_a_list_with_boxes() -> None:
    """Three duplex cables have six ports, the one-way links the two that are left: all in one box."""
    sheet = boxed()
    rows = [row.split(",") for row in sheet.csv().splitlines()]
    assert rows[0][-3:] == ["plane", "from_plane_port", "to_plane_port"]
    assert [row[:6] for row in rows[1:]] == [
        ["0", "a", "0", "b", "0", "yes"],
        ["1", "a", "1", "c", "0", "yes"],
        ["2", "b", "1", "c", "1", "yes"],
        ["3", "b", "2", "d", "0", "no"],
        ["4", "d", "0", "a", "2", "no"],
    ]
    assert [row[-4] for row in rows[1:]] == [
        "A--plane0+B--plane0",
        "A--plane0+C--plane0",
        "B--plane0+C--plane0",
        "A--plane0+B--plane0",
        "A--plane0",
    ]
    assert {row[-3] for row in rows[1:]} == {"0"}
    assert sorted(int(port) for row in rows[1:4] for port in row[-2:]) == list(range(6))
    assert sorted((row[-2], row[-1]) for row in rows[4:]) == [("6", "6"), ("7", "7")]


def test_a_port_joined_to_itself_goes_through_no_box() -> None:
    builder = TopologyBuilder("loop")
    a, b = builder.compute("a"), builder.compute("b")
    builder.duplex(a, b, 1)
    whole = builder.build()
    looped = Topology(
        name="loop",
        node_names=whole.node_names,
        is_compute=whole.is_compute,
        tails=np.array([*whole.tails, 1], dtype=np.int32),
        heads=np.array([*whole.heads, 1], dtype=np.int32),
        bandwidths=np.array([*whole.bandwidths, 1], dtype=np.int64),
        latencies_ns=np.array([*whole.latencies_ns, 0], dtype=np.int64),
    )
    at = RackPlacement(FLOOR, RACKS, 2, np.array([0, 1], np.int32), np.array([1, 3], np.int32), None)
    sheet = cable_sheet(looped, at, OpticalBox(2), BuildPrices())
    rows = [row.split(",") for row in sheet.csv().splitlines()[1:]]
    assert [row[:6] for row in rows] == [
        ["0", "a", "0", "b", "0", "yes"],
        ["1", "b", "1", "b", "1", "no"],
    ]
    assert rows[1][-6:] == ["0.00", "optical", "B", "", "", ""]
    assert rows[0][-4:] == ["A--plane0+B--plane0", "0", "0", "1"]


def test_one_way_links_are_numbered_by_their_boxes() -> None:
    """Three circles of links in boxes of four: the first ports of a node go to the first boxes."""
    builder = TopologyBuilder("lone")
    a, b, c = (builder.compute(name) for name in "abc")
    builder.duplex(a, c, 1)
    for _ in range(3):
        builder.link(a, b, 1)
        builder.link(b, c, 1)
        builder.link(c, a, 1)
    sheet = cable_sheet(builder.build(), None, OpticalBox(4), BuildPrices())
    assert sheet.planes is not None
    for ends in ("tail", "head"):
        for node in range(3):
            # duplex cables keep the first port; then ports rise with the number of the box
            wires = [
                (getattr(wire, f"{ends}_port"), plane)
                for wire, plane in zip(sheet.wires, sheet.planes.plane.tolist(), strict=True)
                if getattr(wire, ends) == node and not wire.is_duplex
            ]
            first = 0 if node == 1 else 1
            assert [port for port, _ in sorted(wires)] == [first, first + 1, first + 2]
            assert [plane for _, plane in sorted(wires)] == sorted(plane for _, plane in wires)


def test_names_that_a_spreadsheet_would_calculate_are_written_as_text(tmp_path: Path) -> None:
    """The list is read back with the names of the fabric."""
    names = ("=1+1", "+cmd", "@sum", "-2")
    builder = TopologyBuilder("odd names")
    for name in names:
        builder.compute(name)
    for one, other in pairwise((*names, names[0])):
        builder.link(one, other, 1)
        builder.link(other, one, 1)
    text = treadle.cabling(builder.build()).sheet.csv()
    cells = {cell for line in text.splitlines() for cell in line.split(",")}
    assert {f"'{name}" for name in names} <= cells
    assert not cells & set(names)
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "b.csv").write_text(text.replace("'=1+1", "'@sum", 1))
    assert treadle.check_cabling(tmp_path / "a.csv", tmp_path / "a.csv").steps == ()
    (step, *_) = treadle.check_cabling(tmp_path / "a.csv", tmp_path / "b.csv").steps
    assert not {"'=1+1", "'@sum"} & {str(value) for value in vars(step).values()}
