"""The cases that papers print synthesis times of, and larger ones: time, memory and proved gap of each.

``python -m benchmarks.published_cases --write`` measures every case and writes the record published-cases.
Each is a command in a process of its own, verifier and bound included; `simulate` takes the plan of `solve`.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from benchmarks.large_alltoall import printed_and_used
from tools.records import Table, show, write_tables

CASES = (
    ("solve torus:8,8,8 alltoall", "PCCL: 11.68 min for an all-to-all of 512 NPUs [1]"),
    ("solve torus:8,16,16 alltoall", "-"),
    ("solve torus:8,8,8 alltoall --mesh 4,128 --axes 1", "-"),
    ("solve torus:8,16,16 alltoall --mesh 4,512 --axes 1", "-"),
    ("solve dgx_h100:64 allgather", "SyCCL: 37 min for 512 GPUs; ForestColl: 4 min [2]"),
    ("solve dgx_h100:64 allreduce", "-"),
    ("solve dgx_h100:256 allgather", "ForestColl: 37 min for 1,024 GPUs [2]"),
    ("solve dgx_h100:256 allreduce", "-"),
    ("simulate dgx_h100:1024 allgather --size 1G", "-"),
    ("simulate dgx_h100:1024 allreduce --size 1G", "-"),
)
"""Commands, and what papers print of the same number of GPUs."""

_MILLION = (
    "dgx_h100:131072",
    "rail_optimized(131072,spines=8)",
    "pods(4096,32,oversubscription=2)",
    "leaf_spine(32768,16,gpus_per_leaf=32,oversubscription=2)",
)
_BOXES = ",".join(f"box{81 * i}.gpu{i % 8}" for i in range(100))
_RACKS = ",".join(f"rack{2 * i}.gpu{i % 72}" for i in range(100))
LARGE = (
    *(f"bound {fabric} {kind}" for fabric in _MILLION for kind in ("allgather", "allreduce", "alltoall")),
    *(f"solve {fabric} allgather" for fabric in _MILLION),
    "solve dgx_h100:131072 allreduce",
    "solve gb200_nvl72:8192 allgather",
    "bound torus:100,100 allreduce",
    "bound torus:100,100 alltoall",
    "bound generalized_kautz:4,10000 allreduce",
    "bound generalized_kautz:4,10000 alltoall",
    "bound dgx_h100:8192 alltoall",
    f"bound dgx_h100:8192 broadcast --without {_BOXES}",
    f"bound dgx_h100:8192 allreduce --without {_BOXES}",
    f"solve gb200_nvl72:256 allgather --without {_RACKS}",
    "solve leaf_spine(2048,16,gpus_per_leaf=32) broadcast",
    "solve slimfly:43 allreduce",
)
"""Commands on large fabrics."""

NAME = "published-cases"
CASE_COLUMNS = ("command: `treadle` ...", "gap", "CPU s", "MB", "printed by papers")
LARGE_COLUMNS = ("command: `treadle` ...", "optimum or upper bound, algbw", "gap", "CPU s", "MB")


def measured_row(command: str, printed: str, folder: Path) -> list[str]:
    """A row of the first table."""
    verb, fabric, collective, *rest = command.split()
    plan = folder / "plan.zip"
    if verb == "simulate":
        printed_and_used(f"solve {fabric} {collective} -q -o {plan}")
        _, cpu_s, megabytes = printed_and_used(f"simulate {plan} {' '.join(rest)}")
        gap = "-"
    else:
        text, cpu_s, megabytes = printed_and_used(command)
        gap = _gap(text)
    return [f"`{command}`", gap, f"{cpu_s:.1f}", f"{megabytes:.0f}", printed]


def large_row(command: str) -> list[str]:
    """A row of the table of large fabrics."""
    text, cpu_s, megabytes = printed_and_used(command)
    found = re.search(r"^(optimum|upper bound) +([^,]*?) algbw.*?(?:exact: ([^)]*))?", text, re.MULTILINE)
    answer = f"{'at most ' if found and found[1] != 'optimum' else ''}{found[2]}" if found else "?"
    few, _, rest = command.partition(" --without ")
    shown = f"`{few} --without` 100 GPUs" if rest else f"`{few}`"
    return [shown, answer, _gap(text), f"{cpu_s:.1f}", f"{megabytes:.0f}"]


def _gap(text: str) -> str:
    below = re.search(r"([\d.]+%)\s+below\s+the\s+(?:upper\s+)?(?:bound|optimum)", text)
    sides = re.search(r"\(gap ([\d.e-]+)\)", text)
    if below or sides:
        return below[1] if below else f"{float(sides[1]):.2%}" if sides else ""
    return "0" if "busbw, optimal" in text or "(exact" in text else "-"


def main() -> None:
    """Measure and print; write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"into the record {NAME}")
    parser.add_argument("--scratch", type=Path, default=Path(), help="folder for a plan")
    asked = parser.parse_args()
    tables = [
        Table("Cases of the papers", CASE_COLUMNS, [measured_row(*case, asked.scratch) for case in CASES]),
        Table(
            "A million GPUs, ten thousand nodes, failed parts",
            LARGE_COLUMNS,
            [large_row(command) for command in LARGE],
        ),
    ]
    show(*tables)
    if asked.write:
        write_tables(NAME, *tables)


if __name__ == "__main__":
    main()
