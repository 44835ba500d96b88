"""``treadle parallelize``: what it prints, writes and refuses."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from harness.json_schema_judge import faults
from treadle.cli.main import main
from treadle.cli.settings.json_schema import json_schema
from treadle.options.parallelising import Sharding
from treadle.parallelism.plan.plan_json import read_plan
from treadle.units import parse_time_ns

FABRIC = 'complete(4, bandwidth="25GB/s")'
CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}
ASKED = [
    "--fabric",
    FABRIC,
    "--gpu",
    "a100",
    "--alpha",
    "10us",
    "--mesh",
    "4",
    "--tokens",
    "1K",
    "--gap",
    "0.2",
]


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tiny.json").write_text(json.dumps(CONFIG))


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main(["parallelize", "tiny.json", *ASKED, "--json", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_report_says_what_is_assumed_and_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parallelize", "tiny.json", *ASKED, "--explain", "wq"]) == 0
    out = capsys.readouterr().out
    for words in (
        "tiny: 107K parameters, 4 layers, 1024 tokens per step",
        "memory       80 GB per rank, on a100",
        "compute      roofline: a100 bf16: products 71.9%, attention 30.3% of the peak",
        "note         sequences of 128 tokens",
        "x as fast as the best preset that fits, ",
        "lower bound  ",
        "checked      ",
        "overlap      layer: ",
        "tensor       block/layers.*.attention.wq.weight: parameter with dims kgdh",
        "instead",
    ):
        assert words in out
    rows = [line.split("  ")[0] for line in out.splitlines() if line]
    assert rows[rows.index("plan") + 1] == "treadle"
    assert {"DP", "FSDP", "CP"} <= set(rows)


def test_the_pin_of_the_help_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"e\.g\. (\S+): ", Sharding.rows["constraints"].help)
    found(capsys, "--pin", example, "-o", "plan.json")
    plan = read_plan("plan.json")
    assert str(plan.parts["block"][0].parameters["layers.*.attention.wq.weight"]).endswith("| 0")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """What one search prints as JSON, and the folder of all that it writes."""
    folder = tmp_path_factory.mktemp("searched")
    Path(folder, "tiny.json").write_text(json.dumps(CONFIG))
    written = ["-o", "plan.json", "--export", "plan.py", "--export", "plan.toml"]
    shown = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(shown):
        words = ["parallelize", "tiny.json", *ASKED, "--json", "--explain", "block/up", *written]
        assert main(words) == 0
    return json.loads(shown.getvalue()), folder


def test_json_and_the_plan_s_file(searched: tuple[Any, Path]) -> None:
    value, folder = searched
    schema = json_schema("parallelize")
    assert faults(value, schema, schema) == []
    (search,) = value["searches"]
    best, *named = search["plans"]
    assert best["plan"] == "treadle"
    assert len(named) > 5
    assert all(best["estimate_s"] <= row["estimate_s"] for row in named if row["fits"])
    assert search["bound_s"] <= best["estimate_s"]
    assert 0.5 * best["estimate_s"] < search["checked_bound_s"] <= best["estimate_s"]
    parts = best["compute_s"] + best["exposed_s"] + best["idle_s"]
    assert parts == pytest.approx(best["step_s"])
    assert search["gap"] <= 0.2 + 1e-9
    plan = read_plan(folder / "plan.json")
    assert plan.claim is not None
    assert (plan.claim.seconds, plan.claim.bound_s) == (best["estimate_s"], search["bound_s"])


def test_a_plan_differs_from_itself_in_nothing(
    searched: tuple[Any, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before, folder = searched
    value = found(capsys, "--diff", str(folder / "plan.json"))
    schema = json_schema("parallelize")
    assert faults(value, schema, schema) == []
    assert value["differences"]["changes"] == []
    assert value["differences"]["other_step_s"] == before["searches"][0]["plans"][0]["step_s"]


def test_pins_are_kept_and_their_price_is_told(
    searched: tuple[Any, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    free = searched[0]["searches"][0]["plans"][0]["step_s"]
    other = str(searched[1] / "plan.json")
    pinned = ["--pin", "block/wq=h:0", "-o", "pinned.json", "--diff", other]
    assert main(["parallelize", "tiny.json", *ASKED, *pinned]) == 0
    assert "stored layers.*.attention.wq.weight" in capsys.readouterr().out
    plan = read_plan("pinned.json")
    assert plan.parts["block"][0].parameters["layers.*.attention.wq.weight"].axes == ("0",)
    assert plan.claim is not None
    assert plan.claim.seconds >= free * 0.8


def test_memory_that_is_too_small_is_infeasible(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["parallelize", "tiny.json", *ASKED, "--memory", "100KB"]) == 3
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert "no plan fits into" in message
    assert "the least that a plan was found to fit into is " in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--overlap", "some"], "some"),
        (["--mesh", "4,"], "mesh"),
        (["--schedule", "best"], "best"),
        (["--memory", "much"], "much"),
        (["--pin", "wq"], "pin"),
        (["--alpha", "soon"], "soon"),
        (["--gap", "2"], "gap"),
        (["--efficiency", "7"], "efficiency"),
        (["--tokens", "few"], "few"),
        (["--export", "plan.xml"], "plan.xml"),
        (["--export", "plan.py", "-o", "plan.py"], "expected different files"),
        (["--export", "nowhere/plan.py"], "nowhere/plan.py"),
    ],
)
def test_a_wrong_value_is_told_in_a_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file that cannot be written is such a value."""
    assert main(["parallelize", "tiny.json", *ASKED, *words]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_layers_that_may_differ_are_no_slower(
    searched: tuple[Any, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    one = searched[0]["searches"][0]
    mixed = found(capsys, "--mixed")["searches"][0]
    assert mixed["plans"][0]["step_s"] <= one["plans"][0]["step_s"]
    assert mixed["bound_s"] <= one["bound_s"] * (1 + 1e-9)
    assert main(["parallelize", "tiny.json", *ASKED, "--mixed", "--overlap", "model"]) == 2
    assert "hides what no layer can" in capsys.readouterr().err


def test_stages_hold_whole_layers(capsys: pytest.CaptureFixture[str]) -> None:
    stages = ["--mesh", "pp=2,tp=2", "-o", "stages.json"]
    value = found(capsys, *stages)
    plan = read_plan("stages.json")
    assert plan.pipeline is not None
    assert (plan.pipeline.axis, sum(plan.pipeline.layers)) == ("pp", 4)
    assert 8 % plan.pipeline.micro_batches == 0, "sequences of a step"
    assert all("pp" not in state.axes for state in plan.shardings())
    (search,) = value["searches"]
    best, *named = search["plans"]
    assert search["bound_s"] < best["estimate_s"] <= min(row["estimate_s"] for row in named if row["fits"])
    # a limit that the plan above breaks makes another one
    limit = round(best["memory_bytes"] * 0.9)
    less = found(capsys, *stages, "--gap", "0.5", "--memory", f"{limit}B", "--micro-batches", "4")
    assert less["searches"][0]["plans"][0]["memory_bytes"] <= limit
    # of a step, however many micro-batches it has
    assert (value["tokens"], less["tokens"]) == (1024, 1024)
    assert main(["parallelize", "tiny.json", *ASKED, *stages, "--gap", "0.5"]) == 0
    assert " 4 layers, 1024 tokens per step\n" in capsys.readouterr().out


def test_several_fabrics_are_set_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    slow = 'complete(4, bandwidth="1GB/s")'
    assert main(["parallelize", "tiny.json", *ASKED, "--fabric", slow]) == 0
    table = capsys.readouterr().out.split("plan of \\ on")[1].split("\n\n")[0]
    rows = [re.findall(r"[\d.]+ [mun]s", line) for line in table.splitlines()[1:]]
    fast, slowly, isolated = ([parse_time_ns(cell.replace(" ", "")) for cell in row] for row in rows)
    assert [len(fast), len(slowly), len(isolated)] == [2, 2, 2]
    for column, own in enumerate((fast[0], slowly[1])):
        # each was searched to a gap of 20%
        assert own * 0.8 <= min(fast[column], slowly[column], isolated[column])
    assert fast[0] <= fast[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gpt2", "--fabric", "ring:4"], "--gpu"),
        (["gpt2", "--gpu", "a100"], "--fabric FABRIC is missing"),
        (["gpt22", *ASKED], "gpt22"),
        (["gpt2", *ASKED[:-4]], "--tokens N is missing"),
        (["gpt2", *ASKED, "--tokens", "many"], "expected a number of tokens"),
        (["gpt2", *ASKED, "--sequence", "300"], "not a multiple of the sequence length of 300 tokens"),
        (["tiny.json", *ASKED, "--mesh", "5"], "lays out 5 ranks"),
        (["tiny.json", *ASKED, "--overlap", "some"], "unknown overlap 'some'"),
        (["tiny.json", *ASKED, "--schedule", "rong"], "did you mean ring"),
        (["tiny.json", *ASKED, "--memory", "80"], "has no unit"),
        (["tiny.json", *ASKED, "--gap", "2"], "gap 2.0: expected a share"),
        (["tiny.json", *ASKED, "--pin", "wq"], "expected TENSOR=STATE"),
        (["tiny.json", *ASKED, "--pin", "wqq=k:0"], "no tensor 'wqq'"),
        (["tiny.json", *ASKED, "--pin", "wq=x:0"], "expected DIM:AXIS"),
        (["tiny.json", *ASKED, "--pin", "wq=k:7"], "no axis '7'"),
        (["tiny.json", *ASKED, "--pin", "wq=d:0", "--pin", "wq=k:0"], "appears twice"),
        (["tiny.json", *ASKED, "--export", "plan.txt"], "ends with .py"),
        (["tiny.json", *ASKED, "--export", "x.py", "-o", "./x.py"], "different files"),
        (["tiny.json", *ASKED, "--micro-batches", "4"], "expected stages, an axis pp of the mesh"),
        (["tiny.json", *ASKED, "--mesh", "pp=4", "--micro-batches", "8"], "stages only"),
        (
            ["tiny.json", *ASKED, "--mesh", "pp=2,0=2", "--micro-batches", "3"],
            "--micro-batches 3: expected a divisor of the 8 sequences",
        ),
        (["alexnet", *ASKED], "treadle capture"),
        (["none.json", *ASKED], "none.json"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["parallelize", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("treadle: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
