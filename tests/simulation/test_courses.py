"""The course of one relay over four unlike links, told by hand: path, trace, shares of time, fluids."""

from __future__ import annotations

import pytest

from samples.simulation_samples import chain, relay, star
from shortcuts.simulated import simulate_program
from treadle.errors import ScheduleError
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.costs.cost_model import Protocol
from treadle.simulation.critical_path import critical_path, describe_path
from treadle.simulation.result import Simulation
from treadle.simulation.simulation_options import Forwarding, Sharing, SimulationOptions
from treadle.simulation.trace import simulation_trace

UNLIKE = chain(3, rates=[10**9, 2 * 10**9, 4 * 10**9, 5 * 10**8], latency_ns=7)
"""A slice of 1000 bytes takes 1000, 500, 250 and 2000 ns on its links, which are 7 ns long."""


def stored(slices: int) -> Simulation:
    """Slices of 1000 bytes each over all four links, stored at each switch, 50 ns of software a message."""
    options = SimulationOptions(slices=slices, alpha_ns=50, forwarding=Forwarding.STORE_AND_FORWARD)
    return simulate_program(UNLIKE, relay(3), 1000 * slices, options, with_binding=True)


def test_links_of_equal_shares_are_named_by_number_and_nothing_takes_all_of_no_time() -> None:
    options = SimulationOptions(forwarding=Forwarding.STORE_AND_FORWARD)
    even = simulate_program(chain(3), relay(3), 1000, options, with_binding=True)
    assert describe_path(even, critical_path(even), most=2)[1:3] == (" 25.0%  a->sw0", " 25.0%  sw0->b")
    nothing = simulate_program(chain(2), relay(2), 0, with_binding=True)
    assert describe_path(nothing, critical_path(nothing))[-1] == "  0.0%  latency"


def test_how_many_links_are_busy_when() -> None:
    """A thousand parts of 5.878 ns; of four links one is busy at first, three while both slices move."""
    (counter,) = simulation_trace(stored(2)).counters
    assert (counter.process, counter.name, counter.unit) == ("links", "links busy", "%")
    assert len(counter.points) == 1001
    assert counter.points[:2] == ((0, 25.0), (5878, 25.0))
    assert counter.points[-1] == (5_878_000, 0.0)
    at = dict(counter.points)
    # 1.2 us: both first links; 2.2 us: the second and the last; 3 us: only the last
    assert [at[tick * 5878] for tick in (204, 374, 510, 999)] == [50.0, 50.0, 25.0, 0.0]


def test_a_launch_is_before_what_a_trace_shows() -> None:
    costs = Protocol("p", launch_ns=4000)
    simulation = simulate_program(UNLIKE, relay(3), 1000, SimulationOptions(costs=costs))
    trace = simulation_trace(simulation)
    assert trace.about["time_s"] == pytest.approx(7028e-9, rel=1e-12)
    assert trace.counters[0].points[-1] == (3_028_000, 0.0)


def circle() -> Program:
    def both(peer: int) -> list[Operation]:
        return [
            Operation(OperationKind.RECEIVE_REDUCE, peer, 1, peer=peer),
            Operation(OperationKind.SEND, 1 - peer, 1, peer=peer, path=1 - peer, waits=(0,)),
        ]

    return program_from_operations(
        CollectiveKind.ALLREDUCE,
        [both(1), both(0)],
        n_chunks=2,
        shard_offset=[0, 1, 2],
        paths=[(0, 3), (2, 1)],
    )


@pytest.mark.parametrize("sharing", Sharing)
def test_what_never_starts_is_counted_over_all_slices(sharing: Sharing) -> None:
    """Two sends of two links each and two receives; fluids count likewise."""
    with pytest.raises(ScheduleError) as caught:
        simulate_program(star(2), circle(), 100, SimulationOptions(slices=3, sharing=sharing))
    told = str(caught.value)
    assert told.startswith(
        "simulation: deadlock: 18 of 18 messages and operations never start, the first is "
    )
    assert told.endswith("; expected dependences without cycles")
