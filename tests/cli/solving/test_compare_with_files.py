"""``compare --with --size``, ``verify --topology`` and ``simulate --topology`` of others' schedules."""

from __future__ import annotations

import json
import re
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


@pytest.fixture
def trees_file(tmp_path: Path) -> Path:
    plan = tmp_path / "mine.plan"
    assert main(["solve", "ring:4", "allgather", "-o", str(plan), "-q"]) == 0
    path = tmp_path / "trees.xml"
    assert main(["lower", str(plan), "--to", "forestcoll-xml", "-o", str(path), "-q"]) == 0
    return path


def test_files_stand_beside_schedulers(
    ring_file: Path, trees_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = f"{ring_file},{trees_file},{tmp_path / 'mine.plan'}"
    command = [
        "compare",
        'ring(4, bandwidth="1GB/s")',
        "allgather",
        "--algorithms",
        "forestcoll",
        "--with",
        files,
    ]
    assert main([*command, "--size", "1M,64M"]) == 0
    shown = capsys.readouterr().out
    assert "mine.plan: the plan was made for ring(4); its claims are left aside" in shown
    for word in ("theirs.json (taccl)", "trees.xml (forestcoll-xml)", "link", "64MB"):
        assert word in shown
    assert main([*command[:-1], f"{ring_file},{trees_file}", "--size", "1M,64M", "--json"]) == 0
    rows = {row["algorithm"]: row for row in json.loads(capsys.readouterr().out)["schedules"]}
    theirs, trees, ours = rows["theirs.json"], rows["trees.xml"], rows["forestcoll"]
    assert (theirs["form"], trees["form"], "form" in ours) == ("taccl", "forestcoll-xml", False)
    assert theirs["algbw_bytes_per_s"] == pytest.approx(4e9 / 3)
    assert trees["algbw_exact"] == ours["algbw_exact"]
    assert theirs["n_busiest_links"] == 4
    assert theirs["busiest_times_optimum"] == "2/1"
    assert ours["busiest_times_optimum"] == "1/1"
    for row in rows.values():
        assert [size["size_bytes"] for size in row["sizes"]] == [2**20, 2**26]
    # three hops of a quarter each, one after another; then twice the optimum's time
    assert theirs["sizes"][1]["time_s"] == pytest.approx(3 * 2**24 / 1e9 + 3e-5, rel=1e-3)
    assert ours["sizes"][1]["efficiency"] > 0.95


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


def test_files_of_one_name_are_told_apart(
    ring_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / folder / "run" / ring_file.name for folder in ("old", "new")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_bytes(ring_file.read_bytes())
    several = ",".join(map(str, [*files, ring_file, ring_file]))
    command = ["compare", "ring:4", "allgather", "--algorithms", "ring", "--with", several]
    assert main([*command, "--json"]) == 0
    names = [row["algorithm"] for row in json.loads(capsys.readouterr().out)["schedules"]]
    name = ring_file.name
    last = f"{ring_file.parent.name}/{name}"
    assert sorted(names) == sorted(["ring", f"old/run/{name}", f"new/run/{name}", last, f"{last} (2)"])
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert all(one in shown for one in names)


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


def test_times_at_sizes_by_a_cost_model(capsys: pytest.CaptureFixture[str]) -> None:
    """As simulate has them; the ring's three steps of g, a shard, a hop and alpha."""
    words = ["compare", 'ring(4,bandwidth="1GB/s",bidirectional=False)', "allgather", "--algorithms", "ring"]
    sized = [*words, "--size", "4KB", "--cost-model", "reference"]
    assert main(sized) == 0
    assert "cost model   reference" in capsys.readouterr().out
    assert main([*sized, "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    (row,) = values["schedules"][0]["sizes"]
    assert (values["cost_model"], row["protocol"]) == ("reference", "simple")
    assert row["time_s"] == pytest.approx(3 * (50 + 1024 + 500 + 1000) * 1e-9, rel=1e-9)
    assert main([*words, "--cost-model", "reference"]) == 2
    assert "give --size" in capsys.readouterr().err


def test_without_either_nothing_is_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "hypercube:2", "allgather", "--algorithms", "ring", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["schedules"]
    assert "sizes" not in row
    assert "busiest_links" not in row


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


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["allgather"], "COLLECTIVE"),
        (["--algorithm", "ring"], "--algorithm"),
        (["--multicast"], "--multicast"),
    ],
)
def test_nothing_is_solved_where_a_text_is_simulated(
    words: list[str], named: str, ring_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["simulate", str(ring_file), *words, "--topology", "ring:4", "--size", "64M"]
    assert main(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    says = f"{named}: expected a fabric to solve for, and {ring_file} is a third-party schedule"
    assert err == f"treadle: {says}\n"


def test_routes_name_no_messages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, routes = tmp_path / "all.plan", tmp_path / "routes.json"
    assert main(["solve", "ring:4", "alltoall", "--algorithm", "routes", "-o", str(plan), "-q"]) == 0
    assert main(["routes", str(plan), "-o", str(routes), "-q"]) == 0
    assert main(["verify", str(routes), "--topology", "ring:4"]) == 2
    assert "cannot be put on one" in capsys.readouterr().err


def test_many_sizes_are_told_in_tables_of_a_terminals_width(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    picture = tmp_path / "times.svg"
    sized = ["compare", "dgx_a100:1", "allreduce", "--size", "1K..1M", "--cost-model", "reference"]
    assert main([*sized, "--algorithms", "ring,rs-ag,one-shot,rail", "--picture", str(picture)]) == 0
    said = capsys.readouterr().out
    assert f"plot         {picture}" in said
    tables = [table for table in said.split("\n\n") if table.startswith("simulated us")]
    assert [table.split()[2] for table in tables] == ["1KB", "32KB", "1MB"]
    for table in tables:
        rows = [re.split("  +", line)[1:] for line in table.splitlines()[1:]]
        for *times, bound in zip(*rows, strict=True):
            least = min(times, key=lambda cell: float(cell.rstrip("*")))
            assert [cell.endswith("*") for cell in times] == [
                float(cell.rstrip("*")) == float(least.rstrip("*")) for cell in times
            ]
            assert 0 < float(bound) <= float(least.rstrip("*"))
    drawn = picture.read_text()
    assert "time bound" in drawn
    winner = re.search(r"^([a-z-]+).*?  +[0-9.]+\*", tables[0], re.MULTILINE)[1]
    assert re.search(rf"<!-- ({winner}|{winner},.*) -->", drawn)
    assert main([*sized, "--picture", "times.bmp"]) == 2
    assert capsys.readouterr().out == "", "refused before any work"
    assert main([*sized[:3], "--picture", str(picture)]) == 2
    assert "add --size A..B" in capsys.readouterr().err
