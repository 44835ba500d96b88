"""SCCL's Pareto fronts: least steps, least R / C, and proofs for what lies between."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from fractions import Fraction

import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.steps.exact import ExactStatus, SolverProcess, pareto_front
from treadle.topologies import parse
from treadle.verification.steps.step_check import verify_steps

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ortools") is None, reason="ortools is not installed (extra exact)"
)
ALLGATHER, REDUCE_SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER


@pytest.fixture(scope="module")
def solver() -> Iterator[SolverProcess]:
    with SolverProcess() as process:
        yield process


CASES = [
    # One schedule has the least steps and the least R / C: figures 3.1 and 3.10, table A.3's Diamond.
    ("complete_bipartite(2, 2)", ALLGATHER, None, [(2, Fraction(3, 2))]),
    ("hypercube(2)", ALLGATHER, None, [(2, Fraction(3, 2))]),
    ("hypercube(3)", ALLGATHER, None, [(3, Fraction(7, 3))]),
    ("torus(3, 3)", ALLGATHER, None, [(2, Fraction(2))]),
    ("diamond()", ALLGATHER, None, [(3, Fraction(7, 2))]),
    ("diamond()", REDUCE_SCATTER, None, [(3, Fraction(7, 2))]),
    # DBJMod(2,3): bandwidth-optimal with 4 steps (table A.3), one more than its diameter.
    ("modified_de_bruijn(2, 3)", ALLGATHER, None, [(3, Fraction(5)), (4, Fraction(7, 2))]),
    # Broadcast on a ring of 5: both ways at once, at best a pipeline.
    ("ring(5)", CollectiveKind.BROADCAST, 1, [(2, Fraction(2)), (3, Fraction(1))]),
]


@pytest.mark.parametrize(("name", "kind", "root", "expected"), CASES)
def test_fronts(
    solver: SolverProcess,
    name: str,
    kind: CollectiveKind,
    root: int | None,
    expected: list[tuple[int, Fraction]],
) -> None:
    topology = parse(name)
    front = pareto_front(topology, kind, max_steps=4, max_chunks=3, root=root, solver=solver)
    assert [(point.steps, point.ratio) for point in front.points] == expected
    assert all(point.is_proved for point in front.points)
    assert all(trial.status is ExactStatus.INFEASIBLE for trial in front.excluded)
    for point in front.points:
        assert point.ratio >= front.least_ratio
        assert point.steps == len(point.rounds) == point.schedule.n_steps
        report = verify_steps(topology, on_all_ranks(topology, kind, root=root), point.schedule)
        assert not report.n_violations
        # R / C bounds the loads, so the schedule is at least as fast: algbw = shards * C / R.
        shards = 1 if root is not None else topology.n_nodes
        assert report.algbw is not None
        assert report.algbw >= shards / point.ratio
    assert front.points[0].steps == front.least_steps
    assert (front.points[-1].ratio == front.least_ratio) == (root is None)


def test_k_synchronous_schedules_only(solver: SolverProcess) -> None:
    # SCCL's k = 0: one round a step. DBJMod(2,3)'s front then needs as many steps as rounds.
    topology = parse("modified_de_bruijn(2, 3)")
    front = pareto_front(topology, ALLGATHER, max_steps=5, max_chunks=1, max_extra_rounds=0, solver=solver)
    assert [(point.steps, point.ratio) for point in front.points] == [(4, Fraction(4))]
    assert all(set(point.rounds) == {1} for point in front.points)
