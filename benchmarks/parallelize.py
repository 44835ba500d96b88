"""docs/results/parallelize-figures.md: found plans beside named ones, bounds, what finding them takes.

    python benchmarks/parallelize.py --docs docs --json figures.json    # about 20 minutes of CPU time
    python benchmarks/parallelize.py --only 8B                          # rows whose name has this; prints

Each row is a process. Rows that stand in the file of ``--json`` are not measured again. The exit status is 1
if a limit is broken: a plan worse than a named one; a gap, CPU seconds or memory above a row's most.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from time import process_time

from treadle import planning
from treadle.atomic import write_bytes
from treadle.inputs.fabrics_and_plans import as_fabric
from treadle.inputs.problem import resolve_topology
from treadle.parallelism.explaining.state_words import letters_of, spelled_state
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase, TensorRef
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.searching.fabric_matrix import fabric_matrix
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.parallel_result import FabricSearch
from treadle.parallelism.searching.plan_search import PlanSearch
from treadle.training.devices import accelerator

Row = dict[str, object]
GAP, MOST_GAP = 0.02, 0.05
"""That is asked for, unless a case says otherwise, and that a row may have."""
ENDLESS_S = 3600.0
"""Rows end when their gap is proven; CPU seconds are what is measured."""
FABRIC_S = 60.0
"""A search on one of several fabrics: experts on a leaf-spine fabric stay at 6% or more, as the row says."""
ALPHA_S = 10e-6
_K, _M = 2**10, 2**20
_SLOW = "dgx_h100(16, nic_bandwidth='6.25GB/s')"


@dataclass(frozen=True)
class SearchCase:
    """A model on a mesh of one fabric, and what its search may take."""

    name: str
    model: str
    tokens: int
    sequence: int
    fabric: str = "dgx_h100:16"
    mesh: str = "16,8"
    most_cpu_s: float = 60
    most_mb: float = inf
    most_naming_s: float = 1
    asked_gap: float = GAP


def _fine(
    name: str, model: str, tokens: int, fabric: str = "dgx_h100:16", asked_gap: float = GAP
) -> SearchCase:
    """The same in three axes, with sequences of 8K tokens."""
    return SearchCase(name, model, tokens, 8 * _K, fabric, "4,4,8", 120, 1024, 3, asked_gap)


_MOE = "qwen3-235b-a22b"
SEARCHES = (
    SearchCase("8B, 128K tokens", "llama-3-8b", 128 * _K, 8 * _K),
    SearchCase("8B, 128K, boxes joined 8x slower", "llama-3-8b", 128 * _K, 8 * _K, _SLOW, asked_gap=0.03),
    SearchCase("8B, 512K", "llama-3-8b", 512 * _K, 8 * _K),
    SearchCase("70B, 1M", "llama-3-70b", _M, 8 * _K),
    SearchCase("70B, 1M, 8x slower", "llama-3-70b", _M, 8 * _K, _SLOW),
    SearchCase("70B, 1M in sequences of 128K", "llama-3-70b", _M, 128 * _K),
    SearchCase("128 experts, 1M", _MOE, _M, 8 * _K),
    SearchCase("128 experts, 1M, 8x slower", _MOE, _M, 8 * _K, _SLOW, asked_gap=0.04),
    _fine("8B, 128K tokens", "llama-3-8b", 128 * _K),
    _fine("8B, 128K, boxes joined 8x slower", "llama-3-8b", 128 * _K, _SLOW, asked_gap=MOST_GAP),
    _fine("70B, 1M", "llama-3-70b", _M),
    _fine("128 experts, 1M", _MOE, _M, asked_gap=0.04),
)


@dataclass(frozen=True)
class FabricsCase:
    """A model on several fabrics of 128 GPUs alike."""

    name: str
    model: str
    tokens: int
    sequence: int


FABRICS = (
    ("dgx_h100:16", "16,8", GAP),
    ("mi300x:16", "16,8", GAP),
    ("leaf_spine(16, 4, oversubscription=4)", "16,8", MOST_GAP),
    ("torus(16, 8, bandwidth='50GB/s')", "16,8", MOST_GAP),
)
"""Fabric, mesh, gap asked for: where communication decides, 2% is out of reach in minutes.

The torus is numbered so that axes of the mesh are its dimensions: groups that lie apart could not exchange.
"""
MODELS = (
    FabricsCase("llama-3-8b, 256K tokens", "llama-3-8b", 256 * _K, 8 * _K),
    FabricsCase("llama-3-70b, 1M tokens", "llama-3-70b", _M, 8 * _K),
    FabricsCase("mixtral-8x7b, 512K tokens", "mixtral-8x7b", 512 * _K, 8 * _K),
)


def searched(case: SearchCase) -> Row:
    """A search from model and fabric to plan, in this process."""
    found = planning.parallelize(
        case.model,
        case.fabric,
        gpu="h100",
        mesh=case.mesh,
        tokens=case.tokens,
        sequence=case.sequence,
        gap=case.asked_gap,
        alpha_s=ALPHA_S,
        time_limit_s=ENDLESS_S,
    )
    (search,) = found.searches
    used = resource.getrusage(resource.RUSAGE_SELF)
    fitting = [row for row in search.named if row.fits]
    sharded = [row for row in fitting if row.name.startswith("FSDP")]
    plans = PlanSearch(found.model, found.request)
    start = process_time()
    plans.named_plans(search.found.posed.problem)
    naming_s = process_time() - start
    return {
        "named": fitting[0].name if fitting else "none fits",
        "named_s": fitting[0].seconds if fitting else None,
        "fsdp_s": sharded[0].seconds if sharded else None,
        "seconds": search.best.seconds,
        "compute_s": search.best.compute_s,
        "bound_s": search.bound_s,
        "checked_s": search.checked_bound_s,
        "gap": search.gap,
        "gigabytes": search.best.memory_bytes / 2**30,
        "naming_s": naming_s,
        "cpu_s": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }


def broken(case: SearchCase, row: Row) -> list[str]:
    """Limits that a row breaks, in words."""
    limits = (
        ("s, a named plan", "seconds", _number(row["named_s"]) * (1 + 1e-9)),
        ("gap", "gap", MOST_GAP),
        ("GB", "gigabytes", accelerator("h100").memory_bytes / 2**30),
        ("CPU s", "cpu_s", case.most_cpu_s),
        ("MB", "peak_mb", case.most_mb),
        ("naming s", "naming_s", case.most_naming_s),
    )
    return [
        f"{_number(row[key]):.3g} {what} > {most:.3g}"
        for what, key, most in limits
        if _number(row[key]) > most
    ]


def compared(case: FabricsCase) -> Row:
    """A model's plan on each fabric, and each plan's step on each other's, in this process."""
    runs: list[tuple[FabricRun, FabricSearch]] = []
    rows = []
    for fabric, mesh, gap in FABRICS:
        found = planning.parallelize(
            case.model,
            fabric,
            gpu="h100",
            mesh=mesh,
            tokens=case.tokens,
            sequence=case.sequence,
            gap=gap,
            alpha_s=ALPHA_S,
            time_limit_s=FABRIC_S,
        )
        plans = PlanSearch(found.model, found.request)
        topology = resolve_topology(as_fabric(fabric, "fabrics"))
        (search,) = found.searches
        runs.append((FabricRun(topology, plans, {"alpha_s": ALPHA_S, "time_limit_s": FABRIC_S}), search))
        rows.append(
            {
                "fabric": fabric,
                "mesh": mesh,
                "named": search.named[0].name,
                "named_s": search.named[0].seconds,
                "seconds": search.best.seconds,
                "compute_s": search.best.compute_s,
                "gigabytes": search.best.memory_bytes / 2**30,
                "gap": search.gap,
                "words": plan_words(search, found.model),
            }
        )
    matrix = fabric_matrix(runs)
    return {"plans": rows, "matrix": matrix.seconds, "isolated": matrix.isolated_s}


def plan_words(search: FabricSearch, model: ModelGraph) -> str:
    """How products and attention of the layer that comes most often are cut in the forward pass."""
    part = max(model.parts, key=lambda one: one.repeats)
    (own,) = search.best.plan.parts[part.name]
    entered = part.enters or TensorRef(0)
    wide = letters_of(part, entered)
    groups = {spelled_state(wide, search.best.plan.boundary.activation): ["layers"]}
    n_shown = 0
    for number, node in enumerate(part.graph.nodes):
        heavy = node.kind in (OperatorKind.EINSUM, OperatorKind.ATTENTION)
        if not heavy or node.phase is not Phase.FORWARD:
            continue
        n_shown += 1
        state = own.operators[node.name].outputs[0]
        groups.setdefault(spelled_state(letters_of(part, TensorRef(number)), state), []).append(node.name)
    words = [f"{', '.join(names)} {state}" for state, names in groups.items()]
    n_operators = sum(one.keep is not None for one in own.operators.values())
    again = f"{own.n_recomputed} of {n_operators} operators again" if own.n_recomputed else "nothing again"
    return "; ".join([*words, again])


_OPENING = """# The best way to shard a model: figures

Generated: `python benchmarks/parallelize.py --docs docs`. Step times are those of [the model of a
machine](../algorithms/parallelize.md#what-the-figures-are), with H100s at half their peak and 10 us a message
on every fabric, so that fabrics alone differ; only CPU seconds and memory are measured, each row in a process
of its own, imports included.

## Eight settings on 128 GPUs, four of them on a finer mesh

`dgx_h100:16`; "8x slower": `dgx_h100(16, nic_bandwidth='6.25GB/s')`. "gain" is over the best named plan that
fits into 80 GB, "FSDP" over the best plan of that name; "compute" is what the plan cannot hide. "gap": what
the bound leaves open, {gap:.0%} asked for (8B on slow boxes 3%, on the finer mesh 5%, 128 experts on either
4%); "checked": what is left open by the bound that is proven again, box by box of plans as the search split
them, by code which shares nothing with it. "naming": CPU seconds of all named plans, at most {naming:g}
(three axes: 3). "CPU s": of the whole command, at most 60 (three axes: 120, and 1024 MB).

"""
_FABRICS = """
## Model and fabric

Letters: b samples, s tokens, k groups of heads, g heads of a group, f inner dimension, e experts, h what
layers give on; 0 and 1 are the axes of the mesh: `b:0/s:1` has samples cut along axis 0 and tokens along
axis 1. "layers" is what one gives to the next. The gap asked for is {gap:.0%}, and {most:.0%} on the
leaf-spine fabric and the torus: there communication decides, and the last percents of the bound take longer
than all that goes before. "gap" may be above it where the plan that met it breaks the limit by the
evaluator's count, and a slower one takes its place. The torus is `torus(8, 16)` with its ranks numbered along
the short side, so that axes of the mesh are rings of it. A search ends after a minute of a shared machine:
with experts on the leaf-spine fabric the bound is then still behind.
"""
_MATRIX = """
Each plan on each fabric (row: made for; column: runs on), seconds; the last row is the plan that is found
when each axis is priced by itself, one group at a time (its gap asked for is the column's), at its true
price; it fits into 80 GB as the others do.
"""


def page(searches: Mapping[str, Row], fabrics: Mapping[str, Row]) -> str:
    """The page in Markdown."""
    parts = [_OPENING.format(gap=GAP, naming=SEARCHES[0].most_naming_s), *_search_table(searches)]
    if fabrics:
        parts.append(_FABRICS.format(gap=GAP, most=MOST_GAP))
    for name, row in fabrics.items():
        parts += [f"\n### {name}\n\n", *_fabric_tables(row)]
    return "".join(parts).rstrip() + "\n"


def _search_table(rows: Mapping[str, Row]) -> Iterator[str]:
    head = ["model, tokens", "mesh", "best named", "s", "found", "compute", "gain", "FSDP", "gap", "checked"]
    head += ["GB", "naming", "CPU s", "peak MB"]
    yield _lines([head, ("---",) * len(head)])
    for case in SEARCHES:
        row = rows.get(key_of(case))
        if row is None:
            continue
        seconds, named, sharded = (_number(row[name]) for name in ("seconds", "named_s", "fsdp_s"))
        yield _lines(
            [
                (
                    case.name,
                    case.mesh,
                    str(row["named"]),
                    f"{named:.4g}",
                    f"{seconds:.4g}",
                    f"{row['compute_s']:.4g}",
                    f"{named / seconds:.2f}x",
                    f"{sharded / seconds:.2f}x",
                    f"{row['gap']:.1%}",
                    f"{1 - _number(row['checked_s']) / seconds:.1%}",
                    f"{row['gigabytes']:.1f}",
                    f"{row['naming_s']:.2f}",
                    f"{row['cpu_s']:.1f}",
                    f"{row['peak_mb']:.0f}",
                )
            ]
        )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _fabric_tables(row: Row) -> Iterator[str]:
    plans = row["plans"]
    assert isinstance(plans, list)
    head = ("fabric", "mesh", "best named", "s", "found", "GB", "gap", "plan")
    yield _lines([head, ("---",) * len(head)])
    for one in plans:
        gap = f"{one['gap']:.1%}"
        figures = f"{one['named_s']:.4g}", f"{one['seconds']:.4g}", f"{one['gigabytes']:.1f}", gap
        yield _lines([(f"`{one['fabric']}`", one["mesh"], one["named"], *figures, one["words"])])
    yield _MATRIX + "\n"
    names = [f"`{one['fabric']}`" for one in plans]
    yield _lines([("made for", *names), ("---",) * (len(names) + 1)])
    matrix, isolated = row["matrix"], row["isolated"]
    assert isinstance(matrix, list)
    assert isinstance(isolated, list)
    for name, times in zip([*names, "isolated costs"], [*matrix, isolated], strict=True):
        yield _lines([(name, *("cut off" if time is None else f"{time:.4g}" for time in times))])


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def key_of(case: SearchCase | FabricsCase) -> str:
    """What a row is found by."""
    return json.dumps(asdict(case))


def measured(case: SearchCase | FabricsCase) -> Row:
    """A row, from a process of its own."""
    words = [sys.executable, __file__, "--row", key_of(case)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def run_row(key: str) -> None:
    """One row to standard output."""
    values = json.loads(key)
    row = searched(SearchCase(**values)) if "fabric" in values else compared(FabricsCase(**values))
    print(json.dumps(row))


def main() -> int:
    """Measure, print, write; 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--docs", type=Path, help="write parallelize-figures.md into this folder")
    parser.add_argument("--json", type=Path, help="rows measured so far; new ones are added")
    parser.add_argument("--only", default="", help="rows whose name has this")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.row:
        run_row(asked.row)
        return 0
    rows: dict[str, Row] = {}
    if asked.json and asked.json.exists():
        rows = json.loads(asked.json.read_text(encoding="utf-8"))
    wrong = 0
    for case in (*SEARCHES, *MODELS):
        if asked.only not in case.name:
            continue
        key = key_of(case)
        if key not in rows:
            rows[key] = measured(case)
            if asked.json:
                write_bytes(asked.json, json.dumps(rows, indent=1).encode())
        faults = broken(case, rows[key]) if isinstance(case, SearchCase) else []
        wrong += len(faults)
        print(f"{case.name}: {'; '.join(faults) or 'ok'}", flush=True)
    text = page(
        {key_of(case): rows[key_of(case)] for case in SEARCHES if key_of(case) in rows},
        {case.name: rows[key_of(case)] for case in MODELS if key_of(case) in rows},
    )
    if asked.docs:
        write_bytes(asked.docs / "results" / "parallelize-figures.md", text.encode())
    else:
        print(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
