"""Loads of links counted send by send, and the busiest of them beside an optimum."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from treadle.planning import congestion, program_of, solve
from treadle.program.program import OperationKind, Program
from treadle.simulation.congestion import Congestion, algbw_of_program, link_loads
from treadle.topologies import Topology, TopologyBuilder


def lopsided() -> Topology:
    """A ring of four whose links are of 1, 2, 3 and 4 bytes/s."""
    builder = TopologyBuilder("lopsided")
    names = [builder.compute(name) for name in "abcd"]
    for width, (one, other) in enumerate(zip(names, names[1:] + names[:1], strict=True), 1):
        builder.duplex(one, other, width)
    return builder.build()


def counted(program: Program) -> Counter[int]:
    found: Counter[int] = Counter()
    for kind, path, count in zip(program.operation_kind, program.path, program.count, strict=True):
        if kind == OperationKind.SEND:
            for link in program.path_links[program.path_offset[path] : program.path_offset[path + 1]]:
                found[int(link)] += int(count)
    return found


@pytest.mark.parametrize("kind", ["allgather", "reduce-scatter", "alltoall"])
def test_loads_are_chunks_of_all_sends(kind: str) -> None:
    fabric = lopsided()
    program = program_of(solve(fabric, kind).plan, 2**20)
    loads = link_loads(fabric, program)
    assert loads.dtype == np.int64
    assert Counter(dict(enumerate(loads.tolist()))) == counted(program)
    slowest = max(
        Fraction(int(load), int(width)) for load, width in zip(loads, fabric.bandwidths, strict=True)
    )
    assert algbw_of_program(fabric, program) == program.n_chunks / slowest


def test_the_busiest_links_beside_the_optimum() -> None:
    """Along a ring all links carry the same, and the narrowest take longest."""
    fabric = lopsided()
    plan = solve(fabric, "allgather", algorithm="ring").plan
    program = program_of(plan, 2**20)
    loads = link_loads(fabric, program)
    busy = [Fraction(int(load), int(width)) for load, width in zip(loads, fabric.bandwidths, strict=True)]
    longest = [link for link, time in enumerate(busy) if time == max(busy)]
    names = tuple(fabric.link_name(link) for link in longest)
    optimum = Fraction(7, 3)
    share = max(busy) * optimum / program.n_chunks
    assert congestion(fabric, program, optimum) == Congestion(names[:2], len(names), share)
    assert congestion(fabric, program, optimum, most=1) == Congestion(names[:1], len(names), share)
    assert congestion(fabric, program, optimum, most=99).links == names
    assert set(names) <= {"a->b", "b->a"}


def test_programs_of_unequal_chunks_count_by_their_bytes() -> None:
    """Each of its own chunks, of the same bytes in all."""
    fabric = lopsided()
    programs = [program_of(solve(fabric, "allgather", algorithm=one).plan, 2**20) for one in ("ring", "bfb")]
    programs.append(program_of(solve(fabric, "allgather").plan, 2**20))
    assert len({one.n_chunks for one in programs}) > 1
    loads = [
        sum(Fraction(counted(one)[link], one.n_chunks) for one in programs) for link in range(fabric.n_links)
    ]
    busy = [load / int(width) for load, width in zip(loads, fabric.bandwidths, strict=True)]
    found = congestion(fabric, programs, Fraction(5))
    assert found.times_optimum == max(busy) * 5
    assert found.n_links == busy.count(max(busy))
    assert found.links[0] == fabric.link_name(busy.index(max(busy)))
