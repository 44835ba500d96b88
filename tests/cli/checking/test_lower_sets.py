"""``treadle lower`` of plans with several ranges of sizes: a folder, or the text of a size."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.json_schema_judge import faults
from samples.plan_sets import plan_set
from shortcuts.group_plans import solved_alone
from treadle.cli.main import main
from treadle.cli.settings.json_schema import json_schema
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan_files.archive import save_plan

CASE = ("dgx_a100:1", "allgather", ("one-shot", "ring", "forestcoll"), (8192, 2**20))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("sets") / "x.plan"
    save_plan(found, plan_set(*CASE))
    return found


@pytest.mark.parametrize("to", ["msccl-xml", "mscclpp-json"])
def test_a_folder_gets_a_text_for_each_range(
    to: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "texts"
    command = ["lower", str(path), "--to", to, "--instances", "1", "-o", f"{folder}/"]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert f"written        {folder}: 3" in said
    assert "range          to below 8KB: one-shot" in said
    assert "range          from 8KB to below 1MB: ring" in said
    assert "range          from 1MB: forestcoll" in said
    assert f"{folder}/load.sh" in said
    assert main([*command, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    schema = json_schema("lower")
    assert faults(value, schema, schema) == []
    (one,) = value["sets"]
    assert [(row["min_bytes"], row["max_bytes"]) for row in one["ranges"]] == [
        (0, 8191),
        (8192, 2**20 - 1),
        (2**20, None),
    ]
    for row in one["ranges"]:
        assert (folder / row["file"]).is_file()
    assert {"set.json", "texts", *one["files"]} == {entry.name for entry in folder.iterdir()}


def test_a_size_chooses_one_text(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for size, last in (("1K", 8191), ("8K", 2**20 - 1), ("1G", 0)):
        assert main(["lower", str(path), "--size", size, "-o", str(tmp_path / "one.xml")]) == 0
        assert f'maxBytes="{last}"' in (tmp_path / "one.xml").read_text()[:300]
    assert main(["lower", str(path), "--to", "chakra", "--size", "64MB", "-o", str(tmp_path / "trace")]) == 0
    capsys.readouterr()
    for command, words in (
        (["-o", str(tmp_path / "all.xml")], "3 size ranges, each with its own file; name a folder"),
        ([], "3 size ranges, each with its own file; name a folder"),
        (["--to", "cpu-xml", "-o", str(tmp_path / "all.xml")], "its runtimes cannot choose by size"),
        (["--to", "cpu-xml", "--min-size", "1K"], "--min-size is for msccl-xml, mscclpp-json and nccl-tuner"),
        (["--min-size", "2K", "--max-size", "1K", "-o", f"{tmp_path}/"], "expected no less than 0, rising"),
        (["--min-size", "1", "-o", f"{tmp_path}/"], "unit"),
    ):
        assert main(["lower", str(path), *command]) in (2, 3)
        (line,) = capsys.readouterr().err.splitlines()
        assert words in line


def test_a_plan_of_one_range_joins_a_set(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, other = tmp_path / "texts", tmp_path / "one.plan"
    save_plan(other, plan_set("dgx_a100:1", "allreduce", ("ring",), ()))
    one = ["--instances", "1", "-o", f"{folder}/"]
    assert main(["lower", str(path), *one]) == 0
    assert main(["lower", str(other), *one, "--min-size", "1MB", "--protocol", "LL128"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "1 file of msccl-xml for azure, next to 3 files of other plans" in said
    assert "range from 1MB: ring, LL128" in said
    assert "warning LL128 is correct only" in said
    assert sorted(file.name for file in (folder / "texts").glob("one*")) == ["one.01.1MB-.xml"]
    assert main(["lower", str(other), "-o", f"{folder}/", "--profile", "legacy"]) == 2
    assert "a runtime reads one kind" in capsys.readouterr().err


def test_each_group_has_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = solved_alone("torus:2,4", CollectiveKind.ALLGATHER, Mesh((2, 4), ("dp", "tp")), "tp")
    (entry,) = plan.entries
    ranges = (replace(entry, max_bytes=4095), replace(entry, min_bytes=4096))
    save_plan(tmp_path / "x.plan", replace(plan, entries=ranges))
    command = ["lower", str(tmp_path / "x.plan"), "-o", f"{tmp_path / 'texts'}/", "--json"]
    assert main(command) == 0
    value = json.loads(capsys.readouterr().out)
    schema = json_schema("lower")
    assert faults(value, schema, schema) == []
    names = ["x-group0-ranks0-1-2-3", "x-group1-ranks4-5-6-7"]
    assert [Path(one["folder"]).name for one in value["sets"]] == names
    for name in names:
        assert len([*(tmp_path / "texts" / name / "texts").iterdir()]) == 2
