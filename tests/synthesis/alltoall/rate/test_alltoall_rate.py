"""The optimal all-to-all rate: against a linear program, closed forms, and certificates checked apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from reference.alltoall_lp import flow_rate, length_bound
from treadle.context import Context, under
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import RateResult, flow_instance, optimal_rate
from treadle.synthesis.alltoall.rate import pdhg
from treadle.synthesis.alltoall.rate.pdhg import pdhg_rate
from treadle.topologies import parse
from treadle.topologies.topology import Topology


def alltoall(topology: Topology) -> Collective:
    return on_all_ranks(topology, CollectiveKind.ALLTOALL)


def solved(name: str, **options: Any) -> RateResult:
    topology = parse(name)
    return optimal_rate(topology, alltoall(topology), **options)


def iterated(topology: Topology, collective: Collective, gap: float, **options: Any) -> RateResult:
    """By PDHG, small or not."""
    return pdhg_rate(flow_instance(topology, collective), gap=gap, **options)


def check_certificates(found: RateResult) -> None:
    """Both sides again, by code that knows nothing of the solver."""
    lower = flow_rate(found.topology, found.collective, found.flow.by_source)
    upper = length_bound(found.topology, found.collective, found.certificate.lengths.tolist())
    assert upper == found.upper
    assert lower >= found.rate * (1 - 1e-9)
    assert found.rate <= float(upper)
    assert np.allclose(found.flow.loads, found.loads, rtol=1e-9, atol=1e-9 * found.loads.max())


def test_small_gaps_in_double_precision() -> None:
    topology = parse("generalized_kautz(4,27)")
    found = iterated(topology, alltoall(topology), 1e-8)
    assert found.gap <= 1.01e-8
    assert found.rate == pytest.approx(51 / 761, rel=2e-8)


def test_threads_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = parse("jellyfish(70,4)")
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(pdhg, "core_threads", lambda most, threads=threads: threads)
        results.append(iterated(topology, alltoall(topology), 1e-2))
    assert all(found.flow == results[0].flow for found in results)
    assert all(found.certificate == results[0].certificate for found in results)


def without_link(topology: Topology, link: int) -> Topology:
    kept = np.arange(topology.n_links) != link
    return replace(
        topology,
        tails=topology.tails[kept],
        heads=topology.heads[kept],
        bandwidths=topology.bandwidths[kept],
        latencies_ns=topology.latencies_ns[kept],
    )


def test_a_previous_result_is_a_start() -> None:
    """Solved again after a failure: certified, no worse than from scratch, and no step needed without one."""
    topology = parse("jellyfish(64,4,seed=3)")
    before = iterated(topology, alltoall(topology), 1e-3)
    again = iterated(topology, alltoall(topology), 1e-3, start=before)
    assert again.gap <= 1.1e-3
    broken = without_link(topology, 5)
    found = iterated(broken, alltoall(broken), 1e-3, start=before)
    check_certificates(found)
    scratch = iterated(broken, alltoall(broken), 1e-3)
    assert found.rate == pytest.approx(scratch.rate, rel=2e-3)
    assert found.upper < before.upper


def test_a_time_limit_leaves_a_certified_gap() -> None:
    found = solved("jellyfish(200,4)", gap=1e-7, time_limit_s=0.05)
    assert found.is_late
    assert 1e-7 < found.gap < 1
    assert float(found.upper) > found.rate > 0


def test_progress_is_reported_and_interruption_stops_the_core() -> None:
    class StopError(Exception):
        pass

    def progress(stage: str, done: int, total: int) -> None:
        assert stage == "concurrent flow"
        assert 0 <= done <= total
        raise StopError

    with pytest.raises(StopError), under(Context(progress)):
        solved("jellyfish(200,4)", gap=1e-9)
