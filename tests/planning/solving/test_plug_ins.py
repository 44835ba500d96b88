"""Schedulers of others: by decorator, by entry point, and broken ones."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from child_processes import finished, search_path
from samples.table import table_restored
from treadle import planning, scheduler
from treadle.api.repair import repair
from treadle.cli.main import main
from treadle.errors import FormatError, ScheduleError
from treadle.planning import compare, run, solve, verify
from treadle.schedulers.schedulers import _faults
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import ForestSchedule
from treadle.synthesis.scheduler import TABLE
from treadle.synthesis.trees.baselines.ring import ring
from treadle.topologies.topology import Topology

GOOD = """
import treadle
from treadle.synthesis.trees.baselines.ring import ring as ours

@treadle.scheduler("round-trip", form="trees", collectives=["allgather"], source="a test")
def round_trip(topology, collective):
    return ours(topology, collective)
"""
HALF = GOOD.replace("round-trip", "half-way") + "\nraise RuntimeError('no\\nfurther')\n"


def install(folder: Path, name: str, text: str, target: str | None = None) -> None:
    """A distribution as pip leaves it: a module, its name and version, its entry points."""
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(text)
    info = folder / f"{module}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[treadle.schedulers]\n{module} = {target or module}\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """On the search path; what is registered from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    with table_restored():
        _faults.cache_clear()
        yield tmp_path
    _faults.cache_clear()
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def test_a_decorated_function_is_a_scheduler_like_ours(tmp_path: Path) -> None:
    with table_restored():

        @scheduler("mine", form="trees", collectives=["allgather"], source="here")
        def mine(topology: Topology, collective: Collective) -> ForestSchedule:
            return ring(topology, collective)

        found = solve("ring:4", "allgather", algorithm="mine")
        assert found.plan.algorithm == "mine"
        assert verify(found.plan).is_ok
        assert run(found.plan, [1024], iterations=1).wrong == 0
        rows = {row.algorithm: row for row in compare("ring:4", "allgather").rows}
        assert rows["mine"].algbw == rows["ring"].algbw
        assert repair(found.plan, links=["n0->n1"]).new.algorithm == "mine"
        with pytest.raises(ScheduleError, match="mine: allreduce is not supported; it supports allgather"):
            solve("ring:4", "allreduce", algorithm="mine")
        with pytest.raises(FormatError, match=r"'ring': the name is taken by treadle\.synthesis\.trees"):
            scheduler("ring", form="trees", collectives=["allgather"])(mine)
    with pytest.raises(FormatError, match="unknown algorithm 'mine'"):
        solve("ring:4", "allgather", algorithm="mine")


def test_faults_of_strangers_are_a_line() -> None:
    with table_restored():

        @scheduler("wrong-form", form="trees", collectives=["allgather"])
        def wrong_form(topology: Topology, collective: Collective) -> StepSchedule:
            schedule = solve(topology, collective, algorithm="bfb").plan.entries[0].schedule
            assert isinstance(schedule, StepSchedule)
            return schedule

        @scheduler("crashing", form="trees", collectives=["allgather"])
        def crashing(topology: Topology, collective: Collective) -> ForestSchedule:
            raise KeyError("what\nis this")

        def stumbling(topology: Topology, collective: Collective) -> None:
            raise ZeroDivisionError

        @scheduler("needy", form="trees", collectives=["allgather"], requirements=[stumbling])
        def needy(topology: Topology, collective: Collective) -> ForestSchedule:
            return ring(topology, collective)

        with pytest.raises(ScheduleError, match=r"returned StepSchedule, expected .* trees: ForestSchedule"):
            solve("ring:4", "allgather", algorithm="wrong-form")
        with pytest.raises(
            ScheduleError, match=rf"crashing \(of {__name__}\): failed with KeyError: .*is this"
        ):
            solve("ring:4", "allgather", algorithm="crashing")
        refusals = {row.algorithm: row.refusal for row in compare("ring:4", "allgather").rows}
        assert "KeyError" in refusals["crashing"]
        assert "ZeroDivisionError" in refusals["needy"]
        assert refusals["forestcoll"] == ""


def test_entry_points_are_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(folder, "rings-of-others", GOOD)
    plan = folder / "x.plan"
    assert main(["solve", "ring:4", "allgather", "--algorithm", "round-trip", "-o", str(plan)]) == 0
    assert main(["verify", str(plan)]) == 0
    capsys.readouterr()
    assert main(["compare", "ring:4", "allgather", "--json"]) == 0
    assert "round-trip" in [row["algorithm"] for row in json.loads(capsys.readouterr().out)["schedules"]]
    assert main(["algorithms", "--json"]) == 0
    (listed,) = [
        one for one in json.loads(capsys.readouterr().out)["schedulers"] if one["name"] == "round-trip"
    ]
    assert listed["origin"] == "rings-of-others 1.2"
    assert (listed["form"], listed["collectives"], listed["source"]) == ("trees", ["allgather"], "a test")


@pytest.mark.parametrize(
    ("text", "target", "said"),
    [
        ("raise RuntimeError('no\\nfurther')", None, "RuntimeError: no further"),
        (HALF, None, "RuntimeError: no further"),
        ("import not_there_at_all", None, "ModuleNotFoundError"),
        ("raise SystemExit(3)", None, "SystemExit: 3"),
        ("x = 1", "broken_rings:y", "AttributeError"),
        (GOOD.replace("round-trip", "ring"), None, "'ring': the name is taken"),
        (GOOD.replace('"trees"', '"bushes"'), None, "'bushes' is not a valid"),
    ],
)
def test_broken_plug_ins_are_a_line_each(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, target: str | None, said: str
) -> None:
    install(folder, "broken-rings", text, target)
    install(folder, "rings-of-others", GOOD)
    names = set(planning.algorithm_names(plug_ins=False))
    assert main(["compare", "ring:4", "allgather", "--algorithms", "ring,round-trip"]) == 0
    output = capsys.readouterr()
    assert re.fullmatch(r"treadle: plug-in broken-rings 1\.2: .* cannot be loaded \(.*\)\n", output.err)
    assert said in output.err
    assert "round-trip" in output.out
    assert set(planning.algorithm_names()) == names | {"round-trip"}
    assert main(["solve", "ring:4", "allgather", "--algorithm", "magic"]) == 2
    assert "plug-in broken-rings 1.2" in capsys.readouterr().err


def test_plug_ins_are_loaded_when_they_may_matter_only(tmp_path: Path) -> None:
    install(tmp_path, "loud", "print('loaded')")
    environment = {"PYTHONPATH": f"{tmp_path}:{search_path()}"}

    def printed(*words: str) -> str:
        done = finished([sys.executable, "-m", "treadle", *words], environment=environment)
        assert done.returncode == 0
        return done.stdout

    assert "loaded" not in printed("solve", "ring:4", "allgather", "--algorithm", "ring")
    assert "loaded" not in printed("solve", "--help")
    assert "loaded" in printed("algorithms")


def test_the_table_is_as_it_was() -> None:
    assert "mine" not in TABLE
    assert "round-trip" not in TABLE
