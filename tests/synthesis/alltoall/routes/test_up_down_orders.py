"""Up*/down* orders, and time limits of the parts of routing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest

from treadle.context import Context, TimeLimitError, under
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths, disjoint_paths
from treadle.synthesis.alltoall.routes.link_orders import LayeredPaths, up_down_orders
from treadle.synthesis.alltoall.routes.path_sets import check_paths
from treadle.synthesis.alltoall.routes.restricted_master import PathRestrictedMaster
from treadle.synthesis.alltoall.routes.route_columns import generate_routes, single_paths
from treadle.synthesis.alltoall.routes.virtual_channels import lash_layers
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


def test_orders_go_up_to_the_root_and_then_down() -> None:
    fabric = parse("mesh(3, 3)")
    (order,) = up_down_orders(fabric, 1)
    assert sorted(order.tolist()) == list(range(fabric.n_links))
    root = int(fabric.tails[order[fabric.n_links // 2]])  # the first way down
    depth = [abs(node // 3 - root // 3) + abs(node % 3 - root % 3) for node in range(9)]
    up, down = order[: fabric.n_links // 2], order[fabric.n_links // 2 :]
    assert all(depth[fabric.heads[link]] < depth[fabric.tails[link]] for link in up)
    assert all(depth[fabric.tails[a]] <= depth[fabric.tails[b]] for a, b in pairwise(down.tolist()))


def test_one_way_links_may_have_no_such_ways() -> None:
    fabric = parse("generalized_kautz(4, 27)")
    found = LayeredPaths(fabric, everyone(fabric), up_down_orders(fabric, 1)).search(np.ones(fabric.n_links))
    assert not np.isfinite(found.distance).all()


def _lash(fabric: Topology) -> object:
    return lash_layers(disjoint_paths(fabric, everyone(fabric)), fabric.n_links)


def _single(fabric: Topology) -> object:
    paths = disjoint_paths(fabric, everyone(fabric))
    pair = check_paths(everyone(fabric), paths)
    return single_paths(paths, pair, np.ones(pair.max() + 1), np.ones(fabric.n_links))


def _master(fabric: Topology) -> object:
    paths = disjoint_paths(fabric, everyone(fabric))
    master = PathRestrictedMaster(fabric, everyone(fabric))
    master.add(paths, check_paths(everyone(fabric), paths))
    return master.solve()


def _routes(fabric: Topology) -> object:
    return generate_routes(fabric, everyone(fabric))


@pytest.mark.parametrize("work", [_lash, _single, _master, _routes])
def test_deadlines_stop_the_parts_of_routing(work: Callable[[Topology, Context], object]) -> None:
    fabric = parse("jellyfish(12, 4)")
    assert work(fabric) is not None
    with pytest.raises(TimeLimitError), under(Context(deadline=0.0)):
        work(fabric)


def test_loads_far_apart_stay_finite_when_paths_are_chosen() -> None:
    """A link of a 10^12th of the bandwidth of others; an overflow would be a warning, which is an error."""
    fabric = parse("ring(3)")
    paths = bounded_paths(fabric, everyone(fabric), slack=1)
    pair = check_paths(everyone(fabric), paths)
    bandwidth = np.ones(fabric.n_links)
    bandwidth[0] = 1e-15
    chosen = single_paths(paths, pair, np.ones(pair.max() + 1), bandwidth)
    assert not np.isin(0, paths.take(chosen).links)
