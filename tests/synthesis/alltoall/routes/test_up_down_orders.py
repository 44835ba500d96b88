"""Up*/down* orders, and time limits of the parts of routing."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.link_orders import LayeredPaths, up_down_orders
from treadle.topologies import parse
from treadle.topologies.topology import Topology


def everyone(fabric: Topology) -> Collective:
    return on_all_ranks(fabric, CollectiveKind.ALLTOALL)


@pytest.mark.parametrize("expression", ["ring(5)", "torus(4, 4)", "jellyfish(24, 4)", "fat_tree(4)"])
@pytest.mark.parametrize("count", [1, 3])
def test_every_pair_has_a_way_that_climbs(expression: str, count: int) -> None:
    fabric = parse(expression)
    orders = up_down_orders(fabric, count)
    assert len(orders) == count
    for order in orders:
        found = LayeredPaths(fabric, everyone(fabric), order[None]).search(np.ones(fabric.n_links))
        assert np.isfinite(found.distance[:, found.ranks]).all()
