"""All-to-all steps as programs and as MSCCL XML."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reference.program_check import check_program
from samples import exchange_samples as samples
from treadle.errors import InfeasibleError, ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.program.any_schedule import lower
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.schedules.steps.steps import steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import TopologyBuilder

FABRICS = ["hypercube:3", "torus:3,3", "generalized_kautz:2,5", "uni_ring:2,4", "complete:4"]


@pytest.mark.parametrize("name", FABRICS)
@pytest.mark.parametrize("channels", [1, 2])
def test_programs_keep_the_rules(name: str, channels: int) -> None:
    topology = parse(name)
    n = len(topology.compute_nodes)
    for demands in (None, samples.random_demands(n, seed=n)):
        collective = samples.alltoall(topology, demands)
        for rounds, merge in ((None, True), (3, False)):
            schedule = samples.over_shortest_paths(topology, collective, rounds=rounds)
            program = lower(topology, collective, schedule, channels=channels, merge=merge)
            assert check_program(program) == ()
            units = collective.pair_demands.matrix
            assert program.n_addresses * units.sum(axis=1).max() >= program.n_chunks * units.sum() // n
            assert len(program.shard_offset) == n * n + 1


@pytest.mark.parametrize("name", FABRICS)
def test_text_does_what_an_alltoall_asks(name: str) -> None:
    topology = parse(name)
    collective = samples.alltoall(topology)
    for rounds in (None, 3):
        program = lower(
            topology, collective, samples.over_shortest_paths(topology, collective, rounds=rounds)
        )
        text = emit_msccl_xml(program)
        assert 'coll="alltoall"' in text
        seen = interpret_msccl_xml(text, fifo_depth=8)
        assert seen.violations == ()
        assert seen.n_chunks == program.n_chunks


def test_what_programs_cannot_do_is_refused() -> None:
    cube = parse("hypercube:3")
    collective = samples.alltoall(cube)
    schedule = samples.over_shortest_paths(cube, collective)
    with pytest.raises(InfeasibleError, match="cannot be one memory"):
        lower(cube, collective, schedule, in_place=True)
    with pytest.raises(ScheduleError, match="channels: expected at least 1"):
        lower(cube, collective, schedule, channels=0)
    with pytest.raises(ScheduleError, match="the collective is allgather"):
        lower(cube, on_all_ranks(cube, CollectiveKind.ALLGATHER), schedule)
    with pytest.raises(ScheduleError, match="one shard for each pair"):
        lower(cube, samples.alltoall(cube, samples.random_demands(8, 1)), schedule)
    sends = samples.sends_of(schedule)
    for wrong, said in (
        (sends[1:], "never leaves its source|before it has arrived"),
        (sends[:-1], "does not reach its target"),
        ([(*send[:2], send[2] or 9, *send[3:]) for send in sends], "before it has arrived"),
        ([*sends[1:], (sends[0][0], 24, *sends[0][2:])], "expected links from 0 to 23"),
    ):
        with pytest.raises(ScheduleError, match=said):
            lower(cube, collective, samples.with_sends(schedule, wrong))


def test_circles_switches_and_too_many_chunks_cannot_be_lowered() -> None:
    ring = from_arcs("ring", [0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1], n=3)
    demands = Demands([[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    home = steps_from_sends(
        Direction.BROADCAST, 3, 1, [(0, 0, 0, 0, 1), (0, 4, 1, 0, 1), (0, 3, 2, 0, 1)], homes=[0]
    )
    with pytest.raises(InfeasibleError, match="arrives at a rank twice"):
        lower(ring, samples.alltoall(ring, demands), ExchangeSchedule(home, np.array([2])))
    line = from_arcs("line", [0, 2, 2, 1], [2, 1, 0, 2], n=3)
    forwarded = samples.alltoall(line, n_ranks=2)
    schedule = samples.over_shortest_paths(line, forwarded)
    assert samples.is_correct(line, forwarded, schedule)
    assert check_program(lower(line, forwarded, schedule)) == ()
    builder = TopologyBuilder("switched")
    for name in ("n0", "n1"):
        builder.compute(name)
    builder.switch("n2")
    for tail, head in (("n0", "n2"), ("n2", "n1"), ("n1", "n2"), ("n2", "n0")):
        builder.link(tail, head, 1)
    switched = builder.build()
    with pytest.raises(InfeasibleError, match="'n2' is not a rank and has no program"):
        lower(switched, samples.alltoall(switched), schedule)
    many = replace(schedule.sends, n_chunks=2**24 - 1, high=np.full(4, 2**24 - 1), low=np.array([0, 0, 1, 1]))
    uneven = Demands([[2**20, 1], [1, 0]])
    with pytest.raises(InfeasibleError, match="use a schedule with fewer chunks"):
        lower(line, replace(forwarded, demands=uneven), ExchangeSchedule(many, schedule.targets))
