"""Brings the emulated network up and always takes it down again; removes what crashed owners left."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.runtime.signals import signals_interrupt, signals_wait
from treadle.testbed.delay_line import TUN_DEVICE, DelayLine, delay_line
from treadle.testbed.layout import DELAY_LINE, EmulatedLayout, SystemCommand, set_up_commands

_NAME = re.compile(r"treadle-(\d+)-(\d+)-[0-9a-f]{6}(-\d+)?")
_TOOLS = ("ip", "tc", "unshare", "sh")
_TRIAL = "qdisc add dev lo root tbf rate 1mbit burst 32000 limit 64000"
_LIMIT_S = 60.0
_STOP_S = 2.0


def new_prefix() -> str:
    """Return a unique name that identifies the owner: process id and start time."""
    own = os.getpid()
    return f"treadle-{own}-{_start_of(own)}-{secrets.token_hex(3)}"


@dataclass(frozen=True)
class EmulatedNetwork:
    """A network that is up.

    Parameters
    ----------
    folder : Path
        For temporary files, which goes with the network.
    line : DelayLine, optional
        The links, where they have a delay.
    """

    folder: Path
    line: DelayLine | None = None


def missing_requirement(*, with_delay: bool = False) -> str | None:
    """Return why this host cannot emulate networks, in one line; None if it can.

    Tries a namespace and a tbf for real, and removes them; of links `with_delay`, which need no tbf, a
    namespace.
    """
    if sys.platform != "linux":
        return f"network namespaces need Linux, this is {sys.platform}"
    if os.geteuid() != 0:
        return "network namespaces need root"
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if absent:
        return f"{absent[0]} is not installed (Debian: iproute2, util-linux)"
    if with_delay and not os.access(TUN_DEVICE, os.R_OK | os.W_OK):
        return f"links with a delay need {TUN_DEVICE}"
    name = new_prefix()
    try:
        _run(SystemCommand(("ip", "netns", "add", name)))
        if not with_delay:
            _run(SystemCommand(("tc", "-n", name, "-batch", "-"), (_TRIAL,)))
    except ScheduleError as error:
        return f"the kernel lacks network namespaces or the tbf queueing discipline ({error})"
    finally:
        _delete_namespaces([name])
    return None


def require(*, with_delay: bool = False) -> None:
    """Raise MissingDependencyError if this host cannot emulate networks."""
    reason = missing_requirement(with_delay=with_delay)
    if reason is not None:
        raise MissingDependencyError(f"the testbed cannot run here: {reason}")


@contextlib.contextmanager
def network(layout: EmulatedLayout, prefix: str) -> Iterator[EmulatedNetwork]:
    """The network of a layout, for as long as the context lasts.

    Raises
    ------
    ScheduleError
        If a command fails; nothing is left then.
    MissingDependencyError
        If links with a delay cannot be built.

    Notes
    -----
    SIGTERM and SIGHUP end the context like Ctrl-C. While things are being removed, signals wait. Only
    SIGKILL or a crash of the interpreter leaves something behind: `remove_leftovers` removes that.
    """
    folder = Path(tempfile.gettempdir()) / prefix
    with signals_interrupt(), contextlib.ExitStack() as stack:
        try:
            folder.mkdir(mode=0o700)
            line = None
            for command in set_up_commands(layout):
                if command.words == (DELAY_LINE,):
                    line = stack.enter_context(delay_line(command.lines))
                else:
                    _run(command)
            yield EmulatedNetwork(folder, line)
        finally:
            with signals_wait():
                _delete_namespaces(list(layout.namespaces))
                shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers() -> list[str]:
    """Remove namespaces, processes within and folders whose owner is no longer alive.

    Returns
    -------
    list of str
        Names of what was removed.
    """
    namespaces = [name for name in _listed_namespaces() if _is_orphan(name)]
    folders = [path for path in Path(tempfile.gettempdir()).glob("treadle-*") if _is_orphan(path.name)]
    with signals_wait():
        _delete_namespaces(namespaces)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    return sorted({*namespaces, *(folder.name for folder in folders)})


def _is_orphan(name: str) -> bool:
    match = _NAME.fullmatch(name)
    return match is not None and _start_of(int(match[1])) != match[2]


def _start_of(process: int) -> str:
    """Return a process's start, in clock ticks since boot: with its id it identifies a process."""
    try:
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "0"
    fields = status.rpartition(")")[2].split()  # the command's name may hold anything
    return "0" if fields[0] in "ZX" else fields[19]


def _listed_namespaces() -> list[str]:
    if shutil.which("ip") is None:
        return []
    return [line.split()[0] for line in _said(["ip", "netns", "list"]).splitlines() if line.strip()]


def _run(command: SystemCommand) -> None:
    text = "\n".join(command.lines) + "\n" if command.lines else None
    try:
        done = subprocess.run(
            command.words,
            input=text,
            stdin=subprocess.DEVNULL if text is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ScheduleError(f"{' '.join(command.words)}: {error}") from None
    if done.returncode:
        reason = " ".join(done.stderr.split())[:200] or f"exit status {done.returncode}"
        raise ScheduleError(f"{' '.join(command.words)}: {reason}")


def _said(words: list[str]) -> str:
    """Return the output of a clean-up command; "" if it fails: the rest is removed all the same."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        ).stdout
    return ""


def _delete_namespaces(names: list[str]) -> None:
    """End the processes inside, then remove the namespaces; their links go with them."""
    present = set(_listed_namespaces())
    found = [name for name in names if name in present]
    _end_processes(found)
    for name in found:
        _said(["ip", "netns", "delete", name])


def _end_processes(names: list[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        processes = _processes(names)
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        deadline = time.monotonic() + _STOP_S
        while processes and _processes(names) and time.monotonic() < deadline:
            time.sleep(0.05)


def _processes(names: list[str]) -> list[int]:
    """Ids of the processes in our namespaces."""
    found: list[int] = []
    for name in names:
        found += [int(line) for line in _said(["ip", "netns", "pids", name]).split()]
    return found
