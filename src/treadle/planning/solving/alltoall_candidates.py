"""All-to-all schedules in steps for a problem by the name of their generator, and the bound beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from time import monotonic, process_time
from types import MappingProxyType

import numpy as np

from treadle.errors import ScheduleError
from treadle.planning.problem import Problem
from treadle.planning.solving.bounds import Bound, bound_of_alltoall, find_bound
from treadle.planning.solving.candidate import Candidate, Options, SizeRequest, check_chunks
from treadle.program.program import MAX_CHUNKS as PROGRAM_CHUNKS
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.route_cost import slowest
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.options import default_alpha_ns
from treadle.synthesis.alltoall.rate.rate import optimal_rate
from treadle.synthesis.alltoall.routes.extract import extract_paths
from treadle.synthesis.alltoall.routes.shortest_paths import MAX_CHUNKS as SPLIT_CHUNKS
from treadle.synthesis.alltoall.routes.shortest_paths import split_over_shortest_paths
from treadle.synthesis.alltoall.routes.whole_units import rounded_routes
from treadle.synthesis.alltoall.steps.pipelined import MAX_CHUNKS as PIPELINED_CHUNKS
from treadle.synthesis.alltoall.steps.pipelined import hop_synchronous, pipelined
from treadle.synthesis.alltoall.steps.rounds import fastest_at_size, fewest_rounds
from treadle.synthesis.alltoall.steps.time_stepped import least_steps, time_stepped_flow
from treadle.synthesis.alltoall.steps.timed_paths import chunked_exchange
from treadle.topologies.topology import Topology

TSMCF = "tsmcf"
PIPELINED = "pipelined"
SHORTEST_PATHS = "shortest-paths"
SIZED = (PIPELINED, SHORTEST_PATHS)
"""Those that can be made for a size."""

_LIGHT_PROGRAM = 2**22
"""Chunks of a program that runtimes hold in a moment and some 100 MB."""

_LATE_S = 0.25
"""Seconds beyond a time limit for a bound: a gap of 1% and less up to 500 nodes."""

_ENOUGH_CHUNKS = 64
"""Chunks per shard worth a heavier program."""

Built = tuple[ExchangeSchedule, Bound | None, tuple[str, ...], bool]
"""A schedule, the bound if one was found on the way, notes, and whether time ran out on the way."""


def _time_stepped(problem: Problem, options: Options) -> Built:
    """The steps asked for; or the fewest possible and one more, the better of the two."""
    topology, collective = problem.topology, problem.collective
    least = least_steps(topology, collective)
    asked = options.exact.steps
    found = None
    for n_steps in (least, least + 1) if asked is None else (asked,):
        flow = time_stepped_flow(topology, collective, n_steps, deadline=options.deadline)
        built = chunked_exchange(topology, collective, flow, chunks=options.chunks, watch=options.watch)
        if found is None or built.time < found.time:
            found = built
    assert found is not None
    return found.schedule, None, _losses(found.loss, "the fractional flow in as many steps"), False


def _pipelined(problem: Problem, options: Options) -> Built:
    """The routes of an optimal flow, or shortest paths where these carry as much, in steps of one length."""
    topology, collective = problem.topology, problem.collective
    left = None if options.deadline is None else max(0.0, options.deadline - monotonic())
    rate = optimal_rate(topology, collective, time_limit_s=left, progress=options.progress)
    paths = extract_paths(topology, collective, rate.flow.by_source, watch=options.watch)
    routes = rounded_routes(collective, paths, chunks=options.chunks)
    shortest = split_over_shortest_paths(topology, collective, max_chunks=_most_chunks(problem, options))
    if _busiest(topology, shortest) <= _busiest(topology, routes):
        routes = shortest
    busiest, finest = _busiest(topology, routes), _finest(problem, options)
    if options.size is not None:
        schedule = _for_size(problem, options, options.size, routes)
    elif options.exact.rounds is None:
        algbw = collective.pair_demands.buffer_units / busiest
        schedule = fewest_rounds(topology, collective, routes, algbw, max_chunks=finest, watch=options.watch)
    else:
        schedule = pipelined(
            topology, collective, routes, rounds=_rounds(options), max_chunks=finest, watch=options.watch
        )
    notes = _losses(float(busiest) * min(paths.rate(topology), rate.rate) - 1, "the fractional flow")
    return schedule, bound_of_alltoall(rate), notes, rate.is_late


def _shortest_paths(problem: Problem, options: Options) -> Built:
    topology, collective = problem.topology, problem.collective
    routes = split_over_shortest_paths(topology, collective, max_chunks=_most_chunks(problem, options))
    finest = _finest(problem, options)
    if options.size is not None:
        return _for_size(problem, options, options.size, routes), None, (), False
    if options.exact.rounds is None:
        return hop_synchronous(topology, collective, routes, max_chunks=finest), None, (), False
    schedule = pipelined(
        topology, collective, routes, rounds=_rounds(options), max_chunks=finest, watch=options.watch
    )
    return schedule, None, (), False


def _for_size(
    problem: Problem, options: Options, size: SizeRequest, routes: RouteSchedule
) -> ExchangeSchedule:
    """The routes in as many rounds as are fastest at a size."""
    if options.exact.rounds is not None:
        raise ScheduleError("rounds: a size to be fast at chooses their number; give one of the two")
    return fastest_at_size(
        problem.topology,
        problem.collective,
        routes,
        size.size_bytes,
        alpha_s=default_alpha_ns(problem.topology) / 10**9 if size.alpha_s is None else size.alpha_s,
        max_chunks=_finest(problem, options),
        watch=options.watch,
    )


def _most_chunks(problem: Problem, options: Options) -> int:
    return _runnable(problem, SPLIT_CHUNKS) if options.chunks is None else options.chunks


def _finest(problem: Problem, options: Options) -> int:
    """Most chunks per shard once steps have cut what the routes take."""
    limit = _runnable(problem, PIPELINED_CHUNKS)
    return limit if options.chunks is None else min(limit, options.chunks)


def _runnable(problem: Problem, limit: int) -> int:
    """The limit of chunks per shard; for unequal demands only so many that a program can have them all.

    Equal shards need no more chunks than their shares of routes; unequal ones take as many as allowed, and
    runtimes keep a number for each chunk of each unit of demand.
    """
    demands = problem.collective.demands
    if demands is None:
        return limit
    units = int(demands.matrix.sum())
    return max(1, min(limit, max(_LIGHT_PROGRAM // units, min(_ENOUGH_CHUNKS, PROGRAM_CHUNKS // units))))


def _rounds(options: Options) -> int:
    rounds = options.exact.rounds
    if rounds is None or len(rounds) != 1:
        raise ScheduleError(f"rounds: expected one number for an all-to-all, found {len(rounds or ())}")
    return rounds[0]


def _busiest(topology: Topology, routes: RouteSchedule) -> Fraction:
    """Seconds per unit of demand for which the routes keep their busiest link, or capped host, busy."""
    load = np.zeros(topology.n_links, dtype=np.int64)
    np.add.at(load, routes.path_links, np.repeat(routes.units, routes.hops))
    times = [slowest(load, topology.bandwidths)]
    caps = topology.injection_bytes_per_s
    for ends in (topology.tails, topology.heads):
        through = np.zeros(topology.n_nodes, dtype=np.int64)
        np.add.at(through, ends, load)
        times.append(slowest(through[caps > 0], caps[caps > 0]))
    return max(times) / routes.n_chunks


def _losses(loss: float, what: str) -> tuple[str, ...]:
    """A note where whole chunks cost something."""
    if loss < 1e-6:
        return ()
    return (f"whole chunks take {loss:.2%} longer than {what}; more of them (--chunks) lose less",)


ALLTOALL_ALGORITHMS: Mapping[str, Callable[[Problem, Options], Built]] = MappingProxyType(
    {TSMCF: _time_stepped, PIPELINED: _pipelined, SHORTEST_PATHS: _shortest_paths}
)
"""Generators of all-to-all steps for direct-connect fabrics, by name."""


def generate_alltoall(problem: Problem, algorithm: str, options: Options) -> Candidate:
    """All-to-all steps by the named algorithm.

    Raises
    ------
    ScheduleError
        If the collective is another one, or the fabric has switches.
    InfeasibleError
        If a rank cannot be reached.
    """
    topology, collective = problem.topology, problem.collective
    if collective.kind is not CollectiveKind.ALLTOALL:
        raise ScheduleError(
            f"{algorithm} is for alltoall; {collective.kind} has spanning trees and steps of its own"
        )
    if topology.switches.size:
        raise ScheduleError(
            f"{algorithm}: steps store and forward, which the switches of {topology.name} cannot; expected a "
            f"direct-connect fabric, or --algorithm routes"
        )
    check_chunks(options)
    start = process_time()
    schedule, bound, notes, is_late = ALLTOALL_ALGORITHMS[algorithm](problem, options)
    seconds = {"schedule": process_time() - start}
    start = process_time()
    bound = options.bound or bound or find_bound(problem, options.watch)
    seconds["bound"] = process_time() - start
    return Candidate(algorithm, schedule, bound, seconds=seconds, notes=notes, is_late=is_late)


def late_bound(problem: Problem, *, cards_forward: bool = False) -> Bound:
    """What a moment proves of an all-to-all once its time has run out: every schedule left has a gap.

    Raises
    ------
    InfeasibleError
        If a rank cannot be reached.
    """
    rate = optimal_rate(
        problem.topology, problem.collective, time_limit_s=_LATE_S, cards_forward=cards_forward
    )
    return bound_of_alltoall(rate)


def quick_alltoall(problem: Problem, options: Options | None = None) -> Candidate:
    """Steps over shortest paths, for when time has run out."""
    chunks = None if options is None else options.chunks
    start = process_time()
    schedule, _, notes, _ = _shortest_paths(problem, Options(chunks=chunks))
    seconds = {"schedule": process_time() - start}
    start = process_time()
    bound = late_bound(problem)
    seconds["bound"] = process_time() - start
    return Candidate(SHORTEST_PATHS, schedule, bound, seconds=seconds, notes=notes)
