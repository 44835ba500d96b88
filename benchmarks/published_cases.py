"""The cases that papers print synthesis times of, and larger ones: time, memory and proved gap of each.

``python benchmarks/published_cases.py --docs docs`` measures every case and writes
results/published-cases.md there. Each is a command in a process of its own, verifier and bound included.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from large_alltoall import printed_and_used

from treadle.atomic import write_bytes

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

_LARGE_HEAD = """
## A million GPUs, ten thousand nodes, failed parts

| command: `treadle` ... | optimum or upper bound, algbw | gap | CPU s | MB |
|---|---|---|---|---|
"""

_HEAD = """# Published cases at scale

Cases as PCCL and SyCCL publish them. CPU seconds and MB are of the whole command with bound and verifier, on
two shared cores; the gap is proved, below the printed upper bound. The papers' times were measured on other
machines, [2] on A100 boxes, and count synthesis alone; "-" where no time of the case is at hand.

| command: `treadle` ... | gap | CPU s | MB | printed by papers |
|---|---|---|---|---|
"""
_FOOT = """
`simulate` takes the plan that `solve` writes of the same fabric and collective.

[1] PCCL, arXiv 2606.07019; the fabric of that time was not checked. [2] L. Zhao, dissertation, section 4.6.5.

`python benchmarks/published_cases.py --docs docs` makes this page.
"""


def measured_row(command: str, printed: str, folder: Path) -> str:
    """A line of the table."""
    verb, fabric, collective, *rest = command.split()
    plan = folder / "plan.zip"
    if verb == "simulate":
        printed_and_used(f"solve {fabric} {collective} -q -o {plan}")
        _, cpu_s, megabytes = printed_and_used(f"simulate {plan} {' '.join(rest)}")
        gap = "-"
    else:
        text, cpu_s, megabytes = printed_and_used(command)
        gap = _gap(text)
    return f"| `{command}` | {gap} | {cpu_s:.1f} | {megabytes:.0f} | {printed} |\n"


def large_row(command: str) -> str:
    """A line of the table of large fabrics."""
    text, cpu_s, megabytes = printed_and_used(command)
    found = re.search(r"^(optimum|upper bound) +([^,]*?) algbw.*?(?:exact: ([^)]*))?", text, re.MULTILINE)
    answer = f"{'at most ' if found and found[1] != 'optimum' else ''}{found[2]}" if found else "?"
    shown = re.sub(r"--without .*", "--without` 100 GPUs `", command).replace(" ``", "")
    return f"| `{shown}` | {answer} | {_gap(text)} | {cpu_s:.1f} | {megabytes:.0f} |\n".replace(" `` ", " ")


def _gap(text: str) -> str:
    below = re.search(r"([\d.]+%)\s+below\s+the\s+(?:upper\s+)?(?:bound|optimum)", text)
    sides = re.search(r"\(gap ([\d.e-]+)\)", text)
    if below or sides:
        return below[1] if below else f"{float(sides[1]):.2%}" if sides else ""
    return "0" if "busbw, optimal" in text or "(exact" in text else "-"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--scratch", type=Path, default=Path(), help="folder for a plan")
    given = parser.parse_args()
    rows = ""
    for command, printed in CASES:
        rows += measured_row(command, printed, given.scratch)
        print(rows.splitlines()[-1], flush=True)
    large = ""
    for command in LARGE:
        large += large_row(command)
        print(large.splitlines()[-1], flush=True)
    text = _HEAD + rows + _FOOT + _LARGE_HEAD + large
    write_bytes(given.docs / "results/published-cases.md", text.encode())


if __name__ == "__main__":
    main()
