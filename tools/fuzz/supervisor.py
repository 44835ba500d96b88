"""Workers in processes of their own, ended when a case hangs, takes too much memory or the time is up."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import ROOT
from .finding import MESSAGE_LENGTH, Finding, Kind
from .limits import CPU_S, HARD_MEMORY_BYTES, WALL_S, cpu_seconds, resident_bytes

_POLL_S = 0.2
_STACK = re.compile(r'File ".*/treadle/(?!engine)[^"]*?(\w+)\.py", line \d+ in (\w+)')


class WorkerError(Exception):
    """A worker ended before it checked anything."""


@dataclass
class Search:
    """What workers have done and found."""

    findings: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    cases: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)

    def add(self, found: Finding) -> None:
        """Keep a finding, unless the same fault is known by a smaller case."""
        known = self.findings.get(found.signature)
        if known is None or len(json.dumps(found.case)) <= len(json.dumps(known.case)):
            self.findings[found.signature] = found


class Watched:
    """A process that checks cases, and the folder by which it talks.

    Parameters
    ----------
    command : sequence of str
    folder : Path
        Emptied of what an earlier process left; the process is to write there as `worker` does.
    environment : mapping, optional
        Of the process; default this one's.
    tools : Path
        Where the process runs: of this folder it imports ``tools``.
    cpu_s, wall_s : float
        Seconds that a case may take.
    memory_bytes : int
        Most that the process may hold.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        environment: Mapping[str, str] | None = None,
        tools: Path = ROOT,
        cpu_s: float = CPU_S,
        wall_s: float = WALL_S,
        memory_bytes: int = HARD_MEMORY_BYTES,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*"):
            path.unlink()
        self.folder, self.cpu_s, self.wall_s, self.memory_bytes = folder, cpu_s, wall_s, memory_bytes
        with (folder / "printed.txt").open("w", encoding="utf-8") as printed:
            self.process = subprocess.Popen(
                [*command],
                cwd=tools,
                env=None if environment is None else dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._read, self._case, self._since = 0, "", time.monotonic()

    def notes(self) -> list[dict[str, Any]]:
        """What the process noted since the last call."""
        with contextlib.suppress(FileNotFoundError):
            text = (self.folder / "notes.jsonl").read_text(encoding="utf-8")[self._read :]
            whole = text[: text.rfind("\n") + 1]
            self._read += len(whole)
            return [json.loads(line) for line in whole.splitlines()]
        return []

    def trouble(self) -> Finding | None:
        """What is wrong with the current case, if it hangs, takes too much memory or ended the process."""
        if self.process.poll() is not None:
            return self._about(Kind.DIED, self._ending()) if self.process.returncode else None
        if resident_bytes(self.process.pid) > self.memory_bytes:
            return self._stopped(Kind.MEMORY, f"more than {self.memory_bytes / 2**20:.0f} MB")
        current = self._current()
        if current is None:
            return None
        marker = f"{current['cpu_s']} {current['target']}"
        if marker != self._case:
            self._case, self._since = marker, time.monotonic()
        if cpu_seconds(self.process.pid) - current["cpu_s"] > self.cpu_s:
            return self._stopped(Kind.HANG, f"more than {self.cpu_s:g} s of CPU time")
        if time.monotonic() - self._since > self.wall_s:
            return self._stopped(Kind.HANG, f"more than {self.wall_s:g} s")
        return None

    def end(self) -> None:
        """End the process, what it started, and wait for it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _current(self) -> dict[str, Any] | None:
        try:
            value: dict[str, Any] = json.loads((self.folder / "current.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return value

    def _stopped(self, kind: Kind, what: str) -> Finding | None:
        """The finding, with the place in the code where the process was when it was ended."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGUSR1)
        time.sleep(5 * _POLL_S)
        self.end()
        stacks = ""
        with contextlib.suppress(FileNotFoundError):
            stacks = (self.folder / "stacks.txt").read_text(encoding="utf-8", errors="replace")
        frame = _STACK.search(stacks)
        place = "" if frame is None else f" in {frame[1]}.{frame[2]}"
        return self._about(kind, f"{kind}{place}", f"{what}\n{stacks}")

    def _about(self, kind: Kind, place: str, message: str = "") -> Finding | None:
        """A finding about the current case; an error of the search itself where there is none."""
        current = self._current()
        printed = (self.folder / "printed.txt").read_text(encoding="utf-8", errors="replace")
        if current is None:
            raise WorkerError(f"{place} before the first case: {printed[-MESSAGE_LENGTH:]}")
        text = f"{message}\n{printed}".strip()[:MESSAGE_LENGTH]
        return Finding(current["target"], kind, place, text, current["case"])

    def _ending(self) -> str:
        code = self.process.returncode
        return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"


def search(
    *,
    seed: str,
    seconds: float,
    jobs: int,
    targets: Sequence[str],
    known: Collection[tuple[str, str, str]],
    state: Path,
    database: Path | None,
) -> Search:
    """Let workers check random cases until the time is up.

    Parameters
    ----------
    seed : str
        Round i draws the same cases for the same seed, whichever worker runs it.
    seconds : float
        Of wall time.
    jobs : int
        Processes side by side.
    targets : sequence of str
        Taken in turn.
    known : collection of signatures
        Findings that are passed over.
    state : Path
        Folder for what workers write.
    database : Path, optional
        Folder of what earlier searches found interesting.
    """
    done, end = Search(), time.monotonic() + seconds
    state.mkdir(parents=True, exist_ok=True)
    (state / "known.json").write_text(json.dumps(sorted(known)), encoding="utf-8")

    def started(job: int, first: int) -> Watched:
        words = f"--seed {seed} --first {first} --stride {jobs} --targets {','.join(targets)}".split()
        words += ["--known", str(state / "known.json")]
        words += [] if database is None else ["--database", str(database)]
        return Watched(worker_command(state / str(job), words), state / str(job))

    workers, rounds = {}, {job: job for job in range(jobs)}
    try:
        for job in range(jobs):
            workers[job] = started(job, job)
        while time.monotonic() < end:
            time.sleep(_POLL_S)
            for job, worker in workers.items():
                rounds[job] = _take(worker, done, rounds[job], jobs)
                found = worker.trouble()
                if found is None and worker.process.returncode is None:
                    continue
                rounds[job] = _take(worker, done, rounds[job], jobs)
                if found is not None:
                    done.add(found)
                rounds[job] += jobs
                workers[job] = started(job, rounds[job])
    finally:
        for job, worker in workers.items():
            worker.end()
            _take(worker, done, rounds[job], jobs)
    return done


def _take(worker: Watched, done: Search, number: int, jobs: int) -> int:
    """Read what a worker noted; the round that it is in now."""
    for note in worker.notes():
        if "finding" in note:
            done.add(Finding.from_json(note["finding"]))
        elif "round" in note:
            done.cases[note["target"]] += note["cases"]
            done.seconds[note["target"]] += note["seconds"]
            number = note["round"] + jobs
    return number


def worker_command(folder: Path, words: Sequence[str]) -> list[str]:
    """How a worker is started; `words` are its arguments but for the folder."""
    return [sys.executable, "-m", "tools.fuzz.worker", "--folder", str(folder), *words]
