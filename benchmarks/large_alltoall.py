"""Routes and steps of an all-to-all on 216 to 2000 nodes: what they lose, and what they take.

``python -m benchmarks.large_alltoall --write`` measures every row and writes the record large-alltoall;
``--only WORD...`` measures the rows whose command has one of the words and keeps the others.
Each row is a command in a process of its own: CPU seconds and largest memory are those of all of it, the
verifier's part included.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tools.records import Table, read_rows, write_tables

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
COLUMNS = ("command: `treadle` ...", "without layers", "result", "steps", "CPU s", "MB")


@dataclass(frozen=True)
class Measured:
    """A command's figures, as the page has them."""

    unlayered: str
    loss: str
    steps: str
    cpu_s: float
    megabytes: float

    def row(self, command: str) -> list[str]:
        """A row of the table."""
        figures = f"{self.cpu_s:.0f}", f"{self.megabytes:.0f}"
        return [f"`{command}`", self.unlayered, self.loss, self.steps, *figures]


def read_figures(text: str, cpu_s: float, megabytes: float) -> Measured:
    """Figures from what a command prints; ValueError where it tells no loss."""
    words = " ".join(text.split())
    layered = re.search(r"without layers ([\d.]+%), in .*? ([\d.]+%)", words)
    loss = layered[2] if layered else re.search(r"([\d.]+%) below the upper bound", words)
    if loss is None:
        raise ValueError(f"no loss in: {text[-300:]}")
    steps = re.search(r"^steps +(\d+)", text, re.MULTILINE)
    return Measured(
        unlayered=layered[1] if layered else "-",
        loss=loss if isinstance(loss, str) else loss[1],
        steps=steps[1] if steps else "-",
        cpu_s=cpu_s,
        megabytes=megabytes,
    )


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


def measure_rows(
    name: str, title: str, columns: Sequence[str], commands: Mapping[str, Callable[[str], list[str]]]
) -> None:
    """Measure commands and put their rows, one by one, into the table of a record, which keeps its others."""
    parser = argparse.ArgumentParser(description=f"Measure the table {title!r} of the record {name}.")
    parser.add_argument("--write", action="store_true", help="into the record")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="WORD", help="rows with one of these words"
    )
    asked = parser.parse_args()
    rows = {row[0].strip("`"): row for row in read_rows(name, title)}
    for command, measured in commands.items():
        if any(word in command for word in asked.only):
            rows[command] = measured(command)
            print(*rows[command], sep=" | ", flush=True)
            if asked.write:
                write_tables(name, Table(title, columns, [rows[one] for one in commands if one in rows]))


if __name__ == "__main__":
    measure_rows(
        "large-alltoall",
        "Routes and steps",
        COLUMNS,
        dict.fromkeys(COMMANDS, lambda command: measure(command).row(command)),
    )
