"""What is left of emulated networks: whose it is, and how it is removed; with commands that are stand-ins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.testbed import network as module
from treadle.testbed.layout import DELAY_LINE, SystemCommand, make_layout
from treadle.topologies import parse


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Namespaces with the processes in them; a process ends by SIGTERM, or else by SIGKILL where it is 9."""
    found: dict[str, Any] = {"a": [7, 8], "b": [], "c": [9], "asked": []}

    def said(words: list[str]) -> str:
        found["asked"].append(" ".join(words))
        if words[2] == "pids":
            return "\n".join(map(str, found[words[3]]))
        return "a (id: 0)\n\nb\nc\n" if words[2] == "list" else ""

    def kill(process: int, number: int) -> None:
        found["asked"].append((process, number))
        for name in "abc":
            if process in found[name] and (process != 9 or number == signal.SIGKILL):
                found[name].remove(process)
        if process == 8:
            raise ProcessLookupError

    monkeypatch.setattr(module, "_said", said)
    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(module, "_STOP_S", 0.0)
    monkeypatch.setattr(module.shutil, "which", lambda name: name)
    return found


def test_processes_of_all_namespaces_end_before_these_go(host: dict[str, Any]) -> None:
    assert module._listed_namespaces() == ["a", "b", "c"]
    assert module._processes(["c", "b", "a"]) == [9, 7, 8]
    host["asked"].clear()
    module._delete_namespaces(["a", "c", "gone"])
    told = [one for one in host["asked"] if not isinstance(one, str) or "pids" not in one]
    assert told == [
        "ip netns list",
        *((process, signal.SIGTERM) for process in (7, 8, 9)),
        (9, signal.SIGKILL),
        "ip netns delete a",
        "ip netns delete c",
    ]


def test_without_ip_there_are_no_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.shutil, "which", lambda _: None)
    assert module._listed_namespaces() == []


def test_names_tell_whether_their_owner_lives() -> None:
    own, prefix = os.getpid(), module.new_prefix()
    start = module._start_of(own)
    assert start.isdecimal()
    assert prefix.startswith(f"treadle-{own}-{start}-")
    assert module._start_of(2**31 - 1) == "0"
    for name, is_orphan in (
        (prefix, False),
        (f"{prefix}-31", False),
        (f"treadle-{own}-{int(start) + 1}-0123ab", True),
        (f"treadle-{own}-{int(start) + 1}-0123ab-7", True),
        (f"treadle-{own}-{int(start) + 1}-0123AB", False),  # no name of ours
        (f"treadle-{2**31 - 1}-5-0123ab", True),
        (f"treadle-{2**31 - 1}-0-0123ab", False),
        ("treadle", False),
    ):
        assert module._is_orphan(name) is is_orphan, name


def test_a_process_that_has_ended_owns_nothing() -> None:
    """It stays a zombie until somebody asks how it ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert module._start_of(process.pid) == "0"


def test_leftovers_of_the_dead_are_removed(
    host: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(module, "_is_orphan", lambda name: name in ("c", "treadle-d", "other"))
    for name in ("treadle-d", "treadle-e", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    assert module.remove_leftovers() == ["c", "treadle-d"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "treadle-e"]
    assert [one for one in host["asked"] if "delete" in str(one)] == ["ip netns delete c"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo 'a  b' >&2; echo c >&2; exit 3", "a b c"),
        ("exit 3", "exit status 3"),
        (f"echo {'x' * 201} >&2; exit 1", "x" * 200),
    ],
)
def test_commands_that_fail_say_why(script: str, reason: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        module._run(SystemCommand(("sh", "-c", script)))
    assert str(caught.value) == f"sh -c {script}: {reason}"
    module._run(SystemCommand(("sh", "-c", 'read one; read other; test "$one$other" = ab'), ("a", "b")))
    with pytest.raises(ScheduleError, match=r"^no-such-tool x: .*No such file"):
        module._run(SystemCommand(("no-such-tool", "x")))
    assert module._said(["sh", "-c", "echo told; exit 3"]) == "told\n"


@pytest.mark.parametrize("delay_ns", [None, 9])
@pytest.mark.parametrize("fails", [False, True])
def test_a_network_is_taken_down_in_any_case(
    fails: bool, delay_ns: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    layout = make_layout(parse("complete:2"), 10**6, prefix="p", delay_ns=delay_ns)
    asked: list[Any] = []

    def run(command: SystemCommand) -> None:
        asked.append(command.words[0])
        if fails and len(asked) == 3:
            raise ScheduleError("no")

    class Line:
        def __init__(self, lines: Any) -> None:
            asked.append(f"{DELAY_LINE} of {len(lines)}")

        def __enter__(self) -> str:
            return "line"

        def __exit__(self, *_: object) -> None:
            asked.append("ended")

    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(module, "_run", run)
    monkeypatch.setattr(module, "delay_line", Line)
    monkeypatch.setattr(module, "_delete_namespaces", lambda names: asked.append(tuple(names)))
    try:
        with module.network(layout, "own") as found:
            assert not fails
            assert (found.folder, found.folder.stat().st_mode & 0o777) == (tmp_path / "own", 0o700)
            assert found.line == (None if delay_ns is None else "line")
            (found.folder / "file").touch()
    except ScheduleError:
        assert fails
    assert list(tmp_path.iterdir()) == []
    assert ("p-0", "p-1") in asked
    assert (f"{DELAY_LINE} of 1" in asked, "ended" in asked) == (delay_ns is not None,) * 2


def test_a_host_is_tried_and_left_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(module, "sys", SimpleNamespace(platform="linux"))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(module.shutil, "which", lambda name: name)
    monkeypatch.setattr(module, "TUN_DEVICE", Path(os.devnull))
    monkeypatch.setattr(module, "new_prefix", lambda: "own")
    monkeypatch.setattr(module, "_run", lambda command: asked.append((*command.words, *command.lines)))
    monkeypatch.setattr(module, "_delete_namespaces", asked.append)
    assert module.missing_requirement() is None
    add, trial = ("ip", "netns", "add", "own"), ("tc", "-n", "own", "-batch", "-")
    shaped = "qdisc add dev lo root tbf rate 1mbit burst 32000 limit 64000"
    assert asked == [add, (*trial, shaped), ["own"]]
    asked.clear()
    assert module.missing_requirement(with_delay=True) is None
    assert asked == [add, ["own"]]

    def refused(_: SystemCommand) -> None:
        raise ScheduleError("ip: not permitted")

    monkeypatch.setattr(module, "_run", refused)
    with pytest.raises(MissingDependencyError) as caught:
        module.require()
    assert str(caught.value) == (
        "the testbed cannot run here: the kernel lacks network namespaces or the tbf queueing discipline "
        "(ip: not permitted)"
    )
    assert asked[2:] == [["own"]]
