"""What is said of resilience and of cabling, line by line, of results by hand."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle
from treadle.cli.building import cabling_report, resilience
from treadle.cli.output import Output
from treadle.errors import FormatError
from treadle.options.building import Racks
from treadle.options.designing import Design

GB = 10**9


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    """Lines that a call prints, each with single blanks."""

    def told(function: Any, *arguments: Any, **keywords: Any) -> list[str]:
        capsys.readouterr()
        function(Output(), *arguments, **keywords)
        return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    return told


def harm(cable: str, regained: float) -> Any:
    return SimpleNamespace(cable=cable, regained=regained)


def test_what_failures_leave(lines: Any) -> None:
    cut = SimpleNamespace(
        collective="allreduce",
        cables=1,
        nodes=0,
        shares=(0.5, 0.75, 1.0),
        mean=0.75,
        worst=0.5,
        worst_fabric="without a--b",
        harms=tuple(harm(name, 0.125) for name in ("a--b", "c--d", "e--f", "g--h")),
    )
    lost = SimpleNamespace(
        collective="alltoall",
        cables=0,
        nodes=2,
        shares=(1.0,),
        mean=1.0,
        worst=1.0,
        worst_fabric="x",
        harms=(),
    )
    result = SimpleNamespace(
        topology=treadle.parse("ring:4"),
        cables=4,
        whole={"allreduce": Fraction(5 * GB), "alltoall": Fraction(GB, 2)},
        levels=(cut, lost),
        seconds={"total": 1.0},
    )
    told = lines(resilience._print, result)
    assert told[:3] == [
        f"fabric {result.topology.name}: 4 cables",
        "optimum allreduce 5 GB/s, alltoall 500 MB/s busbw, nothing failed",
        "",
    ]
    assert "collective failed draws mean worst worst draw" in told
    assert "allreduce 1 cable 3 75.0% 50.0% without a--b" in told
    assert "alltoall 2 nodes 1 100.0% 100.0% x" in told
    assert told[-5:] == [
        "",
        "mean and worst: optimal busbw of what is left, as a share of the whole fabric's",
        "hurt most allreduce, 1 cable: a--b +12.5%, c--d +12.5%, e--f +12.5%",
        "what mending that cable alone gives back in the worst draw",
        "CPU s total 1.00",
    ]
    result.levels = (lost,)
    assert lines(resilience._print, result)[-2].startswith("mean and worst")


def totals(metres: int, bundles: int) -> Any:
    return SimpleNamespace(
        metres=Fraction(metres), bundles=bundles, in_rack=3, cables=8, longest=Fraction(25, 2)
    )


def built(**changes: Any) -> Any:
    sheet = {
        "placement": SimpleNamespace(racks=(1, 2, 3), rack_size=4, objective="metres"),
        "media": ("copper", "optical", "copper"),
        "planes": None,
        "metres": (Fraction(1), Fraction(5, 2)),
    }
    values = {"totals": totals(30, 7), "in_order": totals(40, 9)}
    values |= {key: changes.pop(key) for key in tuple(changes) if key in values}
    return SimpleNamespace(sheet=SimpleNamespace(**(sheet | changes)), **values)


PLACED = [
    "placement 3 racks of 4, for few metres: 30 m of cable, 7 bundles; in the order of numbers 40 m, 9 "
    "(25.0% fewer metres)",
    "3 of 8 cables stay in a rack, the longest has 12.5 m; 2 of copper, 1 optical",
]


def planes(price: float | None) -> Any:
    held = np.array([0, 1, 1, -1, 1, 0])
    return SimpleNamespace(plane=held, price=price, n_planes=2, box=SimpleNamespace(ports=32))


def test_cabling(lines: Any) -> None:
    told = cabling_report.print_cabling
    assert lines(told, built()) == PLACED
    assert lines(told, built(totals=None)) == []
    assert lines(told, built(planes=planes(1234567.0))) == [
        *PLACED,
        "4 m by way of boxes in the middle of the floor",
        "planes 2 of 32 ports hold 2 to 3 cables each, 1,234,567 for all their ports",
    ]
    assert lines(told, built(totals=None, planes=planes(None))) == [
        "planes 2 of 32 ports hold 2 to 3 cables each"
    ]


def changes(nodes: int | None, other: str | None, path: Path | None) -> Design:
    """Options of a change."""
    return Design({"grow": nodes, "reconfigure": other, "changes": path, "seed": 1})


def test_growth_and_rewiring(lines: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    moves = (SimpleNamespace(stage=1), SimpleNamespace(stage=2), SimpleNamespace(stage=2))
    grown = SimpleNamespace(
        steps=3, t_b=Fraction(5, 4), n_cut=1, moves=moves, is_connected=True, text=lambda: "grown"
    )
    rewired = SimpleNamespace(
        other=SimpleNamespace(name="there"), n_changed=5, n_in_order=9, text=lambda: "rewired"
    )
    monkeypatch.setattr("treadle.planning.grow", lambda fabric, nodes, *, seed, progress: grown)
    monkeypatch.setattr("treadle.planning.growth_summary", lambda plan: "summary")
    monkeypatch.setattr("treadle.planning.reconfigure", lambda fabric, other, *, seed, progress: rewired)
    monkeypatch.setattr("treadle.planning.rewiring_summary", lambda plan: "other summary")
    ring, path = treadle.parse("ring:4"), tmp_path / "moves.csv"

    def told(*asked: Any) -> list[str]:
        return lines(cabling_report.print_changes, ring, changes(*asked), None)

    first = "growth to 6 nodes: 3 steps, T_B 1.2500; 1 cables pulled (0.5 a new node), 2 added"
    assert told(6, None, path) == [first, "2 stages, connected after every move", f"changes {path}"]
    assert path.read_text() == "grown"
    grown.is_connected = False
    assert told(6, None, None) == [first, "2 stages, NOT connected after every move"]
    assert told(None, "x", path) == [
        "rewiring to there: 5 cross-connects to make, 9 with nodes in the order of their numbers",
        f"changes {path}",
    ]
    assert path.read_text() == "rewired"
    quiet = Output(quiet=True)
    assert cabling_report.print_changes(quiet, ring, changes(6, None, path), None) == {
        "growth": "summary",
        "changes_file": str(path),
    }
    assert cabling_report.print_changes(quiet, ring, changes(None, "x", None), None) == {
        "rewiring": "other summary"
    }


def test_options_that_do_not_go_together() -> None:
    for grow, other, path, said in (
        (
            6,
            "x",
            None,
            "--grow and --reconfigure exclude each other; one after the other is two plans",
        ),
        (
            None,
            None,
            Path("x"),
            "--changes is the file of --grow or --reconfigure; expected one of them beside it",
        ),
    ):
        with pytest.raises(FormatError) as caught:
            cabling_report.check_changes(changes(grow, other, path))
        assert str(caught.value) == said
    cabling_report.check_changes(changes(6, None, Path("x")))
    cabling_report.check_changes(changes(None, "x", Path("x")))
    cabling_report.check_changes(changes(None, None, None))
    cabling_report.check_racks(Racks({"rack_size": 4, "floor": "x"}, ["rack_size", "floor"]))
    cabling_report.check_racks(Racks({}))
    with pytest.raises(FormatError) as caught:
        cabling_report.check_racks(Racks({"floor": "x"}, ["floor"]))
    assert str(caught.value) == "--floor: valid only with racks; give --rack-size too"
