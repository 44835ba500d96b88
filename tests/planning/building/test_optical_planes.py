"""Cables among boxes, judged by counting ports; colours by their definition."""

from __future__ import annotations

import csv
import io
from collections import Counter
from fractions import Fraction

import pytest

import treadle
from treadle.errors import FormatError, InfeasibleError
from treadle.finder.building import optical_planes
from treadle.finder.building.optical_planes import OpticalBox, divide_among, parse_box
from treadle.finder.cabling import Cable
from treadle.topologies import parse


def test_the_issue_of_boxes_that_are_too_few() -> None:
    """2048 ports of 512 nodes: in panels of 1008 and in switches of 384."""
    fabric = parse("torus(16, 32)")
    for text, boxes, price in (("1008,100", 3, 302_400), ("384,520", 6, 1_198_080)):
        built = treadle.cabling(fabric, ocs=text)
        assert built.sheet.planes is not None
        assert (built.sheet.planes.n_planes, built.sheet.planes.price) == (boxes, price)
    with pytest.raises(InfeasibleError, match=r"take 2048 ports, and 5 boxes of 384 have 1920: 128 short; 6"):
        treadle.cabling(fabric, ocs="384,520,5")


def test_the_list_names_planes_and_ports() -> None:
    built = treadle.cabling("generalized_kautz(3, 10)", ocs="8", rack_size=5)
    rows = list(csv.DictReader(io.StringIO(built.sheet.csv())))
    planes = built.sheet.planes
    assert planes is not None
    assert [int(row["plane"] or -1) for row in rows] == planes.plane.tolist()
    for sides in (("from_node", "from_port"), ("to_node", "to_port")):
        met = Counter((row[sides[0]], row[sides[1]]) for row in rows)
        assert max(met.values()) == 1
        assert {int(port) for _, port in met} == {0, 1, 2}


@pytest.mark.parametrize(
    "text", ["", "x", "1", "-8", "384,", "384,5,0.5", "384,5,0", "1.5", "1,2,3,4", "9" * 13]
)
def test_what_is_no_box(text: str) -> None:
    with pytest.raises(FormatError, match="--ocs"):
        parse_box(text)


def wire(tail: int, head: int, *, duplex: bool = True) -> Cable:
    return Cable(tail, 0, head, 0, duplex, 0)


def test_prices_of_all_ports() -> None:
    wires = [wire(0, 1), wire(1, 2), wire(2, 3)]
    assert divide_among(wires, OpticalBox(4, Fraction(5, 2))).price == 2 * 4 * Fraction(5, 2)
    assert divide_among(wires, OpticalBox(4)).price is None


def test_duplex_cables_first_and_links_in_what_they_leave() -> None:
    """Sizes 2, 2, 2 and 1 in two boxes of four; a port that is joined to itself stays out."""
    wires = [wire(0, 1, duplex=False), wire(0, 1), wire(2, 2), wire(1, 2), wire(2, 0)]
    found = divide_among(wires, OpticalBox(4))
    assert found.n_planes == 2
    assert found.plane.tolist() == [1, 0, -1, 0, 1]
    assert found.ports.tolist() == [[2, 2], [0, 1], [-1, -1], [2, 3], [0, 1]]


def test_boxes_are_filled_colour_by_colour() -> None:
    """Two links out of either node: one of each in a box."""
    wires = [wire(0, 1, duplex=False)] * 2 + [wire(2, 3, duplex=False)] * 2
    assert divide_among(wires, OpticalBox(2)).plane.tolist() == [0, 1, 0, 1]


def test_nothing_but_ports_joined_to_themselves() -> None:
    found = divide_among([wire(1, 1), wire(2, 2, duplex=False)], OpticalBox(4, Fraction(1)))
    assert (found.n_planes, found.plane.tolist(), found.price) == (1, [-1, -1], 4)


def test_as_many_cables_as_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wires = [wire(0, 1), wire(1, 2), wire(2, 0)]
    assert optical_planes.MAX_CABLES == 200_000
    monkeypatch.setattr(optical_planes, "MAX_CABLES", 3)
    assert divide_among(wires, OpticalBox(6)).n_planes == 1
    with pytest.raises(FormatError) as caught:
        divide_among([*wires, wire(0, 3)], OpticalBox(6))
    assert str(caught.value) == "--ocs: 4 cables, at most 3 are shared out"
