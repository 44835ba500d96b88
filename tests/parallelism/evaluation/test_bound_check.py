"""Bounds checked in one pass: below every plan whatever the certificate, close to the LP with ours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.parallelism.brute_force import every_plan
from reference.parallelism.random_graphs import random_graph
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.bound_check import checked_bound, least_sum
from treadle.parallelism.search.bound_certificate import BoundCertificate, bound_certificate
from treadle.parallelism.search.factor_graph import FactorGraph, Quantities, factor
from treadle.parallelism.search.minimax import step_time


def test_messages_matter_and_multipliers_too() -> None:
    graph = next(g for g in map(random_graph, range(50)) if len(g.sizes) > 3 and len(every_plan(g)) > 20)
    certificate = bound_certificate(graph, step_time(graph))
    assert certificate is not None
    bound = checked_bound(graph, certificate)
    silent = replace(certificate, messages=np.zeros_like(certificate.messages))
    assert checked_bound(graph, silent) < bound
    turned = replace(certificate, shares=tuple(1 - share for share in certificate.shares))
    assert checked_bound(graph, turned) < bound


def test_nothing_possible_is_infinite() -> None:
    graph = random_graph(3)
    banned = replace(
        graph.factors[0],
        forbidden=np.ones(graph.factors[0].shape or (), bool),
    )
    none = FactorGraph(graph.sizes, graph.quantities, (banned, *graph.factors[1:]), graph.repeats)
    n_messages = sum(none.sizes[node] for part in none.factors if len(part.scope) == 2 for node in part.scope)
    assert least_sum(none, np.ones(none.quantities.count), np.zeros(n_messages)) == np.inf
    assert bound_certificate(none, step_time(none)) is None


def test_a_graph_without_moments_has_one_price_for_what_is_always_held() -> None:
    """Three runs of 2 or 5 seconds, which hold 10 bytes or 1: at half a second a byte above 4."""
    names = Quantities(1, 0)
    tables = {names.serial(0): np.array([2.0, 5.0]), names.persistent: np.array([10.0, 1.0])}
    graph = FactorGraph((2,), names, (factor((0,), tables),), (3,))
    certificate = BoundCertificate((1.0,), (0.5,), np.zeros(0))
    assert checked_bound(graph, certificate, memory_bytes=4.0) == pytest.approx(3 * 2 + 0.5 * (10 - 4))
    assert checked_bound(graph, replace(certificate, prices=(0.0,))) == pytest.approx(6)
    assert checked_bound(graph, replace(certificate, prices=(2.0,)), memory_bytes=4.0) == pytest.approx(9)
    with pytest.raises(ScheduleError, match="bound: 1 shares, 0 prices; expected 1, 1"):
        checked_bound(graph, replace(certificate, prices=()))
