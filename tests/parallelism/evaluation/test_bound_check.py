"""Bounds checked in one pass: below every plan whatever the certificate, close to the LP with ours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.parallelism.brute_force import every_plan, peak, seconds
from reference.parallelism.local_polytope import least_seconds
from reference.parallelism.random_graphs import random_graph
from treadle.errors import ScheduleError
from treadle.parallelism.evaluation.bound_check import checked_bound, least_sum
from treadle.parallelism.search.bound_certificate import BoundCertificate, bound_certificate
from treadle.parallelism.search.factor_graph import FactorGraph, Quantities, factor
from treadle.parallelism.search.minimax import Overlap, step_time


def least(graph: FactorGraph, overlap: str, memory_bytes: float) -> float:
    fitting = [one for one in every_plan(graph).values() if peak(graph, one) <= memory_bytes]
    return min((float(seconds(graph, one, overlap)) for one in fitting), default=np.inf)


@pytest.mark.parametrize("overlap", list(Overlap))
def test_witnessed_bounds_lie_below_every_plan_and_near_the_linear_program(overlap: Overlap) -> None:
    close = 0
    for seed in range(30):
        graph = random_graph(seed)
        plans = every_plan(graph)
        if not plans:
            continue
        memory = float(np.median([float(peak(graph, one)) for one in plans.values()]))
        aim = step_time(graph, memory_bytes=memory, overlap=overlap)
        certificate = bound_certificate(graph, aim, known=list(plans)[:2])
        assert certificate is not None
        bound = checked_bound(graph, certificate, overlap=overlap.value, memory_bytes=memory)
        assert bound <= least(graph, overlap.value, memory)
        if overlap is Overlap.LAYER:
            program = least_seconds(graph, memory, is_integer=False)
            assert bound <= program * (1 + 1e-6)
            close += bound >= 0.99 * program
    assert overlap is not Overlap.LAYER or close >= 12


def test_any_numbers_whatever_prove_something_true() -> None:
    rng = np.random.default_rng(1)
    for seed in range(60):
        graph = random_graph(seed)
        plans = every_plan(graph)
        n_messages = sum(
            graph.sizes[node] for part in graph.factors if len(part.scope) == 2 for node in part.scope
        )
        certificate = BoundCertificate(
            tuple(rng.uniform(0, 1, graph.quantities.n_sections)),
            tuple(rng.uniform(0, 3, max(graph.quantities.n_moments, 1))),
            rng.normal(0, 10, n_messages),
        )
        for overlap in Overlap:
            memory = float(rng.uniform(0, 60))
            bound = checked_bound(graph, certificate, overlap=overlap.value, memory_bytes=memory)
            assert bound <= least(graph, overlap.value, memory)
            assert plans or bound <= np.inf


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


def test_witnesses_that_prove_nothing_are_refused() -> None:
    graph = next(g for g in map(random_graph, range(50)) if len(g.sizes) > 2 and every_plan(g))
    certificate = bound_certificate(graph, step_time(graph))
    assert certificate is not None
    for wrong, words in (
        (replace(certificate, shares=(1.5, 0.0)), "shares from 0 to 1"),
        (replace(certificate, shares=(0.5,)), "1 shares, 2 prices; expected 2, 2"),
        (replace(certificate, prices=(-1.0, 0.0)), "prices of 0 or more"),
        (replace(certificate, prices=(np.nan, 0.0)), "prices of 0 or more"),
        (replace(certificate, prices=(1.0, 0.0)), "nothing limits them"),
        (replace(certificate, messages=certificate.messages[1:]), "a finite message for each end"),
        (
            replace(certificate, messages=np.full_like(certificate.messages, np.inf)),
            "a finite message for each end",
        ),
    ):
        with pytest.raises(ScheduleError, match=words):
            checked_bound(graph, wrong)
    with pytest.raises(ScheduleError, match="overlap 'all'"):
        checked_bound(graph, certificate, overlap="all")


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
