"""What cabling, resilience and changes of a fabric report, and options that exclude each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import treadle
from harness.snapshots import check
from treadle.cli.designing import design
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
