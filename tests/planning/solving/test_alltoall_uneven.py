"""Plans for very unequal demands can be run: their chunks fit into a program."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.planning import ElementType, program_of, solve
from treadle.runtime.measured_sizes import measure
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.topologies import parse


def skewed(n: int, units: int, seed: int) -> Demands:
    """Every rank deals the same number of units to ranks of unlike popularity."""
    rng = np.random.default_rng(seed)
    popular = 1 / (1.0 + rng.permutation(n))
    return Demands(rng.multinomial(units, popular / popular.sum(), size=n))


@pytest.mark.parametrize("algorithm", ["pipelined", "shortest-paths", "tsmcf"])
@pytest.mark.parametrize("units", [128, 251])
def test_plans_for_unequal_demands_run(algorithm: str, units: int) -> None:
    fabric = parse("generalized_kautz(4, 16)")
    demands = skewed(16, units, seed=3)
    collective = Collective(CollectiveKind.ALLTOALL, tuple(range(16)), demands=demands)
    result = solve(fabric, collective, algorithm=algorithm)
    size = demands.buffer_units * 4
    (row,) = measure(program_of(result.plan, size), [size], element=ElementType.INT32, iterations=1, warmup=0)
    assert row.count > 0
    assert row.wrong == 0
    assert result.bound is not None
    if algorithm != "shortest-paths":  # coarse chunks cost some percent
        assert result.algbw > 0.9 * result.bound.algbw
