"""`treadle resilience`, `treadle cabling`, and what `treadle design` says of racks and boxes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from treadle import planning
from treadle.cli.main import main
from treadle.render.building import reference_rows
from treadle.render.rows import lines


def test_resilience_tells_mean_worst_and_cables(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["resilience", "torus:3,3", "--cables", "1", "--nodes", "1", "--samples", "2"]
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "worst sample" in text
    assert "bottleneck   alltoall, 1 cable: n" in text
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
    assert "--floor: valid only with racks; give --rack-size too" in capsys.readouterr().err


def test_design_places_what_it_chose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["design", "--nodes", "16", "--degree", "4", "--alltoall", "bound", "--no-cache"]
    assert main([*argv, "--rack-size", "4", "--objective", "bundles", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["placement"]["objective"] == "bundles"
    assert value["placement"]["racks"] == 4
    assert main([*argv, "--ocs", "8,1,2"]) == 3
    assert "short" in capsys.readouterr().err


def test_swapped_cables_are_told_and_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned, seen = tmp_path / "planned.csv", tmp_path / "seen.csv"
    assert main(["cabling", "list", "ring:4", "-o", str(planned), "-q"]) == 0
    assert main(["cabling", "check", str(planned), str(planned)]) == 0
    assert "4 planned, 4 observed (csv), 4 right" in capsys.readouterr().out
    rows = [row.split(",") for row in planned.read_text().splitlines()]
    rows[1][3:5], rows[4][3:5] = rows[4][3:5], rows[1][3:5]
    seen.write_text("\n".join(",".join(row) for row in rows))
    assert main(["cabling", "check", str(planned), str(seen)]) == 1
    text = capsys.readouterr().out
    assert text.count("swapped  move") == 2
    assert "2 plugs to move, 0 cables to lay, 0 to take out (the minimum)" in text
    assert main(["cabling", "check", str(planned), str(seen), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["moves"] == 2
    seen.write_text("from_node,from_port,to_node,to_port\nn0,x,n1,0\n")
    assert main(["cabling", "check", str(planned), str(seen)]) == 2
    assert f"{seen}:2: port 'x': expected a number" in capsys.readouterr().err


def test_design_grows_and_reconfigures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "moves.csv"
    argv = [
        "design",
        "--nodes",
        "12",
        "--degree",
        "3",
        "--alpha",
        "10us",
        "--alltoall",
        "bound",
        "--no-cache",
    ]
    assert main([*argv, "--grow", "13", "--changes", str(path)]) == 0
    text = capsys.readouterr().out
    assert "growth       to 13 nodes" in text
    assert "3 cables pulled (3 per new node)" in text
    assert "connected after every move" in text
    assert len(path.read_text().splitlines()) == 10
    argv = ["design", "--nodes", "8", "--degree", "2", "--bidirectional", "--alltoall", "bound", "--no-cache"]
    assert main([*argv, "--reconfigure", "ring:8", "--changes", str(path)]) == 0
    assert "0 cross-connects to make" in capsys.readouterr().out
    assert main([*argv, "--changes", str(path)]) == 2
    assert main([*argv, "--grow", "9", "--reconfigure", "ring:8"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_rivals_fit_80_columns_with_all_their_figures() -> None:
    """A fabric whose expression alone would take them; every figure of its rows is there."""
    name = "with_nodes_ordered(ring(8), '0,2,4,6,1,3,5,7')"
    found = planning.compare_references(name, box="32,5")
    assert found.rows[1].name.startswith(f"{found.rows[0].name}, ")
    text = "\n".join(lines([*reference_rows(found, "C8")], 80))
    assert max(map(len, text.splitlines())) <= 80
    assert "not shown" not in text
    assert "with_nodes_ordered" not in text
    built, attained, *_ = text.strip().split("\n\n")
    assert [line.split()[0] for line in built.split("\n")][1:3] == ["C8", "C8,"]
    first = next(line.split() for line in attained.split("\n") if line.startswith("C8 "))
    row = found.rows[0]
    assert first[1:4] == [str(row.steps), f"{float(row.t_b):.3f}", f"{row.alltoall:.3f}"]
