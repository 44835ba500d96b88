"""Bounds of sizes against the best of all ways to tell, and false ones against the check."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from treadle.errors import ScheduleError
from treadle.inputs.problem import make_problem
from treadle.schedulers.bounds import find_bound
from treadle.simulation.cost_models import as_cost_model
from treadle.simulation.costs.cost_model import Protocol
from treadle.simulation.size_bounds.problem_bounds import size_bounds
from treadle.simulation.size_bounds.size_bound_check import check_size_bounds
from treadle.simulation.size_bounds.size_certificate import (
    CrossingCertificate,
    GatheredCertificate,
    GrowthCertificate,
    GrowthClass,
    PairCertificate,
    ReachCertificate,
    ReachClass,
    SizeBound,
    SizeProof,
)


def bound_of(kind: str) -> tuple[SizeBound, Protocol]:
    problem, model = make_problem("dgx_a100:2", kind), as_cost_model("reference")
    (found,) = size_bounds(problem, find_bound(problem).certificate, [2**22], cost_model=model)
    return found, model.protocols[0]


def judged(kind: str, protocol: Protocol, *proofs: SizeProof) -> None:
    problem = make_problem("dgx_a100:2", kind)
    ordered = tuple(sorted(proofs, key=lambda proof: -proof.time))
    bound = SizeBound(2**22, protocol.name, ordered)
    check_size_bounds(problem.topology, problem.collective, [protocol], [bound])


@pytest.mark.parametrize("kind", ["allgather", "allreduce", "alltoall", "reduce-scatter", "broadcast"])
def test_a_nanosecond_more_is_refused(kind: str) -> None:
    """All proofs are as late as the check allows; growth is counted by steps, and found by coarser ones."""
    found, protocol = bound_of(kind)
    more = {"growth"} if kind in ("allgather", "allreduce") else set()
    more |= {"gathered"} if kind in ("allgather", "allreduce", "reduce-scatter") else set()
    assert {proof.certificate.kind for proof in found.proofs} == {"crossing", "distance", "reach"} | more
    judged(kind, protocol, *found.proofs)
    for proof in found.proofs:
        late = 4 * proof.certificate.step_ns if isinstance(proof.certificate, GrowthCertificate) else 1
        with pytest.raises(ScheduleError, match="size bound: "):
            judged(kind, protocol, replace(proof, time=proof.time + Fraction(late, 10**9)))


def test_false_witnesses_are_refused() -> None:
    found, protocol = bound_of("broadcast")
    by_kind = {proof.certificate.kind: proof for proof in found.proofs}
    reach = by_kind["reach"].certificate
    assert isinstance(reach, ReachCertificate)
    assert isinstance(reach.far, ReachClass)
    wrong = [
        PairCertificate(1, 5),
        PairCertificate(0, 99),
        replace(reach, source=3),
        replace(reach, count=17),
        replace(reach, box_ranks=7),
        replace(reach, far=None),
        replace(reach, far=replace(reach.far, gap_ns=201)),
        replace(reach, far=replace(reach.far, delay_ns=5001)),
        replace(reach, far=replace(reach.far, links=1)),
    ]
    for certificate in wrong:
        with pytest.raises(ScheduleError, match="size bound: "):
            judged("broadcast", protocol, SizeProof(Fraction(1, 10**9), certificate))
    (grown,) = [
        proof.certificate for proof in bound_of("allreduce")[0].proofs if proof.certificate.kind == "growth"
    ]
    assert isinstance(grown, GrowthCertificate)
    assert isinstance(grown.near, GrowthClass)
    assert grown.leaving_bytes_per_s == 16 * 25 * 10**9
    for false in (
        replace(grown, box_ranks=7),
        replace(grown, near=None),
        replace(grown, far=replace(grown.far, gap_ns=201)),
        replace(grown, far=replace(grown.far, delay_ns=5001)),
        replace(grown, far=replace(grown.far, rates=(25 * 10**9, 25 * 10**9))),
        replace(grown, far=replace(grown.far, rates=grown.far.rates[:1])),
        replace(grown, leaving_bytes_per_s=16 * 25 * 10**9 - 1),
    ):
        with pytest.raises(ScheduleError, match="size bound: "):
            judged("allreduce", protocol, SizeProof(Fraction(1, 10**9), false))
    with pytest.raises(ScheduleError, match="is not counted"):
        judged("reduce-scatter", protocol, SizeProof(Fraction(1, 10**9), grown))
    for nodes in ((), tuple(range(make_problem("dgx_a100:2", "broadcast").topology.n_nodes))):
        with pytest.raises(ScheduleError, match="nothing leaves"):
            judged("allreduce", protocol, SizeProof(Fraction(1, 10**9), GatheredCertificate(nodes)))
    with pytest.raises(ScheduleError, match="is not counted"):
        judged("broadcast", protocol, SizeProof(Fraction(1, 10**9), GatheredCertificate((0,))))
    crossing = by_kind["crossing"].certificate
    assert isinstance(crossing, CrossingCertificate)
    with pytest.raises(ScheduleError):  # a cut is none of an allreduce
        judged("allreduce", protocol, SizeProof(Fraction(1, 10**9), crossing))
    with pytest.raises(ScheduleError, match="first proof is not the latest"):
        check_size_bounds(
            make_problem("dgx_a100:2", "broadcast").topology,
            make_problem("dgx_a100:2", "broadcast").collective,
            [protocol],
            [SizeBound(2**22, protocol.name, found.proofs[::-1])],
        )
