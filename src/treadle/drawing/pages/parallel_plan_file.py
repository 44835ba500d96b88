"""A plan of `parallelize` from its file, timed anew on a fabric, as a page."""

from __future__ import annotations

from pathlib import Path

from treadle.checking import checked, left_alone
from treadle.context import Progress
from treadle.drawing.pages.parallel_page import ReportedPlan, evaluated, parallel_report
from treadle.errors import FormatError
from treadle.input_files import read_head
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.problem import resolve_topology
from treadle.options.keywords import ParallelizeKeywords
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.plan.plan_json import KIND, read_plan
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.plan_search import PlanSearch
from treadle.training.devices import Accelerator

_HEAD = 4096


def is_parallel_plan(path: Path | str) -> bool:
    """Whether a file begins as `parallelize` writes plans.

    Examples
    --------
    >>> from pathlib import Path
    >>> from treadle import planning
    >>> _ = Path("other.json").write_text("{}")
    >>> planning.is_parallel_plan("other.json")
    False
    """
    head = read_head(path, _HEAD)
    return head.lstrip()[:1] == b"{" and f'"{KIND}"'.encode() in head


@checked(fabric=left_alone, model=left_alone)
def report_parallel_plan(
    path: Path | str,
    fabric: FabricLike | None = None,
    *,
    gpu: Accelerator | Path | str | None = None,
    model: object = None,
    tokens: int | str | None = None,
    sequence: int | str | None = None,
    progress: Progress | None = None,
) -> str:
    """A page about a plan that `parallelize` wrote: one file of HTML that loads nothing.

    Parameters
    ----------
    path : Path or str
        JSON, as ``treadle parallelize -o`` writes it.
    fabric : Topology, str or Path, optional
        On which it is timed and its memory counted, by the evaluator. Default of all: what it was made for,
        as its file says.
    gpu : Accelerator, Path or str, optional
    model : optional
        What the plan was made for; default the model of its name.
    tokens, sequence : int or str, optional
        As when it was made.
    progress : callable, optional

    Raises
    ------
    FormatError
        If the file is no such plan, or one of another model or size; or it does not say what it was made
        for, and nobody else does.
    ScheduleError
        If the plan is illegal.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> from treadle import planning
    >>> words = planning.ModelGraph("words", (treadle.capture("gpt2", tokens=4096).part("embedding"),))
    >>> found = treadle.parallelize(words, "ring(2, bandwidth='25GB/s')", gpu="h100", mesh="2")
    >>> _ = Path("plan.json").write_text(planning.explain_parallel_plan(found))
    >>> planning.report_parallel_plan("plan.json", model=words)[:15]
    '<!doctype html>'
    """
    plan = read_plan(str(path))
    setting = plan.setting
    device = setting.gpu if gpu is None and setting is not None else gpu
    place = setting.fabric if fabric is None and setting is not None else fabric
    if place is None or device is None:
        missing = "--gpu" if device is None else "--fabric"
        raise FormatError(
            f"shards a model, and {missing} is missing: what its step is timed on", source=str(path)
        )
    if setting is not None:
        tokens = setting.tokens if tokens is None else tokens
        sequence = setting.sequence if sequence is None else sequence
    options: ParallelizeKeywords = {"sequence": sequence}
    if plan.claim is not None:
        options["overlap"] = plan.claim.overlap
    request = parallel_request(device, tokens, options)
    notes: list[str] = []
    micro_batches = 1 if plan.pipeline is None else plan.pipeline.micro_batches
    graph, layers = as_model_graph(
        plan.model if model is None else model,
        tokens=request.tokens,
        sequence=request.sequence,
        notes=notes,
        micro_batches=micro_batches,
    )
    if graph.digest != plan.digest:
        raise FormatError(
            f"the plan is of {plan.model}, graph {plan.digest[:12]}, expected {graph.digest[:12]}: give "
            f"--model, --tokens and --sequence as when it was made",
            source=str(path),
        )
    topology = resolve_topology(as_fabric(place, "fabric"))
    n_ranks = len(topology.compute_nodes)
    if n_ranks != plan.mesh.n_ranks:
        raise FormatError(
            f"{plan.mesh.n_ranks} ranks (mesh {plan.mesh.notation}), {topology.name} has {n_ranks}",
            source=str(path),
        )
    search = PlanSearch(graph, request, layers)
    costs = FabricRun(topology, search, options, progress).costs(plan.mesh)
    row = search.priced("the plan", plan, costs)
    if plan.claim is not None:
        claim = plan.claim
        notes.append(f"its file claims {claim.seconds:.4g} s and {claim.memory_bytes / 2**30:.4g} GB")
    told = ReportedPlan(
        topology.name,
        (row,),
        evaluated(plan, graph, costs, request),
        search.resimulated(plan, costs),
        0.0 if plan.claim is None else min(plan.claim.bound_s, row.seconds),
        is_claimed=True,
    )
    return parallel_report(graph, request, [told], notes=notes)
