"""Mixtures against every sequence of layers; what a maximum over the whole model would claim."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.parallelism.search import mixed_layers
from treadle.parallelism.search.branching import SearchEffort
from treadle.parallelism.search.factor_graph import FactorGraph, Quantities, factor
from treadle.parallelism.search.layer_columns import Layering
from treadle.parallelism.search.mixed_layers import mix_layers

EXACT = SearchEffort(gap=0.0)


def test_layers_that_differ_save_time_where_memory_is_short() -> None:
    """Half of the layers save what the others compute again."""
    names = Quantities(1, 0)
    parts = [factor([1], {names.serial(0): [10, 6], names.persistent: [0, 80]})]
    graph = FactorGraph((1, 2), names, tuple(parts), (8,), first=(0,))
    layering = Layering(graph, 0, (0,), (np.zeros((1, 1)),), frozenset([1]))
    found = mix_layers(layering, [(0, 0)], memory_bytes=45, effort=EXACT)
    assert found is not None
    assert sorted(found.layers) == [(0, 0)] * 4 + [(0, 1)] * 4
    assert found.value == 64
    assert 61 < found.bound <= 62  # 4.5 layers might


@pytest.mark.parametrize("slow", [1e-6, 1.0, 1e6])
def test_a_slow_plan_does_not_blur_the_others(slow: float) -> None:
    """Nanoseconds beside a plan that takes seconds, and holds nothing."""
    names = Quantities(1, 0)
    times, bytes_ = [10e-9, 6e-9, slow, 10.5e-9], [0, 80, 0, 0]
    parts = [factor([1], {names.serial(0): times, names.persistent: bytes_})]
    graph = FactorGraph((1, 4), names, tuple(parts), (8,), first=(0,))
    layering = Layering(graph, 0, (0,), (np.zeros((1, 1)),), frozenset([1]))
    found = mix_layers(layering, [(0, i) for i in range(4)], memory_bytes=45, effort=EXACT)
    assert found is not None
    assert sorted(found.layers) == [(0, 0)] * 4 + [(0, 1)] * 4
    assert found.value == pytest.approx(64e-9)
    assert found.bound == pytest.approx(62e-9)


@pytest.mark.parametrize("seed", range(4))
def test_a_mixture_is_never_worse_than_a_known_plan(seed: int) -> None:
    random = np.random.default_rng(seed)
    names, times = Quantities(1, 0), random.integers(100, 120, 60) * 1e-9
    held = random.permutation(60)
    times[held < 20] = 10.0 ** random.integers(-5, 3, 20)
    parts = [factor([1], {names.serial(0): times, names.persistent: held})]
    graph = FactorGraph((1, 60), names, tuple(parts), (3,), first=(0,))
    layering = Layering(graph, 0, (0,), (np.zeros((1, 1)),), frozenset([1]))
    for limit in (15.0, 70.0, 100.0, 180.0):
        known = 3 * times[3 * held <= limit].min()
        found = mix_layers(layering, [(0, i) for i in range(60)], memory_bytes=limit, effort=EXACT)
        assert found is not None
        assert found.bound <= found.value <= known


def test_a_known_plan_stays_where_no_mixture_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fastest of those that fit, of all eight layers alike."""
    monkeypatch.setattr(mixed_layers, "_mixture", lambda *given: given[-1])
    names = Quantities(1, 0)
    parts = [factor([1], {names.serial(0): [12, 7, 10], names.persistent: [0, 80, 5]})]
    graph = FactorGraph((1, 3), names, tuple(parts), (8,), first=(0,))
    layering = Layering(graph, 0, (0,), (np.zeros((1, 1)),), frozenset([1]))
    for limit, value, state in ((45, 80, 2), (80, 56, 1), (4, 96, 0)):
        found = mix_layers(layering, [(0, 0), (0, 1), (0, 2)], memory_bytes=limit, effort=EXACT)
        assert found is not None
        assert (found.value, found.layers) == (value, ((0, state),) * 8)


def test_switches_that_cost_more_than_all_layers_are_not_made() -> None:
    names = Quantities(1, 0)
    parts = [factor([0], {names.serial(0): [5, 9]}), factor([1], {names.serial(0): [10, 20]})]
    graph = FactorGraph((2, 2), names, tuple(parts), (8,), first=(0,))
    layering = Layering(graph, 0, (0,), (np.array([[0, 1e6], [1e6, 0]]),), frozenset([1]))
    found = mix_layers(layering, [(1, 0), (0, 1)], effort=EXACT)
    assert found is not None
    assert (found.value, found.switch_s, found.ends[0]) == (120, 0, 0)


def test_what_does_not_fall_apart_is_refused() -> None:
    names = Quantities(2, 0)
    tie = factor([1, 2], {names.serial(0): [[1]]})
    astray = factor([2], {names.serial(0): [1]})
    for part, why in ((tie, "tie the block to the ends"), (astray, "another section")):
        graph = FactorGraph((1, 1, 1), names, (part,), (2, 1))
        with pytest.raises(ScheduleError, match=why):
            Layering(graph, 0, (0,), (np.zeros((1, 1)),), frozenset([1]))
    graph = FactorGraph((2, 1), names, (), (2, 1))
    with pytest.raises(ScheduleError, match="2 x 2 seconds"):
        Layering(graph, 0, (0,), (np.zeros((1, 1)),), frozenset([1]))
