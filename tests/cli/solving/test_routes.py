"""``treadle routes`` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reference.route_texts import parse_route_json
from treadle.cli.main import main
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.topologies import parse
from treadle.verification.routes.route_check import verify_routes


def test_a_torus_needs_one_route_a_pair_and_no_second_layer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """f = 1/9 on the 3x3x3 torus: algbw 27/9 with unit links."""
    path = tmp_path / "r.json"
    assert main(["routes", "torus:3,3,3", "-o", str(path), "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["algbw_exact"] == "3/1"
    assert values["gap"] == pytest.approx(0, abs=1e-9)
    assert (values["routes"], values["hops_max"]) == (27 * 26, 3)
    topology = parse("torus(3, 3, 3)")
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    schedule = parse_route_json(path.read_text(), topology, collective)
    report = verify_routes(topology, collective, schedule)
    assert report.is_ok
    assert report.algbw == 3


def test_layers_routes_and_chunks_are_kept_to(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    command = ["routes", "generalized_kautz:3,12", "--layers", "2", "--max-routes", "1", "--chunks", "2"]
    assert main([*command, "--json", "-o", str(tmp_path / "r.csv")]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["layers"] <= 2
    assert values["routes_per_pair"] == 1
    assert values["chunks_per_unit"] == 2
    assert 0 <= values["gap"] < 0.5
    assert (tmp_path / "r.csv").read_text().count("\n") == 12 * 11 + 1
    assert main(["routes", "dgx_a100:2", "-o", str(tmp_path / "r.xml")]) == 2
    assert "routes: some pass the memory of 'box0.gpu0', where no card forwards" in capsys.readouterr().err
    assert main(["routes", "dgx_a100:1", "-o", str(tmp_path / "r.xml")]) == 0
    assert "no layer can deadlock" in capsys.readouterr().out
    assert (tmp_path / "r.xml").read_text().startswith("<routes ")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["ring:4", "-o", "r.txt"], 2, "expected .json, .csv or .xml"),
        (["ring:4", "--layers", "0"], 2, "expected at least 1"),
        (["ring:4", "--max-routes", "0"], 2, "at most 0 routes a pair"),
        (["ring:4", "--layers", "1000000"], 2, "expected 1 to 256"),
        (["ring:4", "--chunks", "-3"], 2, "chunks: -3 per shard"),
        (["ring:4", "--chunks", "9" * 30], 2, "expected 1 to 2**24"),
        (["torus:4,4", "--ranks", "0,5"], 3, "no path leads from 'n0_0' to 'n1_1'"),
        (["with_failed_links(path(3), 'n1->n2')"], 3, "n2"),
        (["nothing:4"], 2, "neither a file nor a catalogue name"),
        (["ring:4", "--time-limit", "0s"], 2, "expected more than 0"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], status: int, message: str
) -> None:
    assert main(["routes", *arguments]) == status
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_routes_over_cards_of_other_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """Both ranks' four links, each way, by way of forwarders; no two of the subset are neighbours."""
    assert main(["routes", "torus:4,4", "--ranks", "0,5", "--forward"]) == 0
    words = capsys.readouterr().out
    assert "14 forwarders" in words
    assert "schedule     8 B/s algbw, 4 B/s busbw, optimal" in words


def test_hierarchical_routes_need_links(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["torus:4,4", "alltoall", "--ranks", "0,5", "--algorithm", "hierarchical-routes"]
    assert main(["solve", *arguments]) == 3
    assert "no path leads from 'n0_0' to 'n1_1'" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_leaves_no_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "taken.csv").mkdir()
    assert main(["routes", "ring:4", "-o", str(tmp_path / "taken.csv")]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "is a directory" in said.err
