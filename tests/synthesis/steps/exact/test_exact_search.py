"""Exact synthesis: found schedules are right and optimal, refusals are true."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.synthesis.steps.exact import (
    FreeRounds,
    SolverProcess,
    synthesise_exact,
)
from treadle.synthesis.steps.exact.exact_problem import exact_problem
from treadle.synthesis.steps.exact.semiregular import link_permutation, semiregular_group
from treadle.topologies import parse

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ortools") is None, reason="ortools is not installed (extra exact)"
)
ALLGATHER, REDUCE_SCATTER = CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER


@pytest.fixture(scope="module")
def solver() -> Iterator[SolverProcess]:
    with SolverProcess() as process:
        yield process


@pytest.mark.parametrize("seed", [0, 1])
def test_same_seed_same_schedule(solver: SolverProcess, seed: int) -> None:
    topology = parse("hypercube(3)")
    runs = [
        synthesise_exact(topology, ALLGATHER, chunks=2, rounds=[2, 2, 1], seed=seed, solver=solver)
        for _ in range(2)
    ]
    assert runs[0].schedule == runs[1].schedule


@pytest.mark.parametrize(
    ("expression", "order"),
    [("hypercube(3)", 8), ("torus(3, 3)", 9), ("torus(4, 4)", 16), ("directed_circulant(7, 1, 2)", 7),
     ("complete(6)", 6), ("uni_ring(2, 4)", 4), ("modified_de_bruijn(2, 3)", 2),
     ("modified_de_bruijn(2, 4)", 1)],
)  # fmt: skip
def test_imposed_groups(expression: str, order: int) -> None:
    topology = parse(expression)
    problem = exact_problem(topology, range(topology.n_nodes), chunks=1, rounds=[1] * topology.n_nodes)
    group = semiregular_group(problem, seed=0)
    nodes = list(range(topology.n_nodes))
    assert group[0] == tuple(nodes)
    assert len(set(group)) == len(group) == order
    links = sorted(zip(problem.tails, problem.heads, strict=True))
    for element in group:
        assert sorted(element) == nodes
        assert element == group[0] or all(image != node for node, image in enumerate(element))
        assert sorted((element[u], element[w]) for u, w in links) == links
        moved = link_permutation(problem, element)
        assert sorted(moved) == list(range(len(links)))
        for link, image in enumerate(moved):
            assert problem.tails[image] == element[problem.tails[link]]
            assert problem.heads[image] == element[problem.heads[link]]
        assert all(tuple(other[v] for v in element) in group for other in group)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"chunks": 0}, "chunks must be 1 to 65536"),
        ({"chunks": 65536, "rounds": [1] * 50}, "send variables"),
        ({"rounds": []}, "at least 1 for each step"),
        ({"rounds": [1, 0]}, "at least 1 for each step"),
        ({"rounds": FreeRounds(3, 2)}, "one round per"),
        ({"time_limit_s": 0.0}, "positive seconds"),
        ({"time_limit_s": float("nan")}, "positive seconds"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
        ({"root": 1}, "has no root"),
        ({"reduce_rounds": [1]}, "are for an allreduce"),
    ],
)
def test_bad_arguments(changed: dict[str, object], words: str) -> None:
    arguments: dict[str, object] = {"chunks": 1, "rounds": [1, 1], **changed}
    with pytest.raises(ScheduleError, match=words):
        synthesise_exact(parse("ring(4)"), ALLGATHER, **arguments)


def test_switches_and_missing_roots_are_refused() -> None:
    with pytest.raises(ScheduleError, match="switches"):
        synthesise_exact(parse("dgx_a100(2)"), ALLGATHER, chunks=1, rounds=[1])
    for root in (None, 4, -1):
        with pytest.raises(ScheduleError, match="needs a root from 0 to 3"):
            synthesise_exact(parse("ring(4)"), CollectiveKind.BROADCAST, chunks=1, rounds=[1], root=root)
    with pytest.raises(ScheduleError, match="symmetric search is for"):
        synthesise_exact(
            parse("ring(4)"), CollectiveKind.BROADCAST, chunks=1, rounds=[2, 2], root=0, symmetric=True
        )
