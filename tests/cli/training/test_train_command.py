"""``treadle train``: what it prints, writes and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.json_schema_judge import faults
from treadle.cli.main import main
from treadle.cli.settings.json_schema import json_schema

RING = 'ring(4, bandwidth="25GB/s")'
ASKED = ["--fabric", RING, "--mesh", "fsdp=4", "--gpu", "a100", "--sequence", "64"]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    assert main(["train", "gpt2", *ASKED, "--json", *arguments]) == status
    return json.loads(capsys.readouterr().out)


def test_what_is_given_is_no_note(capsys: pytest.CaptureFixture[str]) -> None:
    value = found(capsys, "--batch", "8", "--efficiency", "0.4", "--contention", "1.5", "--schedule", "ring")
    assert value["notes"] == []
    assert (value["kappa"], value["contention"], value["contention_given"]) == (1.5, "as given", True)
    assert [row["schedule"] for row in value["steps_simulated"]] == ["ring"]


def test_fitted_row_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    value = found(capsys, "--calibrate", "20ms", "--schedule", "treadle")
    assert value["fitted"]["row"] == f"{RING}, treadle"
    assert value["fitted"]["measured_s"] == 0.02
    assert value["steps_simulated"][0]["iteration_s"] == pytest.approx(0.02, rel=1e-4)
    assert main(["train", "gpt2", *ASKED, "--calibrate", "20ms", "--schedule", "treadle,ring"]) == 0
    assert "as measured; all other rows" in " ".join(capsys.readouterr().out.split())


def test_files(capsys: pytest.CaptureFixture[str]) -> None:
    names = ["--trace", "t.json", "--picture", "p.svg", "--workload", "w.toml", "--chakra", "et"]
    value = found(capsys, "--schedule", "treadle", *names)
    assert [value[name] for name in ("trace", "picture", "workload", "chakra")] == names[1::2]
    assert json.loads(Path("t.json").read_text("utf-8"))["otherData"]["fabric"] == RING
    assert {path.name for path in Path("et").iterdir()} == {
        *(f"step.{n}.et" for n in range(4)),
        "groups.json",
    }
    assert main(["design", "--nodes", "4", "--degree", "2", "--workload", "w.toml", "--no-cache", "-q"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "MODEL is missing"),
        (["gpt2", "--mesh", "fsdp=4", "--gpu", "a100"], "--fabric FABRIC is missing"),
        (["gpt2", "--fabric", "ring:4"], "--mesh"),
        (["gpt2", "--fabric", "ring:4", "--mesh", "fsdp=4"], "--gpu"),
        (["gpt22", *ASKED], "gpt22"),
        (["gpt2", *ASKED, "--gpu", "b100000"], "b100000"),
        (["gpt2", *ASKED, "--mesh", "fsdp=5"], "lays out 5 ranks"),
        (["gpt2", *ASKED, "--fabric", "rong:4"], "rong"),
        (["gpt2", *ASKED, "--schedule", "rong"], "unknown schedule 'rong'; did you mean ring"),
        (["gpt2", *ASKED, "--calibrate", "3"], "unit"),
        (["gpt2", *ASKED, "--bucket", "0MB"], "at least 1 byte"),
        (["gpt2", *ASKED, "--memory-efficiency", "all"], "expected a share"),
        (["gpt2", *ASKED, "--network-efficiency", "allgather=none.log"], "none.log"),
        (["gpt2", *ASKED, "--layer-times", "none.csv"], "none.csv"),
        (["gpt2", *ASKED, "--picture", "p.bmp"], "expected png, svg or pdf"),
        (["gpt2", *ASKED, "--trace", "x.json", "--workload", "./x.json"], "different files"),
        (["gpt2", *ASKED, "--schedule", "torus"], "torus: 4 nodes do not form a grid"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("treadle: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not Path("x.json").exists()


def test_groups_that_are_cut_off_are_infeasible(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["train", "gpt2", "--fabric", "mesh:4", "--mesh", "fsdp=2,tp=2", "--gpu", "a100"]
    arguments += ["--sequence", "64", "--schedule", "treadle"]
    assert main(arguments) == 3
    assert "--forward" in capsys.readouterr().err
    assert main([*arguments, "--forward"]) == 0


def test_links_of_one_byte_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    """Graphs of the catalogue have unit links."""
    assert main(["train", "gpt2", *ASKED, "--fabric", "ring:4", "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert any(note.startswith("ring(4): its links carry 1 B/s") for note in notes)


def test_what_does_not_fit_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "llama-3-70b", *ASKED]) == 3
    out = capsys.readouterr().out
    assert out.startswith("warning      does not fit: a device needs")
    assert "\n             nothing tried fits; least: --recompute full --mesh tp=4 (" in out
    assert "memory       " in out
    value = found(capsys)
    assert value["steps_simulated"][0]["memory_bytes"] == pytest.approx(sum(value["memory_by_part"].values()))


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_phases_of_serving(phase: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["train", "gpt2", "--fabric", RING, "--mesh", "tp=4", "--gpu", "a100", "--sequence", "64"]
    asked += ["--phase", phase, "--schedule", "treadle", "--batch", "1,2"]
    assert main([*asked, "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    schema = json_schema("train-phase")
    assert faults(value, schema, schema) == []
    assert [row["batch"] for row in value["phases_simulated"]] == [1, 2]
    assert main(asked) == 0
    assert "time to the first token" in capsys.readouterr().out or phase == "decode"
    assert main([*asked, "--trace", "x.json"]) == 2
    assert "--trace: valid only for training steps" in capsys.readouterr().err
    assert main([*asked, "--recompute", "full"]) == 2
    assert "recompute is of training steps" in capsys.readouterr().err
    assert main([*asked, "--no-sequence-parallel"]) == 2
    assert "sequence_parallel is of training steps" in capsys.readouterr().err
    assert main([*asked[:-1], "many"]) == 2
    assert "expected integers" in capsys.readouterr().err


def test_the_fabric_of_the_settings(capsys: pytest.CaptureFixture[str]) -> None:
    Path("treadle.toml").write_text('fabric = "complete:4"\n', encoding="utf-8")
    assert main(["train", "gpt2", "--mesh", "fsdp=4", "--gpu", "a100", "--sequence", "64", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert {row["fabric"] for row in value["steps_simulated"]} == {"complete(4)"}
    assert found(capsys)["steps_simulated"][0]["fabric"] == RING


def test_json_notes_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--batch", "40000", "--no-simulate"]
    value = found(capsys, *asked, status=3)
    (note,) = [one for one in value["notes"] if one.startswith("does not fit: ")]
    assert not value["fits"]
    assert all(one["fits"] for one in value["alternatives"])
    assert main(["train", "gpt2", *ASKED, *asked]) == 3
    assert f"warning      {note[:60]}" in capsys.readouterr().out
    for one in value["alternatives"]:
        smaller = found(capsys, *asked, *one["options"].split())
        assert sum(smaller["memory_by_part"].values()) == pytest.approx(one["memory_bytes"])
    value = found(capsys, "--no-simulate")
    assert (value["fits"], value["alternatives"]) == (True, [])
    assert not any("does not fit" in one for one in value["notes"])


def test_times_say_whose_they_are_where_schedules_differ(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "gpt2", "--fabric", "ring:4", "--mesh", "dp=4", "--gpu", "a100", "--efficiency", ".5"]
    assert main([*words, "--schedule", "treadle,bound"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "times treadle: longest path through the verified schedule x alpha + bytes / its rate; messages "
        "as in reference bound: at least max(alpha to the farthest rank, bytes / optimal rate); "
        "messages as in reference"
    ) in said
    assert main([*words, "--schedule", "treadle"]) == 0
    assert "\ntimes        longest path" in capsys.readouterr().out


def test_serving_names_whose_times_and_no_options_of_steps(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "gpt2", "--fabric", "ring:4", "--mesh", "dp=2,tp=2", "--gpu", "a100", "--forward"]
    assert main([*words, "--phase", "decode", "--schedule", "treadle,bound"]) == 0
    out = capsys.readouterr().out
    assert "--streams" not in out
    assert "\ntimes        treadle: " in out
    assert "\n             bound: at least max" in out
