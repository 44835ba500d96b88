"""`treadle resilience`, `treadle cabling`, and what `treadle design` says of racks and boxes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from treadle.cli.main import main


def test_resilience_tells_mean_worst_and_cables(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["resilience", "torus:3,3", "--cables", "1", "--nodes", "1", "--samples", "2"]
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "worst draw" in text
    assert "hurt most   alltoall, 1 cable: n" in text
    assert main([*argv, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert [(one["collective"], one["cables"]) for one in value["levels"]][:2] == [
        ("allreduce", 1),
        ("alltoall", 1),
    ]
    assert main(["resilience", "torus:3,3", "--cables", "x"]) == 2
    assert "--cables: found 'x'" in capsys.readouterr().err


def test_lists_with_racks_and_planes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "cables.csv"
    argv = ["cabling", "list", "torus:4,4", "--rack-size", "4", "--ocs", "8,100", "-o", str(path)]
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "4 racks of 4, for few metres" in text
    assert "8 of 8 ports hold 4 to 4 cables each, 6,400 for all their ports" in text
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 32
    assert {"rack", "unit"} <= {name.removeprefix("from_") for name in rows[0]}
    assert {row["plane"] for row in rows} == set("01234567")
    assert main(["cabling", "list", "torus:4,4", "--floor", str(path)]) == 2
    assert "--floor is about racks; expected --rack-size" in capsys.readouterr().err


def test_design_places_what_it_chose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["design", "--nodes", "16", "--degree", "4", "--alltoall", "bound", "--no-cache"]
    assert main([*argv, "--rack-size", "4", "--objective", "bundles", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["placement"]["objective"] == "bundles"
    assert value["placement"]["racks"] == 4
    assert main([*argv, "--ocs", "8,1,2"]) == 3
    assert "short" in capsys.readouterr().err
