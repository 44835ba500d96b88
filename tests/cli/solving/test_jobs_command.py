"""``bound --jobs``, ``solve --jobs`` and ``verify FOLDER`` as they are typed."""

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from treadle.cli.main import main

JOBS = """
[[job]]
name = "gradients"
kind = "allreduce"
size = "4MB"

[[job]]
name = "experts"
kind = "alltoall"
size = "1MB"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("jobs.toml").write_text(JOBS, encoding="utf-8")
    return "jobs.toml"


def test_jobs_are_bounded_solved_and_verified(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "complete:4", "--jobs", file]) == 0
    shown = capsys.readouterr().out
    assert "jobs         2 concurrent; no in-network reduction (SHARP, NVLS)" in shown
    # each link carries a quarter of 2 * 4 parts and of 1 in the time of one allreduce
    assert [line.split()[0] for line in shown.splitlines()[3:6]] == ["job", "gradients", "experts"]
    assert "verified" not in shown
    assert main(["solve", "complete:4", "--jobs", file, "-o", "plans"]) == 0
    shown = capsys.readouterr().out
    assert "verified     yes: every plan, and the loads of all together; no rates are fairer" in shown
    assert "plan         plans: 2 plans and jobs.json" in shown
    assert main(["verify", "plans"]) == 0
    assert "optimal      yes: links carry all jobs at these rates" in capsys.readouterr().out
    assert main(["verify", "plans", "--topology", "ring:4"]) == 1
    assert "that the fabric does not have" in capsys.readouterr().out
    for plan in Path("plans").glob("*.plan"):
        assert main(["verify", str(plan), "-q"]) == 0


def test_rounded_plans_tell_what_they_give_up(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_text(JOBS + '[[job]]\nkind = "allgather"\nsize = "1MB"\n', encoding="utf-8")
    assert main(["solve", "torus:3,3", "--jobs", file, "--max-trees", "4", "-o", "plans"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    loss = re.search(r"(\d+\.\d\d%) below the optimum, with up to 4 trees per root", told)
    assert loss is not None
    assert main(["verify", "plans"]) == 0
    assert f"optimal      no: {loss[1]} below the max-min rates" in capsys.readouterr().out
    assert main(["solve", "torus:3,3", "--jobs", file, "--max-trees", "4", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["verified"], value["optimal"]) == (True, False)
    assert f"{value['gap']:.2%}" == loss[1]
    assert [job["trees_per_root_exact"] for job in value["jobs"]] == ["4/1", "4/1", "4/1"]
    reached = [Fraction(job["reached_exact"]) / Fraction(job["together_exact"]) for job in value["jobs"]]
    assert float(1 - min(reached)) == value["gap"]


def test_figures_are_exact_in_json(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bound", "complete:4", "--jobs", file, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    gradients, experts = value["jobs"]
    # 12 links; an allreduce of 4 needs 2 * 3 link crossings for each byte, an all-to-all of 1 needs 12 / 4
    assert gradients["together_exact"] == "16/9"
    assert experts["together_exact"] == "4/9"
    assert (gradients["alone_exact"], experts["alone_exact"]) == ("2/1", "4/1")
    assert value["common_rate_exact"] == f"1/{9 * 2**18}"
    assert [level["limited"] for level in value["levels"]] == [["gradients", "experts"]]


def test_a_folder_and_another_fabric_or_options_of_texts(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", "complete:4", "--jobs", file, "-o", "plans", "-q"]) == 0
    assert main(["verify", "plans", "--topology", "complete:3"]) == 2
    assert "n3" in capsys.readouterr().err
    assert main(["verify", "plans", "--root", "1"]) == 2
    assert "--profile and --root are for runtime files; this is a folder of plans" in capsys.readouterr().err


def test_a_folder_without_jobs_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(tmp_path)]) == 2
    assert "jobs.json: cannot be read: No such file" in capsys.readouterr().err
