"""Cables among boxes, judged by counting ports; colours by their definition."""

from __future__ import annotations

import csv
import io
from collections import Counter
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

import treadle
from treadle.errors import FormatError, InfeasibleError
from treadle.finder.building import optical_planes
from treadle.finder.building.optical_planes import OpticalBox, _colours, _parts, divide_among, parse_box
from treadle.finder.cabling import Cable, cables
from treadle.topologies import parse

FABRICS = (
    "generalized_kautz(4, 60)",
    "torus(5, 6)",
    "complete(7)",
    "ring(3)",
    "kautz(3, 2)",
    "petersen_line()",
)


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("ports", [2, 5, 17, 64, 1008])
def test_every_box_holds_its_part(name: str, ports: int) -> None:
    wires = cables(parse(name))
    found = divide_among(wires, OpticalBox(ports))
    inputs: Counter[tuple[int, int]] = Counter()
    outputs: Counter[tuple[int, int]] = Counter()
    for wire, plane, (one, other) in zip(wires, found.plane.tolist(), found.ports.tolist(), strict=True):
        assert (plane < 0) == (wire.tail == wire.head)
        if plane >= 0:
            assert 0 <= one < ports
            assert 0 <= other < ports
            inputs[plane, one] += 1
            outputs[plane, other] += 1
            if wire.is_duplex:
                assert one != other
                inputs[plane, other] += 1
                outputs[plane, one] += 1
    assert set(inputs.values()) | set(outputs.values()) == {1}
    used = [wire for wire in wires if wire.tail != wire.head]
    total = sum(2 if wire.is_duplex else 1 for wire in used)
    # where a port of every box may stay empty beside duplex cables
    assert (
        ceil(total / ports)
        <= found.n_planes
        <= ceil(total / (ports - (ports % 2 if any(w.is_duplex for w in used) else 0)))
    )
    assert len({plane for plane, _ in inputs}) == found.n_planes


@pytest.mark.parametrize("name", FABRICS)
def test_a_node_has_few_cables_of_a_colour(name: str) -> None:
    wires = [wire for wire in cables(parse(name)) if wire.tail != wire.head]
    met: Counter[tuple[int, int]] = Counter()
    for wire, colour in zip(wires, _colours(wires), strict=True):
        met.update(((wire.tail, colour), (wire.head, colour)))
    assert max(met.values()) <= 2
    degree = max(Counter(node for wire in wires for node in (wire.tail, wire.head)).values())
    assert len({colour for _, colour in met}) <= ceil(degree / 2)


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


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("2", OpticalBox(2)),
        ("1000000", OpticalBox(10**6)),
        (" 384 , 5.25 , 7 ", OpticalBox(384, Fraction(21, 4), 7)),
        ("384,0,1", OpticalBox(384, Fraction(0), 1)),
        ("3,123456789012", OpticalBox(3, Fraction(123_456_789_012))),
    ],
)
def test_boxes_as_typed(text: str, box: OpticalBox) -> None:
    assert parse_box(text) == box


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1", "--ocs '1': expected 2 to 10**6 ports"),
        ("1000001", "--ocs '1000001': expected 2 to 10**6 ports"),
        ("2.5", "--ocs '2.5': expected 2 to 10**6 ports"),
        ("4,5,0", "--ocs '4,5,0': expected a whole number of boxes"),
        ("4,5,1.5", "--ocs '4,5,1.5': expected a whole number of boxes"),
        ("4,5,6,7", "--ocs '4,5,6,7': expected PORTS, PORTS,PRICE or PORTS,PRICE,COUNT, as in 384,520"),
        (
            "4,1234567890123",
            "--ocs '4,1234567890123': expected PORTS, PORTS,PRICE or PORTS,PRICE,COUNT, as in 384,520",
        ),
        ("x" * 61, f"--ocs '{'x' * 60}': expected PORTS, PORTS,PRICE or PORTS,PRICE,COUNT, as in 384,520"),
    ],
)
def test_what_is_said_of_no_box(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_box(text)
    assert str(caught.value) == message


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


@pytest.mark.parametrize(
    ("count", "ports", "parts"),
    [
        (1, 99, [[0, 1, 2, 3, 4]]),
        (2, 4, [[0, 1], [2, 3, 4]]),  # 7 half ports: 4 and 3
        (2, 3, [[0], [1, 2, 3, 4]]),  # the last takes what is left, too much as it is
        (3, 3, [[0], [1, 2], [3, 4]]),
        (3, 99, [[0], [1, 2], [3, 4]]),  # thirds: 3, of which a cable of 2 fits; ceil(5 / 2)
        (
            7,
            9,
            [[], [0], [], [1], [2], [3], [4]],
        ),  # ceil(7 / 7), ceil(7 / 6), ceil(5 / 5), ceil(5 / 4), 1, 1, 1
    ],
)
def test_parts_of_about_equal_size(count: int, ports: int, parts: list[list[int]]) -> None:
    sizes = np.array([2, 2, 1, 1, 1])
    found = [list(part) for part in _parts(sizes, count, ports)]
    assert found == parts


def test_boxes_that_are_too_few() -> None:
    """Three duplex cables in boxes of three ports: a port of each stays empty."""
    wires = [wire(0, 1), wire(1, 2), wire(2, 0)]
    assert divide_among(wires, OpticalBox(3, None, 3)).n_planes == 3
    with pytest.raises(InfeasibleError) as caught:
        divide_among(wires, OpticalBox(3, None, 2))
    assert str(caught.value) == (
        "--ocs: the cables take 6 ports, and 2 boxes of 3 have 6: 1 short; 3 boxes hold them"
    )
    with pytest.raises(InfeasibleError) as caught:
        divide_among(wires, OpticalBox(2, None, 1))
    assert str(caught.value) == (
        "--ocs: the cables take 6 ports, and 1 boxes of 2 have 2: 4 short; 3 boxes hold them"
    )


def test_as_many_cables_as_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    wires = [wire(0, 1), wire(1, 2), wire(2, 0)]
    assert optical_planes.MAX_CABLES == 200_000
    monkeypatch.setattr(optical_planes, "MAX_CABLES", 3)
    assert divide_among(wires, OpticalBox(6)).n_planes == 1
    with pytest.raises(FormatError) as caught:
        divide_among([*wires, wire(0, 3)], OpticalBox(6))
    assert str(caught.value) == "--ocs: 4 cables, at most 3 are shared out"


@pytest.mark.parametrize("seed", range(20))
def test_links_have_as_many_colours_as_the_largest_degree(seed: int) -> None:
    """Koenig's theorem, on random one-way links: one out and one in of each colour at every node."""
    random = np.random.default_rng(seed)
    wires = [
        wire(int(tail), int(head), duplex=False)
        for tail, head in random.integers(0, 5, (int(random.integers(1, 16)), 2))
        if tail != head
    ] or [wire(0, 1, duplex=False)]
    colours = _colours(wires)
    out = Counter((one.tail, colour) for one, colour in zip(wires, colours, strict=True))
    into = Counter((one.head, colour) for one, colour in zip(wires, colours, strict=True))
    assert max(out.values()) == max(into.values()) == 1
    degrees = [*Counter(one.tail for one in wires).values(), *Counter(one.head for one in wires).values()]
    assert set(colours) <= set(range(max(degrees)))
