"""What the links of a fabric carry for a program, and where it keeps them busy for longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

import numpy as np

from treadle.arrays import Int64Array, sums_of
from treadle.program.program import OperationKind, Program
from treadle.runtime.order import match_messages
from treadle.simulation.switch_dataflow import group_crossings, network_joins
from treadle.topologies.topology import Topology
from treadle.verification.loads import algbw_of


def link_loads(topology: Topology, program: Program) -> Int64Array:
    """Chunks that cross each link, those of in-network operations included, shape (m,)."""
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    per_path = sums_of(program.n_paths, program.path[sends], program.count[sends])
    loads = sums_of(topology.n_links, program.path_links, np.repeat(per_path, np.diff(program.path_offset)))
    if (topology.multicast | topology.aggregation).any():
        joins = network_joins(topology, program, match_messages(program))
        for crossing in group_crossings(topology, program, joins):
            loads[crossing.link] += crossing.chunks
    return loads


def algbw_of_program(topology: Topology, program: Program) -> Fraction:
    """What links and hosts allow when the program's messages follow each other without end, bytes/s."""
    return algbw_of(topology, link_loads(topology, program), program.n_chunks)


@dataclass(frozen=True)
class Congestion:
    """The links that a schedule keeps busy for longest.

    Parameters
    ----------
    links : tuple of str
        The first of those that are busy for longest, by name.
    n_links : int
        How many are busy for as long.
    times_optimum : Fraction
        For how long, in times of the optimum: 1 where the schedule attains it and these links bind.
    """

    links: tuple[str, ...]
    n_links: int
    times_optimum: Fraction


def congestion(
    topology: Topology, program: Program | Sequence[Program], optimum: Fraction, *, most: int = 2
) -> Congestion:
    """Where a program's messages, or those of several at once, take longest, beside the optimum's algbw.

    Examples
    --------
    >>> import treadle
    >>> from treadle import planning
    >>> plan = treadle.solve("ring:4", "allgather", algorithm="ring").plan
    >>> found = planning.congestion(plan.topology, planning.program_of(plan, 2**20), plan.algbw)
    >>> found.links, found.n_links, found.times_optimum
    (('n0->n1', 'n1->n0'), 8, Fraction(1, 1))
    """
    programs = [program] if isinstance(program, Program) else program
    n_chunks = lcm(*(one.n_chunks for one in programs))
    loads = [0] * topology.n_links
    for one in programs:  # each of its own chunks, of the same bytes in all
        scale = n_chunks // one.n_chunks
        own = link_loads(topology, one).tolist()
        loads = [load + scale * more for load, more in zip(loads, own, strict=True)]
    busy = [Fraction(load, int(width)) for load, width in zip(loads, topology.bandwidths, strict=True)]
    longest = max(busy)
    links = [link for link, time in enumerate(busy) if time == longest]
    names = tuple(topology.link_name(link) for link in links[:most])
    return Congestion(names, len(links), longest * optimum / n_chunks)
