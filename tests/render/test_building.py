"""What cabling, resilience and changes of a fabric report, and options that exclude each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import treadle
from harness.snapshots import check
from treadle.cli.building.cabling import check_racks
from treadle.cli.designing import design
from treadle.errors import FormatError
from treadle.options.building import Racks
from treadle.options.designing import Design
from treadle.render.building import cabling_rows, expansion_row, reference_rows, resilience_rows, rewiring_row


def test_resilience() -> None:
    found = treadle.resilience("torus:3,3", cables=[1, 4], nodes=[2], samples=2, collectives=["allgather"])
    level = found.levels[0]
    many = replace(level, harms=level.harms[:1] * 4)
    timed = replace(found, seconds={"total": 1.0})
    check("resilience", resilience_rows(timed), resilience_rows(replace(timed, levels=(many,))))


def test_cabling() -> None:
    placed = treadle.cabling("torus:4,4", rack_size=4)
    check("cabling", cabling_rows(placed), cabling_rows(treadle.cabling("ring:3")))


def test_changes() -> None:
    grown, rewired = treadle.grow("ring:3", 4), treadle.reconfigure("torus:3,4", "circulant:12,3,4")
    check("changes", [expansion_row(grown, 3)], [rewiring_row(rewired)])


def test_references() -> None:
    check("references", reference_rows(treadle.planning.compare_references("ring:8"), "R"))


def changes(nodes: int | None, other: str | None, path: Path | None) -> Design:
    return Design({"grow": nodes, "reconfigure": other, "changes": path, "seed": 1})


def test_files_of_changes(tmp_path: Path) -> None:
    path = tmp_path / "moves.csv"
    for asked, label in (((4, None, path), "growth"), ((None, "ring:3", path), "rewiring")):
        rows = list(design._changes(treadle.parse("ring:3"), changes(*asked), None))  # type: ignore[arg-type]
        assert [one.label for one in rows] == [label, "changes"]
        assert path.read_text()
        path.unlink()


def test_options_that_do_not_go_together() -> None:
    cases: list[tuple[Any, str]] = [
        ((6, "x", None), "--grow and --reconfigure exclude each other; plan one after the other"),
        ((None, None, Path("x")), "--changes is the file of --grow or --reconfigure; give one of them too"),
    ]
    for asked, said in cases:
        with pytest.raises(FormatError) as caught:
            design._check_changes(changes(*asked))
        assert str(caught.value) == said
    with pytest.raises(FormatError, match=r"^--costs: nothing is priced; give --against"):
        design._check_changes(Design({"costs": Path("x")}))
    design._check_changes(Design({"costs": Path("x"), "against": True}))
    for asked in ((6, None, Path("x")), (None, "x", Path("x")), (None, None, None)):
        design._check_changes(changes(*asked))
    check_racks(Racks({"rack_size": 4, "floor": "x"}, ["rack_size", "floor"]))
    check_racks(Racks({}))
    with pytest.raises(FormatError) as caught:
        check_racks(Racks({"floor": "x"}, ["floor"]))
    assert str(caught.value) == "--floor: valid only with racks; give --rack-size too"
