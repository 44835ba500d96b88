"""Contributions by two messages at most, against the best choice of messages; what is false is refused."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from treadle.errors import ScheduleError
from treadle.inputs.problem import make_problem
from treadle.simulation.cost_models import as_cost_model
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.size_bounds.direct_messages import relayed_messages
from treadle.simulation.size_bounds.message_terms import message_terms
from treadle.simulation.size_bounds.problem_bounds import size_bounds, size_reasons
from treadle.simulation.size_bounds.size_bound_check import check_size_bounds
from treadle.simulation.size_bounds.size_certificate import RelayedCertificate, SizeBound, SizeProof
from treadle.topologies import parse
from treadle.topologies.distances import distance_matrix

ALPHA_NS, HOP_NS = 5000, 1000
KAUTZ = "generalized_kautz(4, 64, bandwidth='12.5GB/s')"


def costs(gap_ns: int = 0) -> CostModel:
    one = ClassCost(ALPHA_NS, gap_ns, HOP_NS)
    return CostModel("hops", "made up", (Protocol("only", one, one, one),))


def fewest_hops(name: str, most_hops: int) -> float:
    """Links that a byte crosses if chains of two messages have so many hops: every choice of messages."""
    distance = distance_matrix(parse(name))
    n = len(distance)
    pairs = list(permutations(range(n), 2))
    place = {pair: number for number, pair in enumerate(pairs)}
    chains = [
        (source, middle, target)
        for source, middle, target in permutations(range(n), 3)
        if distance[source, middle] + distance[middle, target] <= most_hops
    ]
    told, final = 0, len(pairs)  # a rank tells another its own, and a sum
    first = 2 * len(pairs)
    cost = np.zeros(first + len(chains))
    for pair, number in place.items():
        cost[told + number] = cost[final + number] = distance[pair]
    rows, low = [], []
    for number, (source, middle, target) in enumerate(chains, first):
        for message in (told + place[source, middle], final + place[middle, target]):
            row = np.zeros(len(cost))
            row[message], row[number] = 1, -1
            rows.append(row)
            low.append(0)
    for source, target in pairs:
        row = np.zeros(len(cost))
        row[final + place[source, target]] = 1
        for number, (one, _, other) in enumerate(chains, first):
            row[number] += (one, other) == (source, target)
        rows.append(row)
        low.append(1)
    found = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), np.array(low), np.inf),
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, 1),
    )
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize(
    ("name", "most_hops"),
    [
        ("ring(5, bandwidth='1GB/s')", 2),
        ("ring(6, bandwidth='1GB/s')", 3),
        ("generalized_kautz(2, 6, bandwidth='1GB/s')", 2),
        ("generalized_kautz(2, 6, bandwidth='1GB/s')", 3),
    ],
)
def test_no_choice_of_messages_takes_less(name: str, most_hops: int) -> None:
    """A byte holds a link for a nanosecond; the bound may count what is told twice once more."""
    problem = make_problem(name, "allreduce")
    facts = relayed_messages(message_terms(problem.topology, costs().protocols[0]), problem.collective)
    assert facts is not None
    limit = 2 * ALPHA_NS + most_hops * HOP_NS + 1
    _, needed = facts._needed(limit, 1)
    best = fewest_hops(name, most_hops)
    assert 0.6 * best <= needed <= best


def test_a_kautz_graph() -> None:
    """Chains of three hops would take all links for 9 us; so some have four."""
    problem, model = make_problem(KAUTZ, "allreduce"), as_cost_model("reference-hosts")
    at = size_bounds(problem, None, [2**13, 2**14, 2**16], cost_model=model)
    assert [one.time_by("relayed") for one in at] == [
        Fraction(13_400, 10**9),
        Fraction(14_400, 10**9),
        Fraction(16_400, 10**9),
    ]
    assert at[1].reason == "relayed"
    reasons = dict(size_reasons(problem.topology, problem.collective, at))
    assert "one message or two" in reasons["relayed"]


@pytest.mark.parametrize("size", [1, 2**10, 2**14, 2**20])
@pytest.mark.parametrize("name", ["ring(5, bandwidth='10GB/s')", "kautz(2, 2, bandwidth='10GB/s')"])
def test_no_other_price_proves_more(name: str, size: int) -> None:
    problem, model = make_problem(name, "allreduce"), costs(gap_ns=300)
    (bound,) = size_bounds(problem, None, [size], cost_model=model)
    (proof,) = [one for one in bound.proofs if isinstance(one.certificate, RelayedCertificate)]
    assert isinstance(proof.certificate, RelayedCertificate)

    def judged(worth: Fraction, time: Fraction) -> None:
        only = SizeBound(size, "only", (SizeProof(time, RelayedCertificate(worth)),))
        check_size_bounds(problem.topology, problem.collective, model.protocols, [only])

    judged(proof.certificate.worth_ns, proof.time)
    later = proof.time + Fraction(1, 10**12)
    for worth in [proof.certificate.worth_ns, *(Fraction(2**place, 1000) for place in range(30))]:
        with pytest.raises(ScheduleError, match="size bound: "):
            judged(worth, later)
    with pytest.raises(ScheduleError, match="has the price"):
        judged(Fraction(-1), Fraction(0))


def test_what_it_is_not_made_for() -> None:
    for name, kind, words in (
        ("ring:4", "allgather", "are not counted"),
        ("dgx_h100:1", "allreduce", "may do what is counted"),
    ):
        problem = make_problem(name, kind)
        assert (
            relayed_messages(message_terms(problem.topology, costs().protocols[0]), problem.collective)
            is None
        )
        only = SizeBound(4, "only", (SizeProof(Fraction(0), RelayedCertificate(Fraction(1))),))
        with pytest.raises(ScheduleError, match=words):
            check_size_bounds(problem.topology, problem.collective, costs().protocols, [only])
