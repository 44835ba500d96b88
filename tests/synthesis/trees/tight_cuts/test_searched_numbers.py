"""Numbers of trees that decompositions are searched with, and which of the answers is taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from shortcuts.switched_ranks import in_boxes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.trees.tight_cuts import decompose as module
from treadle.synthesis.trees.tight_cuts import root_weights as shares_module
from treadle.synthesis.trees.tight_cuts.decompose import (
    UnequalShards,
    decompose_allreduce,
)
from treadle.synthesis.trees.tree_budget import TreeBudget
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

K = CollectiveKind
F = Fraction
BOXES = in_boxes(2, 2)
RANKS = tuple(BOXES.compute_nodes.tolist())
NONE = Unsupported("none")


UNEQUAL, OTHER, EVEN = (2, 1, 1, 1), (5, 3, 3, 3), (1, 1, 1, 1)
Phases = Mapping[tuple[int, ...] | None, Fraction | Unsupported]


def shared(
    monkeypatch: pytest.MonkeyPatch,
    choices: Sequence[tuple[tuple[int, ...], int]],
    phases: Phases,
    bound: Callable[[Topology, Collective], Fraction] = lambda *_: F(99),
    budget: TreeBudget | None = None,
) -> tuple[UnequalShards | Unsupported, list[tuple[tuple[int, ...] | None, TreeBudget]]]:
    """Allreduce where these shards would have these rates, and two phases of shards attain those."""
    certificate = SimpleNamespace(bound=bound)
    offered = tuple(SimpleNamespace(weights=w, rate=F(rate), certificate=certificate) for w, rate in choices)
    monkeypatch.setattr(shares_module, "root_weights", lambda *_, **__: offered)
    asked = []

    def two_phases(_: Topology, __: Collective, weights: Any, given: TreeBudget, *rest: Any) -> Any:
        asked.append((weights, given))
        rate = phases[weights]
        return rate if isinstance(rate, Unsupported) else SimpleNamespace(algbw=rate)

    monkeypatch.setattr(module, "_two_phases", two_phases)
    found = decompose_allreduce(BOXES, Collective(K.ALLREDUCE, RANKS), budget=budget, lower=False)
    return found, asked


@pytest.mark.parametrize(
    ("choices", "phases", "weights", "rate"),
    [
        ([(UNEQUAL, 10), (EVEN, 8)], {UNEQUAL: F(10)}, UNEQUAL, 10),
        ([(UNEQUAL, 10), (OTHER, 8)], {UNEQUAL: F(9), OTHER: F(8)}, OTHER, 8),
        ([(UNEQUAL, 10), (OTHER, 8)], {UNEQUAL: NONE, OTHER: F(8)}, OTHER, 8),
        # none is as fast as its cuts allow: equal shards, unless they are slower
        ([(UNEQUAL, 10), (OTHER, 8)], {UNEQUAL: F(9), OTHER: F(7), None: F(7)}, EVEN, 7),
        ([(UNEQUAL, 10), (OTHER, 8)], {UNEQUAL: F(9), OTHER: F(7), None: F(6)}, OTHER, 7),
        ([(UNEQUAL, 10)], {UNEQUAL: F(9), None: NONE}, UNEQUAL, 9),
        ([(UNEQUAL, 10)], {UNEQUAL: NONE, None: F(6)}, EVEN, 6),
        ([(UNEQUAL, 10)], {UNEQUAL: NONE, None: NONE}, None, 0),
    ],
)
def test_shards_that_are_taken(
    monkeypatch: pytest.MonkeyPatch,
    choices: Sequence[tuple[tuple[int, ...], int]],
    phases: Phases,
    weights: tuple[int, ...] | None,
    rate: int,
) -> None:
    found, _ = shared(monkeypatch, choices, phases)
    if weights is None:
        assert found is NONE
        return
    assert isinstance(found, UnequalShards)
    assert (found.weights, found.found.algbw, found.bound) == (weights, F(rate), F(99))
