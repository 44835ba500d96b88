"""All-to-alls in steps as the table of schedulers names them, and their fallbacks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from time import process_time
from typing import Any

import numpy as np

from treadle.arrays import sums_of
from treadle.context import TimeLimitError, context, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.inputs.problem import Problem
from treadle.program.program import MAX_CHUNKS as PROGRAM_CHUNKS
from treadle.schedulers.alltoall import alltoall_rate
from treadle.schedulers.bounds import bound_of_alltoall
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.exchange_cost import exchange_algbw
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.link_times import slowest
from treadle.simulation.cost_models import step_alpha_ns
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.integral_units import rounded_routes
from treadle.synthesis.alltoall.routes.shortest_paths import MAX_CHUNKS as SPLIT_CHUNKS
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.synthesis.alltoall.searched.path_search import search_paths
from treadle.synthesis.alltoall.searched.searched_routes import subflow_routes, until
from treadle.synthesis.alltoall.searched.subflows import cut_demands
from treadle.synthesis.alltoall.steps.hop_steps import MAX_CHUNKS as MAX_HOP_CHUNKS
from treadle.synthesis.alltoall.steps.hop_steps import routes_in_steps
from treadle.synthesis.alltoall.steps.pipelined import MAX_CHUNKS as PIPELINED_CHUNKS
from treadle.synthesis.alltoall.steps.pipelined import hop_synchronous, pipelined
from treadle.synthesis.alltoall.steps.rounds import fastest_at_size, fewest_rounds
from treadle.synthesis.alltoall.steps.time_stepped import (
    EXACT_VARIABLES,
    TimeSteppedFlow,
    least_steps,
    program_size,
    time_stepped_flow,
)
from treadle.synthesis.alltoall.steps.timed_paths import ChunkedExchange, chunked_exchange
from treadle.synthesis.alltoall.steps.translated_steps import few_translated, translated_exchange
from treadle.synthesis.alltoall.steps.unequal_steps import (
    COARSE,
    FINE,
    NEAR,
    chunks_of_program,
    fast_enough,
    placed_hops,
    repeated,
)
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.scheduler_options import AlltoallOptions, SizeRequest
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_cards import without_cards
from treadle.units import format_bandwidth

SHORTEST_PATHS, TIME_STEPPED = "shortest-paths", "tsmcf"

SEARCHED_PAIRS = 5000
"""Pairs above which routes are searched, not taken from a flow."""

_TRANSLATED_PAIRS = 2**19
"""Pairs above which symmetric fabrics have routes of one source of each orbit: others take minutes."""

_PATHS_TIME, _STEPS_TIME = 0.4, 0.6
"""Parts of the time until a deadline by which paths and steps are to be there."""

_LIGHT_PROGRAM = 2**22
"""Chunks of a program that runtimes hold in a moment and some 100 MB."""

_LATE_S = 0.25
"""Seconds beyond a time limit for a bound: a gap of 1% and less up to 500 nodes."""

_AS_GOOD = Fraction(2, 1000)
"""A schedule that takes so much longer than the best, as a share, is as good if it has fewer steps."""

_NEAR_FLOW = 5e-4
"""A flow over time that takes so much longer than the bound needs no more steps."""

_MOST_STEPS = 64
"""Steps of a flow over time; where it needs more, routes in rounds do."""

_CHUNK_LOSS = 2e-3
"""Loss by whole chunks, as a share, that more of them per shard are worth."""

_ENOUGH_CHUNKS = 64
"""Chunks per shard worth a heavier program."""


def _past_cards(function: Callable[..., Result]) -> Callable[..., Result]:
    """The function on the hosts alone where their cards are switches, and its sends through the cards."""

    @wraps(function)
    def construct(topology: Topology, collective: Collective, **options: Any) -> Result:
        hosts = without_cards(topology)
        if hosts is None:
            return function(topology, collective, **options)
        found = function(hosts.direct, collective, **options)
        assert isinstance(found.schedule, ExchangeSchedule)
        sends = replace(found.schedule.sends, way_offset=hosts.way_offset, way_links=hosts.way_links)
        schedule = replace(found.schedule, sends=sends)
        rate = alltoall_rate(Problem(topology, collective))
        return replace(found, schedule=schedule, bound=bound_of_alltoall(rate))

    return construct


@_past_cards
def time_stepped(
    topology: Topology,
    collective: Collective,
    *,
    chunks: int | None = None,
    steps: int | None = None,
    bound: Bound | None = None,
) -> Result:
    """The best flow over time in integral chunks: in the given steps, or in few that are near the optimum.

    Of larger fabrics in the fewest possible steps or one more.
    """
    if steps is not None:
        flow = time_stepped_flow(topology, collective, steps)
        found = [chunked_exchange(topology, collective, flow, chunks=chunks)]
    else:
        if bound is None and _has_small_program(topology, collective):
            bound = bound_of_alltoall(alltoall_rate(Problem(topology, collective)))
        found = _time_stepped(Problem(topology, collective), bound, chunks)
    best = _of_fewest_steps(found)
    notes = _losses(best.loss, "the fractional flow in as many steps")
    return Result(best.schedule, bound, notes=notes)


def _has_small_program(topology: Topology, collective: Collective) -> bool:
    """Whether time-stepped flows are quick to find and quick to cut into fine chunks."""
    n_steps = least_steps(topology, collective) + 1
    return program_size(topology, collective, n_steps) <= EXACT_VARIABLES


def _time_stepped(problem: Problem, bound: Bound | None, chunks: int | None) -> list[ChunkedExchange]:
    """Schedules of flows in rising numbers of steps, up to one that comes near the bound."""
    topology, collective = problem.topology, problem.collective
    enough = (1 + _NEAR_FLOW) * collective.pair_demands.buffer_units
    is_small = bound is not None and _has_small_program(topology, collective)
    flows: list[TimeSteppedFlow] = []
    for n_steps in _numbers_of_steps(topology, collective, is_small):
        flows.append(time_stepped_flow(topology, collective, n_steps))
        if bound is not None and flows[-1].time * float(bound.algbw) <= enough:
            break
    near = (1 + _AS_GOOD) * flows[-1].time
    most = min(FINE, _LIGHT_PROGRAM // int(collective.pair_demands.matrix.sum()))
    found = []
    for flow in flows:
        if is_small and flow.time > near:
            continue
        built = chunked_exchange(topology, collective, flow, chunks=chunks)
        finer = 2 * built.schedule.n_chunks
        while chunks is None and is_small and built.loss > _CHUNK_LOSS and finer <= most:
            again = chunked_exchange(topology, collective, flow, chunks=finer)
            built = min(built, again, key=lambda one: one.time)
            finer *= 2
        found.append(built)
    return found


def _numbers_of_steps(topology: Topology, collective: Collective, is_small: bool) -> Iterator[int]:
    """The fewest steps and one more; for a small program more, first one by one, then in wider leaps."""
    least = least_steps(topology, collective)
    yield from (least, least + 1)
    n_steps, work = least + 2, 0
    while is_small and n_steps <= _MOST_STEPS:
        work += program_size(topology, collective, n_steps)
        if work > 2 * EXACT_VARIABLES:
            break
        yield n_steps
        n_steps += 1 + max(0, n_steps - least - 3) // 2


def _of_fewest_steps(found: Sequence[ChunkedExchange]) -> ChunkedExchange:
    """Return the schedule of fewest steps among those as good as the best."""
    most = (1 + _AS_GOOD) * min(one.time for one in found)
    return min((one for one in found if one.time <= most), key=lambda one: (one.schedule.n_steps, one.time))


def choose_steps(problem: Problem, found: Result, chunks: int | None) -> Result:
    """The pipelined schedule, or on a small fabric one of a time-stepped flow if it is better.

    Of all that are within 0.2% of the best, that of the fewest steps.
    """
    topology, collective, queued = problem.topology, problem.collective, found.schedule
    if found.is_late or found.bound is None or not isinstance(queued, ExchangeSchedule):
        return found
    if not _has_small_program(topology, collective):
        return found
    least = collective.pair_demands.buffer_units / found.bound.algbw
    taken = collective.pair_demands.buffer_units / exchange_algbw(topology, collective, queued)
    if queued.n_steps <= least_steps(topology, collective) and taken <= (1 + _AS_GOOD) * least:
        return found
    start = process_time()
    try:
        others = _time_stepped(problem, found.bound, chunks)
    except TimeLimitError:
        return replace(found, is_late=True)
    except (InfeasibleError, ScheduleError) as error:  # bandwidths too far apart for the solver
        return replace(found, notes=(*found.notes, f"{TIME_STEPPED}: {error}"))
    context().count("schedule", process_time() - start)
    best = _of_fewest_steps([ChunkedExchange(queued, taken, 0.0), *others])
    other = _of_fewest_steps(others)
    note = "; ".join(
        f"{name}: {format_bandwidth(exchange_algbw(topology, collective, one))} algbw in {one.n_steps} steps"
        for name, one in ((found.algorithm, queued), (TIME_STEPPED, other.schedule))
    )
    if best.schedule is queued:
        return replace(found, notes=(*found.notes, note))
    losses = _losses(best.loss, "the fractional flow in as many steps")
    return Result(best.schedule, found.bound, TIME_STEPPED, notes=(*losses, note))


@_past_cards
def pipelined_flow(
    topology: Topology,
    collective: Collective,
    *,
    chunks: int | None = None,
    rounds: Sequence[int] | None = None,
    max_steps: int | None = None,
    size: SizeRequest | None = None,
) -> Result:
    """The routes of an optimal flow, or shortest paths where these carry as much, in steps of one length.

    Of more than a few thousand pairs searched routes, each hop of which gets a step.
    """
    n_pairs = collective.pair_demands.n_pairs
    is_asked = rounds is not None or size is not None
    if max_steps is not None and is_asked:
        raise ScheduleError("max-steps: rounds and sizes choose the number of steps; give one of them")
    if max_steps is not None or (
        n_pairs > SEARCHED_PAIRS and not is_asked and not topology.injection_bytes_per_s.any()
    ):
        return _searched_steps(topology, collective, chunks, max_steps)
    problem, options = Problem(topology, collective), AlltoallOptions(chunks=chunks, rounds=rounds, size=size)
    rate = alltoall_rate(problem)
    paths = extract_paths(topology, collective, rate.flow.by_source)
    routes = rounded_routes(collective, paths, chunks=chunks)
    shortest = split_over_shortest_paths(topology, collective, max_chunks=_most_chunks(problem, chunks))
    if _busiest(topology, shortest) <= _busiest(topology, routes):
        routes = shortest
    busiest = _busiest(topology, routes)
    notes = _losses(float(busiest) * min(paths.rate(topology), rate.rate) - 1, "the fractional flow")
    schedule = _in_steps(problem, routes, options)
    if schedule is None:
        algbw = collective.pair_demands.buffer_units / busiest
        finest = _finest(problem, chunks)
        schedule = fewest_rounds(topology, collective, routes, algbw, max_chunks=finest)
        if collective.demands is not None:
            least = NEAR * rate.rate * collective.pair_demands.buffer_units
            runnable = PROGRAM_CHUNKS // int(collective.demands.matrix.sum())
            # what programs can have comes first
            most = (min(finest, COARSE), min(max(runnable, 1), FINE), FINE) if chunks is None else (chunks,)
            more = (
                repeated(topology, collective, paths, most[-1])
                if topology.injection_bytes_per_s.any()
                else placed_hops(topology, collective, paths, chunks=most)
            )
            queued = schedule
            schedule = fast_enough(topology, collective, itertools.chain((schedule,), more), least)
            if schedule is not queued:
                notes = _grain(problem, schedule)
    return Result(schedule, bound_of_alltoall(rate), notes=notes, is_late=rate.is_late)


def _searched_steps(
    topology: Topology, collective: Collective, chunks: int | None, max_steps: int | None
) -> Result:
    """One path per subflow by local search, in steps that take hardly longer than the fullest link."""
    demand = collective.pair_demands.between
    if np.count_nonzero(demand) > _TRANSLATED_PAIRS and demand.max() == 1:
        group = few_translated(topology, collective)
        if group is not None:
            schedule = translated_exchange(
                topology, collective, group, max_chunks=chunks or MAX_HOP_CHUNKS, max_steps=max_steps
            )
            rate = alltoall_rate(Problem(topology, collective))
            return Result(schedule, bound_of_alltoall(rate), is_late=rate.is_late or context().is_late)
    by_then, at_last = until(_PATHS_TIME), until(_STEPS_TIME)
    most = MAX_HOP_CHUNKS if chunks is None else chunks
    subflows = cut_demands(topology, collective, max_routes=most, max_hops=max_steps)
    with under(by_then):
        paths, _ = search_paths(subflows)
    routes = subflow_routes(subflows, paths.offset, paths.place, np.zeros(len(paths.place), np.int32))
    del subflows, paths
    with under(at_last):
        schedule = routes_in_steps(topology, collective, routes, max_steps=max_steps, max_chunks=most)
    del routes
    is_late = by_then.is_late or at_last.is_late
    rate = alltoall_rate(Problem(topology, collective))
    if collective.demands is not None and not is_late:
        least = NEAR * rate.rate * collective.pair_demands.buffer_units
        finest = (FINE,) if chunks is None else (chunks,)
        more = placed_hops(topology, collective, chunks=finest, max_steps=max_steps)
        schedule = fast_enough(topology, collective, itertools.chain((schedule,), more), least)
    notes = () if collective.demands is None else _grain(Problem(topology, collective), schedule)
    return Result(schedule, bound_of_alltoall(rate), notes=notes, is_late=is_late)


def shortest_paths(
    topology: Topology,
    collective: Collective,
    *,
    chunks: int | None = None,
    rounds: Sequence[int] | None = None,
    size: SizeRequest | None = None,
) -> ExchangeSchedule:
    """Every pair's data over all its shortest paths, a hop per step; or in the given rounds."""
    problem, options = Problem(topology, collective), AlltoallOptions(chunks=chunks, rounds=rounds, size=size)
    routes = split_over_shortest_paths(topology, collective, max_chunks=_most_chunks(problem, chunks))
    schedule = _in_steps(problem, routes, options)
    if schedule is None:
        return hop_synchronous(topology, collective, routes, max_chunks=_finest(problem, chunks))
    return schedule


def _in_steps(problem: Problem, routes: RouteSchedule, options: AlltoallOptions) -> ExchangeSchedule | None:
    """Return the routes in the given rounds, or the fastest at the size; None if neither is given."""
    topology, collective, size = problem.topology, problem.collective, options.size
    finest = _finest(problem, options.chunks)
    if size is not None:
        if options.rounds is not None:
            raise ScheduleError("rounds: a size to be fast at chooses their number; give one of the two")
        return fastest_at_size(
            topology,
            collective,
            routes,
            size.size_bytes,
            alpha_s=step_alpha_ns(topology) / 10**9 if size.alpha_s is None else size.alpha_s,
            max_chunks=finest,
        )
    if options.rounds is None:
        return None
    if len(options.rounds) != 1:
        raise ScheduleError(f"rounds: expected one number for an all-to-all, found {len(options.rounds)}")
    (rounds,) = options.rounds
    return pipelined(topology, collective, routes, rounds=rounds, max_chunks=finest)


def _most_chunks(problem: Problem, chunks: int | None) -> int:
    return _runnable(problem, SPLIT_CHUNKS) if chunks is None else chunks


def _finest(problem: Problem, chunks: int | None) -> int:
    """Most chunks per shard once steps have cut what the routes take."""
    limit = _runnable(problem, PIPELINED_CHUNKS)
    return limit if chunks is None else min(limit, chunks)


def _runnable(problem: Problem, limit: int) -> int:
    """The limit of chunks per shard; for unequal demands only as many as fit into a program.

    Equal shards need no more chunks than their shares of routes; unequal ones take as many as allowed, and
    runtimes keep a number for each chunk of each unit of demand.
    """
    demands = problem.collective.demands
    if demands is None:
        return limit
    units = int(demands.matrix.sum())
    return max(1, min(limit, max(_LIGHT_PROGRAM // units, min(_ENOUGH_CHUNKS, PROGRAM_CHUNKS // units))))


def _busiest(topology: Topology, routes: RouteSchedule) -> Fraction:
    """Seconds per unit of demand for which the routes keep their busiest link, or capped host, busy."""
    load = sums_of(topology.n_links, routes.path_links, np.repeat(routes.units, routes.hops))
    times = [slowest(load, topology.bandwidths)]
    caps = topology.injection_bytes_per_s
    for ends in (topology.tails, topology.heads):
        through = sums_of(topology.n_nodes, ends, load)
        times.append(slowest(through[caps > 0], caps[caps > 0]))
    return max(times) / routes.n_chunks


def _losses(loss: float, what: str) -> tuple[str, ...]:
    """A note where whole chunks cost something."""
    if loss < 1e-6:
        return ()
    return (f"whole chunks take {loss:.2%} longer than {what}; more of them (--chunks) lose less",)


def _grain(problem: Problem, schedule: ExchangeSchedule) -> tuple[str, ...]:
    """A note where no program can have the chunks."""
    chunks = chunks_of_program(problem.collective, schedule)
    if chunks <= PROGRAM_CHUNKS:
        return ()
    return (
        f"the sends' bounds need {chunks} equal chunks of the data, programs have up to {PROGRAM_CHUNKS}: "
        f"to run it, take fewer (--chunks {_finest(problem, None)}), which may lose more",
    )


def late_bound(problem: Problem, *, cards_forward: bool = False) -> Bound:
    """Return the bound of an all-to-all after its time has run out: every schedule left has a gap.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    rate = optimal_rate(
        problem.topology, problem.collective, time_limit_s=_LATE_S, cards_forward=cards_forward
    )
    return bound_of_alltoall(rate)


def quick_alltoall(problem: Problem, chunks: int | None = None) -> Result:
    """Steps over shortest paths, for when time has run out."""
    with context().stage("schedule"):
        schedule = shortest_paths(problem.topology, problem.collective, chunks=chunks)
    with context().stage("bound"):
        bound = late_bound(problem)
    return Result(schedule, bound, SHORTEST_PATHS)
