"""Contributions by two messages at most, against the best choice of messages; what is false is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.inputs.problem import make_problem
from treadle.simulation.cost_models import as_cost_model
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.size_bounds.problem_bounds import size_bounds, size_reasons
from treadle.simulation.size_bounds.size_bound_check import check_size_bounds
from treadle.simulation.size_bounds.size_certificate import RelayedCertificate, SizeBound, SizeProof

ALPHA_NS, HOP_NS = 5000, 1000
KAUTZ = "generalized_kautz(4, 64, bandwidth='12.5GB/s')"


def costs(gap_ns: int = 0) -> CostModel:
    one = ClassCost(ALPHA_NS, gap_ns, HOP_NS)
    return CostModel("hops", "made up", (Protocol("only", one, one, one),))


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
