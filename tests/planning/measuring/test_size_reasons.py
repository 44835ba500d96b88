"""What proves that no size is faster, in lines and as JSON, of certificates that are made up."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from treadle.inputs.problem import make_problem
from treadle.schedulers.bounds import find_bound
from treadle.schedules.certificate import BottleneckCut
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.size_bounds.problem_bounds import (
    PROOF_KINDS,
    _set_words,
    size_bound_values,
    size_bounds,
    size_bounds_summary,
    size_reasons,
)
from treadle.simulation.size_bounds.size_certificate import (
    CrossingCertificate,
    DirectCertificate,
    GatheredCertificate,
    GrowthCertificate,
    GrowthClass,
    PairCertificate,
    ReachCertificate,
    RelayedCertificate,
    SizeBound,
    SizeProof,
)

FAR = GrowthClass(1, 2, (3,))
WITNESSES: tuple[Any, ...] = (
    RelayedCertificate(Fraction(3, 2)),
    GatheredCertificate((0, 2)),
    DirectCertificate(1, 2500),
    GrowthCertificate(1, None, FAR, None),
    ReachCertificate(2, 3, 1, None, None),
    PairCertificate(3, 1),
    CrossingCertificate(BottleneckCut((0, 1, 2))),
)


def bound(size: int, *certificates: Any, protocol: str = "") -> SizeBound:
    return SizeBound(
        size, protocol, tuple(SizeProof(Fraction(1, 2 + at), one) for at, one in enumerate(certificates))
    )


def test_reasons_in_a_line_each_in_the_order_of_their_kinds() -> None:
    problem = make_problem("ring:4", "allgather")
    told = list(size_reasons(problem.topology, problem.collective, [bound(8, *WITNESSES)]))
    assert told == [
        ("crossing", "data must leave or enter n3"),
        ("distance", "n1 needs data of n3"),
        ("reach", "3 ranks must have n2's data"),
        ("growth", "a message adds at most what its sender has, and what its bytes hold"),
        ("direct", "n1 sends to ranks 2.5 us away one by one"),
        ("gathered", "data must leave or enter a set of 2 nodes: gathered and passed on once, or twice"),
        ("relayed", "one message or two bring each contribution, and their bytes hold links"),
    ]
    assert tuple(kind for kind, _ in told) == PROOF_KINDS
    later = [bound(8, PairCertificate(0, 1)), bound(16, PairCertificate(2, 3)), bound(32)]
    last = [("distance", "n3 needs data of n2")]
    assert list(size_reasons(problem.topology, problem.collective, later)) == last
    some = make_problem("path:4", "allgather", ranks="2,3", forward=True)
    assert list(size_reasons(some.topology, some.collective, [bound(8, PairCertificate(0, 1))])) == last


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ((1,), "data must leave or enter n1"),
        ((0, 1, 3), "data must leave or enter n2"),
        ((0, 1), "data must leave or enter a set of 2 nodes"),
    ],
)
def test_the_smaller_side_is_told(nodes: tuple[int, ...], words: str) -> None:
    assert _set_words(make_problem("ring:4", "allgather").topology, nodes) == words
    assert (
        _set_words(make_problem("ring:6", "allgather").topology, (0, 1, 2, 3, 4))
        == "data must leave or enter n5"
    )


def test_bounds_as_json() -> None:
    shared = BottleneckCut((1,))
    pair = PairCertificate(0, 1)
    bounds = [
        bound(8, CrossingCertificate(shared), pair, protocol="ll"),
        bound(16, pair, CrossingCertificate(shared)),
    ]
    model = CostModel("m", "s", (Protocol("ll"),))
    told = size_bounds_summary(bounds, model)
    assert told == {
        "cost_model": "m",
        "cost_model_source": "s",
        "at_sizes": [
            {
                "size_bytes": 8,
                "bound_s": 0.5,
                "bound_by": "crossing",
                "protocol": "ll",
                "proofs": [
                    {"kind": "crossing", "time_s": 0.5, "witness": 0},
                    {"kind": "distance", "time_s": 1 / 3, "witness": 1},
                ],
            },
            {
                "size_bytes": 16,
                "bound_s": 0.5,
                "bound_by": "distance",
                "proofs": [
                    {"kind": "distance", "time_s": 0.5, "witness": 1},
                    {"kind": "crossing", "time_s": 1 / 3, "witness": 0},
                ],
            },
        ],
        "size_witnesses": [CrossingCertificate(shared).to_json(), pair.to_json()],
    }
    assert size_bounds_summary([], model) == {}
    assert "cost_model" not in size_bounds_summary(bounds, None)
    assert size_bound_values(None) == {}
    assert size_bound_values(bounds[1]) == {"bound_s": 0.5, "bound_by": "distance"}


def test_times_before_which_nothing_ends() -> None:
    """A ring of three at 1 GB/s each way: two shards come over two links, and a message takes alpha."""
    problem = make_problem("ring(3, bandwidth='1GB/s')", "allgather")
    certificate = find_bound(problem).certificate
    size = 3 * 2**30
    hop = ClassCost(alpha_ns=7000)
    model = CostModel("own", "by hand", (Protocol("p", hop, hop, hop, launch_ns=11_000),))
    small, large = size_bounds(problem, certificate, [3, size], cost_model=model)
    assert (small.size_bytes, large.size_bytes) == (3, size)
    assert small.protocol == large.protocol == "p"
    assert 18e-6 <= float(small.time) < 18.1e-6
    assert float(large.time) >= 2**30 / 1e9 + 18e-6 - 1e-12
    assert float(large.time) <= 2**30 / 1e9 + 40e-6
    (alpha,) = size_bounds(problem, certificate, [3], options=SimulationOptions(alpha_ns=5000))
    assert alpha.protocol == ""
    assert 5e-6 <= float(alpha.time) < 5.1e-6
    default = size_bounds(problem, None, [3])
    assert [one.size_bytes for one in default] == [3]
    assert default[0].protocol
