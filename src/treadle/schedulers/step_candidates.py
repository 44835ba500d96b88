"""Breadth-first broadcast, TE-CCL and TACCL as schedulers of the table, and bounds of step schedules."""

from __future__ import annotations

from fractions import Fraction

from treadle.context import context
from treadle.errors import ScheduleError
from treadle.inputs.problem import Problem, model_of
from treadle.schedulers.bounds import find_bound
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.step_cost import algbw
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.allreduce_certificate import DualCertificate
from treadle.simulation.alpha_beta import alpha_beta_time
from treadle.simulation.cost_models import step_alpha_ns
from treadle.synthesis.peers.taccl import GAP as TACCL_GAP
from treadle.synthesis.peers.taccl import taccl_exchange, taccl_gather
from treadle.synthesis.peers.teccl_gather import GAP, ProgramResult, teccl_gather
from treadle.synthesis.result import Bound, Result
from treadle.synthesis.scheduler_options import SizeRequest
from treadle.synthesis.steps.bfb import bfb_schedule, heterogeneous_value, schedule_for_size
from treadle.topologies.topology import Topology
from treadle.units import format_size

_LARGEST_EXACT_ALLREDUCE = 128
"""Ranks up to which the allreduce linear program is worth its time for a step schedule."""


def breadth_first(
    topology: Topology, collective: Collective, *, chunks: int | None = None, size: SizeRequest | None = None
) -> StepSchedule | Result:
    """Send every shard to all nodes breadth first, with exactly balanced loads; see `bfb_schedule`."""
    if size is not None:
        schedule = schedule_for_size(topology, collective.kind, size.size_bytes, chunks=chunks)
        return Result(schedule, notes=(_beside_least_time(topology, collective, schedule, size),))
    return bfb_schedule(topology, collective.kind, root=collective.root, max_chunks=chunks)


def _beside_least_time(
    topology: Topology, collective: Collective, schedule: StepSchedule, size: SizeRequest
) -> str:
    """Compare the time at a size with the least of any breadth-first broadcast, by program (A.12)."""
    kind = collective.kind
    alpha = step_alpha_ns(topology) if size.alpha_s is None else round(size.alpha_s * 10**9)
    taken = alpha_beta_time(topology, collective, schedule, size.size_bytes, alpha_ns=alpha)
    fabrics = [topology.transpose()] * kind.reduces + [topology] * kind.broadcasts
    least = sum(heterogeneous_value(fabric, size.size_bytes).runtime_s for fabric in fabrics)
    least += Fraction(alpha * schedule.n_steps, 10**9)
    above = "" if taken == least else f"{float(100 * (taken / least - 1)):.2g}% above "
    return (
        f"at {format_size(size.size_bytes)} the steps take {float(taken * 10**6):.4g} us, "
        f"{above}the least of any breadth-first broadcast"
    )


def te_ccl(topology: Topology, collective: Collective, *, chunks: int = 1, seed: int = 0) -> Result:
    """Solve TE-CCL's integer program; see `teccl_gather`."""
    found = teccl_gather(topology, collective, chunks=chunks, seed=seed)
    return _of_program(found, GAP)


def taccl(
    topology: Topology, collective: Collective, *, chunks: int = 1, size: SizeRequest | None = None
) -> Result:
    """Solve TACCL's programs, for 1 GB unless another size is given; see `taccl_sends`."""
    function = taccl_exchange if collective.kind is CollectiveKind.ALLTOALL else taccl_gather
    alpha = None if size is None else size.alpha_s
    found = function(
        topology,
        collective,
        chunks=chunks,
        size_bytes=2**30 if size is None else size.size_bytes,
        alpha_s=step_alpha_ns(topology) * 1e-9 if alpha is None else alpha,
    )
    return _of_program(found, TACCL_GAP)


def _of_program(found: ProgramResult, enough: float) -> Result:
    """Return the result of an integer program, which is late only where a limit was given."""
    notes = (f"the value of its program is within {found.gap:.0%} of the best",) if found.gap > enough else ()
    return Result(found.schedule, notes=notes, is_late=found.is_late and context().deadline is not None)


def bound_of_steps(problem: Problem, schedule: StepSchedule) -> Bound:
    """Return the optimum; for a large allreduce the volume bound, attained if bandwidth-optimal."""
    reached = algbw(problem.topology, schedule)
    if problem.collective.kind is not CollectiveKind.ALLREDUCE:
        return find_bound(problem)
    try:
        quick = volume_bound(problem)
    except ScheduleError:  # too many switches with in-network operations for link lengths
        return find_bound(problem)
    if reached != quick.algbw and problem.collective.n_ranks <= _LARGEST_EXACT_ALLREDUCE:
        return find_bound(problem)
    return quick if reached != quick.algbw else Bound(quick.algbw, quick.certificate, True, quick.model)


def volume_bound(problem: Problem) -> Bound:
    """Return the bound by volume: an allreduce without switches moves 2 (N - 1) buffers over links."""
    certificate = DualCertificate((Fraction(1),) * problem.topology.n_links)
    value = certificate.bound(problem.topology, problem.collective)
    return Bound(value, certificate, False, model_of(problem.topology, problem.collective))
