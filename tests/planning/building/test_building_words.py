"""Rivals, racks and tables of cables: sizes at their limits, and what is refused, of figures made up."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import treadle
from harness.summaries import cabling_summary, check_summary, rivalry_summary
from treadle.finder.building.build_prices import BuildPrices
from treadle.finder.building.cabling_check import (
    CableFault,
    CablingReport,
    PlugAction,
    Replugging,
)
from treadle.finder.building.reference_topologies import (
    ReferenceComparison,
    ReferenceRow,
)


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
