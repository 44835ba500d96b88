"""A small transformer, a mesh of 4 x 2 and its prices, for tests of problems."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.graph.blocks.transformer_graph import model_graph
from treadle.parallelism.graph.model_graph import ModelGraph
from treadle.parallelism.problem.search_problem import SearchProblem
from treadle.parallelism.problem.variables import OperatorVariable
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.mesh import Mesh
from treadle.training.compute_times import RooflineTimes
from treadle.training.costs import AlphaBetaCosts
from treadle.training.devices import ACCELERATORS
from treadle.training.models.zoo import zoo_model

MESH = Mesh((4, 2), ("ib", "nv"))
TIMES = RooflineTimes(ACCELERATORS["h100"], "bf16", 0.5)
NUMBERS = DeviceNumbers.of(TIMES)


def costs(mesh: Mesh, *, slow: float, fast: float, within: tuple[str, ...], alpha_s: float) -> AlphaBetaCosts:
    """Rates of boxes joined by network cards: each axis of a box is fast, each rank has a card of its own.

    A group over both gathers along the cards of all its ranks in a box at once.
    """
    sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
    rates: dict[tuple[CollectiveKind, tuple[str, ...]], float] = {}
    for count in range(1, len(sizes) + 1):
        for axes in combinations(sizes, count):
            cards = 1
            for axis in axes:
                cards *= sizes[axis] if axis in within else 1
            is_inside = all(axis in within for axis in axes)
            gather = fast if is_inside else min(fast, slow * cards)
            exchange = fast if is_inside else slow
            rates[CollectiveKind.ALLGATHER, axes] = gather
            rates[CollectiveKind.REDUCE_SCATTER, axes] = gather
            rates[CollectiveKind.ALLREDUCE, axes] = gather / 2
            rates[CollectiveKind.ALLTOALL, axes] = exchange
    return AlphaBetaCosts(alpha_s, rates)


COSTS = costs(MESH, slow=53.33e9, fast=571.43e9, within=("nv",), alpha_s=1e-5)


def small_model() -> ModelGraph:
    """llama-3-8b with 8 samples of 4096 tokens."""
    return model_graph(zoo_model("llama-3-8b"), batch=8, sequence=4096)


def without_loops(problem: SearchProblem) -> tuple[np.ndarray, ...]:
    """States of plans in which no operator runs in a loop."""
    return tuple(
        np.array([state for state in range(one.size) if one.loop(state) is None])
        if isinstance(one, OperatorVariable)
        else np.arange(one.size)
        for one in problem.table.variables
    )
