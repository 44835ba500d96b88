"""Placements against lengths added up by hand and against all of small fabrics, and hostile floors."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import treadle
from treadle.errors import FormatError
from treadle.finder.building.floor import Floor, load_floor
from treadle.finder.building.placement import (
    Objective,
    RackPlacement,
    assign_racks,
    cable_totals,
    placed_in_order,
)
from treadle.topologies import parse

FLOOR = Floor(per_row=2)


@pytest.mark.parametrize("seed", range(4))
def test_racks_are_the_best_of_all_for_six_nodes(seed: int) -> None:
    """All ways to put six nodes into three racks of two: as few metres, as few bundles."""
    random = np.random.default_rng(seed)
    pairs = [(a, b) for a in range(6) for b in range(a) if random.random() < 0.5] or [(0, 5)]
    builder = treadle.TopologyBuilder("random")
    names = [builder.compute(f"n{node}") for node in range(6)]
    for a, b in pairs:
        builder.duplex(names[a], names[b], 1)
    topology = builder.build()
    start = placed_in_order(topology, FLOOR, 2)
    least = {Objective.METRES: Fraction(10**9), Objective.BUNDLES: 10**9}
    for order in permutations(range(6)):
        rack, unit = np.zeros(6, np.int32), np.zeros(6, np.int32)
        rack[list(order)], unit[list(order)] = start.rack, start.unit
        one = cable_totals(topology, RackPlacement(FLOOR, start.racks, 2, rack, unit, None))
        least[Objective.METRES] = min(least[Objective.METRES], one.metres)
        least[Objective.BUNDLES] = min(least[Objective.BUNDLES], one.bundles)
    short = cable_totals(topology, assign_racks(topology, FLOOR, 2, objective=Objective.METRES))
    few = cable_totals(topology, assign_racks(topology, FLOOR, 2, objective=Objective.BUNDLES))
    assert float(short.metres) <= float(least[Objective.METRES]) * 1.01
    assert few.bundles == least[Objective.BUNDLES]


@pytest.mark.parametrize("seed", range(3))
def test_no_swap_within_a_rack_saves_cable(seed: int) -> None:
    random = np.random.default_rng(seed)
    builder = treadle.TopologyBuilder("random")
    names = [builder.compute(f"n{node}") for node in range(16)]
    for place, name in enumerate(names):
        for other in names[:place]:
            if random.random() < 0.15:
                builder.duplex(name, other, 1)
    topology = builder.build()
    found = assign_racks(topology, FLOOR, 8, objective=Objective.METRES)
    metres = cable_totals(topology, found).metres
    for one, other in permutations(range(16), 2):
        if found.rack[one] == found.rack[other]:
            unit = found.unit.copy()
            unit[[one, other]] = unit[[other, one]]
            assert cable_totals(topology, replace(found, unit=unit)).metres >= metres


def test_a_thousand_nodes_have_forty_percent_fewer_metres() -> None:
    topology = parse('extension_cayley("16x4", "15,12/1,1", "0,0", 16, 366, 994, 289, 815)')
    plain = cable_totals(topology, placed_in_order(topology, Floor(), 32))
    found = cable_totals(topology, assign_racks(topology, Floor(), 32, effort=0.25))
    assert found.metres < Fraction(6, 10) * plain.metres


def test_the_list_has_racks_and_lengths(tmp_path: Path) -> None:
    built = treadle.cabling("torus:4,4", rack_size=4, floor=FLOOR)
    rows = list(csv.DictReader(io.StringIO(built.sheet.csv())))
    assert len(rows) == 32
    assert built.totals is not None
    assert sum(float(row["length_m"]) for row in rows) == pytest.approx(float(built.totals.metres), abs=0.2)
    assert len({row["bundle"] for row in rows if row["from_rack"] != row["to_rack"]}) == built.totals.bundles
    assert all((float(row["length_m"]) <= 3) == (row["medium"] == "copper") for row in rows)
    assert "rack" not in treadle.cabling("torus:4,4").sheet.csv()


def test_floors_are_read(tmp_path: Path) -> None:
    path = tmp_path / "floor.toml"
    path.write_text(
        '[floor]\nracks_per_row = 3\nrack_pitch = "80cm"\nslack = "2m"\n[rack]\nunits = 10\nnode_units = 2\n'
    )
    floor = load_floor(path)
    assert (floor.per_row, floor.width, floor.slack, floor.units) == (3, Fraction(4, 5), 2, 10)
    assert [rack.name for rack in floor.standing(4)] == ["r0c0", "r0c1", "r0c2", "r1c0"]
    path.write_text('racks = [{name = "A", x = "0m", y = "0m"}, {name = "B", x = "1m", y = "7m"}]')
    built = treadle.cabling("ring:4", rack_size=2, floor=path)
    assert {row["from_rack"] for row in csv.DictReader(io.StringIO(built.sheet.csv()))} == {"A", "B"}
    with pytest.raises(FormatError, match="the floor has 2 racks, and 4 are needed"):
        treadle.cabling("ring:4", rack_size=1, floor=path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[floor]\nslack = 2", "floor.slack: expected a length with a unit, as in 60cm or 2.4m, found 2"),
        ('[floor]\nslack = "2 miles"', "expected a length with a unit"),
        ('[floor]\nrow_pitch = "0m"', "racks overlap"),
        ("[floor]\nracks_per_row = 0", "floor.racks_per_row: expected 1 to 1000000, found 0"),
        ('[floor]\nslak = "2m"', "slak"),
        ("[[racks]]\nname = 'a'", r"racks\[0\]: key 'x' is missing"),
        ('racks = [{name = "A", x = "0m", y = "0m"}, {name = "A", x = "1m", y = "7m"}]', "named twice"),
        ("[floor", "not TOML"),
        ("a = " + "[" * 500, "not TOML|nested too deep"),
        ("#" * 2000, "longer than 1000 characters"),
        ("\n" * (2**20 + 1), "larger than"),
    ],
)
def test_floors_that_say_something_else(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "floor.toml"
    path.write_text(text)
    with pytest.raises(FormatError, match=message) as caught:
        load_floor(path)
    assert str(path) in str(caught.value)


def test_racks_that_are_too_small() -> None:
    with pytest.raises(FormatError, match=r"--rack-size 49: a rack has 48 units .* expected 1 to 48"):
        treadle.cabling("torus:8,8", rack_size=49)
    with pytest.raises(FormatError, match="leaves no unit of 48 for switches"):
        treadle.cabling("fat_tree:4", rack_size=48)
