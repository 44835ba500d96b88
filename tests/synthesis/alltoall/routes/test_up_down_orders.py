"""Up*/down* orders, and time limits of the parts of routing."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths
from treadle.synthesis.alltoall.routes.link_orders import LayeredPaths, up_down_orders
from treadle.synthesis.alltoall.routes.path_sets import check_paths
from treadle.synthesis.alltoall.routes.route_columns import single_paths
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


def test_loads_far_apart_stay_finite_when_paths_are_chosen() -> None:
    """A link of a 10^12th of the bandwidth of others; an overflow would be a warning, which is an error."""
    fabric = parse("ring(3)")
    paths = bounded_paths(fabric, everyone(fabric), slack=1)
    pair = check_paths(everyone(fabric), paths)
    bandwidth = np.ones(fabric.n_links)
    bandwidth[0] = 1e-15
    chosen = single_paths(paths, pair, np.ones(pair.max() + 1), bandwidth)
    assert not np.isin(0, paths.take(chosen).links)
