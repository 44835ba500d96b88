"""Step schedules for a problem by the name of their generator, and the bound beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from time import process_time
from types import MappingProxyType

from treadle.errors import ScheduleError
from treadle.planning.problem import Problem, model_of
from treadle.planning.solving.bounds import Bound, find_bound
from treadle.planning.solving.candidate import Candidate, Options
from treadle.planning.solving.exact_synthesis import exact_schedule
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.step_cost import algbw
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.allreduce_witness import LengthWitness
from treadle.synthesis.steps.baselines import STEP_BASELINES, double_binary_tree_steps
from treadle.synthesis.steps.bfb import bfb_schedule, schedule_for_size
from treadle.topologies.topology import Topology

BFB = "bfb"
EXACT = "exact"
TREES = "double-binary-tree-steps"

_LARGEST_EXACT_ALLREDUCE = 128
"""Ranks up to which the allreduce linear program is worth its time beside a step schedule."""


def _breadth_first(topology: Topology, collective: Collective, options: Options) -> StepSchedule:
    if options.size is not None:
        return schedule_for_size(
            topology,
            collective.kind,
            options.size.size_bytes,
            chunks=options.chunks,
            progress=options.progress,
            deadline=options.deadline,
        )
    return bfb_schedule(
        topology,
        collective.kind,
        root=collective.root,
        max_chunks=options.chunks,
        progress=options.progress,
        deadline=options.deadline,
    )


def _exact(topology: Topology, collective: Collective, options: Options) -> StepSchedule:
    return exact_schedule(Problem(topology, collective), options.exact, options.deadline)


def _pipelined_trees(topology: Topology, collective: Collective, options: Options) -> StepSchedule:
    if options.chunks is None:
        return double_binary_tree_steps(topology, collective)
    return double_binary_tree_steps(topology, collective, chunks=options.chunks)


def _unwatched(
    generate: Callable[[Topology, Collective], StepSchedule],
) -> Callable[[Topology, Collective, Options], StepSchedule]:
    """A generator that is quick enough to need neither progress nor a deadline."""
    return lambda topology, collective, _: generate(topology, collective)


STEP_ALGORITHMS: Mapping[str, Callable[[Topology, Collective, Options], StepSchedule]] = MappingProxyType(
    {
        BFB: _breadth_first,
        EXACT: _exact,
        **{name: _unwatched(generate) for name, generate in STEP_BASELINES.items()},
        TREES: _pipelined_trees,
    }
)
"""Generators of step schedules for direct-connect fabrics, by name."""


def generate_steps(problem: Problem, algorithm: str, options: Options) -> Candidate:
    """A step schedule by the named algorithm.

    Raises
    ------
    ScheduleError
        If the fabric has switches, compute nodes that only forward, or shards of unequal size.
    InfeasibleError
        If a rank cannot be reached.
    """
    topology, collective = problem.topology, problem.collective
    for reason, holds in (
        ("switches", bool(topology.switches.size)),
        ("compute nodes that only forward", bool(collective.forwarders)),
    ):
        if holds:
            raise ScheduleError(
                f"{algorithm}: step schedules are for direct-connect fabrics, and {topology.name} comes "
                f"with {reason}; use --algorithm forestcoll"
            )
    if collective.kind is CollectiveKind.ALLTOALL:
        raise ScheduleError(f"{algorithm} sends the same to all; for an all-to-all leave out --algorithm")
    if collective.weights is not None:
        raise ScheduleError(
            f"{algorithm}: step schedules have shards of one size; leave out the weights or use "
            f"--algorithm forestcoll"
        )
    start = process_time()
    schedule = STEP_ALGORITHMS[algorithm](topology, collective, options)
    seconds = {"schedule": process_time() - start}
    start = process_time()
    bound = options.bound or bound_beside(problem, schedule, options)
    return Candidate(algorithm, schedule, bound, seconds={**seconds, "bound": process_time() - start})


def bound_beside(problem: Problem, schedule: StepSchedule, options: Options) -> Bound:
    """The optimum; of a large allreduce the volume bound, which a bandwidth-optimal schedule attains."""
    reached = algbw(problem.topology, schedule)
    if problem.collective.kind is not CollectiveKind.ALLREDUCE:
        return find_bound(problem, options.watch)
    quick = volume_bound(problem)
    if reached != quick.algbw and problem.collective.n_ranks <= _LARGEST_EXACT_ALLREDUCE:
        return find_bound(problem, options.watch)
    return quick if reached != quick.algbw else Bound(quick.algbw, quick.witness, True, quick.model)


def volume_bound(problem: Problem) -> Bound:
    """At least 2 (N - 1) times the buffer has to cross links in an allreduce on a fabric without switches."""
    witness = LengthWitness((Fraction(1),) * problem.topology.n_links)
    value = witness.bound(problem.topology, problem.collective)
    return Bound(value, witness, False, model_of(problem.topology, problem.collective))
