"""Seconds that results tell are those of the call, and parts of it take no longer together."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping
from functools import partial
from time import process_time
from typing import Any

import pytest

from treadle import planning
from treadle.context import start
from treadle.schedulers.alltoall_candidates import quick_alltoall
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.rate.methods import RateMethod, rate_by
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.topologies import parse


def cpu_seconds() -> float:
    """Of this process, by the clock that results are told by, and of those that it started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


def parts_of(told: float | Mapping[str, float]) -> tuple[float, ...]:
    return tuple(told.values()) if isinstance(told, Mapping) else (told,)


def solved(fabric: str, kind: str, **options: Any) -> Mapping[str, float]:
    return planning.solve(fabric, kind, **options).seconds


def rate(method: str) -> float:
    topology = parse("torus:3,3")
    everyone = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    if method == "all":
        return optimal_rate(topology, everyone).seconds
    return rate_by(topology, everyone, RateMethod(method), gap=0.01).seconds


def late_exchange() -> Mapping[str, float]:
    with start() as running:
        quick_alltoall(planning.make_problem("torus:3,3", "alltoall"))
    return running.seconds


TRAINED: dict[str, Any] = {"mesh": "dp=4", "gpu": "a100", "schedules": "bound", "efficiency": 0.5}
SERVED = {**TRAINED, "mesh": "tp=4", "phase": "decode", "sequence": 512, "batches": (1,)}
CALLS: dict[str, Callable[[], float | Mapping[str, float]]] = {
    "trees": lambda: solved("dgx_a100:2", "allgather"),
    "two phases": lambda: solved("dgx_a100:2", "allreduce"),
    "factored": lambda: solved("dgx_a100:64", "allgather", algorithm="forestcoll"),
    "steps": lambda: solved("torus:3,3", "allgather", algorithm="bfb"),
    "exchange": lambda: solved("torus:3,3", "alltoall"),
    "late exchange": late_exchange,
    "groups": lambda: solved("torus:2,4", "allgather", mesh="a=2,b=4", axes="a"),
    "groups of an exchange": lambda: solved("torus:2,4", "alltoall", mesh="a=2,b=4", axes="a"),
    "groups of rings": lambda: solved("torus:2,4", "allgather", mesh="a=2,b=4", axes="b", algorithm="ring"),
    "routes": lambda: planning.routes("torus:3,3").seconds,
    "compared": lambda: {
        row.algorithm: row.seconds for row in planning.compare("ring:5", "allgather").rows if row.seconds
    },
    "repaired": lambda: (
        planning.repair(planning.solve("dgx_a100:2", "allgather").plan, nodes=["box1.gpu0"]).seconds
    ),
    "trained": lambda: planning.train("gpt2", "complete:4", **TRAINED, sequence=512).seconds,
    "served": lambda: planning.serve("gpt2", "complete:4", **SERVED).seconds,
    **{f"rate by {method}": partial(rate, method) for method in ("decomposed-mcf", "fleischer", "all")},
}


@pytest.mark.parametrize("name", CALLS)
def test_seconds_are_of_the_call(name: str) -> None:
    start = cpu_seconds()
    found = parts_of(CALLS[name]())
    taken = cpu_seconds() - start
    assert found
    assert all(part >= 0 for part in found)
    assert max(found) <= taken
    assert sum(found) <= 2 * taken  # the parts, and the total
