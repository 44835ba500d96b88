"""Found plans beside named ones, bounds, and the time that it takes: the record parallelize-figures.

    python -m benchmarks.parallelize --write --json figures.json    # about 15 minutes of CPU time
    python -m benchmarks.parallelize --only 8B                      # rows whose name has this; prints

Each row is a process. Rows that stand in the file of ``--json`` are not measured again. The exit status is 1
if a limit is broken: a plan worse than a named one; a gap, CPU seconds or memory above a row's most.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from time import process_time
from typing import Any

from tools.records import Table, show, write_tables

from treadle import planning
from treadle.atomic import write_bytes
from treadle.inputs.fabrics_and_plans import as_fabric
from treadle.inputs.meshes import as_mesh
from treadle.inputs.problem import resolve_topology
from treadle.options.keywords import ParallelizeKeywords
from treadle.parallelism.evaluation.resimulation import Resimulated
from treadle.parallelism.explaining.state_format import dims_of, spelled_state
from treadle.parallelism.graph.compute_graph import OperatorKind, Phase, TensorRef
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.search.branching import NAMED_EFFORT, minimise
from treadle.parallelism.search.minimax import step_time
from treadle.parallelism.searching.fabric_matrix import fabric_matrix
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.parallel_result import FabricSearch
from treadle.parallelism.searching.pipeline_run import inner_mesh, staged
from treadle.parallelism.searching.plan_search import PipelineForm, PlanSearch
from treadle.training.devices import accelerator
from treadle.training.models.layer_table import read_model
from treadle.training.models.training_model import TrainingModel

Row = dict[str, object]
GAP, MOST_GAP = 0.02, 0.05
"""That is asked for, unless a case says otherwise, and that a row may have."""
ENDLESS_S = 3600.0
"""Rows end when their gap is proven; CPU seconds are what is measured."""
FABRIC_S = 40.0
"""A search on one of several fabrics."""
PIPELINE_S = 240.0
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


@dataclass(frozen=True)
class PipelineCase:
    """A model whose stages are searched, and the layout that was published of it."""

    name: str
    model: str
    fabric: str
    gpu: str
    tokens: int
    sequence: int
    published: str
    micro_batches: int


PIPELINES = (
    PipelineCase(
        "GPT-3 175B", "gpt3-175b", "dgx_a100:128", "a100", 1536 * 2 * _K, 2 * _K, "pp=8,dp=16,tp=8", 96
    ),
    PipelineCase(
        "Llama 3 405B", "llama-3-405b", "dgx_h100:2048", "h100", 16 * _M, 8 * _K, "pp=16,dp=128,tp=8", 16
    ),
    PipelineCase("Mixtral 8x7B", "mixtral-8x7b", "dgx_h100:16", "h100", _M, 4 * _K, "pp=4,dp=4,ep=8", 8),
)
"""With the layouts of Megatron-LM (2021), of table 4 of Llama 3, and of NeMo."""
CONFIGS = {
    "gpt3-175b": {
        "model_type": "gpt2",
        "n_embd": 12288,
        "n_layer": 96,
        "n_head": 96,
        "n_positions": 2048,
        "vocab_size": 51200,
        "activation_function": "gelu_new",
        "tie_word_embeddings": True,
    }
}
"""Models that are not in the zoo."""


@dataclass(frozen=True)
class AgreementCase:
    """A model on a mesh, whose presets are also simulated as layouts of ``train``."""

    name: str
    fabric: str
    mesh: str
    sequence: int = 8 * _K
    sequences: int = 4
    stages: int = 1
    micro_batches: int = 1
    interleave: int = 1


AGREEMENTS = (
    AgreementCase("llama-3-8b", "dgx_h100(2)", "0=2,1=8"),
    AgreementCase("llama-3-8b", "torus(4, 4, bandwidth='50GB/s')", "0=4,1=4"),
    AgreementCase("llama-3-8b", "dgx_h100(2)", "pp=2,1=8", stages=2, micro_batches=8),
    AgreementCase("llama-3-8b", "dgx_h100(2)", "pp=2,1=8", stages=2, micro_batches=8, interleave=2),
    AgreementCase("llama-3-8b", "dgx_h100(2)", "pp=4,1=4", stages=4, micro_batches=16),
    AgreementCase("mixtral-8x7b", "dgx_h100(2)", "0=2,1=8", 4 * _K),
    AgreementCase("mixtral-8x7b", "dgx_h100(2)", "pp=2,1=8", 4 * _K, stages=2, micro_batches=4),
    AgreementCase("llama-3-70b", "dgx_h100(16)", "0=16,1=8"),
    AgreementCase("llama-3-70b", "dgx_h100(16)", "pp=4,0=4,1=8", stages=4, micro_batches=8),
)
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
    plans.presets(search.found.posed.problem)
    naming_s = process_time() - start
    return {
        "named": fitting[0].name if fitting else "none fits",
        "named_s": fitting[0].seconds if fitting else None,
        "fsdp_s": sharded[0].seconds if sharded else None,
        "seconds": search.best.seconds,
        "estimate_s": search.best.estimate_s,
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
        ("s, a preset", "seconds", _number(row["named_s"]) * (1 + 1e-9)),
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


def piped(case: PipelineCase) -> Row:
    """The best plan of all layouts and the best of the published one, in this process."""
    model: TrainingModel | str = case.model
    if case.model in CONFIGS:
        model = read_model(json.dumps(CONFIGS[case.model]), name=case.model, unit="token")
    row: Row = {}
    start = 0.0
    options: ParallelizeKeywords = {"sequence": case.sequence, "time_limit_s": PIPELINE_S}
    for key, mesh in (("own", "auto"), ("published", case.published)):
        if key == "published":
            options["micro_batches"] = case.micro_batches
        found = planning.parallelize(
            model, case.fabric, gpu=case.gpu, mesh=mesh, tokens=case.tokens, **options
        )
        (search,) = found.searches
        best, pipeline = search.best, search.best.plan.pipeline
        row[key] = {
            "mesh": best.plan.mesh.notation,
            "micro_batches": pipeline.micro_batches if pipeline else 1,
            "interleave": pipeline.interleave if pipeline else 1,
            "seconds": best.seconds,
            "estimate_s": best.estimate_s,
            "gap": search.gap,
            "gigabytes": best.memory_bytes / 2**30,
            "cpu_s": process_time() - start,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        start = process_time()
    return row


def agreed(case: AgreementCase) -> Row:
    """Differences of presets' steps to those of ``train``, in this process."""
    mesh = as_mesh(case.mesh)
    form = PipelineForm(case.stages, case.micro_batches, case.interleave)
    tokens = case.sequences * mesh.n_ranks * case.sequence
    graph, layers = as_model_graph(
        case.name, tokens=tokens, sequence=case.sequence, notes=[], micro_batches=form.micro_batches
    )
    plans = PlanSearch(graph, parallel_request("h100", tokens, {"zero": 0}), layers)
    costs = FabricRun(resolve_topology(case.fabric), plans, {"schedule": "ring"}).costs(mesh)
    problem = plans.make_problem(inner_mesh(mesh), costs, form).problem
    found = {}
    for name, domains in problem.named().items():
        labels = minimise(problem.graph, step_time(problem.graph), within=domains, effort=NAMED_EFFORT).plan
        assert labels is not None
        plan = staged(plans, problem.decode(problem.tidied(labels)), mesh, costs, form)
        other = plans.resimulated(plan, costs)
        if isinstance(other, Resimulated) and not other.layout.left_out:
            found[name] = plans.priced(name, plan, costs).seconds / float(other.outcome.iteration_s) - 1
    return {"off": found}


def plan_words(search: FabricSearch, model: ModelGraph) -> str:
    """How products and attention of the layer that comes most often are cut in the forward pass."""
    part = max(model.parts, key=lambda one: one.repeats)
    (own,) = search.best.plan.parts[part.name]
    entered = part.enters or TensorRef(0)
    wide = dims_of(part, entered)
    groups = {spelled_state(wide, search.best.plan.boundary.activation): ["layers"]}
    n_shown = 0
    for number, node in enumerate(part.graph.nodes):
        heavy = node.kind in (OperatorKind.EINSUM, OperatorKind.ATTENTION)
        if not heavy or node.phase is not Phase.FORWARD:
            continue
        n_shown += 1
        state = own.operators[node.name].outputs[0]
        groups.setdefault(spelled_state(dims_of(part, TensorRef(number)), state), []).append(node.name)
    words = [f"{', '.join(names)} {state}" for state, names in groups.items()]
    n_operators = sum(one.keep is not None for one in own.operators.values())
    again = f"{own.n_recomputed} of {n_operators} recomputed" if own.n_recomputed else "nothing recomputed"
    return "; ".join([*words, again])


Case = SearchCase | FabricsCase | PipelineCase | AgreementCase

NAME = "parallelize-figures"


def tables(
    searches: Mapping[str, Row],
    fabrics: Mapping[str, Row],
    pipelines: Sequence[tuple[PipelineCase, Row]],
    agreements: Sequence[tuple[AgreementCase, Row]],
) -> Iterator[Table]:
    """The tables that have rows."""
    yield _search_table(searches)
    if pipelines:
        yield _pipeline_table(pipelines)
    if agreements:
        yield _agreement_table(agreements)
    for name, row in fabrics.items():
        yield from _fabric_tables(name, row)


def _pipeline_table(rows: Sequence[tuple[PipelineCase, Row]]) -> Table:
    head = ["model, fabric", "mesh", "micro-batches", "interleave", "step, s", "estimate, s", "gap"]
    head += ["step, published / found", "GB", "CPU s", "peak MB"]
    lines = []
    for case, row in rows:
        own = _mapping(row["own"])
        for key, title in (("own", f"{case.name}, `{case.fabric}`"), ("published", "published layout")):
            found = _mapping(row[key])
            lines.append(
                (
                    title,
                    f"`{found['mesh']}`",
                    str(found["micro_batches"]),
                    str(found["interleave"]),
                    f"{found['seconds']:.4g}",
                    f"{found['estimate_s']:.4g}",
                    f"{found['gap']:.1%}",
                    f"{_number(found['seconds']) / _number(own['seconds']):.3f}",
                    f"{found['gigabytes']:.1f}",
                    f"{found['cpu_s']:.0f}",
                    f"{found['peak_mb']:.0f}" if key == "own" else "",
                )
            )
    return Table("A pipeline searched", head, lines)


def _agreement_table(rows: Sequence[tuple[AgreementCase, Row]]) -> Table:
    families, suffixes = (
        ("DP", "FSDP", "HSDP", "TP", "CP", "EP"),
        (", selective recompute", ", full recompute"),
    )
    head = ["model, fabric", "mesh", "micro-batches", "interleave", *families]
    head += [suffix.removeprefix(", ") for suffix in suffixes]
    lines = []
    for case, row in rows:
        off = _mapping(row["off"])
        plain = {name: value for name, value in off.items() if "recompute" not in name}
        groups = [[value for name, value in plain.items() if name.split()[0] == one] for one in families]
        groups += [[value for name, value in off.items() if name.endswith(suffix)] for suffix in suffixes]
        form = f"`{case.mesh}`", str(case.micro_batches), str(case.interleave)
        lines.append((f"{case.name}, `{case.fabric}`", *form, *map(_range, groups)))
    all_off = [abs(value) for _, row in rows for value in _mapping(row["off"]).values()]
    note = (
        "Difference in % of a preset plan's step to that of the nearest `train` layout, least to largest; "
        f"{len(all_off)} plans, mean {sum(all_off) / len(all_off):.1%}, at most {max(all_off):.1%}."
    )
    return Table("The same plan by train", head, lines, note)


def _range(values: Sequence[float]) -> str:
    """Return the least and the largest value in percent."""
    if not values:
        return ""
    ends = dict.fromkeys(f"{100 * value:+.1f}" for value in (min(values), max(values)))
    return "..".join(ends)


def _mapping(value: object) -> Mapping[str, Any]:
    assert isinstance(value, Mapping)
    return value


def _search_table(rows: Mapping[str, Row]) -> Table:
    head = ["model, tokens", "mesh", "best preset", "s", "found", "compute", "gain", "FSDP", "gap", "checked"]
    head += ["GB", "naming", "CPU s", "peak MB"]
    lines = []
    for case in SEARCHES:
        row = rows.get(key_of(case))
        if row is None:
            continue
        seconds, named, sharded = (_number(row[name]) for name in ("seconds", "named_s", "fsdp_s"))
        lines.append(
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
                f"{max(0.0, 1 - _number(row['checked_s']) / _number(row['estimate_s'])):.1%}",
                f"{row['gigabytes']:.1f}",
                f"{row['naming_s']:.2f}",
                f"{row['cpu_s']:.1f}",
                f"{row['peak_mb']:.0f}",
            )
        )
    return Table("Eight settings on 128 GPUs, four of them on a finer mesh", head, lines)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


def _fabric_tables(model: str, row: Row) -> Iterator[Table]:
    plans = row["plans"]
    assert isinstance(plans, list)
    lines = []
    for one in plans:
        figures = f"{one['named_s']:.4g}", f"{one['seconds']:.4g}", f"{one['gigabytes']:.1f}"
        lines.append((f"`{one['fabric']}`", one["named"], *figures, f"{one['gap']:.1%}", one["words"]))
    yield Table(model, ("fabric", "best preset", "s", "found", "GB", "gap", "plan"), lines)
    names = [f"`{one['fabric']}`" for one in plans]
    matrix, isolated = row["matrix"], row["isolated"]
    assert isinstance(matrix, list)
    assert isinstance(isolated, list)
    seconds = [
        (name, *("cut off" if time is None else f"{time:.4g}" for time in times))
        for name, times in zip([*names, "isolated costs"], [*matrix, isolated], strict=True)
    ]
    note = "Row: the fabric a plan was made for; column: where it runs. Last row: each axis priced alone."
    yield Table(f"{model}: seconds of each plan on each fabric", ("made for", *names), seconds, note)


def key_of(case: Case) -> str:
    """What a row is found by."""
    return json.dumps({"kind": type(case).__name__, **asdict(case)})


def measured(case: Case) -> Row:
    """A row, from a process of its own."""
    words = [sys.executable, "-m", "benchmarks.parallelize", "--row", key_of(case)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


MEASURES: dict[str, tuple[type[Any], Callable[[Any], Row]]] = {
    "SearchCase": (SearchCase, searched),
    "FabricsCase": (FabricsCase, compared),
    "PipelineCase": (PipelineCase, piped),
    "AgreementCase": (AgreementCase, agreed),
}


def run_row(key: str) -> None:
    """One row to standard output."""
    values = json.loads(key)
    kind = values.pop("kind")
    print(json.dumps(MEASURES[kind][1](MEASURES[kind][0](**values))))


def main() -> int:
    """Measure, print, write; 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"into the record {NAME}")
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
    for case in (*SEARCHES, *PIPELINES, *AGREEMENTS, *MODELS):
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
    found = [
        *tables(
            {key_of(case): rows[key_of(case)] for case in SEARCHES if key_of(case) in rows},
            {case.name: rows[key_of(case)] for case in MODELS if key_of(case) in rows},
            [(case, rows[key_of(case)]) for case in PIPELINES if key_of(case) in rows],
            [(case, rows[key_of(case)]) for case in AGREEMENTS if key_of(case) in rows],
        )
    ]
    show(*found)
    if asked.write:
        write_tables(NAME, *found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
