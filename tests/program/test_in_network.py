"""Schedules that let switches multicast and aggregate, lowered to programs that send from rank to rank."""

from __future__ import annotations

import numpy as np
import pytest

from reference.program_check import check_program
from samples.program_cases import reference_errors
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import emit_msccl_xml
from treadle.planning import run, solve
from treadle.program.in_network import in_network_sends
from treadle.program.program import OperationKind
from treadle.program.trees.forest_program import lower


@pytest.mark.parametrize(
    ("fabric", "collective", "multicast", "in_place"),
    [
        ("dgx_h100(2, nvls=True)", "allreduce", False, False),
        ("dgx_h100(1, nvls=True)", "allreduce", False, True),
        ("dgx_h100(2, 4, nvls=True, sharp=True)", "allgather", True, True),
        ("dgx_h100(2, 4, nvls=True, sharp=True)", "reduce-scatter", True, False),
    ],
)
def test_switch_trees_become_point_to_point_programs(
    fabric: str, collective: str, multicast: bool, in_place: bool
) -> None:
    plan = solve(fabric, collective, multicast=multicast).plan
    schedule = plan.entries[-1].schedule
    topology = plan.topology
    program = lower(topology, plan.collective, schedule, in_place=in_place)
    assert check_program(program) == ()
    assert reference_errors(program) == []
    found = in_network_sends(topology, program)
    assert found.size
    sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
    capable = {
        direction: {node for node in topology.switches.tolist() if getattr(topology, direction)[node]}
        for direction in ("multicast", "aggregation")
    }
    for number in sends.tolist():
        links = program.links(int(program.path[number]))
        own = int(program.nodes[program.operation_rank[number]])
        peer = int(program.nodes[program.peer[number]])
        tail, head = int(topology.tails[links[0]]), int(topology.heads[links[-1]])
        assert (number in found) == ((tail, head) != (own, peer))
        assert tail == own or tail in capable["multicast"]
        assert head == peer or head in capable["aggregation"]
    assert run(plan, [1 << 16, 4 * 12345], in_place=in_place, iterations=1).wrong == 0
    text = emit_msccl_xml(program)
    assert interpret_msccl_xml(text, fifo_depth=0).violations == ()
    assert text.count('type="s"') >= sends.size


def test_no_send_is_in_network_without_capable_switches() -> None:
    plan = solve("dgx_h100(2)", "allgather").plan
    program = lower(plan.topology, plan.collective, plan.entries[-1].schedule)
    assert in_network_sends(plan.topology, program).size == 0
