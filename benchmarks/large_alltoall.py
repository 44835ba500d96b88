"""Routes and steps of an all-to-all on 216 to 2000 nodes: what they lose, and what they take.

``python benchmarks/large_alltoall.py --docs docs`` measures every row and writes results/large-alltoall.md
there; ``--only WORD...`` measures the rows whose command has one of the words and keeps the others.
Each row is a command in a process of its own: CPU seconds and largest memory are those of all of it, the
verifier's part included.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from treadle.atomic import write_bytes

COMMANDS = (
    "routes generalized_kautz:4,256 --layers 5",
    "routes generalized_kautz:4,1000 --layers 8",
    "routes generalized_kautz:4,1000 --layers 6",
    "routes generalized_kautz:4,1000 --layer-changes --layers 3",
    "routes generalized_kautz:4,1000 --layer-changes --layers 4",
    "routes jellyfish:1000,4 --layers 8",
    "routes torus:8,8,8 --layers 4",
    "routes generalized_kautz:4,2000 --layers 8",
    "solve generalized_kautz:4,256 alltoall",
    "solve generalized_kautz:4,1000 alltoall --time-limit 60s",
)
PAGE = "results/large-alltoall.md"
_HEAD = """# All-to-all on many nodes: routes and steps

What routes in layers and steps lose on 256 to 2000 nodes; how they are found says
[routes](../algorithms/alltoall-routes.md#many-pairs-local-search). Losses are below the certified bound of
the fabric. CPU seconds and MB are of the whole command, with the bound and the verifier, on two shared cores:
other work there makes CPU seconds up to twice as many.

| command: `treadle` ... | without layers | result | steps | CPU s | MB |
|---|---|---|---|---|---|
"""
_FOOT = "\n`python benchmarks/large_alltoall.py --docs docs` makes this page.\n"


@dataclass(frozen=True)
class Measured:
    """A command's figures, as the page has them."""

    unlayered: str
    loss: str
    steps: str
    cpu_s: float
    megabytes: float

    def row(self, command: str) -> str:
        """A line of the table."""
        cells = (
            f"`{command}`",
            self.unlayered,
            self.loss,
            self.steps,
            f"{self.cpu_s:.0f}",
            f"{self.megabytes:.0f}",
        )
        return f"| {' | '.join(cells)} |\n"


def read_figures(text: str, cpu_s: float, megabytes: float) -> Measured:
    """Figures from what a command prints; ValueError where it tells no loss."""
    loss = re.search(r"([\d.]+%) below the bound", text)
    if loss is None:
        raise ValueError(f"no loss in: {text[-300:]}")
    unlayered = re.search(r"without layers ([\d.]+%)", text)
    steps = re.search(r"^steps +(\d+)", text, re.MULTILINE)
    return Measured(unlayered[1] if unlayered else "-", loss[1], steps[1] if steps else "-", cpu_s, megabytes)


def measure(command: str) -> Measured:
    """Run a command and read what it prints."""
    return read_figures(*printed_and_used(command))


def printed_and_used(command: str) -> tuple[str, float, float]:
    """What a command prints, CPU seconds and MB, in a process below one of its own: memory is its own."""
    inner = (
        "import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); "
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); "
        "print('used', used.ru_utime + used.ru_stime, used.ru_maxrss, flush=True); sys.exit(done.returncode)"
    )
    words = [sys.executable, "-c", inner, sys.executable, "-m", "treadle", *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    used = re.search(r"^used ([\d.]+) (\d+)$", done.stdout, re.MULTILINE)
    assert used is not None
    return done.stdout, float(used[1]), int(used[2]) / memory_unit()


def memory_unit() -> int:
    """Units of ru_maxrss in a megabyte: kilobytes, but bytes on macOS."""
    return 2**20 if sys.platform == "darwin" else 1024


def kept_rows(page: Path) -> dict[str, str]:
    """The rows that a page has, by command."""
    if not page.exists():
        return {}
    return {
        found[1]: found[0] + "\n"
        for found in re.finditer(r"^\| `(.*?)` \|.*$", page.read_text("utf-8"), re.M)
    }


def page_text(rows: Mapping[str, str]) -> str:
    """The whole page."""
    return _HEAD + "".join(rows[command] for command in COMMANDS if command in rows) + _FOOT


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--only", nargs="+", default=[""], metavar="WORD")
    given = parser.parse_args()
    page = given.docs / PAGE
    rows = kept_rows(page)
    for command in COMMANDS:
        if any(word in command for word in given.only):
            rows[command] = measure(command).row(command)
            print(rows[command], end="", flush=True)
            write_bytes(page, page_text(rows).encode())


if __name__ == "__main__":
    main()
