"""Direct exchange, Swing and Trivance over ways: verified, damaged ones refused, steps, loads, data."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, log

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.planning import run, solve
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees.baselines.embedding import GATHERING
from treadle.topologies import parse
from treadle.verification.schedules import verify

K = CollectiveKind
ODD = [0, 4, 28, 1020, 4 * 997]


@pytest.mark.parametrize("side", [2, 3, 4, 7, 9, 10, 14])
def test_trivance_trebles_on_a_ring_of_any_size(side: int) -> None:
    fabric = parse(f"torus({side})") if side > 2 else parse("ring(2)")
    for kind in GATHERING:
        found = solve(fabric, kind, algorithm="trivance")
        assert found.report.is_ok
        levels = ceil(log(side) / log(3) - 1e-9)
        assert found.report.n_steps == (2 if kind is K.ALLREDUCE else 1) * levels
        assert not any(row.wrong for row in run(found.plan, ODD, iterations=1).rows)


@pytest.mark.parametrize("sides", ["4, 4", "8, 2", "5, 3", "4, 3, 2"])
@pytest.mark.parametrize("name", ["trivance", "swing"])
def test_tori(name: str, sides: str) -> None:
    fabric = parse(f"torus({sides})")
    dims = [int(side) for side in sides.split(",")]
    for kind in GATHERING:
        if name == "swing" and not all(side in (2, 4, 8) for side in dims):
            with pytest.raises(ScheduleError, match="expected sides that are powers of two, found"):
                solve(fabric, kind, algorithm=name)
            continue
        found = solve(fabric, kind, algorithm=name)
        assert found.report.is_ok
        assert found.algbw <= found.optimal_algbw
        radix = 2 if name == "swing" else 3
        levels = sum(ceil(log(side) / log(radix) - 1e-9) for side in dims)
        assert found.report.n_steps == (2 if kind is K.ALLREDUCE else 1) * levels
        assert not any(row.wrong for row in run(found.plan, ODD[2:], iterations=1).rows)


@pytest.mark.parametrize("name", ["routed-direct", "swing", "trivance"])
def test_damaged_ones_are_refused(name: str) -> None:
    fabric = parse("torus(4, 4)")
    collective = on_all_ranks(fabric, K.REDUCE_SCATTER)
    (entry,) = solve(fabric, "reduce-scatter", algorithm=name).plan.entries
    steps, chance = entry.schedule.reduce, np.random.default_rng(4)  # type: ignore[union-attr]
    for _ in range(20):
        send = int(chance.integers(steps.n_sends))
        columns = {key: np.delete(getattr(steps, key), send) for key in ("shard", "link", "low", "high")}
        offset = steps.step_offset - (steps.step_offset > send)
        mutant = replace(entry.schedule, reduce=replace(steps, step_offset=offset, **columns))
        assert not verify(fabric, collective, mutant).is_ok
        link = steps.link.copy()
        link[send] = (link[send] + 1 + chance.integers(steps.n_paths - 1)) % steps.n_paths
        assert not verify(fabric, collective, replace(entry.schedule, reduce=replace(steps, link=link))).is_ok
