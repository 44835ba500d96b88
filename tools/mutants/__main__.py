"""The command: `python -m tools.mutants --help`, or `make mutants COUNT=100`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from queue import SimpleQueue

from ..core_tests import CORE_TESTS
from .blocks import instrument
from .choose import TestMap, read_map, write_blocks
from .collect import FOLDER
from .core_build import CoreBuilder
from .mutant import Mutant
from .sample import CORE, all_mutants, drawn, source_files
from .tree import ROOT, Tree
from .trial import Fate, Outcome, TestServer, run_tests
from .type_check import left_to_types

STATE = ROOT / "build" / "mutants"
_FLOOR_S, _FACTOR = 60.0, 5.0
"""A run of tests is ended after so many seconds and so many times what the tests take by themselves."""
_FIRST = 40
"""Tests that run first, by themselves: most faults end there, and a hang is over soon."""

_CORE_LIMIT_S = 3600.0
_OF_CORE = (*CORE_TESTS, "tests/cli/test_transcripts.py")
"""Beside what runs every function: whole commands, whose every figure is kept."""


def main() -> int:
    """Make the map, or plant faults and say which survive; 1 if any does."""
    asked = _arguments()
    if asked.map is not None:
        return _make_map(asked.map, asked.jobs)
    if not (STATE / "blocks.json").exists():
        sys.exit("mutants: no map of what tests run; make it first: python -m tools.mutants --map tests")
    mutants = list(_wanted(asked))
    print(f"mutants: {len(mutants)}, seed {asked.seed}", flush=True)
    fates: Counter[Fate] = Counter()
    with (STATE / "outcomes.jsonl").open("a", encoding="utf-8") as kept:
        for outcome in _tried(mutants, asked):
            fates[outcome.fate] += 1
            kept.write(json.dumps({"seed": asked.seed, **asdict(outcome)}) + "\n")
            kept.flush()
            _print(outcome)
    valid = sum(fates.values()) - fates[Fate.INVALID] - fates[Fate.ENDED]
    noticed = fates[Fate.KILLED] + fates[Fate.TIMEOUT]
    print(f"\n{noticed} of {valid} noticed; " + ", ".join(f"{fate}: {n}" for fate, n in fates.items()))
    return int(noticed < valid)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "--map", nargs="+", metavar="TESTS", help="first: run these tests, note what they run"
    )
    parser.add_argument("--count", type=int, default=100, help="faults, over packages in proportion to size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="copies of the tree side by side")
    parser.add_argument("--in", dest="within", metavar="TEXT", help="only files whose path contains this")
    parser.add_argument("--at", metavar="PATH:LINE", help="every fault of this line")
    parser.add_argument("--without-core", action="store_true", help="leave the compiled core out")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds of tests for each fault")
    return parser.parse_args()


def _make_map(tests: list[str], jobs: int) -> int:
    tree = Tree(STATE / "map-tree")
    STATE.mkdir(parents=True, exist_ok=True)
    for old in (*STATE.glob("notes-*.jsonl"), *STATE.glob("child-*")):
        old.unlink()
    files = [name for names in source_files(ROOT).values() for name in names if name.endswith(".py")]
    write_blocks(instrument(files, tree.folder, tree.folder / "src"), STATE)
    words = ["-q", "-p", "no:cacheprovider", "-p", "tools.mutants.collect", "--tb=line", "-n", str(jobs)]
    environment = tree.environment(**{FOLDER: str(STATE)})
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, *tests], cwd=tree.folder, env=environment, check=False
    )
    print(f"mutants: tests that fail here are left out (status {done.returncode})")
    return 0


def _wanted(asked: argparse.Namespace) -> Iterable[Mutant]:
    if asked.at is not None:
        path, _, line = asked.at.rpartition(":")
        found = all_mutants(path, (ROOT / path).read_text(encoding="utf-8"))
        return [mutant for mutant in found if mutant.line == int(line)]
    files = source_files(ROOT)
    if asked.without_core:
        files.pop(CORE)
    if asked.within:
        files = {
            package: [name for name in names if asked.within in name] for package, names in files.items()
        }
        files = {package: names for package, names in files.items() if names}
    return drawn(ROOT, files, asked.count, asked.seed)


def _tried(mutants: list[Mutant], asked: argparse.Namespace) -> Iterator[Outcome]:
    """Outcomes, in the order of the mutants; each job has a copy of its own."""
    tests, servers = read_map(STATE), SimpleQueue[TestServer]()
    try:
        builder = CoreBuilder() if any(mutant.path.startswith(CORE) for mutant in mutants) else None
    except FileNotFoundError as error:
        sys.exit(f"mutants: {error}, or leave the compiled core out (--without-core)")

    def trial(mutant: Mutant) -> Outcome:
        server = servers.get()
        try:
            return _trial(server, mutant, tests, asked.budget, builder)
        finally:
            servers.put(server)

    with ExitStack() as stack, ThreadPoolExecutor(asked.jobs) as pool:
        for job in range(min(asked.jobs, len(mutants))):
            servers.put(stack.enter_context(TestServer(Tree(STATE / f"tree-{job}"))))
        yield from pool.map(trial, mutants)


def _trial(
    server: TestServer, mutant: Mutant, tests: TestMap, budget_s: float, builder: CoreBuilder | None
) -> Outcome:
    if mutant.path.startswith(CORE):
        return run_tests(server, _OF_CORE, _CORE_LIMIT_S, build=builder, mutant=mutant)
    chosen = tests.chosen(mutant.path, mutant.line, budget_s)
    for part in filter(None, (chosen[:_FIRST], chosen[_FIRST:])):
        limit_s = _FLOOR_S + _FACTOR * sum(tests.seconds[test] for test in part)
        outcome = run_tests(server, part, limit_s, mutant=mutant)
        if outcome.fate is not Fate.SURVIVED:
            return outcome
    return left_to_types(server.tree, outcome if chosen else run_tests(server, [], _FLOOR_S, mutant=mutant))


def _print(outcome: Outcome) -> None:
    print(f"{outcome.fate}: {outcome.mutant.name} ({outcome.n_tests} tests) {outcome.word}", flush=True)
    if outcome.fate in (Fate.SURVIVED, Fate.UNTESTED):
        source = (ROOT / outcome.mutant.path).read_text(encoding="utf-8")
        print(outcome.mutant.difference(source), flush=True)


if __name__ == "__main__":
    sys.exit(main())
