"""What ranks know together, and messages to each who is far away: against all schedules of tiny cases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from treadle.api.compare import compare
from treadle.errors import ScheduleError
from treadle.inputs.problem import make_problem
from treadle.schedulers.bounds import find_bound
from treadle.simulation.cost_models import as_cost_model
from treadle.simulation.costs.cost_model import ClassCost, CostModel, Protocol
from treadle.simulation.size_bounds.problem_bounds import size_bounds
from treadle.simulation.size_bounds.size_bound_check import check_size_bounds
from treadle.simulation.size_bounds.size_certificate import DirectCertificate, SizeBound, SizeProof
from treadle.topologies.topology import Topology, TopologyBuilder

TICK_NS = 1000
SHARD = 1000
"""Bytes that take a tick over a link of 10**9 bytes/s."""

Flight = tuple[int, int, frozenset[int]]
"""When it arrives, at whom, with what."""


def on_a_switch(n: int) -> Topology:
    builder = TopologyBuilder("switch")
    builder.switch("switch")
    for rank in range(n):
        builder.duplex(builder.compute(f"r{rank}"), "switch", 10**9)
    return builder.build()


def messages(
    known: frozenset[int], rank: int, n: int, *, sums: bool
) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Whom a rank may tell what, and for how many ticks the bytes hold its link: a sum is one vector."""
    every = [known] if sums else [frozenset(one) for one in _parts(sorted(known))]
    for other, told in product(range(n), every):
        if other != rank:
            yield other, 1 if sums else len(told), told


def _parts(known: list[int]) -> Iterator[list[int]]:
    for chosen in range(1, 2 ** len(known)):
        yield [one for place, one in enumerate(known) if chosen >> place & 1]


def least_ticks(n: int, gap: int, alpha: int, *, sums: bool) -> int:
    """The least time in which all know all, over every message that any rank may send at any tick."""
    everybody = frozenset(range(n))
    states = {((0,) * n, tuple(frozenset({rank}) for rank in range(n)), frozenset[Flight]())}
    for now in range(30):
        following = set()
        for free, known, flying in states:
            landed = [flight for flight in flying if flight[0] == now]
            knows = [
                one.union(*(told for _, at, told in landed if at == rank)) for rank, one in enumerate(known)
            ]
            if all(one == everybody for one in knows):
                return now
            choices = [
                [None, *(one for one in messages(knows[rank], rank, n, sums=sums) if one[2] - knows[one[0]])]
                if free[rank] <= now
                else [None]
                for rank in range(n)
            ]  # what tells nothing new is left out
            for chosen in product(*choices):
                holds, sent = list(free), set(flying - set(landed))
                for rank, message in enumerate(chosen):
                    if message is not None:
                        holds[rank] = now + gap + message[1]
                        sent.add((holds[rank] + alpha, message[0], message[2]))
                following.add((tuple(max(one, now + 1) for one in holds), tuple(knows), frozenset(sent)))
        states = following
    raise AssertionError("nobody ends")


@pytest.mark.parametrize(("kind", "gap", "alpha"), [("allreduce", 1, 1), ("allgather", 1, 1)])
def test_no_schedule_of_three_ranks_is_faster(kind: str, gap: int, alpha: int) -> None:
    """Sums may even count a rank twice here: the proof knows of unions only."""
    sums = kind == "allreduce"
    size = SHARD if sums else 3 * SHARD
    cost = ClassCost(alpha * TICK_NS, gap * TICK_NS)
    model = CostModel("ticks", "made up", (Protocol("only", cost, cost, cost),))
    (bound,) = size_bounds(make_problem(on_a_switch(3), kind), None, [size], cost_model=model)
    grown = bound.time_by("growth")
    assert grown is not None
    least = Fraction(least_ticks(3, gap, alpha, sums=sums) * TICK_NS, 10**9)
    assert least * Fraction(2, 3) <= grown <= least


def test_what_leaves_a_box_has_been_summed_and_is_handed_on() -> None:
    """A message before and one after, in boxes: half of their 2.1 us, since bytes might cross twice."""
    problem, model = make_problem("dgx_h100(2, nvls=True)", "allreduce"), as_cost_model("reference")
    (found,) = size_bounds(problem, find_bound(problem).certificate, [2**26], cost_model=model)
    crossing = found.time_by("crossing")
    assert crossing is not None
    assert found.time_by("gathered") == crossing + Fraction(1050, 10**9) == found.time


def one_way(n: int) -> Topology:
    """A ring in one direction, whose hops take 100 ns."""
    builder = TopologyBuilder("one way")
    names = [builder.compute(f"r{rank}") for rank in range(n)]
    for rank, name in enumerate(names):
        builder.link(name, names[(rank + 1) % n], 10**11, 100)
    return builder.build()


HOPS = ClassCost(5000, 1000)
SLOW = CostModel("slow to start", "made up", (Protocol("only", HOPS, HOPS, HOPS),))


def test_one_message_for_each_who_is_far() -> None:
    """Three messages over one link, the last to the nearest; two after one another would take longer."""
    (row,) = compare(
        one_way(4), "allgather", sizes=["4B"], cost_model=SLOW, algorithms=["routed-direct"]
    ).rows
    assert row.measured is not None
    (at,) = row.measured.sizes
    assert at.bound is not None
    assert at.bound.reason == "direct"
    assert at.bound.time >= Fraction(3 * 1000 + 100 + 5000, 10**9)
    assert float(at.bound.time) <= float(at.time) <= float(at.bound.time) * 1.03


def test_false_pairs_are_refused() -> None:
    problem = make_problem(one_way(4), "allgather")

    def judged(certificate: DirectCertificate, time: Fraction) -> None:
        bound = SizeBound(4, "only", (SizeProof(time, certificate),))
        check_size_bounds(problem.topology, problem.collective, SLOW.protocols, [bound])

    (found,) = size_bounds(problem, None, [4], cost_model=SLOW)
    (proof,) = [proof for proof in found.proofs if isinstance(proof.certificate, DirectCertificate)]
    certificate = proof.certificate
    assert isinstance(certificate, DirectCertificate)
    judged(certificate, proof.time)
    for false, time in (
        (certificate, proof.time + Fraction(1, 10**9)),
        (replace(certificate, source=4), proof.time),
        (replace(certificate, least_ns=6300), proof.time),  # the farthest alone
        (replace(certificate, least_ns=6301), Fraction(0)),  # nobody
    ):
        with pytest.raises(ScheduleError, match="size bound: "):
            judged(false, time)
    other = make_problem(on_a_switch(3), "allgather")
    bound = SizeBound(4, "only", (SizeProof(proof.time, certificate),))
    with pytest.raises(ScheduleError, match="a message through a switch"):
        check_size_bounds(other.topology, other.collective, SLOW.protocols, [bound])
