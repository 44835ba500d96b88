"""``treadle.toml`` and variables of the environment: what wins, what is refused, where a value comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.cli.main import main
from treadle.cli.settings.configuration import SETTINGS, chosen_settings
from treadle.errors import FormatError


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


def test_errors_say_where_the_fabric_comes_from(place: Path, line: Callable[..., str]) -> None:
    write(place, 'fabric = "rnig:4"\n')
    assert "did you mean ring?" in line("bound", "allgather")
    assert "(the fabric is rnig:4, of treadle.toml)" in line("bound", "allgather")
    write(place, 'fabric = "ring:4"\n')
    assert "unknown collective 'allreduc'; did you mean allreduce?" in line("bound", "allreduc")
    assert "COLLECTIVE is missing" in line("bound")
    assert "COLLECTIVE is missing" in line("bound", "dgx_a100:2")


def test_options_win_over_variables_and_these_over_files(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unit() -> str:
        assert main(["topology", "show", 'ring(4, bandwidth="1GB/s")']) == 0
        return capsys.readouterr().out.splitlines()[1].split()[-1]

    assert unit() == "GB/s"
    own = write(place, 'unit = "MB/s"\n', own=True)
    assert unit() == "MB/s"
    assert chosen_settings()["unit"].origin == str(own)
    write(place, 'unit = "kB/s"\n')
    assert unit() == "kB/s"
    monkeypatch.setenv("TREADLE_UNIT", "B/s")
    assert unit() == "B/s"
    assert main(["topology", "show", 'ring(4, bandwidth="1GB/s")', "--unit", "Gbit/s"]) == 0
    assert "8 Gbit/s" in capsys.readouterr().out


def test_json_stays_in_bytes_per_second(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for unit in ("", "Gbit/s"):
        monkeypatch.setenv("TREADLE_UNIT", unit)
        assert main(["bound", "dgx_a100:2", "allgather", "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
        del found[-1]["seconds"]
    assert found[0] == found[1]
    assert found[0]["optimal_busbw_exact"] == "325000000000/1"


def test_the_cost_model_is_that_of_simulate_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(place, '[cost-model]\nalpha = "5us"\nforwarding = "store-and-forward"\n')
    assert main(["simulate", "ring:4", "allgather", "--size", "1K"]) == 0
    out = capsys.readouterr().out
    assert "alpha 5us per message" in out
    assert "store-and-forward" in out
    typed = ["simulate", "ring:4", "allgather", "--size", "1K", "--cost-model", "reference"]
    assert main(typed) == 0
    out = capsys.readouterr().out
    assert "cost model     reference: " in out
    assert "pipelined; store-and-forward" in out
    assert main([*typed, "--alpha", "5us"]) == 2
    capsys.readouterr()


def test_the_profile_is_for_msccl_xml_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(place, 'profile = "rccl"\n')
    assert main(["solve", "ring:4", "allgather", "-q", "-o", "p"]) == 0
    assert main(["lower", "p", "-o", "x.xml"]) == 0
    assert "for rccl" in capsys.readouterr().out
    assert main(["lower", "p", "--to", "mscclpp-json", "-o", "x.json"]) == 0
    assert main(["lower", "p", "--profile", "azure", "-o", "x.xml"]) == 0
    assert "for azure" in capsys.readouterr().out


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


def test_what_a_command_does_not_heed_does_not_stop_it(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_MAX_MEMORY", "much")
    assert main(["bound", "ring:4", "allgather", "-q"]) == 0
    write(place, "what is this")
    assert main(["bound", "--help"]) == 0


def test_choices_name_the_variable(
    place: Path, line: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_FORWARDING", "store-and-go")
    monkeypatch.setenv("TREADLE_PROFILE", "azur")
    said = line("lower", "nowhere.plan")
    assert "TREADLE_PROFILE: profile 'azur'; did you mean azure? Expected one of azure" in said
    said = line("simulate", "ring:4", "allgather")
    assert "TREADLE_FORWARDING: forwarding 'store-and-go'; did you mean store-and-forward?" in said


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


def test_a_fabric_of_the_users_file_may_lie_beside_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = write(place, 'fabric = "mine.json"\n', own=True)
    assert main(["topology", "export", "ring:4", "-o", str(own.parent / "mine.json")]) == 0
    assert main(["bound", "allgather"]) == 0
    assert "ring(4)" in capsys.readouterr().out


def test_an_unreadable_file_is_one_line(place: Path) -> None:
    (place / "here" / "treadle.toml").write_bytes(b"unit = \xff")
    with pytest.raises(FormatError, match="is not valid UTF-8"):
        chosen_settings()
