"""All-to-all in steps as a value, its cost, and its verifier against a slow checker."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from samples import exchange_samples as samples
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import (
    exchange_algbw,
    exchange_runtime_s,
    exchange_time,
    step_times,
)
from treadle.schedules.steps.steps import Send, Steps, steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies.catalogue.direct import from_arcs
from treadle.verification.schedules import verify

PATH = from_arcs("path", [0, 1, 1, 2], [1, 2, 0, 1], n=3)
"""0 - 1 - 2; links 0 and 1 lead up, 2 and 3 down."""
UP = Demands([[0, 0, 2], [0, 0, 1], [0, 0, 0]])
"""Rank 0 has two units for rank 2, rank 1 has one."""


def steps(sends: list[Send], homes: list[int], *, n: int = 3, chunks: int = 2) -> Steps:
    return steps_from_sends(Direction.BROADCAST, n, chunks, sends, homes=homes)


def upwards(*sends: Send) -> ExchangeSchedule:
    """Shard 0 from rank 0 to 2, shard 1 from rank 1 to 2."""
    return ExchangeSchedule(steps(list(sends), [0, 1]), np.array([2, 2]))


PIPELINE = ((0, 0, 0, 0, 1), (1, 1, 0, 0, 2), (0, 0, 1, 1, 2), (0, 1, 1, 0, 1), (0, 1, 2, 1, 2))


# --- the value ---------------------------------------------------------------------------------------------


# --- cost --------------------------------------------------------------------------------------------------


def test_cost_by_hand() -> None:
    collective, schedule = samples.alltoall(PATH, UP), upwards(*PIPELINE)
    # step 0: half of 2 units, 1 unit; step 1: 1 unit on both links; step 2: 1 unit
    assert step_times(PATH, collective, schedule) == [1, 1, 1]
    assert exchange_time(PATH, collective, schedule) == Fraction(3, 3)  # rank 2 receives 3 units
    assert exchange_algbw(PATH, collective, schedule) == 1
    assert exchange_runtime_s(PATH, collective, schedule, 30, alpha_s=2.0) == pytest.approx(36.0)
    assert verify(PATH, collective, schedule, claimed_algbw=Fraction(1)).is_ok


def test_host_caps_and_latencies_cost_time() -> None:
    topology = replace(
        PATH,
        injection_bytes_per_s=np.array([0, 1, 0]),
        bandwidths=PATH.bandwidths * 4,
        latencies_ns=[10**9] * 4,
    )
    collective, schedule = samples.alltoall(topology, UP), upwards(*PIPELINE)
    assert step_times(topology, collective, schedule) == [1, 1, 1]  # rank 1 takes in or sends out 1 unit
    assert exchange_runtime_s(topology, collective, schedule, 3) == pytest.approx(3.75)
    prompt = replace(topology, latencies_ns=np.zeros(4, dtype=np.int64))
    assert exchange_runtime_s(prompt, collective, schedule, 3) == pytest.approx(3)  # a quarter without caps
    report = verify(topology, collective, schedule)
    assert report.algbw == exchange_algbw(topology, collective, schedule) == 1


# --- the verifier ------------------------------------------------------------------------------------------
