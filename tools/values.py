"""Compare the results of 260 commands with those recorded: `python -m tools.values {record,compare}`.

The commands are in tools/values.txt, the record in tests/golden/values.json: per command its exit status,
exact values of its JSON, heights and steps, predicted times, the files that it writes, and CPU in units of a
fixed loop. Prose, measured seconds, paths and versions are left out; of long lists a hash is stored.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from treadle.cli.main import main as treadle

ROOT = Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "tools" / "values.txt"
RECORD = ROOT / "tests" / "golden" / "values.json"

_SKIPPED = {
    *("bytes", "seconds", "quick_s", "full_s", "measured_on", "nccl_version"),
    *("packing", "decomposition", "outcome", "doubts", "notes", "refusal", "not_simulated"),
    *("path", "source", "cost_model_source", "model", "compute_times", "summary", "signature", "needs"),
}
"""Keys whose values are measured, prose, or about how rather than what."""
_LEAST = {"height_max", "steps", "hops", "hops_max", "layers", "sends", "rounds", "messages", "operations"}
"""Keys of whole numbers that may fall and may not rise."""
_NAMES = ("algorithm", "name")
"""Keys that name a row of a list, where all rows have different ones."""
_MEASURING = {"run", "testbed", "execute"}
"""Commands whose floats depend on the machine."""
_WITHOUT_JSON = ("schema", "topology export")
_PROSE = re.compile(r"[a-z]{2,},? [a-z]{2,},? [a-z]{2,}|\n")
_PICTURES = {".html", ".svg", ".png", ".pdf"}
_RUN_DEPENDENT = re.compile(rb'"(?:seconds|version|provenance)": ?(?:\{[^{}]*\}|"[^"]*"|[0-9.e+-]+)')
_FLOATS = re.compile(rb"(?<![\w.+-])-?\d+\.\d{8,}(?:e[+-]?\d+)?(?![\w.])")
"""Floats whose last digits depend on the machine's linear algebra."""
_SLOWER, _TIME, _FLOAT = 1.1, 1.01, 1e-6
_ALLOWED_S = 0.1


@dataclass(frozen=True)
class Block:
    """Commands that run one after the other in a folder, and the files to write before each."""

    steps: tuple[tuple[str, str], ...]
    """("write FILE", text) or (command, "")."""

    @property
    def commands(self) -> tuple[str, ...]:
        """The command lines, without what is written by hand."""
        return tuple(command for command, _ in self.steps if not command.startswith("write "))

    def chains(self) -> list[Block]:
        """The parts that read no file of each other."""
        chains: list[tuple[set[str], list[tuple[str, str]]]] = []
        for step in self.steps:
            words = {part for word in shlex.split(step[0]) for part in re.split("[,:]", word)}
            read = [chain for chain in chains if chain[0] & words]
            chains = [chain for chain in chains if chain not in read]
            written = set(re.findall(r"(?:^write| -o) (\S+)", step[0]))
            steps = [earlier for chain in read for earlier in chain[1]]
            chains.append((written.union(*(files for files, _ in read)), [*steps, step]))
        return [Block(tuple(steps)) for _, steps in chains]


def blocks() -> list[Block]:
    """Return the blocks of tools/values.txt, each cut into chains."""
    found, steps = list[Block](), list[tuple[str, str]]()
    for line in [*COMMANDS.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("> "):
            steps[-1] = (steps[-1][0], f"{steps[-1][1]}{line[2:]}\n")
        elif line and not line.startswith("#"):
            steps.append((line, ""))
        elif not line and steps:
            found += Block(tuple(steps)).chains()
            steps = []
    return found


def yardstick() -> float:
    """Return the CPU seconds of a fixed loop, about .1 on a machine of 2024."""
    start = time.thread_time()
    counts: dict[int, int] = {}
    for i in range(600_000):
        counts[i % 997] = counts.get(i % 997, 0) + i * i % 7
    return time.thread_time() - start


def measure(
    block: Block, wanted: re.Pattern[str], keep: Path | None = None, *, in_process: bool = False
) -> dict[str, dict[str, Any]]:
    """Run a block up to its last wanted command, and return the record of each wanted command."""
    run = _run_here if in_process else _run
    if not any(wanted.search(command) for command in block.commands):
        return {}
    records: dict[str, dict[str, Any]] = {}
    last = max(i for i, (command, _) in enumerate(block.steps) if wanted.search(command))
    with tempfile.TemporaryDirectory(prefix="treadle-values-") as name:
        folder, before = Path(name, "here"), dict[str, Any]()
        folder.mkdir()
        for command, text in block.steps[: last + 1]:
            if command.startswith("write "):
                (folder / command.removeprefix("write ")).write_text(text, encoding="utf-8")
                before = _files(folder)
                continue
            status, output, cpu = run(command, folder)
            after = _files(folder)
            if wanted.search(command):
                written = {file: value for file, value in after.items() if before.get(file) != value}
                records[command] = _record(command, status, output, written) | {"cpu": round(cpu, 3)}
            if keep is not None:
                (keep / f"{re.sub('[^a-zA-Z0-9]+', '-', command)[:120]}.json").write_text(output)
            before = after
    return records


def _words(command: str) -> list[str]:
    """Return the arguments of a command, which answers in JSON if it can."""
    return [*shlex.split(command), *(() if command.startswith(_WITHOUT_JSON) else ("--json",))]


def _settings(folder: Path) -> dict[str, str]:
    """Return the environment variables of a command: none of the user's files are read or written."""
    own = str(folder.parent / "own")
    folders = dict.fromkeys(("HOME", "TREADLE_CACHE_DIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), own)
    return folders | {"OMP_NUM_THREADS": "1", "COLUMNS": "96"}


def _run_here(command: str, folder: Path) -> tuple[int, str, float]:
    """Exit status and standard output of a command in this process; no CPU is measured."""
    output = io.StringIO()
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, _settings(folder)),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        status = treadle(_words(command))
    return status, output.getvalue(), 0.0


def _run(command: str, folder: Path) -> tuple[int, str, float]:
    """Exit status, standard output, and CPU in units of the loop, which runs before and after."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TREADLE_")}
    environment |= _settings(folder)
    before = yardstick()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "treadle", *_words(command)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    unit = (before + yardstick()) / 2
    return process.returncode, text, _cpu(usage) / unit


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _record(command: str, status: int, output: str, written: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a command: exact values, those that may only fall, times, and files."""
    verb = command.split()[0]
    exact, least, times = dict[str, Any](), dict[str, Any](), dict[str, Any]()
    try:
        value = json.loads(output)
    except ValueError:
        value = {"stdout": hashlib.sha256(output.encode()).hexdigest()[:16]}
    rows: dict[str, list[Any]] = {}
    for pattern, leaves in sorted(_patterns(value, verb).items()):
        if pattern == "witness.lengths[]" and "--method bisection" in command:
            continue  # which of equal cuts is found depends on the machine's eigenvectors
        name = pattern.rsplit(".", 1)[-1].removesuffix("[]")
        kept = leaves if "[]" in pattern else leaves[0]
        if all(isinstance(leaf, int) and not isinstance(leaf, bool) for leaf in leaves) and name in _LEAST:
            least[pattern] = kept
        elif name.endswith("_s") and not re.search("_per_s$|bound|alpha|latency", name):
            times[pattern] = kept
        elif "[=" in pattern and name != "algbw_exact":
            rows.setdefault(pattern[: pattern.index("]") + 1], []).append([pattern, kept])
        else:
            text = json.dumps(kept)
            exact[pattern] = kept if len(text) <= 120 else f"{len(leaves)} values {_hash(text.encode())}"
    exact |= {row: f"{len(kept)} values {_hash(json.dumps(kept).encode())}" for row, kept in rows.items()}
    return {"status": status, "exact": exact, "least": least, "times": times, "files": dict(written)}


def _patterns(value: Any, verb: str) -> dict[str, list[Any]]:
    """Values by their path without positions: rows[].time_s has those of all rows in order."""
    found: dict[str, list[Any]] = {}
    for pattern, leaf in _leaves(value, ""):
        if isinstance(leaf, float):
            if verb in _MEASURING:
                continue
            leaf = float(f"{leaf:.7g}")
        elif isinstance(leaf, str) and (tempfile.gettempdir() in leaf or _PROSE.search(leaf)):
            leaf = "prose"
        found.setdefault(pattern, []).append(leaf)
    return {pattern: ["prose"] if "prose" in leaves else leaves for pattern, leaves in found.items()}


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            if key in _SKIPPED:
                yield f"{path}.{key}".lstrip("."), "prose"
            else:
                yield from _leaves(part, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list):
        for place, part in zip(_places(value), value, strict=True):
            yield from _leaves(part, f"{path}[{place}]")
    else:
        yield path, value


def _places(rows: Sequence[Any]) -> list[str]:
    """How the rows are called in paths: by their names, as [=ring], or all alike."""
    for key in _NAMES:
        names = [row.get(key) for row in rows if isinstance(row, dict)]
        if len(names) == len(rows) > 1 and None not in names and len({*names}) == len(rows):
            return [f"={name}" for name in names]
    return [""] * len(rows)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _files(folder: Path) -> dict[str, Any]:
    """Size and hash of each plan without provenance; hash of every other file but pictures and pages."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or "__pycache__" in name:
            continue
        if path.suffix in _PICTURES:
            found[name] = "picture"
        elif zipfile.is_zipfile(path):
            found[name] = [path.stat().st_size, _hash(_plan(path))]
        else:
            found[name] = _hash(_FLOATS.sub(_rounded, _RUN_DEPENDENT.sub(b"", path.read_bytes())))
    if len(found) > 40:
        return {"all": f"{len(found)} files {_hash(json.dumps(found).encode())}"}
    return found


def _rounded(match: re.Match[bytes]) -> bytes:
    return f"{float(match[0]):.7g}".encode()


def _plan(path: Path) -> bytes:
    """The members of a plan in order, without the manifest's provenance."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in sorted(archive.namelist())}
    manifest = json.loads(members["manifest.json"])
    manifest.pop("provenance", None)
    members["manifest.json"] = json.dumps(manifest, sort_keys=True).encode()
    return b"".join(name.encode() + data for name, data in members.items())


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return what is worse or otherwise than recorded, and what is better."""
    worse, better = list[str](), list[str]()
    if old["status"] != new["status"]:
        worse.append(f"exit status {old['status']} -> {new['status']}")
    for part in ("exact", "least", "times", "files"):
        for key in sorted({*old[part], *new[part]}):
            if key not in old[part] or key not in new[part]:
                worse.append(f"{key}: {'missing' if key in old[part] else 'new'} in {part}")
                continue
            before, after = old[part][key], new[part][key]
            if before != after:
                change = f"{key}: {_shown(before)} -> {_shown(after)}"
                (worse if _is_worse(part, before, after) else better).append(change)
    return worse, [change for change in better if change]


def _is_worse(part: str, before: Any, after: Any) -> bool:
    """Whether a value is not what it was, or for heights and times not at most what it was."""
    pairs = list(_pairs(before, after))
    if part == "files" or any(type(a) is not type(b) and None in (a, b) for a, b in pairs):
        return True
    if part == "least":
        return any(b > a for a, b in pairs)
    if part == "times":
        return any(b > a * _TIME for a, b in pairs if a is not None)
    return not all(
        a == b or (isinstance(a, float) and isinstance(b, float) and abs(a - b) <= _FLOAT * abs(a))
        for a, b in pairs
    )


def _pairs(before: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(before, list) and isinstance(after, list):
        if len(before) != len(after):
            yield None, after
        else:
            yield from zip(before, after, strict=True)
    else:
        yield before, after


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."


def measure_all(
    wanted: re.Pattern[str], jobs: int, keep: Path | None = None, repeats: int = 1
) -> dict[str, dict[str, Any]]:
    """Run all blocks with wanted commands, and return the records with the least CPU of all repeats."""
    with ThreadPoolExecutor(jobs) as pool:
        parts = list(pool.map(lambda block: measure(block, wanted, keep), [*blocks()] * repeats))
    records: dict[str, dict[str, Any]] = {}
    for command, record in (item for part in parts for item in part.items()):
        first = records.setdefault(command, record)
        first["cpu"] = min(first["cpu"], record["cpu"])
        for change in differences(first, record)[0]:
            print(f"{command}\n  differs from run to run: {change}", file=sys.stderr)
    return records


def load() -> dict[str, dict[str, Any]]:
    """Return the recorded values by command."""
    records: dict[str, dict[str, Any]] = json.loads(RECORD.read_text(encoding="utf-8"))
    return records


def _write(records: Mapping[str, Mapping[str, Any]]) -> None:
    """A line for each part of a command, so that a diff shows which part changed."""
    lines = [
        f"{json.dumps(command)}: {{\n"
        + ",\n".join(
            f" {json.dumps(key)}: {json.dumps(part, ensure_ascii=False)}" for key, part in record.items()
        )
        + "\n}"
        for command, record in records.items()
    ]
    RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _compare(records: Mapping[str, Mapping[str, Any]], cpu: bool, again: Any) -> int:
    """Print what differs from the record; return the number of commands that are worse."""
    kept, bad = load(), 0
    unit = yardstick()
    for command, record in records.items():
        if command not in kept:
            print(f"{command}\n  not recorded: run `python -m tools.values record --only ...`")
            bad += 1
            continue
        worse, better = differences(kept[command], record)
        limit = kept[command]["cpu"] * _SLOWER + _ALLOWED_S / unit
        used = record["cpu"]
        for _ in range(2):
            if cpu and used > limit:
                used = min(used, again(command)["cpu"])
        if cpu and used > limit:
            worse.append(f"CPU: {kept[command]['cpu'] * unit:.2f} s -> {used * unit:.2f} s")
        bad += bool(worse)
        if worse or better:
            print(
                command, *(f"  {line}" for line in worse), *(f"  better: {line}" for line in better), sep="\n"
            )
    total, before = (
        sum(r["cpu"] for r in part) * unit
        for part in (records.values(), [kept[c] for c in records if c in kept])
    )
    print(f"{len(records)} commands, {bad} differ; {total:.0f} CPU s, recorded {before:.0f}")
    return bad


def main(words: Sequence[str] | None = None) -> int:
    """Record, or compare with the record."""
    parser = argparse.ArgumentParser(prog="python -m tools.values", description=__doc__)
    parser.add_argument("mode", choices=["record", "compare"])
    parser.add_argument("--only", default="", metavar="REGEX", help="only commands that match")
    parser.add_argument(
        "--cpu", action="store_true", help="also compare CPU, slower ones measured three times"
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="blocks at once (2)")
    parser.add_argument(
        "--repeats", type=int, default=1, metavar="N", help="runs, of which the quickest counts (1)"
    )
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="folder for the JSON of each command")
    given = parser.parse_args(words)
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
    wanted = re.compile(given.only)
    records = measure_all(wanted, given.jobs, given.keep, given.repeats)
    if given.mode == "record":
        kept = load() if RECORD.exists() else {}
        names = [command for block in blocks() for command in block.commands]
        _write({name: records.get(name) or kept[name] for name in names if name in records or name in kept})
        return 0
    return bool(
        _compare(
            records, given.cpu, lambda command: measure_all(re.compile(f"^{re.escape(command)}$"), 1)[command]
        )
    )


if __name__ == "__main__":
    sys.exit(main())
