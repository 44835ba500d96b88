"""Different collectives at once, as streams of their own run them: how much slower each gets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.context import start
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem
from treadle.schedulers.bounds import find_bound
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.jobs import MOST_WEIGHT_RATIO, Job
from treadle.synthesis.result import Bound
from treadle.topologies.topology import Topology

MOST_SHARING_RANKS = 16
"""Ranks up to which exact rates of different collectives at once take few seconds."""

_ROUNDING = 1e-9
_Lengths = tuple[Fraction, ...]


def shared_slowdowns(topology: Topology, problems: Sequence[Problem]) -> tuple[float, ...]:
    """How many times longer each takes, at least 1, while all run at once.

    Parameters
    ----------
    topology : Topology
    problems : sequence of Problem
        Each perhaps in groups.

    Notes
    -----
    Up to `MOST_SHARING_RANKS` ranks: max-min rates of all groups of all collectives at once, exact
    (``treadle bound --jobs``), in proportion to what each reaches while the others idle. Beyond, what link
    lengths prove: at lengths l that allow collective j by itself at most T_j(l), rates r_j / x of all at once
    need x >= sum of r_j / T_j(l), whoever schedules them. The lengths are those that prove each optimum, so
    that what meets at a bottleneck of one of them is seen; the slowdown is at least that. It is exact where
    it is the number of collectives, which taking turns reaches.
    """
    from treadle.synthesis.jobs.max_min import max_min_rates  # brings a solver that few commands need

    found = [find_bound(problem) for problem in problems]
    proved = _proved(topology, problems, found)
    is_large = topology.injection_bytes_per_s.any() or len(topology.compute_nodes) > MOST_SHARING_RANKS
    if is_large or min(proved) > len(problems) - _ROUNDING:
        return proved
    alone = [bound.algbw for bound in found]
    least = max(alone) / MOST_WEIGHT_RATIO
    jobs: list[Job] = []
    owner: list[int] = []
    for number, (problem, rate) in enumerate(zip(problems, alone, strict=True)):
        collective = problem.collective
        for group in range(collective.n_groups or 1):
            jobs.append(Job(f"{number}[{group}]", collective.member(group), max(rate, least)))
            owner.append(number)
    slowest = list(alone)
    with start():
        together = max_min_rates(topology, jobs).rates
    for number, rate in zip(owner, together, strict=True):
        slowest[number] = min(slowest[number], rate)
    return tuple(float(max(Fraction(1), own / now)) for own, now in zip(alone, slowest, strict=True))


def _proved(topology: Topology, problems: Sequence[Problem], found: Sequence[Bound]) -> tuple[float, ...]:
    """At least so much slower, by the lengths that prove each rate."""
    slowdowns = [1.0] * len(problems)
    for bound in found:
        witness = bound.witness
        if isinstance(witness, GroupDualCertificate):
            lengths: _Lengths = witness.lengths
        elif isinstance(witness, FlowDualCertificate):
            lengths = tuple(map(Fraction, witness.lengths.tolist()))
        else:  # a cut: links that leave it
            continue
        shares = [
            _share(topology, problem, one.algbw, lengths)
            for problem, one in zip(problems, found, strict=True)
        ]
        for number, share in enumerate(shares):
            if share:
                slowdowns[number] = max(slowdowns[number], sum(shares))
    return tuple(slowdowns)


def _share(topology: Topology, problem: Problem, rate: Fraction, lengths: _Lengths) -> float:
    """The part of all links, weighted by lengths, that a collective needs at its own rate; 0: none."""
    try:
        if problem.collective.kind is not CollectiveKind.ALLTOALL:
            return float(rate / GroupDualCertificate(lengths).bound(topology, problem.collective))
        scale = lcm(*{length.denominator for length in lengths})
        whole = np.array([int(length * scale) for length in lengths], dtype=np.int64)
        return float(rate / FlowDualCertificate(whole).bound(topology, problem.collective))
    except ScheduleError:  # these lengths prove nothing about it
        return 0.0
