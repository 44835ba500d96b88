"""What the order of sends is worth: simulated times of tree plans at fixed numbers of slices.

Run ``python benchmarks/send_order.py --json after.json``, the same in a checkout of an earlier version with
``--json before.json``, and then ``python benchmarks/send_order.py --before before.json --json after.json
--write docs/results/simulator-figures.md``: times that are in the file already are not simulated again. About
four minutes of CPU time. The time of S slices exceeds the bound by about an S-th of what one slice does,
so that few slices show the order best.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from treadle import planning
from treadle.atomic import write_bytes
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import task_graph
from treadle.units import format_size

BEGIN, END = "<!-- send_order.py begins -->", "<!-- send_order.py ends -->"
KINDS = ("allgather", "reduce-scatter", "allreduce", "broadcast", "reduce")
FABRICS = (
    "dgx_a100(2)",
    "dgx_a100(16)",
    "dgx_h100(1)",
    "dgx_h100(2)",
    "dgx_h100(16)",
    "mi250(1)",
    "mi250(2)",
    "mi250(2, 8)",
    "mi300x(2)",
    "dgx1_v100()",
    "gb200_nvl72(2)",
    "rail_optimized(8)",
    "leaf_spine(4, 2)",
    "leaf_spine(16, 8)",
    "leaf_spine(8, 4, oversubscription=2)",
    "fat_tree(6)",
    "pods(2, 2)",
    "pods(2, 4, oversubscription=2)",
    'torus(8, 8, bandwidth="50GB/s")',
    'torus(3, 3, 2, bandwidth="50GB/s")',
    'mesh(4, 4, bandwidth="50GB/s")',
    'hypercube(4, bandwidth="50GB/s")',
    'kautz(2, 3, bandwidth="50GB/s")',
)
SIZES = (2**16, 2**20, 2**24, 2**28, 2**30)
SLICES = (1, 2, 4, 8, 16, 32)
MOST_TASKS = 2**18
"""Of a simulation; those of a single slice and those of `SHOWN` are always made."""
ALPHA_NS = 1000
SHOWN = (
    ("leaf_spine(16, 8)", "allgather", 4),
    ("leaf_spine(16, 8)", "reduce-scatter", 4),
    ("dgx_h100(16)", "allgather", 4),
    ("dgx_h100(16)", "reduce-scatter", 8),
    ("dgx_h100(16)", "allreduce", 4),
    ("dgx_a100(16)", "reduce-scatter", 4),
    ("gb200_nvl72(2)", "allgather", 2),
    ("dgx_a100(2)", "allreduce", 4),
    ("dgx_h100(2)", "reduce-scatter", 4),
    ("mi250(2)", "reduce-scatter", 2),
    ('torus(8, 8, bandwidth="50GB/s")', "allreduce", 4),
)

Times = dict[str, float]
"""Share of the bound by key: fabric | collective | size | slices."""


def key_of(fabric: str, kind: str, size: int, slices: int) -> str:
    """The key of one simulation."""
    return f"{fabric}|{kind}|{size}|{slices}"


def measure(found: Times) -> Iterable[str]:
    """Simulate what is not in `found` yet; yields each case when it is."""
    for fabric in FABRICS:
        for kind in KINDS:
            if key_of(fabric, kind, SIZES[0], 1) in found:
                continue
            plan = planning.solve(fabric, kind, algorithm="forestcoll").plan
            assert plan.optimal_algbw is not None
            graph = task_graph(plan.topology, planning.program_of(plan, SIZES[-1]))
            for size in SIZES:
                for slices in SLICES:
                    is_small = slices * graph.n_tasks <= MOST_TASKS
                    if slices == 1 or is_small or (fabric, kind, slices) in SHOWN:
                        options = SimulationOptions(slices=slices, alpha_ns=ALPHA_NS)
                        time = simulate_graph(graph, size, options).time
                        found[key_of(fabric, kind, size, slices)] = float(size / plan.optimal_algbw / time)
            yield f"{fabric} {kind}"


def table(before: Mapping[str, float], after: Mapping[str, float]) -> list[str]:
    """The tables of the documentation."""
    lines = [
        "| fabric | collective | slices | % of the bound, before | after |",
        "|---|---|--:|--:|--:|",
    ]
    for fabric, kind, slices in SHOWN:
        key = key_of(fabric, kind, SIZES[-1], slices)
        lines.append(f"| `{fabric}` | {kind} | {slices} | {before[key]:.1%} | {after[key]:.1%} |")
    lines += [
        "",
        f"All {len(FABRICS)} fabrics, {', '.join(map(format_size, SIZES))}: time after / time before.",
        "",
        "| collective | fixed slices: mean | worst | best slices: mean | worst |",
        "|---|--:|--:|--:|--:|",
    ]
    for kind in (*KINDS, "all"):
        fixed = _ratios(before, after, kind)
        best = _ratios(_best(before), _best(after), kind)
        lines.append(
            f"| {kind} | {_mean(fixed):.3f} | {max(fixed.values()):.3f} | {_mean(best):.3f} | "
            f"{max(best.values()):.3f} |"
        )
    fixed = _ratios(before, after, "all")
    worse = sorted(((ratio, key) for key, ratio in fixed.items() if ratio > 1.01), reverse=True)
    lines += ["", f"Slower by more than 1% are {len(worse)} of {len(fixed)}, the most:"]
    for ratio, key in worse[:3]:
        fabric, kind, size, slices = key.split("|")
        lines.append(f"- `{fabric}` {kind}, {format_size(int(size))}, {slices} slices: {ratio:.3f}")
    return lines


def _best(shares: Mapping[str, float]) -> Times:
    """The largest share over all numbers of slices."""
    found: Times = {}
    for key, share in shares.items():
        case = key.rsplit("|", 1)[0]
        found[case] = max(found.get(case, 0.0), share)
    return found


def _ratios(before: Mapping[str, float], after: Mapping[str, float], kind: str) -> Times:
    return {
        key: share / after[key]
        for key, share in before.items()
        if key in after and kind in ("all", key.split("|")[1])
    }


def _mean(ratios: Mapping[str, float]) -> float:
    return math.exp(sum(map(math.log, ratios.values())) / len(ratios))


def main() -> None:
    """Measure, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, help="times of this version, read and written")
    parser.add_argument("--before", type=Path, help="times of another version")
    parser.add_argument("--write", type=Path, help="page to put the tables in")
    arguments = parser.parse_args()
    found: Times = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    for case in measure(found):
        print(case, flush=True)
        write_bytes(arguments.json, json.dumps(found).encode())
    if arguments.before is None:
        return
    lines = table(json.loads(arguments.before.read_text()), found)
    print("\n".join(lines))
    if arguments.write is not None:
        text = arguments.write.read_text(encoding="utf-8")
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        body = "\n".join(lines)
        write_bytes(arguments.write, f"{head}{BEGIN}\n\n{body}\n\n{END}{tail}".encode())


if __name__ == "__main__":
    main()
