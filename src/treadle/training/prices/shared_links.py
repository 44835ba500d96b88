"""Slowdown of different collectives that run concurrently on separate streams."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.context import start
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem
from treadle.schedulers.bounds import find_bound
from treadle.schedules.alltoall.alltoall_witness import DistanceWitness
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.group_witness import GroupLengthWitness
from treadle.schedules.jobs import MOST_WEIGHT_RATIO, Job
from treadle.synthesis.result import Bound
from treadle.topologies.topology import Topology

MOST_SHARING_RANKS = 16
"""Most ranks for which exact rates of different concurrent collectives take few seconds."""

_ROUNDING = 1e-9
_Lengths = tuple[Fraction, ...]


def shared_slowdowns(topology: Topology, problems: Sequence[Problem]) -> tuple[float, ...]:
    """Return the factor, at least 1, by which each collective is slower while all run concurrently.

    Up to `MOST_SHARING_RANKS` ranks: exact max-min rates of all groups of all concurrent collectives
    (``treadle bound --jobs``), in proportion to the rate of each alone. For more ranks: a lower bound by dual
    prices. If prices l allow collective j alone at most T_j(l), then concurrent rates r_j / x of any
    schedules need x >= sum of r_j / T_j(l). The prices are those that prove each optimum, so collectives that
    meet at a bottleneck of one of them are slowed down. The bound is exact if it equals the number of
    collectives, since these can take turns.
    """
    from treadle.synthesis.jobs.max_min import max_min_rates  # imports a solver that few commands need

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
    """Return lower bounds on the slowdowns, by the dual prices that prove each rate."""
    slowdowns = [1.0] * len(problems)
    for bound in found:
        witness = bound.witness
        if isinstance(witness, GroupLengthWitness):
            lengths: _Lengths = witness.lengths
        elif isinstance(witness, DistanceWitness):
            lengths = tuple(map(Fraction, witness.lengths.tolist()))
        else:  # a cut has no prices
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
    """Return the part of all links, weighted by prices, that a collective uses at its own rate; 0: none."""
    try:
        if problem.collective.kind is not CollectiveKind.ALLTOALL:
            return float(rate / GroupLengthWitness(lengths).bound(topology, problem.collective))
        scale = lcm(*{length.denominator for length in lengths})
        integral = np.array([int(length * scale) for length in lengths], dtype=np.int64)
        return float(rate / DistanceWitness(integral).bound(topology, problem.collective))
    except ScheduleError:  # these prices prove nothing about the collective
        return 0.0
