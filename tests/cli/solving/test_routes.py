"""``treadle routes`` as a user types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.cli.main import main


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


def test_a_file_that_cannot_be_written_leaves_no_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "taken.csv").mkdir()
    assert main(["routes", "ring:4", "-o", str(tmp_path / "taken.csv")]) == 2
    said = capsys.readouterr()
    assert not said.out
    assert "is a directory" in said.err
