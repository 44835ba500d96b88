"""What the order of sends is worth: simulated times of tree plans at fixed numbers of slices.

Run ``python -m benchmarks.send_order --json after.json``, the same in a checkout of an earlier version with
``--json before.json``, and then ``python -m benchmarks.send_order --before before.json --json after.json
--write``: times that are in the file already are not simulated again. About
four minutes of CPU time. The time of S slices exceeds the bound by about an S-th of what one slice does,
so that few slices show the order best.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.records import Table, show, write_tables

from treadle import planning
from treadle.atomic import write_bytes
from treadle.simulation.simulate import simulate_graph
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import task_graph
from treadle.units import format_size

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


def tables(before: Mapping[str, float], after: Mapping[str, float]) -> list[Table]:
    """The tables of the record, and of cases that became slower their number and the worst."""
    keys = [(*one, key_of(*one[:2], SIZES[-1], one[2])) for one in SHOWN]
    shown = [
        [f"`{fabric}`", kind, str(slices), f"{before[key]:.1%}", f"{after[key]:.1%}"]
        for fabric, kind, slices, key in keys
    ]
    means = []
    for kind in (*KINDS, "all"):
        both = _ratios(before, after, kind), _ratios(_best(before), _best(after), kind)
        figures = (figure for one in both for figure in (_mean(one), max(one.values())))
        means.append([kind, *(f"{figure:.3f}" for figure in figures)])
    fixed = _ratios(before, after, "all")
    worse = [ratio for ratio in fixed.values() if ratio > 1.01]
    note = (
        f"Time after / time before at {', '.join(map(format_size, SIZES))}; {len(worse)} of {len(fixed)} "
        f"cases are slower by more than 1%, at most by {max(worse, default=1.0) - 1:.1%}."
    )
    return [
        Table("Order of sends", ["fabric", "collective", "slices", "% of the bound, before", "after"], shown),
        Table(
            f"Order of sends on {len(FABRICS)} fabrics",
            ["collective", "fixed slices: mean", "worst", "best slices: mean", "worst"],
            means,
            note,
        ),
    ]


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
    parser.add_argument("--write", action="store_true", help="into the record simulator-figures")
    arguments = parser.parse_args()
    found: Times = json.loads(arguments.json.read_text()) if arguments.json.exists() else {}
    for case in measure(found):
        print(case, flush=True)
        write_bytes(arguments.json, json.dumps(found).encode())
    if arguments.before is None:
        return
    found_tables = tables(json.loads(arguments.before.read_text()), found)
    show(*found_tables)
    if arguments.write:
        write_tables("simulator-figures", *found_tables)


if __name__ == "__main__":
    main()
