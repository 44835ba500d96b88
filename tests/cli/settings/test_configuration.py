"""``treadle.toml`` and variables of the environment: what wins, what is refused, where a value comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.cli.settings.configuration import SETTINGS


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder; the user's own file is in ``user/treadle``."""
    for one in SETTINGS:
        monkeypatch.delenv(one.variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "user" / "treadle").mkdir(parents=True)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def write(place: Path, text: str, *, own: bool = False) -> Path:
    path = place / "user" / "treadle" / "treadle.toml" if own else place / "here" / "treadle.toml"
    path.write_text(text)
    return path


@pytest.fixture
def line(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """The one line of a command that is refused."""

    def check(*argv: str) -> str:
        assert main(list(argv)) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
        return err

    return check


def test_the_fabric_may_be_left_out(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(place, 'fabric = "ring:4"\n')
    for argv in (
        ["bound", "allgather"],
        ["--", "bound", "AllGather"][1:],
        ["solve", "--algorithm", "bfb", "allgather"],
        ["compare", "allgather", "--algorithms", "ring"],
        ["simulate", "allgather", "--size", "1K"],
        ["topology", "show"],
        ["routes"],
        ["testbed", "--dry-run"],
    ):
        assert main(argv) == 0, argv
        assert "ring(4)" in capsys.readouterr().out or argv[0] == "testbed"
    # what is typed wins
    assert main(["bound", "ring:8", "allgather"]) == 0
    assert "ring(8)" in capsys.readouterr().out


def test_the_cache_of_the_users_file_is_used_and_forgotten(place: Path) -> None:
    write(place, f'cache = "{place}/kept"\n', own=True)
    before = os.environ.get("TREADLE_CACHE_DIR")
    argv = ["design", "--nodes", "8", "--degree", "2", "--alltoall", "bound", "-q", "-o", "p"]
    assert main(argv) == 0
    assert any((place / "kept").iterdir())
    assert os.environ.get("TREADLE_CACHE_DIR") == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('fabrik = "x"', "treadle.toml: unknown key 'fabrik'; did you mean fabric?"),
        ('[cost-model]\nalfa = "5us"', "unknown key 'cost-model.alfa'; did you mean cost-model.alpha?"),
        ('[colours]\na = "b"', "unknown key 'colours'; 'treadle config' lists them all"),
        ("fabric = ", "malformed TOML"),
        ("unit = true", "unit: expected a string"),
        ('unit = ""', "unit: expected a string"),
        ('unit = "GB"', "treadle.toml: unit: unit 'GB': expected one such as GB/s"),
        ('cluster = "tcp://somewhere:1"', "cluster is taken from the user's own treadle.toml"),
        ('cache = "/somewhere"', "cache is taken from the user's own treadle.toml"),
        ('time-limit = "30"', "treadle.toml: time-limit: time '30' has no unit"),
        ("threads = 0", "treadle.toml: threads '0': expected at least 1"),
        ('[cost-model]\nalpha = "10"', "treadle.toml: cost-model.alpha: time '10' has no unit"),
        ('[cost-model]\nreduction = "fast"', "cost-model.reduction: bandwidth 'fast': expected a number"),
        (
            '[cost-model]\nforwarding = "store-and-go"',
            "forwarding 'store-and-go'; did you mean store-and-forward?",
        ),
        ('[cost-model]\nsharing = "none"', "sharing 'none'; expected one of"),
        ("[cost-model]\nlatency-model = 1", "latency-model '1'"),
        ('profile = "azur"', "treadle.toml: profile 'azur'; did you mean azure?"),
        ('max-memory = "much"', "treadle.toml: max-memory: size 'much': expected a number with a unit"),
        ("#" * 70000, "larger than 65536 bytes"),
        ('unit = "\\u00e9"', "unit 'é'"),
    ],
)
def test_files_that_are_refused(text: str, said: str, place: Path, line: Callable[..., str]) -> None:
    write(place, text)
    assert said in line("bound", "ring:4", "allgather")


def test_a_value_cannot_command_the_terminal(
    place: Path, line: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, 'fabric = "ring:4\\u001b[2J"\n')
    assert main(["config"]) == 0
    assert "\x1b" not in capsys.readouterr().out
    said = line("bound", "allgather")
    assert "\x1b" not in said
    assert "\\x1b[2J" in said


def test_config_shows_what_is_in_force(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(place, 'fabric = "ring:4"\n')
    monkeypatch.setenv("TREADLE_THREADS", "2")
    monkeypatch.setenv("TREADLE_FABRC", "x")
    assert main(["config"]) == 0
    out = capsys.readouterr().out
    rows = {row.split()[0]: row.split() for row in out.splitlines() if row.strip()}
    assert rows["fabric"] == ["fabric", "ring:4", "treadle.toml"]
    assert rows["threads"] == ["threads", "2", "TREADLE_THREADS"]
    assert rows["unit"][1] == "-"
    assert "TREADLE_FABRC is not a variable of Treadle; did you mean TREADLE_FABRIC?" in out
    assert main(["config", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert {one["key"]: one.get("value") for one in values["settings"]}["threads"] == "2"
