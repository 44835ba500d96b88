"""The best way to shard, recompute and pipeline a model, on one fabric or several."""

from __future__ import annotations

from collections.abc import Sequence
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
from treadle.parallelism.search.minimax import Overlap
from treadle.parallelism.searching.fabric_matrix import fabric_matrix
from treadle.parallelism.searching.fabric_run import FabricRun
from treadle.parallelism.searching.parallel_options import parallel_request
from treadle.parallelism.searching.parallel_result import FabricSearch, ParallelizeResult
from treadle.parallelism.searching.pipeline_run import stages_of
from treadle.parallelism.searching.pipeline_search import LayoutSpace, blocks_of
from treadle.parallelism.searching.plan_search import STAGES, PipelineForm, PlanSearch
from treadle.schedules.mesh import Mesh
from treadle.training.devices import Accelerator
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
    """Find the plan of least step time that fits into memory, with a bound below which no plan is.

    Parameters
    ----------
    model : str, Path, TrainingModel or ModelGraph
        A model of the zoo, a Hugging Face ``config.json``, or a graph that `treadle capture` wrote.
    fabrics : Topology, str, Path, networkx.Graph, plan or result; or a sequence of them
    gpu : Accelerator or str
        A preset or a TOML file.
    mesh : Mesh or str
        ``16,8``, ``dp=16,tp=8``; an axis ``pp`` makes pipeline stages; ``auto``: the best of all with one
        axis or two, and of finer ones.
    tokens : int or str, optional
        Of a step on all ranks together: ``1M`` is 2**20. Of a graph its own.
    progress : callable, optional
    sequence : int or str, optional
        Tokens of a sequence; default what the model was made for.
    memory_bytes : int, optional
        That a rank may use; default the device's.
    overlap : str
        Where communication hides behind computing: ``layer`` (its own), ``none``, ``model`` (anywhere: no
        schedule reaches that where layers differ).
    constraints : mapping of str to str
        Parameters and the states that they are stored in, tensors and those that they are made in:
        ``{"wq": "k:1/h:0"}``.
    schedule : str
        Prices of collectives: ``treadle``, ``ring``, ``bound``.
    micro_batches : int, optional
        Of a pipeline.
    efficiency, memory_efficiency : float
        Shares of peak and memory bandwidth that a device reaches; default the device's preset and .8.
    alpha_s, forward, file_format
        See `step_costs`.
    mixed : bool
        Layers of a kind may differ.
    gap : float
        Optimality gap at which the search stops, as a fraction of the time.
    time_limit_s : float, optional
        On each fabric; default two minutes for a given mesh, five for ``auto``.

    Raises
    ------
    TreadleError
        For malformed input; InfeasibleError if no plan fits into memory, with the least memory that one does.

    Notes
    -----
    Seconds and memory are those of an evaluator that shares no code with the search. They are of a model of
    the machine; nothing is measured here.

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
    notes: list[str] = []
    if options.get("mixed", False) and request.overlap is Overlap.MODEL:
        raise FormatError(
            "--mixed: overlap over the whole model hides what no layer can; use --overlap layer"
        )
    fixed = None if mesh == AUTO else as_mesh(mesh)
    asked, pieces = options.get("micro_batches"), options.get("interleave")
    stages = 1 if fixed is None else stages_of(fixed)
    for name, count in (("micro-batches", asked), ("interleave", pieces)):
        if count is not None and (count < 1 or (fixed is not None and stages == 1)):
            needed = "at least 1" if count < 1 else f"stages, an axis {STAGES} of the mesh"
            raise FormatError(f"--{name} {count}: expected {needed}")
    graph, layers = as_model_graph(model, tokens=request.tokens, sequence=request.sequence, notes=notes)
    if layers is None:
        staged = {"mesh": mesh if stages > 1 else None, "micro-batches": asked, "interleave": pieces}
        for name, value in staged.items():
            if value is not None:
                text = value.notation if isinstance(value, Mesh) else value
                raise FormatError(
                    f"--{name} {text}: the graph of {graph.name} is that of a whole step; name a model of "
                    f"the zoo instead"
                )
    sequences = graph.tokens // graph.sequence_tokens
    if asked is not None and sequences % asked:
        raise FormatError(
            f"--micro-batches {asked}: expected a divisor of the {sequences} sequences of a step"
        )
    plans = PlanSearch(graph, request, layers)
    runs = [FabricRun(topology, plans, options, progress) for topology in topologies]
    found: list[tuple[FabricRun, FabricSearch]] = []
    for run in runs:
        is_plain = fixed is not None or len(runs) > 1 or options.get("mixed", False)
        if layers is None or (stages == 1 and is_plain):
            found.append((run, run.run(fixed)))
            continue
        searched = {PipelineForm(): plans}

        def plans_of(form: PipelineForm, searched: dict[PipelineForm, PlanSearch] = searched) -> PlanSearch:
            key = PipelineForm(1, form.micro_batches)
            if key not in searched:
                own, _ = as_model_graph(
                    model,
                    tokens=request.tokens,
                    sequence=request.sequence,
                    notes=[],
                    micro_batches=form.micro_batches,
                )
                searched[key] = PlanSearch(own, request, layers)
            return searched[key]

        n_ranks = len(run.topology.compute_nodes)
        space = LayoutSpace(n_ranks, sequences, blocks_of(graph), fixed, asked, pieces)
        found.append((run, run.run_auto(space, plans_of)))
    matrix = None
    if len(runs) > 1 and stages == 1:
        sizes = {len(topology.compute_nodes) for topology in topologies}
        if len(sizes) > 1:
            notes.append("the fabrics differ in their ranks: no plan is priced on another's fabric")
        else:
            matrix = fabric_matrix(found)
    notes += slow_links([run.fabric_costs(search.mesh) for run, search in found])
    graph = found[0][1].found.posed.problem.model  # of one micro-batch
    return ParallelizeResult(
        graph, request, tuple(search for _, search in found), matrix, tuple(notes), process_time() - start
    )
