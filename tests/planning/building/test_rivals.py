"""Rows against bounds and values of their own fabrics, and prices added up by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import treadle
from treadle.errors import FormatError
from treadle.finder.building.build_prices import BuildPrices, load_prices
from treadle.finder.building.cable_sheet import cable_sheet
from treadle.finder.building.floor import Floor
from treadle.finder.building.optical_planes import OpticalBox
from treadle.finder.building.placement import assign_racks, cable_metres
from treadle.finder.building.reference_topologies import (
    ReferenceRow,
    _Site,
    _switched,
    _through_boxes,
)
from treadle.finder.cabling import cables
from treadle.finder.designing.fabric import describe_fabric
from treadle.planning import compare_references
from treadle.topologies import parse


def test_rows_are_worth_what_their_fabrics_are() -> None:
    found = compare_references("torus:4,4", box="64,100")
    assert [row.switches for row in found.rows[:2]] == [0, 1]
    for row in found.rows:
        if row.switches == 0:
            fabric = parse(row.name)
            facts = describe_fabric(fabric)
            assert facts.allgather is not None
            assert (row.steps, row.t_b) == (facts.allgather.diameter, facts.allgather.t_b)
            best = treadle.bound(fabric, "alltoall").algbw
            assert row.alltoall == pytest.approx(float(best) / row.ports, rel=2e-3)
        elif " x " in row.name:
            planes, name = row.name.split(" x ")
            fabric = parse(name)
            rate = treadle.bound(fabric, "allgather").algbw / fabric.bandwidths.max()
            assert float(row.t_b) == pytest.approx(float(1 / rate), rel=1e-9)
            exchange = treadle.bound(fabric, "alltoall").algbw / fabric.bandwidths.max()
            assert row.alltoall == pytest.approx(float(exchange), rel=2e-3)
            assert row.switches == int(planes) * len(fabric.switches)


def test_prices_are_added_up() -> None:
    prices = BuildPrices(node_port=Fraction(7), copper_reach=Fraction(4))
    row = compare_references("torus:4,4", rack_size=4, prices=prices).rows[0]
    fabric = parse("torus:4,4")
    lengths = cable_metres(fabric, assign_racks(fabric, Floor(), 4, effort=0.25))
    wanted = sum((23 + 16 * one if one <= 4 else 4 * one + 290 for one in lengths), Fraction(16 * 4 * 7))
    assert (row.price, row.metres, row.cables) == (wanted, sum(lengths), len(cables(fabric)))


@pytest.mark.parametrize(("ports", "steps"), [(1, 3), (2, 2), (5, 1)])
def test_planes_of_switches_are_added_up(ports: int, steps: int) -> None:
    """Six nodes on two leaves with three spines: 12 cables, 18 of whose ends are at switches."""
    plane, prices = parse("leaf_spine(2, 3, gpus_per_leaf=3)"), BuildPrices(copper_reach=Fraction(4))
    lengths = cable_metres(plane, assign_racks(plane, Floor(), 2, seed=3, effort=0.25))
    each = sum(
        (23 + 16 * one if one <= 4 else 4 * one + 290 for one in lengths), 18 * 350 + 6 * Fraction(175)
    )
    assert _switched(plane, "fat", ports, _Site(2, Floor(), prices, 3)) == ReferenceRow(
        f"{ports} x fat",
        *(6, ports, 12 * ports, 5 * ports, steps),
        *(Fraction(5, 6), 1.2, False),
        *(ports * sum(lengths), ports * each),
    )


def test_fabrics_through_boxes_pay_for_fibres_and_boxes() -> None:
    """Whatever stands in the plain row stays but metres and price: two boxes of 40 ports for 32 cables."""
    fabric, prices = parse("torus:4,4"), BuildPrices(node_port=Fraction(7))
    plain = ReferenceRow("plain", 16, 4, 32, 9, 5, Fraction(1, 3), 0.25, True, Fraction(1), Fraction(2))
    box = OpticalBox(40, Fraction(25))
    sheet = cable_sheet(fabric, assign_racks(fabric, Floor(), 4, seed=3, effort=0.25), box, prices)
    assert sheet.planes is not None
    count = sheet.planes.n_planes
    fibres = sum((4 * one + 290 for one in sheet.metres), Fraction(0))
    assert _through_boxes(fabric, plain, box, _Site(4, Floor(), prices, 3)) == replace(
        plain,
        name=f"plain, {count} boxes of 40",
        switches=count,
        metres=sum(sheet.metres, Fraction(0)),
        price=16 * 4 * 7 + fibres + 1000 * count,
    )


def test_prices_are_read(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('source = "quote"\n[switch]\nport = 12.5\nradix = 32\n[copper]\nreach = "5m"\n')
    prices = load_prices(path)
    assert (prices.switch_port, prices.radix, prices.copper_reach) == (Fraction(25, 2), 32, 5)
    for text, message in (
        ("", "file: key 'source' is missing"),
        ('source = "x"\n[switch]\nport = -1', r"switch.port: expected a number from 0 to 10\*\*9, found -1"),
        ('source = "x"\n[optical]\nmeter = 1', "meter"),
        ('source = "x"\n[switch]\nradix = 1', "radix: expected 2 to 4096, found 1"),
        ('source = "x"\nswitch = 3', "switch: expected a table, found 3"),
    ):
        path.write_text(text)
        with pytest.raises(FormatError, match=message) as caught:
            load_prices(path)
        assert str(path) in str(caught.value)
    with pytest.raises(FormatError, match="has switches, or its"):
        compare_references("dgx_a100:1")
