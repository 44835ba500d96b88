"""Routes as programs and as MSCCL XML."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.program_check import check_program
from samples import route_samples as samples
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.program.any_schedule import lower
from treadle.program.program import OperationKind, Program
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.route_rounds import timed_routes
from treadle.topologies import parse
from treadle.topologies.topology import Topology

FABRICS = ["hypercube:3", "torus:3,3", "generalized_kautz:2,5", "dgx_a100:1", "uni_ring:2,4"]


def case(
    name: str, flows: int | None, demands: Demands | None = None
) -> tuple[Topology, Collective, RouteSchedule | TimedRoutes]:
    topology = parse(name)
    collective = samples.alltoall(topology, demands)
    routes = samples.over_shortest_paths(topology, collective)
    return topology, collective, routes if flows is None else timed_routes(topology, routes, max_flows=flows)


def sends_of(program: Program) -> list[int]:
    return np.flatnonzero(program.operation_kind == OperationKind.SEND).tolist()


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("flows", [None, 1, 2])
def test_programs_keep_the_rules_and_follow_the_routes(name: str, flows: int | None) -> None:
    n = len(parse(name).compute_nodes)
    for demands in (None, samples.random_demands(n, seed=n)):
        topology, collective, schedule = case(name, flows, demands)
        routes = schedule.routes if isinstance(schedule, TimedRoutes) else schedule
        for channels, merge in ((1, True), (2, False)):
            program = lower(topology, collective, schedule, channels=channels, merge=merge)
            assert check_program(program) == ()
            carried = np.zeros(routes.n_paths, dtype=int)
            for send in sends_of(program):
                path, rank, peer = (
                    int(column[send]) for column in (program.path, program.operation_rank, program.peer)
                )
                links = program.links(path)
                assert topology.tails[links[0]] == collective.ranks[rank]
                assert topology.heads[links[-1]] == collective.ranks[peer]
                assert program.channel[send] // channels == routes.layer[path]
                carried[path] += program.count[send]
            scale = program.n_chunks / (collective.pair_demands.buffer_units * routes.n_chunks)
            assert carried.tolist() == (routes.units * scale).tolist()
            assert not any(program.uses_scratch(rank) for rank in range(n))


@pytest.mark.parametrize("name", ["torus:3,3", "generalized_kautz:3,10"])
@pytest.mark.parametrize("flows", [1, 2])
def test_few_flows_of_a_host_are_open_at_a_time(name: str, flows: int) -> None:
    """Whatever a rank sends or receives in a round, it has completed all of the rounds before."""
    topology, collective, schedule = case(name, flows)
    program = lower(topology, collective, schedule)
    for rank in range(program.n_ranks):
        done: dict[int, set[int]] = {}
        moves = [i for i in program.operations(rank) if program.operation_kind[i] != OperationKind.COPY]
        for i in moves:
            waits = set(program.waits_of(i).tolist())
            done[i] = waits.union(*(done[other] for other in waits))
            earlier = {other for other in moves if program.step[other] < program.step[i]}
            assert done[i] == earlier
        for kind in (OperationKind.SEND, OperationKind.RECEIVE):
            steps = [int(program.step[i]) for i in moves if program.operation_kind[i] == kind]
            assert max(np.bincount(steps)) <= flows


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("flows", [None, 2])
def test_text_does_what_an_alltoall_asks(name: str, flows: int | None) -> None:
    program = lower(*case(name, flows))
    text = emit_msccl_xml(program)
    assert 'coll="alltoall"' in text
    seen = interpret_msccl_xml(text, fifo_depth=2)
    assert seen.violations == ()


def test_what_programs_cannot_do_is_refused() -> None:
    topology, collective, routes = case("hypercube:3", None)
    assert isinstance(routes, RouteSchedule)
    with pytest.raises(InfeasibleError, match="cannot be one memory"):
        lower(topology, collective, routes, in_place=True)
    with pytest.raises(ScheduleError, match="channels: expected at least 1"):
        lower(topology, collective, routes, channels=0)
    with pytest.raises(ScheduleError, match="the collective is allgather"):
        lower(topology, on_all_ranks(topology, CollectiveKind.ALLGATHER), routes)
    with pytest.raises(ScheduleError, match="expected 4; treadle verify"):
        lower(
            topology,
            collective,
            replace(routes, units=np.where(np.arange(routes.n_paths) == 3, 9, routes.units)),
        )
    with pytest.raises(ScheduleError, match="link 24, expected links from 0 to 23"):
        lower(topology, collective, replace(routes, path_links=routes.path_links.clip(24)))
    with pytest.raises(ScheduleError, match="does not join its ranks"):
        lower(topology, collective, replace(routes, path_links=np.roll(routes.path_links, 1)))
    with pytest.raises(ScheduleError, match="not sent exactly once"):
        lower(topology, collective, TimedRoutes(routes, np.array([0, 1]), np.array([0])))
    fine = replace(routes, n_chunks=2**24 // 4 * 4, units=routes.units * (2**24 // 4))
    assert lower(topology, collective, fine).n_chunks <= 8 * 4  # equal weights need few chunks
    odd = fine.units.copy()
    pair = np.flatnonzero(np.diff(fine.pair) == 0)[0]
    odd[pair : pair + 2] += [1, -1]
    with pytest.raises(InfeasibleError, match=r"need 1073741824 equal chunks.*--chunks"):
        lower(topology, collective, replace(fine, units=odd))
