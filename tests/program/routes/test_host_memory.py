"""All-to-alls whose data pass hosts: received and sent again there, in programs and in texts."""

from __future__ import annotations

import numpy as np
import pytest

from treadle import planning
from treadle.errors import InfeasibleError, ScheduleError
from treadle.planning import program_of
from treadle.program.program import Buffer, OperationKind, Program
from treadle.topologies.topology import Topology

LINE = 'with_host_bottleneck(path(3,bandwidth="2GB/s"),bandwidth="1GB/s")'
RAILS = "dgx_a100(2, gpus_per_box=2)"


def passed_hosts(topology: Topology, program: Program) -> int:
    """Compute nodes within the paths of sends."""
    found = 0
    for operation in np.flatnonzero(program.operation_kind == OperationKind.SEND).tolist():
        number = program.path[operation]
        links = program.path_links[program.path_offset[number] : program.path_offset[number + 1]]
        found += int(topology.is_compute[topology.heads[links[:-1]]].sum())
    return found


@pytest.mark.parametrize("options", [{}, {"max_flows": 1}])
@pytest.mark.parametrize("fabric", [LINE, RAILS])
def test_routes_through_hosts_are_programs_of_their_ranks(fabric: str, options: dict[str, int]) -> None:
    plan = planning.solve(fabric, "alltoall", algorithm="routes", **options).plan
    program = program_of(plan, 4096)
    assert passed_hosts(plan.topology, program) == 0
    assert np.any(program.source == Buffer.SCRATCH)
    for to in ("msccl-xml", "cpu-xml"):
        assert planning.lower(plan, to=to).faults == ()
    for to in ("routes-json", "routes-csv", "routes-xml"):
        with pytest.raises((ScheduleError, InfeasibleError), match="where no card forwards; write programs"):
            planning.lower(plan, to=to)
