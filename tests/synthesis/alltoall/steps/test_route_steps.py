"""Routes in steps, send by send, on three nodes with uneven demands: reckoned by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.steps.pipelined import hop_synchronous
from treadle.synthesis.alltoall.steps.staggered import _turns, rounds_within, staggered
from treadle.synthesis.alltoall.steps.unequal_steps import chunks_of_program
from treadle.topologies.topology import Topology, TopologyBuilder


def fabric(*bandwidths: int) -> Topology:
    """Links 0 from a to b, 1 from b to c, 2 from a to c, 3 from b to a."""
    builder = TopologyBuilder("three")
    for name in "abc":
        builder.compute(name)
    for ends, bandwidth in zip(("ab", "bc", "ac", "ba"), bandwidths or (1, 1, 1, 1), strict=True):
        builder.link(ends[0], ends[1], bandwidth)
    return builder.build()


def collective() -> Collective:
    """a has 1 for b and 3 for c."""
    demands = Demands(np.array([[0, 1, 3], [0, 0, 0], [0, 0, 0]]))
    return Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=demands)


def routes() -> RouteSchedule:
    """In halves of units: to b directly; to c four by b, and two directly."""
    return routes_from_paths(3, 2, [(0, 1, 2, 0, [0]), (0, 2, 4, 0, [0, 1]), (0, 2, 2, 0, [2])])


def test_turns_are_in_proportion_within_the_sends() -> None:
    amounts = np.array([1, 10, 100])
    assert _turns(amounts, 8, 24).tolist() == [8, 8, 8]
    assert _turns(amounts, 8, 23).tolist() == [1, 8, 8]  # as 8 for those of 10
    assert _turns(amounts, 8, 5).tolist() == [1, 1, 8]  # as 8 for that of 100
    assert _turns(np.array([30, 10, 20]), 8, 20).tolist() == [8, 4, 8]  # as 8 for those of 20
    assert _turns(np.array([30, 10, 20]), 8, 19).tolist() == [8, 3, 6]  # as 8 for that of 30


def test_rounds_for_a_loss() -> None:
    """Hops 0 take link 0 of 2 B/s 3 s, hops 1 link 1 of 1 B/s 4 s, of which 4 are full: 3 s are extra."""
    uneven = fabric(2, 1, 4, 1)
    assert rounds_within(uneven, routes(), 0.1) == 7  # 0.75 * 9
    assert rounds_within(uneven, routes(), 0.5) == 2  # hops of the longest
    assert rounds_within(uneven, routes(), 0.3) == 2  # 1.75
    assert rounds_within(uneven, routes(), 0.21) == 3  # 0.75 * 3.76
    # b may get 1 B/s: 6 s into it, 4 out of it; 4 s of 6 are extra
    capped = replace(uneven, injection_bytes_per_s=np.array([0, 1, 0]))
    assert rounds_within(capped, routes(), 0.22) == 3  # 2/3 * 3.55
    assert rounds_within(capped, routes(), 0.11) == 6  # 2/3 * 8.1
    wide = replace(uneven, injection_bytes_per_s=np.array([0, 3, 0]))  # 2 s and 4/3 s: nothing to do with it
    assert rounds_within(wide, routes(), 0.1) == 7


def test_equal_chunks_of_all_data() -> None:
    assert chunks_of_program(collective(), hop_synchronous(fabric(), collective(), routes())) == 4
    # sixths of 1 and of 3, cut at 3 of 6 and 12, 15 of 18: three sixths are a chunk
    assert chunks_of_program(collective(), staggered(fabric(), collective(), routes(), rounds=2)) == 8
