"""Rivals, racks and tables of cables: sizes at their limits, and what is refused, of figures made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle
from harness.summaries import cabling_summary, check_summary, rivalry_summary
from treadle.context import TimeLimitError, context
from treadle.errors import FormatError, TopologyError, TreadleError
from treadle.finder.building import installed_fabric
from treadle.finder.building.build_prices import BuildPrices
from treadle.finder.building.cabling_check import (
    CableFault,
    CablingReport,
    PlugAction,
    Replugging,
)
from treadle.finder.building.floor import Floor, Rack
from treadle.finder.building.installed_fabric import as_box, as_floor, as_prices
from treadle.finder.building.optical_planes import OpticalBox
from treadle.finder.building.placement import (
    Objective,
    RackPlacement,
    _rack_prices,
    _swap_once,
    _units_in_order,
    cable_totals,
    placed_in_order,
)
from treadle.finder.building.reference_topologies import (
    ReferenceComparison,
    ReferenceRow,
    _sides,
    nearest_names,
    switched_names,
)
from treadle.topologies import TopologyBuilder


@pytest.mark.parametrize(
    ("nodes", "dimensions", "sides"),
    [
        (12, 2, (3, 4)),
        (11, 2, (3, 4)),  # 10 has sides of 2 and 5 only
        (8, 1, (8,)),
        (27, 3, (3, 3, 3)),
        (24, 3, (2, 3, 4)),
        (2, 1, (2,)),
        (7, 2, (2, 3)),  # 6 is as near as 8, and more even
    ],
)
def test_sides_of_the_nearest_torus(nodes: int, dimensions: int, sides: tuple[int, ...]) -> None:
    assert _sides(nodes, dimensions) == sides


@pytest.mark.parametrize(
    ("nodes", "degree", "names"),
    [
        # a (a h + 1): 10 of (2, 2), 12 of (3, 1); 2 q^2: 18 of 3, 32 of 4
        (10, 5, ["torus(3, 3)", "dragonfly(2, 2)", "slimfly(3)"]),
        (12, 1, ["torus(12)", "dragonfly(3, 1)", "slimfly(3)"]),
        (36, 4, ["torus(6, 6)", "dragonfly(4, 2)", "slimfly(4)"]),
    ],
)
def test_networks_of_the_nearest_size(nodes: int, degree: int, names: list[str]) -> None:
    assert list(nearest_names(nodes, degree)) == names


@pytest.mark.parametrize(
    ("nodes", "radix", "names"),
    [
        # k^3 / 4 hosts: 16 of 4, 54 of 6
        (16, 4, ["fat_tree(4)"]),
        (16, 8, ["fat_tree(4)", "leaf_spine(4, 4, gpus_per_leaf=4)"]),
        (17, 6, ["fat_tree(4)", "leaf_spine(6, 3, gpus_per_leaf=3)"]),
        (30, 6, ["fat_tree(6)"]),
        (18, 6, ["fat_tree(4)", "leaf_spine(6, 3, gpus_per_leaf=3)"]),
        (19, 6, ["fat_tree(4)"]),
        (4, 3, ["fat_tree(2)"]),
        (3, 3, ["fat_tree(2)", "leaf_spine(3, 1, gpus_per_leaf=1)"]),
    ],
)
def test_switched_networks_of_the_nearest_size(nodes: int, radix: int, names: list[str]) -> None:
    """A fat tree whose number of hosts is nearest by its ratio; leaves that just hold the nodes."""
    assert list(switched_names(nodes, radix)) == names


def row(**values: Any) -> ReferenceRow:
    base: dict[str, Any] = {"name": "a", "nodes": 8, "ports": 4, "cables": 12, "switches": 3, "steps": 5}
    base |= {"t_b": Fraction(3, 4), "alltoall": 0.5, "is_bound": True}
    base |= {"metres": Fraction(20), "price": Fraction(1000)}
    return ReferenceRow(**{**base, **values})


def test_rates_for_equal_money() -> None:
    """Half the price a node, twice the ports: four times the allreduce at the same T_B."""
    first = row()
    other = row(name="b", nodes=16, ports=8, price=Fraction(1000), alltoall=0.25, is_bound=False)
    found = ReferenceComparison((first, other), BuildPrices(source="s", currency="c"))
    assert (first.price_per_node, first.allreduce_rate) == (125, Fraction(8, 3))
    assert found.for_equal_price(first) == (1.0, 1.0)
    assert found.for_equal_price(other) == (4.0, 2.0)
    assert found.records() == [
        {
            "fabric": "a",
            "nodes": 8,
            "ports_per_node": 4,
            "cables_per_node": 1.5,
            "switches": 3,
            "steps": 5,
            "t_b": 0.75,
            "alltoall_per_port": 0.5,
            "alltoall_is_bound": True,
            "metres_per_node": 2.5,
            "price_per_node": 125.0,
            "allreduce_for_equal_price": 1.0,
            "alltoall_for_equal_price": 1.0,
        },
        {
            "fabric": "b",
            "nodes": 16,
            "ports_per_node": 8,
            "cables_per_node": 0.75,
            "switches": 3,
            "steps": 5,
            "t_b": 0.75,
            "alltoall_per_port": 0.25,
            "alltoall_is_bound": False,
            "metres_per_node": 1.25,
            "price_per_node": 62.5,
            "allreduce_for_equal_price": 4.0,
            "alltoall_for_equal_price": 2.0,
        },
    ]
    told = rivalry_summary(found)
    assert told == {"against": found.records(), "price_source": "s", "currency": "c"}


def test_what_is_taken_as_a_floor_a_box_and_prices() -> None:
    floor, box, prices = Floor(per_row=3), OpticalBox(4), BuildPrices(radix=9)
    assert (as_floor(None, "x"), as_floor(floor, "x")) == (Floor(), floor)
    assert (as_box(None, "x"), as_box(box, "x"), as_box("4", "x")) == (None, box, box)
    assert (as_prices(None, "x"), as_prices(prices, "x")) == (BuildPrices(), prices)
    takers: tuple[tuple[Callable[[Any, str], object], str], ...] = (
        (as_floor, "a Floor or the path of its file"),
        (as_box, "an OpticalBox or a string such as 384,520"),
        (as_prices, "BuildPrices or the path of their file"),
    )
    for take, expected in takers:
        with pytest.raises(TreadleError) as caught:
            take(3, "own")
        assert expected in str(caught.value)
        assert str(caught.value).startswith("own")


def test_what_json_says_of_cables() -> None:
    built = treadle.cabling("ring:6", rack_size=2, ocs="4,7", seed=1)
    told = cabling_summary(built)
    assert told["cables"] == 6
    assert built.sheet.planes is not None
    assert told["planes"] == {"ports": 4, "boxes": 3, "cables_of_boxes": [2, 2, 2], "price": 84.0}
    placement: Any = told["placement"]
    assert (placement["objective"], placement["racks"], placement["copper_cables"]) == ("metres", 3, 0)
    for name, totals in (("placed", built.totals), ("in_order", built.in_order)):
        assert totals is not None
        assert placement[name] == {
            "metres": float(totals.metres),
            "bundles": totals.bundles,
            "in_rack": totals.in_rack,
            "longest_m": float(totals.longest),
        }
    bare = treadle.cabling("ring:6", ocs="12")
    assert (bare.totals, bare.in_order) == (None, None)
    assert cabling_summary(bare) == {
        "cables": 6,
        "planes": {"ports": 12, "boxes": 1, "cables_of_boxes": [6], "price": None},
    }


def test_nodes_in_order_with_switches_above() -> None:
    """Five nodes of two units in racks of two, and four switches over three racks."""
    builder = TopologyBuilder("odd")
    nodes = [builder.compute(f"n{node}") for node in range(5)]
    switches = [builder.switch(f"s{node}") for node in range(4)]
    for place, node in enumerate(nodes):
        builder.duplex(node, switches[place % 4], 1)
    fabric = builder.build()
    floor = Floor(units=6, node_units=2)
    found = placed_in_order(fabric, floor, 2)
    assert found.rack.tolist() == [0, 0, 1, 1, 2, 0, 0, 1, 2]
    assert found.unit.tolist() == [1, 3, 1, 3, 1, 5, 6, 5, 5]
    assert (len(found.racks), found.rack_size, found.objective) == (3, 2, None)
    again = _units_in_order(fabric, floor, 2, np.array([1, 0, 1, 0, 2, 1, 1, 0, 2], dtype=np.int32))
    assert again.tolist() == [1, 1, 3, 3, 1, 5, 6, 5, 5]
    tight = placed_in_order(fabric, replace(floor, units=3, node_units=1), 2)
    assert len(tight.racks) == 4, "a switch each"
    for size, said in (
        (0, "--rack-size 0: a rack has 6 units and a node takes 2, so expected 1 to 3"),
        (4, "--rack-size 4: a rack has 6 units and a node takes 2, so expected 1 to 3"),
        (3, "--rack-size 3 leaves no unit of 6 for switches; take fewer nodes a rack"),
    ):
        with pytest.raises(FormatError) as caught:
            placed_in_order(fabric, floor, size)
        assert str(caught.value) == said


def test_prices_between_racks() -> None:
    """Both ways to the tray from half of the nodes' height; a third of that height within a rack."""
    racks = (Rack("a", Fraction(0), Fraction(0)), Rack("b", Fraction(2), Fraction(1)))
    floor = Floor(racks, units=20, node_units=2, unit_height=Fraction(1, 10), tray=Fraction(1))
    start: Any = SimpleNamespace(floor=floor, racks=racks, rack_size=6)
    # the third unit's node: its middle is 0.3 m high, so 2.7 m are left to the tray
    assert _rack_prices(start).tolist() == [[400, 3000 + 5400], [8400, 400]]
    start.rack_size = 1
    assert _rack_prices(start)[0].tolist() == [round(200 / 3), 3000 + 2 * 2900]


def test_swaps_in_a_rack_bring_neighbours_together() -> None:
    """0 and 2 are joined, 1 has a cable out of the rack: it goes to the top."""
    unit = np.array([1, 2, 3, 9], dtype=np.int32)
    near: list[list[int]] = [[2], [], [0], []]
    out = np.array([0, 1, 0, 0])
    assert _swap_once([0, 1, 2], near, out, unit)
    assert unit.tolist() == [1, 3, 2, 9]
    assert not _swap_once([0, 1, 2], near, out, unit)
    # a switch of the rack stays where it is
    unit = np.array([1, 2, 9], dtype=np.int32)
    assert _swap_once([0, 1], [[2], [], [0]], np.zeros(3, dtype=np.int64), unit)
    assert unit.tolist() == [2, 1, 9]


def test_fabrics_without_cables_have_no_totals() -> None:
    builder = TopologyBuilder("apart")
    builder.compute("a")
    builder.compute("b")
    rack = np.zeros(2, dtype=np.int32)
    floor = Floor()
    with pytest.raises(TopologyError) as caught:
        cable_totals(
            builder.build(), RackPlacement(floor, floor.standing(1), 2, rack, rack, Objective.METRES)
        )
    assert str(caught.value) == "apart: has no cables"


def test_tables_of_what_is_to_be_done() -> None:
    steps = (
        Replugging(CableFault.SWAPPED, PlugAction.MOVE, ("a", 1), ("b", 2), ("c", 3), is_held=True),
        Replugging(CableFault.MISSING, PlugAction.LAY, ("d", 4), ("e", 5)),
        Replugging(CableFault.SURPLUS, PlugAction.TAKE_OUT, ("f", 6), ("g", 7)),
        Replugging(CableFault.WRONG, PlugAction.MOVE, ("h", 8), ("i", 9), ("j", 0)),
    )
    report = CablingReport(9, 8, 5, steps, ("doubt",), "lldp")
    assert (report.n_moves, report.n_missing, report.n_surplus) == (2, 1, 1)
    base = {"fault": "swapped", "action": "move", "at": "a port 1", "to": "b port 2"}
    rows = [
        {**base, "stays": "c port 3", "is_held": True},
        {
            "fault": "missing",
            "action": "lay",
            "at": "d port 4",
            "to": "e port 5",
            "stays": None,
            "is_held": False,
        },
    ]
    assert report.records()[:2] == rows
    assert [row["action"] for row in report.records()] == ["move", "lay", "take out", "move"]
    assert check_summary(report) == {
        "planned": 9,
        "seen": 8,
        "right": 5,
        "moves": 2,
        "missing": 1,
        "surplus": 1,
        "kind": "lldp",
        "doubts": ["doubt"],
        "repluggings": report.records(),
    }


def test_searches_end_when_their_time_is_up() -> None:
    """And tell how far they are meanwhile."""
    told: list[str] = []
    treadle.cabling("torus:8,8", rack_size=8, progress=lambda *words: told.append(words[0]))
    assert "placement" in told
    with pytest.raises(TimeLimitError):
        treadle.cabling("torus:16,16", rack_size=16, time_limit_s=0.0)  # the core must outlast 1 ms
    assert len(treadle.cabling("torus:4,4", time_limit_s=0.0).sheet.wires) == 32
    with pytest.raises(TimeLimitError):
        treadle.reconfigure("torus(8, 8)", "circulant(64, 1, 9)", time_limit_s=0.0)


def test_seeds_and_objectives_are_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def placed(fabric: Any, floor: Floor, size: int, **words: Any) -> RackPlacement:
        asked.append((floor, size, words["objective"], words["seed"], context().deadline is None))
        return placed_in_order(fabric, floor, size)

    monkeypatch.setattr(installed_fabric, "assign_racks", placed)
    floor = Floor(per_row=3)
    treadle.cabling("ring:6", rack_size=2, floor=floor, objective="bundles", seed=5, time_limit_s=9.0)
    treadle.cabling("ring:6", rack_size=3)
    assert asked == [
        (floor, 2, Objective.BUNDLES, 5, False),
        (Floor(), 3, Objective.METRES, 0, True),
    ]
    far = treadle.cabling("ring:6", rack_size=2, costs=BuildPrices(copper_reach=Fraction(1000)))
    assert set(far.sheet.media) == {"copper"}
