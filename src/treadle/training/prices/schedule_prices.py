"""Prices of collectives on a fabric: Treadle's own schedules, NCCL-like rings and trees, and bounds.

All groups of a mesh run at once: a schedule's loads of links are added up over all groups by the verifier,
and an optimum is that of all groups together. Schedules are made up to `MOST_PLANNED` ranks and simulated
up to `MOST_SIMULATED`; beyond, colours of links and groups still give the optimal rates in seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

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
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.schedule import Schedule
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.simulation.simulated_plans import SimulatedSubject, simulated
from treadle.simulation.simulation_options import SimulationOptions
from treadle.simulation.tasks import task_graph
from treadle.synthesis.alltoall.baselines.equal_weight import EqualSplit
from treadle.synthesis.trees.baselines.in_groups import double_trees_in_groups, rings_in_groups
from treadle.synthesis.trees.baselines.logical_hops import Router
from treadle.synthesis.trees.baselines.ring_loads import ring_loads
from treadle.training.prices.collective_prices import CURVE_SIZES, CollectivePrice, Price, TimeModel
from treadle.training.prices.message_costs import MessageCosts
from treadle.verification.schedules import verify

MOST_SIMULATED = 64
"""Ranks; a curve takes about a CPU second there (dgx_h100:8), and 3 at 128."""
MOST_PLANNED = 1024
"""Ranks of which schedules are made: about a second for trees of dgx_h100:128, 4 for its ring."""
MOST_ROUTED = 2**18
"""Messages of an all-to-all that are routed one by one, in ten seconds."""
MOST_EXCHANGED = 4096
"""Ranks of an all-to-all, whose demands are a matrix."""


def planned_price(problem: Problem, messages: MessageCosts, *, simulates: bool) -> Price:
    """The price of what `solve` makes.

    Parameters
    ----------
    problem : Problem
        Perhaps in groups.
    messages : MessageCosts
    simulates : bool
        Whether a schedule that is small enough is simulated.
    """
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        return exchange_price(problem, messages)
    if problem.collective.n_ranks > MOST_PLANNED:
        return optimal_price(problem, messages, TimeModel.FARTHEST_RANK)
    with start(context().progress):
        found = solve_problem(problem).plan
    return _of_schedule(problem, found.entries[-1].schedule, found.algbw, messages, simulates=simulates)


def optimal_price(problem: Problem, messages: MessageCosts, model: TimeModel) -> Price:
    """The price by the optimal rate alone."""
    if problem.collective.kind is CollectiveKind.ALLTOALL:
        return exchange_price(problem, messages, is_bound=model is TimeModel.BOUND)

    def price(one: Problem, alpha_ns: int) -> Price:
        return CollectivePrice(find_bound(one).algbw, _farthest_s(one, alpha_ns), model)

    return messages.quickest(problem, price)


def exchange_price(problem: Problem, messages: MessageCosts, *, is_bound: bool = False) -> Price:
    """Of an all-to-all: the rate of the flow that was found, or what proves that nothing is above it."""
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
    """The price of a baseline that knows one group, each group by itself and all of them at once.

    Parameters
    ----------
    problem : Problem
    algorithm : str
        Of `treadle algorithms`.
    messages, simulates, watch
        See `planned_price`.
    """
    topology, collective = problem.topology, problem.collective
    context().announce(algorithm)
    if collective.n_ranks > MOST_PLANNED:
        if algorithm == "ring" and (found := _ring_price(problem, messages)) is not None:
            return found
        raise ScheduleError(
            f"{algorithm}: {collective.n_ranks} ranks of {topology.name}; its schedules are made up to "
            f"{MOST_PLANNED}, and only treadle, bound and rings that pass no other rank are priced beyond"
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
    """The price of rings from the links of their hops; None where it takes their schedule."""
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
    """Of an all-to-all whose messages all take shortest paths, as routing by hash spreads them on average.

    Notes
    -----
    Where all links are alike a message is cut into equal parts over all its shortest paths; elsewhere it
    takes the one of the widest that is used least so far: NVLink, not the network beside it.
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
                f"{topology.name}: an all-to-all of {len(pairs)} messages; they are routed up to "
                f"{MOST_ROUTED}; the schedules treadle and bound price larger ones"
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
        rate = algbw if messages.model is None else _rate(one, schedule)
        whole = alpha_beta_time(one.topology, collective, schedule, CURVE_SIZES[-1], alpha_ns=alpha_ns)
        delay_s = max(0.0, float(whole - CURVE_SIZES[-1] / rate))
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


def _rate(problem: Problem, schedule: Schedule) -> Fraction:
    """Bytes/s by which large sizes grow, where links have other rates than those it was made for."""
    sizes = CURVE_SIZES[-1], 2 * CURVE_SIZES[-1]
    low, high = (alpha_beta_time(problem.topology, problem.collective, schedule, size) for size in sizes)
    return (sizes[1] - sizes[0]) / (high - low)


def _farthest_s(problem: Problem, alpha_ns: int) -> float:
    """Seconds after which the first rank can have heard from every rank of its group; a lower bound.

    An alpha for every rank on the way, and the latencies of its links.
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
