"""Cables among boxes, judged by counting ports; colours by their definition."""

from __future__ import annotations

import csv
import io
from collections import Counter
from math import ceil

import pytest

import treadle
from treadle.errors import FormatError, InfeasibleError
from treadle.finder.cabling import cables
from treadle.planning.building.optical_planes import OpticalBox, _colours, parse_box, share_among
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
    found = share_among(wires, OpticalBox(ports))
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
    rows = list(csv.DictReader(io.StringIO(built.sheet.text())))
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
