"""``treadle lower`` of plans of several groups: a text for each, or one of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.json_schema_judge import faults
from shortcuts.group_plans import solved_alone
from treadle import planning
from treadle.cli.main import main
from treadle.cli.settings.json_schema import json_schema
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.schedules.plan_files.archive import save_plan

MESH = Mesh((2, 4), ("dp", "tp"))


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("groups") / "x.plan"
    save_plan(path, solved_alone("torus:2,4", CollectiveKind.ALLGATHER, MESH, "tp"))
    return path


@pytest.mark.parametrize(
    ("to", "options", "files"),
    [
        ("msccl-xml", [], ["{0}/{0}.xml"]),
        ("mscclpp-json", [], ["{0}.json"]),
        ("cpu-xml", [], ["{0}.xml"]),
        ("forestcoll-xml", [], ["{0}.xml"]),
        ("chakra", ["--size", "1MB"], [f"{{0}}.{rank}.et" for rank in range(4)]),
    ],
)
def test_a_folder_gets_a_text_for_each_group(
    to: str,
    options: list[str],
    files: list[str],
    plan: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lower", str(plan), "--to", to, "-o", f"{tmp_path / 'texts'}/", *options, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    schema = json_schema("lower")
    assert faults(value, schema, schema) == []
    names = ("x-group0-ranks0-1-2-3", "x-group1-ranks4-5-6-7")
    found = {path.relative_to(tmp_path / "texts").as_posix() for path in (tmp_path / "texts").rglob("*.*")}
    assert found == {name.format(group) for name in files for group in names}
    assert (value["groups"], value["group_size"]) == (2, 4)
    assert [(text["group"], text["group_ranks"]) for text in value["texts"]] == [
        (0, [0, 1, 2, 3]),
        (1, [4, 5, 6, 7]),
    ]


def test_a_text_is_that_of_the_group_alone(plan: Path, tmp_path: Path) -> None:
    loaded = planning.lower_groups(plan, to="cpu-xml")
    for number, made in enumerate(loaded):
        assert made.group is not None
        assert (made.group.number, made.faults, made.is_executed) == (number, (), True)
        alone = planning.lower(plan, to="cpu-xml", group=number)
        assert alone.text == made.text
        path = tmp_path / f"{number}.xml"
        assert main(["lower", str(plan), "--to", "cpu-xml", "--group", str(number), "-o", str(path)]) == 0
        assert path.read_text() == made.text
    assert main(["verify", str(path)]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            [],
            "2 concurrent groups, each with its own file; name a folder for them (-o files/), or choose one "
            "(--group ",
        ),
        (["-o", "x.xml"], "name a folder for them"),
        (["--group", "2"], "group 2: the plan has groups 0 to 1"),
        (["--group", "2", "-o", "folder/"], "group 2: the plan has groups 0 to 1"),
    ],
)
def test_what_cannot_be_is_one_line(
    options: list[str],
    message: str,
    plan: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["lower", str(plan), *options]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert errors.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_python_asks_for_the_group(plan: Path) -> None:
    with pytest.raises(ScheduleError, match="the plan has 2 concurrent groups, and a runtime file has one"):
        planning.lower(plan)
    with pytest.raises(ScheduleError, match="1 paths, expected one for each of 2 groups"):
        planning.lower_groups(plan, paths=["x"])
    alone = planning.solve("ring:4", "allgather").plan
    (made,) = planning.lower_groups(alone)
    assert made.group is None
    with pytest.raises(ScheduleError, match="group 0: the plan has no groups"):
        planning.lower(alone, group=0)
