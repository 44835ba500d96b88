"""SimGrid's SMPI as the referee: the same messages under another simulator, with real data."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from benchmarks import simgrid_referee

from samples.simulation_samples import RATE, messages, one_to_two, star
from shortcuts.simulated import simulate_program
from treadle import planning
from treadle.errors import InfeasibleError, MissingDependencyError, ScheduleError
from treadle.program.program import Operation, OperationKind, Program, program_from_operations
from treadle.program.program_format import format_program
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration.cross_check import CrossCheck, require_cross_check
from treadle.simulation.simgrid import find_simgrid, platform_xml, simulate_with_simgrid
from treadle.simulation.simulation_options import Sharing, SimulationOptions
from treadle.topologies.topology import Topology, TopologyBuilder

needs_simgrid = pytest.mark.skipif(
    not (shutil.which("smpicc") and shutil.which("smpirun")), reason="needs SimGrid's smpicc and smpirun"
)


CASES = simgrid_referee.CASES


@needs_simgrid
@pytest.mark.parametrize(
    "number",
    {case.fabric: number for number, case in enumerate(CASES)}.values(),  # the last one on each fabric
    ids=lambda n: f"{CASES[n].fabric} {CASES[n].collective}",
)
def test_both_simulators_agree(number: int) -> None:
    """Within 0.2% (1% is the aim): elements are 4 bytes, and MPI's own few bytes pass the same links."""
    alpha_ns = (0, 10_000)[number % 2]
    found = simgrid_referee.compare(CASES[number], alpha_ns)
    assert found.wrong == 0
    assert abs(found.difference) < 0.002


def test_there_are_enough_cases() -> None:
    """At least twelve; every kind of schedule and collective that has a path for each pair of ranks."""
    assert len(CASES) >= 12
    assert {case.collective for case in CASES} == {"allgather", "reduce-scatter", "allreduce", "alltoall"}


def ring_program() -> tuple[Topology, Program]:
    plan = planning.solve('ring(4, bandwidth="1GB/s")', "allgather").plan
    return plan.topology, planning.program_of(plan, 2**16)


@needs_simgrid
def test_several_sizes_are_simulated_one_after_another() -> None:
    topology, program = ring_program()
    rows = simulate_with_simgrid(topology, program, [2**12, 0, 2**14])
    assert [(row.size_bytes, row.wrong) for row in rows] == [(2**12, 0), (0, 0), (2**14, 0)]
    assert rows[2].time_s == pytest.approx(4 * rows[0].time_s, rel=0.1)


@needs_simgrid
def test_host_caps_count() -> None:
    topology, program = ring_program()
    capped = dataclasses.replace(topology, injection_bytes_per_s=[10**9] * 4)
    (free,) = simulate_with_simgrid(topology, program, [2**20])
    (slow,) = simulate_with_simgrid(capped, program, [2**20])
    ours = simulate_program(capped, program, 2**20, SimulationOptions(sharing=Sharing.FAIR))
    assert slow.time_s > 1.5 * free.time_s
    assert slow.time_s == pytest.approx(ours.time_s, rel=0.002)


def mutants() -> dict[str, str]:
    """Texts of the ring's program with a fault that leaves some rank waiting."""
    _, program = ring_program()
    lines = format_program(program).splitlines()
    receive = int(OperationKind.RECEIVE)
    headed = [i for i, line in enumerate(lines) if line.startswith("operations ")]
    body = range(headed[0] + 1, headed[0] + 1 + int(lines[headed[0]].split()[1]))
    fields = {i: lines[i].split() for i in body}
    first_receive = next(i for i in body if int(fields[i][0]) == receive)
    unsent = dict(enumerate(lines))
    # a receive of a message number that nobody sends
    unsent[first_receive] = " ".join([*fields[first_receive][:2], "77", *fields[first_receive][3:]])
    return {"a message that nobody sends": "\n".join(unsent.values()) + "\n"}


@needs_simgrid
@pytest.mark.parametrize("name", mutants())
def test_simgrid_finds_deadlocks(name: str) -> None:
    topology, program = ring_program()
    with pytest.raises(ScheduleError, match="SimGrid: deadlock"):
        simulate_with_simgrid(topology, program, [2**16], text=mutants()[name], limit_s=30)


@needs_simgrid
def test_simgrid_finds_waits_in_a_circle() -> None:
    """Two ranks, each of which sends once it has received: our simulator and SimGrid both say deadlock."""

    def both(own: int, peer: int) -> list[Operation]:
        return [
            Operation(OperationKind.RECEIVE, peer, 1, peer=peer),
            Operation(OperationKind.SEND, own, 1, peer=peer, path=own, waits=(0,)),
        ]

    program = program_from_operations(
        CollectiveKind.ALLGATHER,
        [both(0, 1), both(1, 0)],
        n_chunks=2,
        shard_offset=[0, 1, 2],
        paths=[(0, 3), (2, 1)],
    )
    with pytest.raises(ScheduleError, match="simulation: deadlock"):
        simulate_program(star(2), program, 2**10)
    with pytest.raises(ScheduleError, match="SimGrid: deadlock"):
        simulate_with_simgrid(star(2), program, [2**10], limit_s=30)


@needs_simgrid
def test_a_missing_dependence_shows_in_the_data() -> None:
    """Ranks pass their buffers on before anything has come: the times say nothing of it, the elements do."""
    topology, program = ring_program()
    (right,) = simulate_with_simgrid(topology, program, [2**12])
    assert right.wrong == 0
    hasty = dataclasses.replace(
        program,
        waits=np.zeros(0, dtype=np.int64),
        wait_offset=np.zeros(program.n_operations + 1, dtype=np.int64),
    )
    (found,) = simulate_with_simgrid(topology, hasty, [2**12])
    assert found.wrong > 2**9


@needs_simgrid
def test_a_program_that_the_interpreter_refuses_is_reported() -> None:
    topology, program = ring_program()
    with pytest.raises(ScheduleError, match="SimGrid: treadle: interpreter: "):
        simulate_with_simgrid(topology, program, [2**16], text="nonsense\n", limit_s=30)


def test_a_platform_has_a_route_for_every_pair() -> None:
    topology, program = ring_program()
    root = ElementTree.fromstring(platform_xml(topology, program, alpha_ns=500).split("\n", 2)[2])
    routes = {
        (route.get("src"), route.get("dst")): [link.get("id") for link in route]
        for route in root.iter("route")
    }
    assert len(routes) == 16
    assert all(route.get("symmetrical") == "NO" for route in root.iter("route"))
    used = {pair for pair, links in routes.items() if links[0] == "alpha"}
    assert len(used) == 8
    assert routes["rank0", "rank2"] == ["control"]
    latencies = {link.get("id"): link.get("latency") for link in root.iter("link")}
    assert (latencies["alpha"], latencies["link0"]) == ("500ns", "0ns")


def doubled() -> Topology:
    """Two ranks and two switches between them: links 0 and 3, or 4 and 5, lead from one to the other."""
    builder = TopologyBuilder("doubled")
    names = [builder.compute("a"), builder.compute("b"), builder.switch("sw0"), builder.switch("sw1")]
    builder.duplex(names[0], names[2], RATE)
    builder.link(names[1], names[2], RATE)
    builder.link(names[2], names[1], RATE)
    builder.link(names[0], names[3], RATE)
    builder.link(names[3], names[1], RATE)
    return builder.build()


def test_what_simgrid_has_no_words_for_is_refused() -> None:
    with pytest.raises(InfeasibleError, match="in-network"):
        platform_xml(star(3, capable=True), one_to_two())
    two_ways = messages(2, [(0, 1, 1, 0), (0, 1, 1, 1)], [(0, 3), (4, 5)], 2)
    with pytest.raises(InfeasibleError, match="different paths"):
        platform_xml(doubled(), two_ways)


def test_without_simgrid_the_message_names_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match="libsimgrid-dev"):
        find_simgrid()
    with pytest.raises(MissingDependencyError, match="libsimgrid-dev"):
        require_cross_check(CrossCheck.SIMGRID, 2, [1024])
