"""CPU seconds of schedule generation on one thread: figure 4.14, tables B.2 and 3.6."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from time import process_time
from typing import ParamSpec, TypeVar

from treadle import planning
from treadle.context import start
from treadle.reproduction.box_tables import ALLGATHER, gigabytes
from treadle.reproduction.expansion_tables import check_steps
from treadle.reproduction.paper_figure import Row, Rows
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import StepSchedule
from treadle.synthesis.steps.bfb import bfb_allgather
from treadle.synthesis.steps.exact import FreeRounds, SolverProcess, synthesise_exact
from treadle.synthesis.trees import Packer, synthesise
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies import parse

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

PLATFORMS = {"A100": ("dgx_a100_flat", 8), "MI250": ("mi250", 16)}
"""Figure 4.14's two; every GPU straight on the InfiniBand switch, as in the paper."""
_BOXES = (2, 4, 8, 16, 32, 64, 128)
_MOST_QUICK = 128
"""GPUs up to which the quick form runs the greedy baseline."""
_BASELINES = ("multitree", "ring")


def timed(
    call: Callable[Parameters, Result], *values: Parameters.args, **options: Parameters.kwargs
) -> tuple[Result, float]:
    """Return the result and the CPU seconds of a call."""
    begun = process_time()
    result = call(*values, **options)
    return result, process_time() - begun


def figure_4_14(full: bool) -> Rows:
    """Yield allgathers of both platforms by size: throughput, and time from fabric to verified plan."""
    for platform, (function, gpus) in PLATFORMS.items():
        for boxes in _BOXES:
            ranks = boxes * gpus
            if ranks > 1024:
                continue
            place, fabric = f"{platform}, {ranks} GPUs", f"{function}({boxes})"
            best = planning.bound(fabric, ALLGATHER).algbw
            ours, seconds = timed(planning.solve, fabric, ALLGATHER)
            yield f"{place}: optimum", gigabytes(best), "GB/s"
            yield f"{place}: ForestColl", gigabytes(ours.algbw), "GB/s", f"k = {ours.trees_per_root}"
            yield f"{place}: ForestColl, time", seconds, "s"
            for name in _BASELINES if full or ranks <= _MOST_QUICK else ():
                found, seconds = timed(planning.solve, fabric, ALLGATHER, algorithm=name)
                yield f"{place}: {name}", gigabytes(found.algbw), "GB/s"
                yield f"{place}: {name}, time", seconds, "s"
                yield f"{place}: optimum / {name}", best / found.algbw, "times"


def table_b_2(_full: bool) -> Rows:
    """Yield times for 1024 GPUs: the optimum alone, all by tight cuts, and the paper's stages in turn."""
    for platform, fabric in (("A100", "dgx_a100_flat(128)"), ("MI250", "mi250(64)")):
        _, seconds = timed(planning.bound, fabric, ALLGATHER)
        yield f"{platform}: optimality search", seconds, "s"
        topology = parse(fabric)
        collective = on_all_ranks(topology, CollectiveKind.ALLGATHER)
        with start() as running:
            synthesise(topology, collective, budget=TreeBudget(exact=True), packer=Packer.GROWTH)
        yield f"{platform}: switch node removal", running.seconds.get("switch_removal"), "s"
        yield f"{platform}: spanning tree construction", running.seconds.get("tree_packing"), "s"
        _, seconds = timed(planning.solve, fabric, ALLGATHER)
        yield f"{platform}: total", seconds, "s", "by tight cuts, verified: what `solve` does"


TABLE_3_6 = {
    "hypercube": {2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 10: 10},
    "torus": {2: 2, 3: 2, 4: 4, 5: 4, 6: 6, 50: 50},
}
"""Parameter and diameter of each row: dimensions of a hypercube, side of a square torus."""
_SEARCH_S = 20.0


def table_3_6(full: bool) -> Rows:
    """Yield the breadth-first broadcast, and exact synthesis with the fewest steps and c = 1 to 4 chunks."""
    with SolverProcess() as solver:
        for family, rows in TABLE_3_6.items():
            for size, steps in rows.items():
                expression = f"hypercube({size})" if family == "hypercube" else f"torus({size}, {size})"
                topology = parse(expression)
                found, seconds = timed(bfb_allgather, topology)
                schedule = StepSchedule(CollectiveKind.ALLGATHER, broadcast=found)
                check_steps(expression, topology, schedule)  # its time is not counted
                yield f"{expression}: BFB", seconds, "s"
                for chunks in range(1, 5) if topology.n_nodes <= (16 if full else 4) else ():
                    yield _exact(expression, steps, chunks, solver)


def _exact(expression: str, steps: int, chunks: int, solver: SolverProcess) -> Row:
    """Solve SCCL's problem: the fewest steps, any rounds; the search runs in its own process."""
    topology = parse(expression)
    n = topology.n_nodes
    start = process_time()
    result = synthesise_exact(
        topology,
        CollectiveKind.ALLGATHER,
        chunks=chunks,
        rounds=FreeRounds(steps, max(steps * n * chunks, ceil(Fraction(chunks * (n - 1), steps)))),
        time_limit_s=_SEARCH_S,
        symmetric=False,
        solver=solver,
    )
    seconds = process_time() - start + result.seconds
    label = f"{expression}: SCCL's problem, c = {chunks}"
    if result.schedule is None:
        return label, None, "s", f"{result.phases[0].reason} after {seconds:.0f} s"
    check_steps(expression, topology, result.schedule)
    return label, seconds, "s"
