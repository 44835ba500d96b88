"""Search for the best sharding, recomputation and pipeline of a model, on one fabric or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from time import process_time
from typing import Unpack, cast

from treadle.checking import checked, left_alone
from treadle.context import Progress
from treadle.errors import FormatError
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.meshes import as_mesh
from treadle.inputs.problem import resolve_topology
from treadle.options.keywords import ParallelizeKeywords
from treadle.parallelism.graph.graph_argument import as_model_graph
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.search.minimax import Overlap
from treadle.parallelism.searching.fabric_matrix import fabric_matrix
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.parallel_options import ParallelRequest, parallel_request
from treadle.parallelism.searching.parallel_result import FabricSearch, ParallelizeResult
from treadle.parallelism.searching.pipeline_run import stages_of
from treadle.parallelism.searching.pipeline_search import LayoutSpace, blocks_of
from treadle.parallelism.searching.plan_search import STAGES, PipelineForm, PlanSearch
from treadle.schedules.mesh import Mesh
from treadle.training.devices import Accelerator
from treadle.training.models.training_model import TrainingModel
from treadle.training.step_inputs import slow_links

AUTO = "auto"


@checked(model=left_alone, fabrics=left_alone)
def parallelize(
    model: object,
    fabrics: FabricLike | Sequence[FabricLike],
    *,
    gpu: Accelerator | Path | str,
    mesh: Mesh | str = AUTO,
    tokens: int | str | None = None,
    progress: Progress | None = None,
    **options: Unpack[ParallelizeKeywords],
) -> ParallelizeResult:
    """Find the plan with the shortest step that fits into memory, and a lower bound on the step of any plan.

    Parameters
    ----------
    model : str, Path, TrainingModel or ModelGraph
        A model of the zoo, a Hugging Face ``config.json``, or a graph that `treadle capture` wrote.
    fabrics : Topology, str, Path, networkx.Graph, plan or result; or a sequence of them
    gpu : Accelerator or str
        A preset or a TOML file.
    mesh : Mesh or str
        ``16,8``, ``dp=16,tp=8``; an axis ``pp`` makes pipeline stages; ``auto``: the best of all meshes with
        one axis or two, and of finer ones.
    tokens : int or str, optional
        Tokens of a step on all ranks together: ``1M`` is 2**20. A captured graph has its own.
    progress : callable, optional
    sequence : int or str, optional
        Tokens of a sequence; default the model's.
    memory_bytes : int, optional
        Memory that a rank may use; default the device's.
    overlap : str
        Computation that hides communication: of its own ``layer``, ``none``, or of the whole ``model`` (which
        no schedule reaches if layers differ).
    constraints : mapping of str to str
        Fixed states of parameters (as stored) and of tensors (as computed): ``{"wq": "k:1/h:0"}``.
    schedule : str
        Prices of collectives: ``treadle``, ``ring``, ``bound``.
    micro_batches : int, optional
        Micro-batches of a pipeline.
    efficiency, memory_efficiency : float
        Shares of peak and memory bandwidth that a device reaches; default the device's preset and .8.
    alpha_s, forward, file_format
        See `step_costs`.
    mixed : bool
        Whether layers of a kind may differ.
    gap : float
        Optimality gap at which the search stops, as a fraction of the time.
    time_limit_s : float, optional
        Limit for each fabric; default two minutes for a given mesh, five for ``auto``.

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError, with the least memory that suffices, if no plan fits.

    Notes
    -----
    Seconds and memory are predicted by an evaluator that shares no code with the search; nothing is measured.

    Examples
    --------
    >>> import treadle
    >>> pair = "ring(2, bandwidth='25GB/s')"
    >>> found = treadle.parallelize("gpt2", pair, gpu="h100", mesh="2", tokens=4096, gap=0.2)
    >>> found.searches[0].best
    <PricedPlan treadle, 0.00897 s, 3.45GB memory>
    >>> found.plan.parts["block"][0].parameters["layers.*.attention.wq.weight"]
    Sharding(dims=((), (), ()), partial=frozenset())
    """
    start = process_time()
    several = [*fabrics] if isinstance(fabrics, list | tuple) else [cast(FabricLike, fabrics)]
    if not several:
        raise FormatError("fabrics: expected at least one")
    file_format = options.get("file_format")
    topologies = [resolve_topology(as_fabric(one, "fabrics"), file_format=file_format) for one in several]
    request = parallel_request(gpu, tokens, options)
    fixed = None if mesh == AUTO else as_mesh(mesh)
    stages = 1 if fixed is None else stages_of(fixed)
    _check_options(request, options, None if fixed is None else stages)
    notes: list[str] = []
    graph, layers = as_model_graph(model, tokens=request.tokens, sequence=request.sequence, notes=notes)
    sequences = graph.tokens // graph.sequence_tokens
    if layers is None:
        _reject_pipeline(graph, fixed if stages > 1 else None, options)
    micro_batches, interleave = options.get("micro_batches"), options.get("interleave")
    if micro_batches is not None and sequences % micro_batches:
        raise FormatError(
            f"--micro-batches {micro_batches}: expected a divisor of the {sequences} sequences of a step"
        )
    plans = PlanSearch(graph, request, layers)
    is_one_search = fixed is not None or len(topologies) > 1 or options.get("mixed", False)
    runs = [FabricRun(topology, plans, options, progress) for topology in topologies]
    found: list[tuple[FabricRun, FabricSearch]] = []
    for run in runs:
        if layers is None or (stages == 1 and is_one_search):
            found.append((run, run.run(fixed)))
            continue
        ranks, blocks = len(run.topology.compute_nodes), blocks_of(graph)
        space = LayoutSpace(ranks, sequences, blocks, fixed, micro_batches, interleave)
        found.append((run, run.run_auto(space, _searches_by_form(model, plans, layers))))
    matrix = None
    if len(found) > 1 and stages == 1:
        if len({len(topology.compute_nodes) for topology in topologies}) > 1:
            notes.append("the fabrics differ in their ranks: no plan is priced on another's fabric")
        else:
            matrix = fabric_matrix(found)
    notes += slow_links([run.fabric_costs(search.mesh) for run, search in found])
    graph = found[0][1].found.posed.problem.model  # of one micro-batch
    searches = tuple(search for _, search in found)
    return ParallelizeResult(graph, request, searches, matrix, tuple(notes), process_time() - start)


def _check_options(request: ParallelRequest, options: ParallelizeKeywords, stages: int | None) -> None:
    """Raise FormatError for options that exclude each other; `stages` is None if the mesh is searched."""
    if options.get("mixed", False) and request.overlap is Overlap.MODEL:
        raise FormatError(
            "--mixed: overlap over the whole model hides what no layer can; use --overlap layer"
        )
    counts = (("micro-batches", options.get("micro_batches")), ("interleave", options.get("interleave")))
    for name, count in counts:
        if count is not None and count < 1:
            raise FormatError(f"--{name} {count}: expected at least 1")
        if count is not None and stages == 1:
            raise FormatError(f"--{name} {count}: expected stages, an axis {STAGES} of the mesh")


def _reject_pipeline(graph: ModelGraph, staged: Mesh | None, options: ParallelizeKeywords) -> None:
    """Raise FormatError for a pipeline of a captured graph, which is that of a whole step."""
    values = {
        "mesh": staged and staged.notation,
        "micro-batches": options.get("micro_batches"),
        "interleave": options.get("interleave"),
    }
    for name, value in values.items():
        if value is not None:
            raise FormatError(
                f"--{name} {value}: the graph of {graph.name} is that of a whole step; name a model of the "
                "zoo instead"
            )


def _searches_by_form(
    model: object, plans: PlanSearch, layers: TrainingModel
) -> Callable[[PipelineForm], PlanSearch]:
    """Return the function from a pipeline to the search of one of its micro-batches; `plans` has the step."""

    @cache
    def search(micro_batches: int) -> PlanSearch:
        if micro_batches == 1:
            return plans
        request = plans.request
        graph, _ = as_model_graph(
            model,
            tokens=request.tokens,
            sequence=request.sequence,
            notes=[],
            micro_batches=micro_batches,
        )
        return PlanSearch(graph, request, layers)

    return lambda form: search(form.micro_batches)
