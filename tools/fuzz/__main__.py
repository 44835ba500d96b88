"""The command: `python -m tools.fuzz --help`, or `make fuzz MINUTES=10`."""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from . import ROOT
from .compare import Verdict, judge_findings
from .examples import FOLDER, Example, keep_example, read_example, read_examples
from .finding import Finding
from .repeat import repeat
from .supervisor import Search, search

SEED_OF_COMMIT = "commit"
TARGET_NAMES = (
    *("spanning", "alltoall", "round-trip", "wide", "plan-files"),
    *("texts", "readers", "expressions", "commands"),
)
"""As `targets.TARGETS`, which takes long to import."""


def main() -> int:
    """Search, say what was found, keep it; 1 if anything counts."""
    asked = _arguments()
    with tempfile.TemporaryDirectory(prefix="treadle-fuzz-") as folder:
        state = Path(folder)
        if asked.repeat:
            return _repeat(asked.repeat, state)
        seed = _seed(asked.seed)
        known = {one.finding.signature for one in read_examples().values() if one.is_open}
        targets = asked.targets.split(",") if asked.targets else list(TARGET_NAMES)
        print(f"fuzz: {asked.minutes:g} min, {asked.jobs} processes, seed {seed}", flush=True)
        done = search(
            seed=seed,
            seconds=60 * asked.minutes,
            jobs=asked.jobs,
            targets=targets,
            known=known,
            state=state,
            database=asked.database,
        )
        _print_search(done, len(known))
        verdicts = judge_findings(
            [found for found in done.findings.values() if found.signature not in known],
            state,
            with_parent=asked.against_parent,
        )
        return _close(verdicts, asked.keep)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--seed", help="any text; 'commit': the commit's hash; default another each time")
    parser.add_argument("--targets", help=f"with commas between; default all: {', '.join(TARGET_NAMES)}")
    parser.add_argument(
        "--against-parent",
        action="store_true",
        help="fail only for what the parent of the commit does not have",
    )
    parser.add_argument("--keep", type=Path, default=FOLDER, help="folder for examples of what is found")
    parser.add_argument("--database", type=Path, help="folder of Hypothesis' examples, read and written")
    parser.add_argument("--repeat", nargs="*", metavar="FILE", type=Path, help="check these examples again")
    return parser.parse_args()


def _seed(wanted: str | None) -> str:
    if wanted is None:
        return secrets.token_hex(8)
    if wanted != SEED_OF_COMMIT:
        return wanted
    done = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit("fuzz: no commit to take the seed from; name one (--seed)")
    return done.stdout.strip()


def _print_search(done: Search, n_known: int) -> None:
    for target in done.cases:
        print(f"  {target}: {done.cases[target]} cases in {done.seconds[target]:.0f} s of CPU time")
    print(f"  findings: {len(done.findings)}; known and passed over: {n_known}", flush=True)


def _close(verdicts: Iterable[tuple[Finding, Verdict]], keep: Path) -> int:
    failed = 0
    for found, verdict in verdicts:
        path = keep_example(found, keep)
        print(f"\n{verdict.value}: {found.target}, {found.kind}, {found.place}\n{found.message}")
        print(f"kept: {path}\nagain: python -m tools.fuzz --repeat {path}", flush=True)
        failed += verdict is Verdict.NEW
    if failed:
        print(f"\nfuzz: {failed} findings count; mend them, or commit the examples as open")
    return int(failed > 0)


def _repeat(paths: Iterable[Path], state: Path) -> int:
    failed = 0
    for path in paths:
        example: Example = read_example(path)
        found = repeat(example.finding, state).found
        print(
            f"{path}: nothing is wrong"
            if found is None
            else f"{path}: {found.kind}, {found.place}\n{found.message}"
        )
        failed += found is not None
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
