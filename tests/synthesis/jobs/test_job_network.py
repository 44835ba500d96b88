"""What a job may use of a fabric: cheapest trees and paths at uneven prices, and parts of roots."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from treadle.errors import InfeasibleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.jobs import Job
from treadle.synthesis.jobs.job_network import JobNetwork
from treadle.topologies.topology import TopologyBuilder


@pytest.mark.parametrize(
    "kind", [CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.ALLTOALL]
)
def test_a_rank_out_of_reach_is_told_with_the_job(kind: CollectiveKind) -> None:
    builder = TopologyBuilder("one way")
    for name in "abc":
        builder.compute(name)
    for tail, head in ("ab", "ba", "cb", "ca"):
        builder.link(tail, head, 10**9)
    one = JobNetwork(builder.build(), 0, Job("odd job", Collective(kind, (0, 1, 2)), Fraction(1)))
    message = (
        "job 'odd job': some of its ranks cannot reach others by links of its own; let the other compute "
        "nodes forward (forward = true)"
    )
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        list(one.cheapest(np.ones(4)))
