"""Operators under every combination of states: legal just where ranks with their blocks compute the same."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from parallelism.evaluation.operators_on_ranks import Sample
from treadle.parallelism.evaluation.legality import operator_faults
from treadle.parallelism.graph.compute_graph import OperatorKind
from treadle.parallelism.plan.part_plan import OperatorPlan
from treadle.parallelism.state.sharding import Sharding

K = OperatorKind


def parts_of(sample: Sample, inputs: tuple[Sharding, ...], outputs: tuple[Sharding, ...], sizes: Any) -> int:
    cut = {axis for state in (*inputs, *outputs) for axis in state.axes}
    return int(np.prod([sizes[axis] for axis in cut], dtype=int))


def is_legal(sample: Sample, inputs: Any, outputs: Any, sizes: dict[str, int]) -> bool:
    plan = OperatorPlan("node", inputs, outputs, parts_of(sample, inputs, outputs, sizes))
    return not list(operator_faults(sample.node(), plan, sizes))


@pytest.mark.parametrize(
    ("kind", "inputs", "outputs", "linear", "legal"),
    [
        (K.DISPATCH, ("sbh", "sbn"), ("ecbh",), ((0,),), {
            "b": ("b", "b", "b"), "h": ("h", "", "h"), "e": ("", "", "e"), "s": ("s", "s", "c"),
            "+": ("+", "", "+"),
        }),
        (K.COMBINE, ("ecbh", "sbn", "sbn"), ("sbh",), ((0,), (1,)), {
            "b": ("b", "b", "b", "b"), "h": ("h", "", "", "h"), "e": ("e", "", "", "+"),
            "s": ("c", "s", "s", "s"), "+": ("+", "", "", "+"), "+w": ("", "+", "", "+"),
        }),
        (K.COMBINE, ("ecbh", "sbh", "sbn"), ("bsn",), ((0,), (1,)), {
            "b": ("b", "b", "b", "b"), "h": ("h", "h", "", "+"), "e": ("e", "", "", "+"),
            "s": ("c", "s", "s", "s"), "+": ("+", "", "", "+"), "+g": ("", "+", "", "+"),
        }),
    ],
)  # fmt: skip
def test_tokens_and_places_of_experts_are_linked(
    kind: Any, inputs: Any, outputs: Any, linear: Any, legal: dict[str, tuple[str, ...]]
) -> None:
    """All combinations along one axis; legal are those that hold by what the operators mean."""
    sample = Sample(kind, inputs, outputs, lambda *_: np.zeros(1), linear=linear)
    words = (*inputs, *outputs)
    choices = [["", "+", *word] for word in words]
    found = set()
    for places in product(*choices):
        shardings = [
            Sharding(
                tuple(("x",) if letter == place else () for letter in word), frozenset("x" * (place == "+"))
            )
            for word, place in zip(words, places, strict=True)
        ]
        if is_legal(sample, tuple(shardings[: len(inputs)]), tuple(shardings[len(inputs) :]), {"x": 2}):
            found.add(places)
    assert found == {*legal.values(), ("",) * len(words)}
