"""Breadth-first broadcast with a fixed number of chunks per shard (section A.5.2), exactly optimal."""

from __future__ import annotations

from fractions import Fraction

from treadle.errors import ScheduleError
from treadle.schedules.steps.steps import MAX_CHUNKS, Steps
from treadle.synthesis.steps.bfb.breadth_first import split, step_chunks
from treadle.synthesis.steps.bfb.in_links import InLinkRows, link_rows
from treadle.synthesis.steps.bfb.value import BfbValue, value_of
from treadle.topologies.topology import Topology
from treadle.watch import UNWATCHED, Watch


def discrete_allgather(topology: Topology, chunks: int, *, watch: Watch = UNWATCHED) -> Steps:
    """Breadth-first-broadcast allgather with `chunks` chunks per shard and the least T_B among those.

    Parameters
    ----------
    topology : Topology
        Compute nodes only, links of one bandwidth.
    chunks : int
        P.
    watch : Watch

    Raises
    ------
    TopologyError, InfeasibleError
        As for `bfb_allgather`.
    ScheduleError
        If links differ in bandwidth (see `heterogeneous_allgather`) or `chunks` is out of range.

    Notes
    -----
    The integer program (A.11) is solved exactly by integer flow: its optimum is ceil(P U(u,t)), so there is
    no need for the rounding of Theorem 20, whose bound holds all the more.
    """
    instance = link_rows(topology)
    _check(instance, chunks)
    value = value_of(instance, watch=watch)
    return split(instance, value, chunks, watch=watch)


def _check(instance: InLinkRows, chunks: int) -> None:
    if not instance.is_uniform:
        raise ScheduleError(
            f"{instance.topology.name}: links differ in bandwidth; use heterogeneous_allgather, which takes "
            f"a size and a number of chunks"
        )
    if not 1 <= chunks <= MAX_CHUNKS:
        raise ScheduleError(f"chunks per shard: expected 1 to 2**24, found {chunks}")


def discrete_t_b(value: BfbValue, chunks: int) -> Fraction:
    """T_B in M/B of the best schedule with `chunks` chunks per shard, on equal links; `value.t_b` or more."""
    total = Fraction(sum(step_chunks(value, chunks)), chunks)
    return value.t_b * total / sum(value.loads, Fraction(0))


def rounding_bound(value: BfbValue, chunks: int) -> Fraction:
    """Theorem 20: how far, in M/B, rounding the linear program may end above the optimum.

    d (d^D - 1) / ((d - 1) P N); for d = 1 its limit D / (P N).
    """
    if value.node_bandwidth is None:
        raise ScheduleError("nodes differ in bandwidth; Theorem 20 is for regular fabrics")
    degree = value.node_bandwidth // value.unit_bandwidth
    return Fraction(sum(degree**t for t in range(1, value.diameter + 1)), chunks * value.n_ranks)
