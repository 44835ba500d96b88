"""Rates by link prices: both sides against exact optima, by code that knows nothing of the search."""

from __future__ import annotations

import numpy as np
import pytest

from reference.alltoall_lp import flow_rate, length_bound, lp_rate
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall import RateResult, optimal_rate
from treadle.synthesis.alltoall.rate import priced_routing, rate
from treadle.synthesis.alltoall.rate.flow import check_flow
from treadle.synthesis.alltoall.rate.flow_instance import flow_instance
from treadle.synthesis.alltoall.rate.flow_symmetry import known_symmetry, symmetry_of
from treadle.synthesis.alltoall.rate.priced_routing import priced_rate
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology


def priced(topology: Topology, collective: Collective, *, symmetric: bool = False) -> RateResult:
    instance = flow_instance(topology, collective)
    return priced_rate(instance, known_symmetry(instance) if symmetric else symmetry_of(instance), gap=0.01)


def check(found: RateResult, optimum: float) -> None:
    flow = found.flow
    assert found.rate <= flow_rate(found.topology, found.collective, flow.by_source) * (1 + 1e-9)
    assert check_flow(found.topology, found.collective, flow) == pytest.approx(found.rate, rel=1e-9)
    assert length_bound(found.topology, found.collective, found.certificate.lengths.tolist()) == found.upper
    assert found.rate <= optimum * (1 + 1e-9)
    assert optimum <= float(found.upper) * (1 + 1e-9)
    assert np.allclose(flow.loads, found.loads, rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_any_demands_and_bandwidths(seed: int) -> None:
    chance, n = np.random.default_rng(seed), 7
    ring = [(node, (node + 1) % n) for node in range(n)]
    more = chance.integers(0, n, (9, 2)).tolist()  # parallel links and self-loops too
    tails, heads = zip(*ring, *more, strict=True)
    topology = from_arcs("any", tails, heads, n=n, bandwidth=chance.integers(1, 5, len(tails)).tolist())
    matrix = chance.integers(0, 4, (n - 2, n - 2))
    matrix[0, 1] += 1
    ranks = tuple(range(n - 2))
    some = Collective(CollectiveKind.ALLTOALL, ranks, forwarders=(n - 2, n - 1), demands=Demands(matrix))
    check(priced(topology, some), lp_rate(topology, some))


def test_memory_of_links_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond what flows by sender take, prices serve; blocks of one sender give the same sides."""
    topology = parse("generalized_kautz(3, 40)")
    everyone = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    monkeypatch.setattr(rate, "EXACT_PAIRS", 0)
    monkeypatch.setattr(rate, "MOST_CELLS", 100)
    found = optimal_rate(topology, everyone)
    assert found.method == "priced routing"
    monkeypatch.setattr(priced_routing, "_MOST_CELLS", 1)
    again = optimal_rate(topology, everyone)
    assert again.rate == pytest.approx(found.rate, rel=1e-9)
    assert float(again.upper) == pytest.approx(float(found.upper), rel=1e-6)


def test_a_flow_that_does_not_deliver_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    topology = parse("generalized_kautz(2, 9)")
    everyone = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    route = priced_routing._route

    def losing(*args: object, **options: object) -> tuple[np.ndarray, float]:
        flow, distance = route(*args, **options)  # type: ignore[arg-type]
        flow[flow.argmax()] *= 0.99
        return flow, distance

    monkeypatch.setattr(priced_routing, "_route", losing)
    with pytest.raises(ScheduleError, match=r"flow of rank \d: leaves"):
        priced(topology, everyone)


def test_ranks_out_of_reach() -> None:
    oneway = from_arcs("oneway", [0, 1], [1, 2], n=3)
    with pytest.raises(InfeasibleError, match="'n1' has data for 'n0', but no path leads there"):
        priced(oneway, on_all_ranks(oneway, CollectiveKind.ALLTOALL))
