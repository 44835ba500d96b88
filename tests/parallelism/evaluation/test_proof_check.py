"""Bounds of branch and bound, and of layers that differ, checked box by box by code that shares nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.parallelism.brute_force import every_plan, peak, seconds
from reference.parallelism.every_mixture import Mixtures
from reference.parallelism.random_graphs import random_graph, random_layering
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.bound_check import checked_mixture, checked_proof
from treadle.parallelism.search.bound_certificate import BoxSplit, ProofStep, proof_steps
from treadle.parallelism.search.branching import Incumbent, SearchEffort, minimise
from treadle.parallelism.search.factor_graph import FactorGraph
from treadle.parallelism.search.layer_columns import Layering, joined, priced
from treadle.parallelism.search.minimax import Overlap, step_time
from treadle.parallelism.search.mixed_layers import MixedLayers, mix_layers
from treadle.parallelism.search.splitting import PartRecord

EXACT = SearchEffort(gap=1e-6)


def proof(
    graph: FactorGraph, found: Incumbent, memory: float, overlap: Overlap = Overlap.LAYER
) -> list[ProofStep]:
    assert found.record is not None
    aim = step_time(graph, overlap=overlap, memory_bytes=memory)
    return list(proof_steps(graph, aim, found.record, at_least=found.bound, known=found.plans))


@pytest.mark.parametrize("overlap", list(Overlap))
def test_boxes_prove_what_the_search_found(overlap: Overlap) -> None:
    """Below every plan, and as a rule all of the search's bound: roots alone are weaker where it split."""
    n_split, n_full = 0, 0
    for seed in range(16):
        graph = random_graph(seed)
        plans = every_plan(graph)
        if not plans:
            continue
        memory = float(np.median([float(peak(graph, one)) for one in plans.values()]))
        aim = step_time(graph, overlap=overlap, memory_bytes=memory)
        found = minimise(graph, aim, effort=EXACT)
        steps = proof(graph, found, memory, overlap)
        bound = checked_proof(graph, steps, overlap=overlap.value, memory_bytes=memory)
        least = [seconds(graph, one, overlap.value) for one in plans.values() if peak(graph, one) <= memory]
        assert bound <= float(min(least, default=np.inf))
        n_split += any(isinstance(step, BoxSplit) for step in steps)
        n_full += bound >= 0.99 * found.bound
    assert n_split > 1
    assert n_full > 10


def test_whatever_splits_and_weights_prove_something_true() -> None:
    rng = np.random.default_rng(2)
    for seed in range(16):
        graph = random_graph(seed)
        plans = every_plan(graph)
        aim = step_time(graph)
        weights = rng.uniform(0, 0.5, len(aim.forms))
        weights[list(aim.limited)] = 0
        record = PartRecord(weights)
        node = int(rng.integers(len(graph.sizes)))
        record.node, record.groups, record.parts = node, [np.array([0])], [PartRecord(weights)]
        bound = checked_proof(graph, proof_steps(graph, aim, record, at_least=np.inf))
        assert bound <= min((float(seconds(graph, one, "layer")) for one in plans.values()), default=np.inf)


def split_graph() -> tuple[FactorGraph, list[ProofStep]]:
    for graph in map(random_graph, range(80)):
        found = minimise(graph, step_time(graph), effort=EXACT)
        if found.record is not None and found.record.parts:
            steps = proof(graph, found, np.inf)
            if sum(isinstance(step, BoxSplit) for step in steps):
                return graph, steps
    raise AssertionError("no random graph was split")


def test_proofs_that_leave_plans_out_are_refused() -> None:
    graph, steps = split_graph()
    at = next(at for at, step in enumerate(steps) if isinstance(step, BoxSplit))
    first = steps[at]
    assert isinstance(first, BoxSplit)
    fewer = BoxSplit(first.node, first.groups[1:])
    for wrong, words in (
        ([*steps[:at], fewer, *steps[at + 2 :]], "in no part of a box"),
        ([*steps[:at], replace(first, node=99), *steps[at + 1 :]], "falls apart at node 99"),
        (steps[:-1], "1 boxes are left unbounded"),
        ([*steps, steps[-1]], "goes on after its last box"),
    ):
        with pytest.raises(ScheduleError, match=words):
            checked_proof(graph, wrong)


def mixture_proof(layering: Layering, found: MixedLayers, memory: float) -> float:
    assert found.column is not None
    assert found.ending is not None
    steps = []
    for side, one in ((layering.layers, found.column), (layering.ends, found.ending)):
        assert one.record is not None
        aim = priced(side, Overlap.LAYER, found.prices)
        steps.append(list(proof_steps(side.graph, aim, one.record, at_least=one.bound, known=one.plans)))
    return checked_mixture(
        layering.graph,
        layering.block,
        layering.boundary,
        found.prices.tolist(),
        (steps[0], steps[1]),
        memory_bytes=memory,
    )


def test_block_and_ends_must_fall_apart() -> None:
    layering = random_layering(1)
    found = mix_layers(layering, every_single(layering), effort=EXACT)
    assert found is not None
    assert mixture_proof(layering, found, np.inf) > 0
    parts: tuple[list[ProofStep], list[ProofStep]] = [], []
    for block, boundary, words in (
        ({2}, layering.boundary, "tie the block to the ends"),
        ({2, 3, 4}, layering.boundary, "costs time in sections"),
        ({0, 2, 3}, layering.boundary, "one of its boundary"),
    ):
        with pytest.raises(ScheduleError, match=words):
            checked_mixture(layering.graph, block, boundary, [0.0, 0.0], parts)
    with pytest.raises(ScheduleError, match="boxes are left unbounded"):
        checked_mixture(layering.graph, layering.block, layering.boundary, [0.0, 0.0], parts)
    with pytest.raises(ScheduleError, match="overlap by themselves"):
        checked_mixture(layering.graph, layering.block, layering.boundary, [0.0, 0.0], parts, overlap="model")


def every_single(layering: Layering) -> list[tuple[int, ...]]:
    mixtures = Mixtures(layering)
    return [
        joined(layering, column, ending)
        for column in mixtures.columns
        for ending in mixtures.endings
        if layering.layers.boundary_of(column) == layering.ends.boundary_of(ending)
    ]
