"""Times that NCCL achieves: fits on measured rows, their errors on rows left out, what has no rows."""

from __future__ import annotations

from itertools import pairwise

import pytest

import treadle
from treadle.machines.achievable import measured_constants
from treadle.machines.system import System
from treadle.planning import Achievable, achievable
from treadle.reproduction.measured_times import SYSTEMS

KINDS = ("allgather", "reduce-scatter", "allreduce", "alltoall")


def found(system: str | System, kind: str, size: int, gpus: int | None = None) -> Achievable:
    one = achievable(treadle.parse(system) if isinstance(system, str) else system, kind, size, gpus)
    assert isinstance(one, Achievable), one
    return one


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("kind", KINDS)
def test_times_grow_with_the_size_within_a_protocol(name: str, kind: str) -> None:
    gpus = SYSTEMS[name].gpus_per_box
    ends = [segment[1] for segment in measured_constants()["systems"][name][kind][str(gpus)]]
    sizes = [2**exponent for exponent in range(4, 36)]
    times = [found(SYSTEMS[name], kind, size).time_s for size in sizes]
    for (size, now), (next_size, then) in pairwise(zip(sizes, times, strict=True)):
        if not any(size <= end < next_size for end in ends):
            assert now < then, (size, next_size)
