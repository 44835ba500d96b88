"""The optimum of groups at once: values by hand, against the whole program, and what its shares are."""

from __future__ import annotations

import pytest

from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.trees.groups.group_optimum import group_optimum
from treadle.synthesis.trees.optimality import optimum
from treadle.topologies import parse

KINDS = CollectiveKind


@pytest.mark.parametrize("kind", [KINDS.ALLGATHER, KINDS.REDUCE_SCATTER, KINDS.BROADCAST])
def test_one_group_is_the_optimum_of_a_whole_fabric(kind: CollectiveKind) -> None:
    for fabric in ("dgx_a100(4)", "generalized_kautz(3,20)", "torus(3,4)"):
        topology = parse(fabric)
        collective = on_all_ranks(topology, kind, root=2 if kind.is_rooted else None)
        found = group_optimum(topology, collective)
        assert found.lower == found.upper == optimum(topology, collective).algbw
