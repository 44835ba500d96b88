"""Bad input: one line on stderr, the right exit status, no file half-written."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from treadle import planning
from treadle.cli.main import main
from treadle.errors import MissingDependencyError
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.plan_files.archive import load_plan, save_plan
from treadle.topologies import parse
from treadle.verification.violations import Report


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must fail; returns its one line."""

    def check(*argv: str, status: int = 2) -> str:
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        assert main(list(argv)) == status
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("treadle: ")
        assert err.count("\n") == 1
        assert "Traceback" not in err
        after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
        assert after == before
        return err

    return check


def fabric(**changes: Any) -> dict[str, Any]:
    value: dict[str, Any] = {
        "treadle": "topology",
        "version": 1,
        "name": "small",
        "nodes": [{"name": "a", "kind": "compute"}, {"name": "b", "kind": "compute"}],
        "links": [
            {"tail": "a", "head": "b", "bandwidth_bytes_per_s": 1000},
            {"tail": "b", "head": "a", "bandwidth_bytes_per_s": 1000},
        ],
    }
    return {**value, **changes}


def link(bandwidth: object, head: str = "b") -> list[dict[str, Any]]:
    return [*fabric()["links"], {"tail": "a", "head": head, "bandwidth_bytes_per_s": bandwidth}]


FABRICS: dict[str, tuple[object, int]] = {
    "zero bandwidth": (fabric(links=link(0)), 2),
    "negative bandwidth": (fabric(links=link(-5)), 2),
    "2^63 bandwidth": (fabric(links=link(2**63)), 2),
    "float bandwidth": (fabric(links=link(1.5)), 2),
    "unknown node": (fabric(links=link(1000, head="nobody")), 2),
    "unknown key": (fabric(colour="red"), 2),
    "newer version": (fabric(version=99), 2),
    "duplicate name": (fabric(nodes=[*fabric()["nodes"], {"name": "a", "kind": "compute"}]), 2),
    "unknown kind": (fabric(nodes=[*fabric()["nodes"], {"name": "c", "kind": "router"}]), 2),
    "switch without links": (fabric(nodes=[*fabric()["nodes"], {"name": "s", "kind": "switch"}]), 2),
    "one rank": (fabric(nodes=fabric()["nodes"][:1], links=[]), 2),
    "no nodes": (fabric(nodes=[], links=[]), 2),
    "disconnected": (fabric(links=[]), 3),
    "one way only": (fabric(links=fabric()["links"][:1]), 3),
    "a list": ([1, 2], 2),
    "null": (None, 2),
}


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("command", ["bound", "solve", "compare"])
def test_bad_fabrics(name: str, command: str, tmp_path: Path, refused: Callable[..., str]) -> None:
    value, status = FABRICS[name]
    path = tmp_path / "fabric.json"
    path.write_text(json.dumps(value))
    extra = ["-o", str(tmp_path / "plan")] if command == "solve" else []
    refused(command, str(path), "allgather", *extra, status=status)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b'{"a": NaN}',
        b"[" * 100_000,
        b'{"treadle": 1, "treadle": 2}',
        b"PK\x03\x04",
    ],
)
def test_bad_json(content: bytes, tmp_path: Path, refused: Callable[..., str]) -> None:
    path = tmp_path / "fabric.json"
    path.write_bytes(content)
    refused("topology", "show", str(path))


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["solve"], 2),
        (["solve", "ring:4"], 2),
        (["frobnicate"], 2),
        (["solve", "ring:4", "allgather", "--nope"], 2),
        (["solve", "ring:4", "gossip"], 2),
        (["solve", "no_such_fabric:2", "allgather"], 2),
        (["solve", "ring(__import__('os'))", "allgather"], 2),
        (["solve", "ring(10**9)", "allgather"], 2),
        (["solve", "dgx_a100(-1)", "allgather"], 2),
        (["solve", "ring:4", "allgather", "--algorithm", "magic"], 2),
        (["solve", "ring:4", "allgather", "--algorithm", "rs-ag"], 2),
        (["solve", "ring:4", "allgather", "--trees", "0"], 2),
        (["solve", "ring:4", "allgather", "--trees", "two"], 2),
        (["solve", "ring:4", "allgather", "--trees", "2", "--exact"], 2),
        (["solve", "ring:4", "allgather", "--time-limit", "30"], 2),
        (["solve", "ring:4", "allgather", "--time-limit", "0s"], 2),
        (["solve", "ring:4", "allgather", "--ranks", "0"], 2),
        (["solve", "ring:4", "allgather", "--ranks", "0,9"], 2),
        (["solve", "ring:4", "allgather", "--ranks", "0-1,1"], 2),
        (["solve", "ring:4", "allgather", "--ranks", "3-1"], 2),
        (["solve", "ring:4", "allgather", "--ranks", ""], 2),
        (["solve", "ring:4", "allgather", "--ranks", "0-99999999999"], 2),
        (["solve", "ring:4", "allgather", "--root", "1"], 2),
        (["solve", "ring:4", "broadcast", "--root", "4"], 2),
        (["solve", "ring:4", "broadcast", "--root", "nobody"], 2),
        (["solve", "ring:4", "allgather", "--weights", "1,2"], 2),
        (["solve", "ring:4", "allgather", "--weights", "1,2,x,4"], 2),
        (["solve", "ring:4", "allgather", "--weights", "0,0,0,0"], 2),
        (["solve", "ring:4", "allgather", "--weights", "1,1,1,-1"], 2),
        (["solve", "ring:4", "allreduce", "--weights", "1,1,1,1"], 2),
        (["solve", "ring:4", "allgather", "-o", "{}/absent/folder/plan"], 2),
        (["solve", "ring:4", "allgather", "-o", "/"], 2),
        (["bound", "ring:1", "allgather"], 2),
        (["verify", "{}/absent"], 2),
        (["verify", "/"], 2),
        (["compare", "ring:4", "allgather", "--algorithms", "ring,magic"], 2),
        (["topology", "show", "{}/absent.json"], 2),
        (["topology", "export", "ring:4", "-o", "{}/absent/x"], 2),
    ],
)
def test_bad_usage(argv: list[str], status: int, refused: Callable[..., str], tmp_path: Path) -> None:
    refused(*(word.replace("{}", str(tmp_path)) for word in argv), status=status)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "good.plan"
    assert main(["solve", "ring:4", "allgather", "-o", str(path), "-q"]) == 0
    return path


@pytest.mark.parametrize("argv", [["--size", "64"], ["--size", "1M..1K"], ["--size", "-1K"], ["--size", ""],
                                  ["--dtype", "float7"], ["--redop", "xor"], ["--runtime", "gpu"],
                                  ["--iterations", "0"]])  # fmt: skip
def test_bad_run_options(argv: list[str], plan: Path, refused: Callable[..., str]) -> None:
    refused("run", str(plan), *argv)


@pytest.mark.parametrize("argv", [["--to", "nccl"], ["--profile", "nvidia"], ["--channels", "0"],
                                  ["--name", 'a"><x/>']])  # fmt: skip
def test_bad_lower_options(argv: list[str], plan: Path, refused: Callable[..., str], tmp_path: Path) -> None:
    refused("lower", str(plan), "-o", str(tmp_path / "x.xml"), *argv, status=2)


@pytest.mark.parametrize("command", ["verify", "run", "lower"])
@pytest.mark.parametrize("keep", [0, 1, 100, -1, -30])
def test_truncated_plans(command: str, keep: int, plan: Path, refused: Callable[..., str]) -> None:
    plan.write_bytes(plan.read_bytes()[:keep])
    refused(command, str(plan))


def test_ranks_without_links_are_infeasible(refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "apart.json"
    path.write_text(json.dumps(fabric(links=[])))
    for command in ("bound", "compare", "solve"):
        for kind in CollectiveKind:
            text = refused(command, str(path), kind.value, status=3)
            assert "'a'" in text
            assert "'b'" in text


def test_bandwidths_end_at_the_promised_range(refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "wide.json"
    path.write_text(json.dumps(fabric(links=link(2**50 + 1))))
    for command in ("bound", "compare", "solve"):
        text = refused(command, str(path), "allreduce")
        assert "1125899906842625" in text
    assert main(["bound", 'ring(4, bandwidth="1125899906842624B/s")', "allreduce"]) == 0


def test_flipped_bits_are_refused_or_harmless(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = plan.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 60)):
        plan.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        status = main(["verify", str(plan)])
        err = capsys.readouterr().err
        assert status in (0, 1, 2)
        assert "Traceback" not in err
        assert err.count("\n") == (status == 2)


@pytest.mark.parametrize(
    "changes",
    [
        {"algbw": Fraction(3)},
        {"algbw": Fraction(1, 3)},
        {"optimal_algbw": Fraction(3)},
        {"optimal_algbw": Fraction(4, 3), "certificate": BottleneckCut((0, 1))},
        {"certificate": BottleneckCut((0, 1, 2, 3))},
        {"collective": Collective(CollectiveKind.ALLGATHER, (0, 1, 2, 3), weights=(1, 2, 1, 1))},
        {"topology": parse('with_failed_links(ring(4), "n0->n1")')},
    ],
)
def test_false_claims_never_verify(
    changes: dict[str, Any], plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_plan(plan, dataclasses.replace(load_plan(plan), **changes))
    assert main(["verify", str(plan), "--json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert values["verified"] is False
    assert values["n_violations"] >= 1
    assert values["violations"]
    assert main(["verify", str(plan)]) == 1
    assert "verified     NO" in capsys.readouterr().out


def test_interruption_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "solve", interrupted)
    assert main(["solve", "ring:4", "allgather", "-o", str(tmp_path / "plan")]) == 130
    assert capsys.readouterr().err == "treadle: interrupted; nothing was written\n"
    assert not list(tmp_path.iterdir())


def test_a_rejected_schedule_is_no_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    def rejected(*arguments: object, **options: object) -> None:
        raise planning.RejectedError("magic", Report((), 3, None, None, None))

    monkeypatch.setattr(planning, "solve", rejected)
    argv = ["solve", "ring:4", "allgather", "-o", str(tmp_path / "plan")]
    assert "violations: 3" in refused(*argv, status=1)


def test_missing_core_names_the_build_command(
    monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    def broken() -> None:
        raise MissingDependencyError("the compiled core cannot be loaded; build it with: pip install .")

    monkeypatch.setattr("treadle.cli.application._commands", broken)
    assert "pip install ." in refused("topology", "list", status=5)


def test_missing_dependency_names_its_extra(
    plan: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    def absent(*arguments: object, **options: object) -> None:
        raise MissingDependencyError("mpi4py is not installed; pip install 'treadle[mpi]'")

    monkeypatch.setattr(planning, "is_reporter", absent)
    assert "treadle[mpi]" in refused("run", str(plan), "--runtime", "mpi", status=5)


def test_the_parser_speaks_plain_words(plan: Path, refused: Callable[..., str]) -> None:
    for argv in (["--dtype", "foo"], ["--redop", "xor"], ["--iterations", "0"], ["--seed", "a"]):
        message = refused("run", str(plan), *argv)
        assert "Value error" not in message
        assert "Input should" not in message
        assert argv[0] in message


def test_options_are_no_values(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = refused("solve", "ring:4", "allgather", "-o", "--json")
    assert "-o/--output: expected a value, found the option --json (./--json is a file" in message
    assert "found the option --dtype" in refused("run", "absent", "--size", "--dtype")
    assert "found the option -o" in refused("topology", "export", "ring:4", "-o", "-o")
    assert not [path for path in tmp_path.iterdir() if path.is_file()]
    assert main(["solve", "ring:4", "allgather", "-q", "-o", "./--json"]) == 0
    assert (tmp_path / "--json").exists()
