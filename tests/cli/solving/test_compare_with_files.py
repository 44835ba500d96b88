"""``compare --with --size``, ``verify --topology`` and ``simulate --topology`` of others' schedules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import treadle
from samples.foreign import foreign_files
from treadle.cli.main import main


@pytest.fixture
def ring_file(tmp_path: Path) -> Path:
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(foreign_files.taccl_ring_allgather(4)))
    return path


def test_what_is_wrong_is_told_and_fails(
    ring_file: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["compare", "ring:5", "allgather", "--algorithms", "ring", "--with", str(ring_file)]
    assert main(command) == 1
    shown = capsys.readouterr().out
    assert "theirs.json: the file has 4 ranks, ring(5) has 5" in shown
    assert "NO: theirs.json (taccl), 1 violation" in shown
    assert main([*command[:-1], str(tmp_path / "none.xml")]) == 2
    assert "No such file" in capsys.readouterr().err


def test_plans_by_one_algorithm_are_numbered() -> None:
    plan = treadle.solve("ring:4", "allgather")
    found = treadle.compare("ring:4", "allgather", algorithms=[], beside=[plan, plan, plan.plan])
    assert [row.algorithm for row in found.rows] == ["forestcoll", "forestcoll (2)", "forestcoll (3)"]


def test_sizes_alone_simulate_our_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "hypercube:2", "allgather", "--size", "1K", "--json"]) == 0
    rows = [row for row in json.loads(capsys.readouterr().out)["schedules"] if "refusal" not in row]
    assert len(rows) > 3
    assert all(len(row["sizes"]) == 1 for row in rows)
    assert main(["compare", "hypercube:2", "allreduce", "--size", "1K", "--algorithms", "ring"]) == 0
    said = capsys.readouterr().out
    assert "% bound      lower bound on the time at this size over the simulated time\n" in said
    assert next(line for line in said.splitlines() if line.startswith("ring ")).split()[2] == "100.0"
    assert "\noptimum      1.33 B/s" in said


def test_verify_puts_a_text_on_a_fabric(ring_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(ring_file), "--topology", "ring:4"]) == 0
    shown = capsys.readouterr().out
    assert "50.00% below the optimum" in shown
    assert "every message has a path" in shown
    assert main(["verify", str(ring_file), "--topology", "ring:4", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["format"], values["verified"], values["gap"]) == ("taccl", True, 0.5)
    assert main(["verify", str(ring_file)]) == 0
    assert "checked      allgather executed" in capsys.readouterr().out
    assert main(["verify", str(ring_file), "--topology", "ring:5"]) == 1
    assert "NO: 1 violation" in capsys.readouterr().out


def test_simulate_takes_a_text_with_its_fabric(ring_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(ring_file), "--topology", "ring:4", "--size", "64M", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["algorithm"] == "theirs.json"
    assert "alpha_beta_s" not in values["rows"][0]
    assert values["rows"][0]["efficiency"] == pytest.approx(0.5, rel=1e-3)
    assert main(["simulate", str(ring_file), "--size", "64M"]) == 2
    assert "give --topology TOPOLOGY" in capsys.readouterr().err
    assert main(["simulate", "ring:4", "allgather", "--topology", "ring:4"]) == 2
    assert main(["simulate", str(ring_file), "--topology", "ring:5", "--size", "64M"]) == 2
    assert "the file has 4 ranks" in capsys.readouterr().err


def test_routes_name_no_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, routes = tmp_path / "all.plan", tmp_path / "routes.json"
    assert main(["solve", "ring:4", "alltoall", "--algorithm", "routes", "-o", str(plan), "-q"]) == 0
    assert main(["routes", str(plan), "-o", str(routes), "-q"]) == 0
    assert main(["verify", str(routes), "--topology", "ring:4"]) == 2
    assert "cannot be put on one" in capsys.readouterr().err
