"""Prices of collectives on a fabric: Treadle's own schedules, NCCL-like rings and trees, and bounds.

All groups of a mesh run concurrently: the verifier adds up a schedule's loads of links over all groups, and
an optimum is that of all groups together. Schedules are computed up to `MOST_PLANNED` ranks and simulated up
to `MOST_SIMULATED`. For more ranks, colour refinement of links and groups still gives optimal rates in
seconds.

Different collectives may also run concurrently on separate streams; `shared_slowdowns` has the cost of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.context import context, start
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.math.graphs import shortest_tree
from treadle.program.any_schedule import lower_groups
from treadle.schedulers.alltoall import alltoall_rate
from treadle.schedulers.bounds import find_bound
from treadle.schedulers.group_rates import find_cut_off, own_fabric
from treadle.schedulers.schedulers import find_scheduler
from treadle.schedulers.solving import solve_problem
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.jobs import MOST_WEIGHT_RATIO, Job
from treadle.schedules.schedule import Schedule
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.simulation.simulated_plans import SimulatedSubject, simulated
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import task_graph
from treadle.synthesis.alltoall.baselines.equal_weight import EqualSplit
from treadle.synthesis.result import Bound
from treadle.synthesis.trees.baselines.in_groups import double_trees_in_groups, rings_in_groups
from treadle.synthesis.trees.baselines.logical_hops import Router
from treadle.synthesis.trees.baselines.ring_loads import ring_loads
from treadle.topologies.topology import Topology
from treadle.training.prices.collective_prices import CURVE_SIZES, CollectivePrice, Price, TimeModel
from treadle.training.prices.message_costs import MessageCosts
from treadle.verification.schedules import verify

MOST_SIMULATED = 64
"""Most ranks; a curve takes about a CPU second there (dgx_h100:8), and 3 at 128."""
MOST_PLANNED = 1024
"""Most ranks with schedules: about a second for trees of dgx_h100:128, 4 for its ring."""
MOST_ROUTED = 2**18
"""Most messages of an all-to-all that are routed one by one, in ten seconds."""
MOST_EXCHANGED = 4096
"""Most ranks of an all-to-all, whose demands are a matrix."""
MOST_SHARING_RANKS = 16
"""Most ranks for which exact rates of different concurrent collectives take few seconds."""

_ROUNDING = 1e-9
_Lengths = tuple[Fraction, ...]


def planned_price(problem: Problem, messages: MessageCosts, *, simulates: bool) -> Price:
    """Return the price of the schedule that `solve` computes, which is simulated if it is small enough."""
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        return exchange_price(problem, messages)
    if problem.collective.n_ranks > MOST_PLANNED:
        return optimal_price(problem, messages, TimeModel.FARTHEST_RANK)
    with start(context().progress):
        found = solve_problem(problem).plan
    return _of_schedule(problem, found.entries[-1].schedule, found.algbw, messages, simulates=simulates)


def optimal_price(problem: Problem, messages: MessageCosts, model: TimeModel) -> Price:
    """Return the price by the optimal rate alone."""
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        return exchange_price(problem, messages, is_bound=model is TimeModel.BOUND)

    def price(one: Problem, alpha_ns: int) -> Price:
        return CollectivePrice(find_bound(one).algbw, _farthest_s(one, alpha_ns), model)

    return messages.quickest(problem, price)


def exchange_price(problem: Problem, messages: MessageCosts, *, is_bound: bool = False) -> Price:
    """Return the price of an all-to-all: the rate of the flow found, or its upper bound."""
    n = problem.collective.n_ranks
    if n > MOST_EXCHANGED:
        raise ScheduleError(
            f"{problem.topology.name}: an all-to-all among {n} ranks; expected at most {MOST_EXCHANGED}, "
            f"whose demands fit a matrix"
        )
    units = problem.collective.pair_demands.buffer_units
    model = TimeModel.BOUND if is_bound else TimeModel.FARTHEST_RANK

    def price(one: Problem, alpha_ns: int) -> Price:
        rate = alltoall_rate(one)
        algbw = units * (rate.upper if is_bound else Fraction(rate.rate))
        return CollectivePrice(algbw, _farthest_s(one, alpha_ns), model)

    return messages.quickest(problem, price)


def baseline_price(problem: Problem, algorithm: str, messages: MessageCosts, *, simulates: bool) -> Price:
    """Return the price of a baseline that schedules each group alone; all groups run concurrently."""
    topology, collective = problem.topology, problem.collective
    context().announce(algorithm)
    if collective.n_ranks > MOST_PLANNED:
        if algorithm == "ring" and (found := _ring_price(problem, messages)) is not None:
            return found
        raise ScheduleError(
            f"{algorithm}: {collective.n_ranks} ranks of {topology.name}; it has schedules for at most "
            f"{MOST_PLANNED}; use treadle, bound, or rings that pass no other rank"
        )
    if collective.groups is None:
        schedule = find_scheduler(algorithm).make(topology, collective, {})
    else:
        make = _IN_GROUPS[algorithm]
        schedule = make(topology, collective, lambda group: own_fabric(problem, group))
    report = verify(topology, collective, schedule)
    if not report.is_ok or report.algbw is None:
        if (cut_off := find_cut_off(problem)) is not None:
            raise InfeasibleError(f"{topology.name}: {cut_off[1]}")
        first = report.violations[0] if report.violations else "no throughput"
        raise ScheduleError(f"{algorithm}: fails verification ({first}); this is a defect of Treadle")
    return _of_schedule(problem, schedule, report.algbw, messages, simulates=simulates)


def _ring_price(problem: Problem, messages: MessageCosts) -> Price | None:
    """Return the price of rings from the links of their hops; None if it depends on their schedule."""
    topology, collective = problem.topology, problem.collective
    if collective.ranks_forward or topology.injection_bytes_per_s.any():
        return None
    rings = ring_loads(topology, collective, lambda group: own_fabric(problem, group))
    if rings is None:
        return None
    return messages.quickest(
        problem,
        lambda one, alpha_ns: CollectivePrice(
            rings.algbw(one.topology), rings.latency_ns(one.topology, alpha_ns) / 1e9, TimeModel.RINGS
        ),
    )


_IN_GROUPS = {"ring": rings_in_groups, "double-binary-tree": double_trees_in_groups}


def spread_price(problem: Problem, messages: MessageCosts) -> Price:
    """Return the price of an all-to-all over shortest paths, like the average of routing by hash.

    With equal links, a message is cut into equal parts over all its shortest paths. Otherwise it takes the
    least used one of the widest: NVLink, not the parallel network.
    """
    context().announce("shortest paths")
    return messages.quickest(
        problem,
        lambda one, alpha_ns: CollectivePrice(
            _spread_algbw(one), _farthest_s(one, alpha_ns), TimeModel.SPREAD
        ),
    )


def _spread_algbw(problem: Problem) -> Fraction:
    topology, collective = problem.topology, problem.collective
    between = collective.pair_demands.between
    if len(np.unique(topology.bandwidths)) == 1:
        loads = EqualSplit(topology, collective).loads()
    else:
        pairs = np.argwhere(between)
        if len(pairs) > MOST_ROUTED:
            raise ScheduleError(
                f"{topology.name}: an all-to-all of {len(pairs)} messages, of which at most "
                f"{MOST_ROUTED} are routed; use the schedules treadle or bound"
            )
        loads = np.zeros(topology.n_links)
        router = Router(topology, collective)
        for source, target in pairs.tolist():
            for _, links in router.relay(source, target):
                loads[list(links)] += between[source, target]
    used = np.flatnonzero(loads > 0)
    per_unit = float((loads[used] / topology.bandwidths[used]).max())
    for node in np.flatnonzero(topology.injection_bytes_per_s).tolist():
        cap = int(topology.injection_bytes_per_s[node])
        for ends in (topology.tails, topology.heads):
            per_unit = max(per_unit, float(loads[ends == node].sum()) / cap)
    return Fraction(collective.pair_demands.buffer_units / per_unit)


def _of_schedule(
    problem: Problem, schedule: Schedule, algbw: Fraction, messages: MessageCosts, *, simulates: bool
) -> Price:
    topology, collective = problem.topology, problem.collective

    def by_formula(one: Problem, alpha_ns: int) -> Price:
        rate, size = algbw, CURVE_SIZES[-1]
        if messages.model is not None:  # links have other rates than those of the schedule
            low, high = (alpha_beta_time(one.topology, collective, schedule, n * size) for n in (1, 2))
            rate = size / (high - low)
        total = alpha_beta_time(one.topology, collective, schedule, size, alpha_ns=alpha_ns)
        delay_s = max(0.0, float(total - size / rate))
        return CollectivePrice(rate, delay_s, TimeModel.ALPHA_BETA)

    formula = messages.quickest(problem, by_formula)
    if not simulates or collective.n_ranks > MOST_SIMULATED:
        return formula
    program = lower_groups(topology, collective, schedule).lists
    subject = SimulatedSubject(problem, task_graph(topology, program), schedule)
    options = SimulationOptions(alpha_ns=messages.alpha_ns)
    rows = simulated(subject, CURVE_SIZES, options, cost_model=messages.model)
    curve = tuple((row.size_bytes, float(row.time)) for row, _ in rows)
    return CollectivePrice(formula.algbw, formula.delay_s, TimeModel.SIMULATED, curve)


def _farthest_s(problem: Problem, alpha_ns: int) -> float:
    """Return a lower bound on the time until the first rank's data reaches its group, seconds.

    It is the largest sum of link latencies and an alpha for every rank on the path.
    """
    topology, collective = problem.topology, problem.collective
    group: Sequence[int] = range(collective.n_ranks) if collective.groups is None else collective.groups[0]
    if collective.demands is not None:
        group = [0, *(int(rank) for rank in collective.demands.between[0].nonzero()[0])]
    members, names = [collective.ranks[rank] for rank in group], topology.node_names
    out: list[list[tuple[int, int]]] = [[] for _ in range(topology.n_nodes)]
    for link, (tail, head) in enumerate(zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)):
        out[tail].append((link, head))
    lengths = (topology.latencies_ns + alpha_ns * topology.is_compute[topology.heads]).tolist()
    into, near = shortest_tree(out, lengths, members[0])
    far = {members[0]: 0}
    for node in near[1:]:
        far[node] = far[int(topology.tails[into[node]])] + lengths[into[node]]
    if missing := [node for node in members if node not in far]:
        raise InfeasibleError(
            f"{topology.name}: no path leads from {names[members[0]]!r} to {names[missing[0]]!r}; connect "
            f"the fabric"
        )
    return max(far[node] for node in members) / 1e9


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
        certificate = bound.certificate
        if isinstance(certificate, GroupDualCertificate):
            lengths: _Lengths = certificate.lengths
        elif isinstance(certificate, FlowDualCertificate):
            lengths = tuple(map(Fraction, certificate.lengths.tolist()))
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
            return float(rate / GroupDualCertificate(lengths).bound(topology, problem.collective))
        scale = lcm(*{length.denominator for length in lengths})
        integral = np.array([int(length * scale) for length in lengths], dtype=np.int64)
        return float(rate / FlowDualCertificate(integral).bound(topology, problem.collective))
    except ScheduleError:  # these prices prove nothing about the collective
        return 0.0
