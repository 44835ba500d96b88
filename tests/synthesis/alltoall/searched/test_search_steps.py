"""What searches are told to do, and what is done with what they find: by hand on a few links."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from treadle.arrays import Int32Array, Int64Array
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes import order_search
from treadle.synthesis.alltoall.routes.link_orders import LayeredPaths
from treadle.synthesis.alltoall.routes.order_search import OrderSearch
from treadle.synthesis.alltoall.searched import path_search
from treadle.synthesis.alltoall.searched.hop_arrays import busiest, looked_up
from treadle.synthesis.alltoall.searched.layer_search import (
    LayeredSubflows,
    _bent,
    _in_lanes,
    _in_line,
    _kept,
    _places,
    first_fit,
)
from treadle.synthesis.alltoall.searched.path_search import search_paths
from treadle.synthesis.alltoall.searched.subflows import Subflows, cut_demands
from treadle.synthesis.core_values.column_values import ColumnPaths
from treadle.topologies import parse
from treadle.topologies.topology import Topology, TopologyBuilder


def int32(*values: int) -> Int32Array:
    return np.array(values, dtype=np.int32)


def int64(*values: int) -> Int64Array:
    return np.array(values, dtype=np.int64)


def uneven_ring() -> Topology:
    """Links 0, 1, 2 round three nodes of 4, 2 and 1 B/s, and 3 from b back to a of 4."""
    builder = TopologyBuilder("ring")
    for name in "abc":
        builder.compute(name)
    for ends, width in (("ab", 4), ("bc", 2), ("ca", 1), ("ba", 4)):
        builder.link(ends[0], ends[1], width)
    return builder.build()


def pieces() -> Subflows:
    """One piece of each pair: from a 1 to b and 2 to c, from b 3 to c, from c 4 to a."""
    demands = Demands(np.array([[0, 1, 2], [0, 0, 3], [4, 0, 0]]))
    collective = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=demands)
    return cut_demands(uneven_ring(), collective, max_routes=1)


def test_the_busiest_link_relative_to_its_width() -> None:
    """Paths 0, 0 1, 1 and 2: loads of 3, 5 and 4 over widths of 1, a half and a quarter."""
    assert busiest(pieces(), int64(0, 1, 3, 4, 5), int32(0, 0, 1, 1, 2)) == 16
    assert busiest(pieces(), int64(0, 1, 3, 4, 4), int32(0, 0, 1, 1)) == 10
    assert looked_up(np.arange(6, dtype=np.int32).reshape(2, 3), int32(1, 0, 1), int32(2, 1, 0)).tolist() == [
        5,
        1,
        3,
    ]


def test_blocks_of_many_hops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.synthesis.alltoall.searched.hop_arrays._BLOCK", 2)
    assert busiest(pieces(), int64(0, 1, 3, 4, 5), int32(0, 0, 1, 1, 2)) == 16
    table = np.arange(10, dtype=np.int32).reshape(2, 5)
    assert looked_up(table, int32(1, 0, 1, 1, 0), int32(0, 1, 2, 3, 4)).tolist() == [5, 1, 7, 8, 4]


@pytest.mark.parametrize(
    ("amounts", "many", "sweeps", "expected"),
    [
        ([1, 1, 1, 1], 5, None, 60),
        ([1, 1, 1, 2], 5, None, 240),
        ([1, 1, 1, 2], 4, None, 30),
        ([1, 1, 1, 1], 4, None, 30),
        ([1, 1, 1, 1], 4, 0, 0),
        ([1, 1, 1, 1], 4, 7, 7),
    ],
)
def test_sweeps_over_the_sources(
    amounts: list[int], many: int, sweeps: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Any] = []
    outcome = [0]
    found = (int32(0), int64(0, 1), int32(2))

    def search(*arguments: object) -> tuple[int, object]:
        given.extend(arguments)
        return outcome[0], found

    core = SimpleNamespace(search_lane_paths=search, release_memory=lambda: None)
    monkeypatch.setattr(path_search, "core", core)
    monkeypatch.setattr(path_search, "_MANY", many)
    monkeypatch.setattr(path_search, "run_until", lambda _, work: work(None))
    own = pieces()
    own = Subflows(
        own.n_chunks, own.source, own.target, own.table._replace(amount=int64(*amounts)), own.distance, 9
    )
    for status, is_whole in ((0, True), (2, True), (3, False)):
        given.clear()
        outcome[0] = status
        paths, whole = search_paths(own, sweeps=sweeps, seed=5)
        assert whole == is_whole
        assert (paths.lane.tolist(), paths.offset.tolist(), paths.place.tolist()) == ([0], [0, 1], [2])
        table, lanes, start, pace, _ = given
        assert table is own.table
        assert lanes.shape == (0, 0)
        assert (start.lane.size, start.offset.size, start.place.size) == (0, 0, 0)
        assert tuple(pace) == (9, expected, 15.0, 1500.0, 0.3, 5)
    given.clear()
    begin = ColumnPaths(int32(0), int64(0, 1), int32(1))
    search_paths(own, lanes=np.ones((1, 3), dtype=np.int32), start=begin)
    assert given[1].shape == (1, 3)
    assert given[2] is begin


def test_found_paths_are_short_and_spread() -> None:
    found, is_whole = search_paths(pieces())
    assert is_whole
    links = [found.place[found.offset[i] : found.offset[i + 1]].tolist() for i in range(4)]
    assert links == [[0], [0, 1], [1], [2]]
    # 0 sweeps give each piece without a path one, and leave the others
    start = ColumnPaths(int32(0, 0, 0, 0), int64(0, 1, 3, 3, 4), int32(0, 0, 1, 2))
    found, is_whole = search_paths(
        pieces(), lanes=np.array([[0, 1, 2, 3]], dtype=np.int32), start=start, sweeps=0
    )
    assert is_whole
    assert found.place.tolist() == [0, 0, 1, 1, 2]
    found, is_whole = search_paths(pieces(), lanes=np.array([[1, 0, 2, 3]], dtype=np.int32), sweeps=0)
    assert not is_whole  # no lane leads from a by b to c
    assert np.diff(found.offset).tolist() == [1, 0, 1, 1]


def test_links_are_put_in_line_behind_each_other() -> None:
    assert _in_line([0, 1, 2, 3, 4], [3, 1, 4]).tolist() == [0, 2, 3, 1, 4]
    assert _in_line([0, 1, 2, 3, 4], [4, 3, 0]).tolist() == [1, 2, 4, 3, 0]
    assert _in_line([2, 1, 0], [2, 0]).tolist() == [2, 1, 0]
    assert _places(np.array([[2, 0, 1], [0, 2, 1]], dtype=np.int32)).tolist() == [[1, 2, 0], [0, 2, 1]]


def test_paths_of_no_layer_are_lost() -> None:
    paths = ColumnPaths(int32(0, 0, 0), int64(0, 2, 3, 5), int32(4, 5, 6, 7, 8))
    order = np.arange(9, dtype=np.int32)[None]
    found = _kept(paths, int32(0, 0, -1, 1, 1), order)
    assert found.offset.tolist() == [0, 2, 2, 4]
    assert (found.links.tolist(), found.layer.tolist()) == ([4, 5, 7, 8], [0, 0, 1, 1])
    assert found.lost.tolist() == [1]
    assert found.order is order


def layered() -> LayeredSubflows:
    """Pieces on links 0, 0 1 and 1 in the layer of order 2 0 1 3, the last, on 2, in that of 0 1 3 2."""
    orders = np.array([[2, 0, 1, 3], [0, 1, 3, 2]], dtype=np.int32)
    return LayeredSubflows(int64(0, 1, 3, 4, 5), int32(0, 0, 1, 1, 2), int32(0, 0, 0, 0, 1), orders, int64())


def test_places_in_lanes() -> None:
    found = _in_lanes(pieces(), layered(), may_rise=False)
    assert (found.lane.tolist(), found.place.tolist()) == ([0, 0, 0, 1], [1, 1, 2, 2, 3])
    # where layers may rise all are one lane, one behind the other
    found = _in_lanes(pieces(), layered(), may_rise=True)
    assert (found.lane.tolist(), found.place.tolist()) == ([0, 0, 0, 0], [1, 1, 2, 2, 7])


def test_orders_are_bent_for_lost_pieces() -> None:
    """Path 1 0 of a lost piece climbs after 1 is put before 0, where it then breaks path 0 1."""
    filled = LayeredSubflows(
        int64(0, 1, 3, 3, 4), int32(0, 0, 1, 2), int32(0, 0, 0, 1), layered().order, int64(2)
    )
    free = ColumnPaths(int32(0, 0, 0, 0), int64(0, 1, 3, 5, 6), int32(0, 0, 1, 1, 0, 2))
    bent = _bent(pieces(), free, filled)
    assert bent.order.tolist() == [[2, 1, 0, 3], [0, 1, 3, 2]]
    assert bent.lost.tolist() == [1, 2]
    assert bent.offset.tolist() == [0, 1, 1, 1, 2]
    assert (bent.links.tolist(), bent.layer.tolist()) == ([0, 2], [0, 1])
    # the layer in which it falls back least often is bent: path 3 2 does so only in the first
    free = ColumnPaths(int32(0, 0, 0, 0), int64(0, 1, 3, 5, 6), int32(0, 0, 1, 3, 2, 2))
    bent = _bent(pieces(), free, filled)
    assert bent.order.tolist() == [[2, 0, 1, 3], [0, 1, 3, 2]]
    assert bent.lost.tolist() == [2]
    assert filled.order.tolist() == [[2, 0, 1, 3], [0, 1, 3, 2]]


def test_first_fit_takes_long_paths_first_or_short_ones() -> None:
    """Paths 0 1, 1 2 0 and 2 0 wait in a circle; of the first two only one fits into a layer."""
    free = ColumnPaths(int32(0, 0, 0, 0), int64(0, 1, 3, 6, 8), int32(0, 0, 1, 1, 2, 0, 2, 0))
    long = first_fit(pieces(), free, max_layers=1)
    assert long.lost.tolist() == [1]
    assert long.links.tolist() == [0, 1, 2, 0, 2, 0]
    short = first_fit(pieces(), free, max_layers=1, short_first=True)
    assert short.lost.tolist() == [2]
    whole = first_fit(pieces(), free)
    assert (whole.lost.size, whole.order.shape) == (0, (2, 4))
    assert whole.layer.tolist() == [0, 1, 1, 0, 0, 0, 0, 0]
    more = first_fit(pieces(), free, max_layers=3)
    assert more.order.shape == (3, 4)
    assert more.order[2].tolist() == [0, 1, 2, 3]


def made(monkeypatch: pytest.MonkeyPatch, costs: list[float]) -> tuple[OrderSearch, list[dict[str, Any]]]:
    """A search whose rounds cost what is given, and what each was told."""
    ring = uneven_ring()
    told: list[dict[str, Any]] = []

    def annealed(self: LayeredPaths, views: np.ndarray, **values: Any) -> tuple[Int32Array, float]:
        told.append({"views": views, **values})
        return self.orders[:, ::-1], costs[len(told) - 1]

    monkeypatch.setattr(LayeredPaths, "annealed", annealed)
    orders = np.array([[0, 1, 2, 3]])
    lengths = np.array([0.0, 0.25, 0.5, 0.0])
    return OrderSearch(ring, on_all_ranks(ring, CollectiveKind.ALLTOALL), orders, lengths, 7), told


def test_rounds_cool_down_and_end_where_there_are_no_detours(monkeypatch: pytest.MonkeyPatch) -> None:
    search, told = made(monkeypatch, [1.5] * 4)
    search.run(4)
    assert [one["steps"] for one in told] == [12 * 4] * 4
    heats = np.geomspace(1e-4, 1e-5, 5)
    assert [one["hot"] for one in told] == pytest.approx(heats[:-1].tolist())
    assert [one["cold"] for one in told] == pytest.approx(heats[1:].tolist())
    assert len({one["seed"] for one in told}) == 4
    assert search.orders.tolist() == [[0, 1, 2, 3]]  # turned round four times
    search, told = made(monkeypatch, [1.5])
    search.run(1, heat=3.0, effort=5)
    assert (told[0]["steps"], told[0]["hot"], told[0]["cold"]) == (
        5 * 48,
        pytest.approx(3e-4),
        pytest.approx(1e-5),
    )
    search, told = made(monkeypatch, [1.5])
    search.run(1, heat=0.01)
    assert told[0]["hot"] == pytest.approx(1e-5)
    # six rounds at least
    search, told = made(monkeypatch, [1.0] * 9)
    search.run(9)
    assert len(told) == 6
    search, told = made(monkeypatch, [1.0] * 6 + [1 + 0.9e-5, 2.0])
    search.run(8)
    assert len(told) == 6
    search, told = made(monkeypatch, [1.0] * 5 + [1 + 1.1e-5, 1 + 0.9e-5, 2.0])
    search.run(8)
    assert len(told) == 7


def test_views_of_lengths_are_scaled_about_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bandwidths in units of their mean times lengths add up to the number of links, of each view."""
    search, _ = made(monkeypatch, [])
    width = np.array([4, 2, 1, 4]) / 2.75
    given = np.array([0.0, 0.25, 0.5, 0.0])
    positive = given + 1e-6 * given.mean()
    proved = positive * 4 / (width @ positive)
    even = 1 / width + 1e-6 * (1 / width).mean()
    even *= 4 / (width @ even)
    mean = (proved + even) / 2
    assert search._mean == pytest.approx(mean)
    assert search._views.shape == (8, 4)
    assert (search._views > 0).all()
    assert search._views @ width == pytest.approx([4] * 8)
    before = search._views.copy()
    search.restart(np.array([[3, 2, 1, 0]]), np.array([1.0, 0.0, 0.0, 0.0]))
    assert search.orders.tolist() == [[3, 2, 1, 0]]
    newest = np.array([1.0, 0, 0, 0]) + 0.25e-6
    newest *= 4 / (width @ newest)
    assert search._mean == pytest.approx(0.95 * mean + 0.05 * newest)
    assert search._views[:7].tolist() == before[1:].tolist()
    assert search._views[7].tolist() != before[0].tolist()


def test_congested_links_are_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Averages of the later half of the rounds; loads mix as 2 / (k + 2), exponents rise to 60."""
    monkeypatch.setattr(order_search, "_SPREADS", 3)
    search, _ = made(monkeypatch, [])
    width = np.array([4, 2, 1, 4]) / 2.75
    lengths, load, total = search._mean, np.zeros(4), np.zeros(4)
    for number, steepness in enumerate((15.0, 30.0, 45.0)):
        now = search._paths().loads(lengths) / width
        load = load + (now - load) * (1.0, 2 / 3, 0.5)[number]
        positive = np.exp(steepness * (load / load.max() - 1)) / width
        positive = positive + 1e-6 * positive.mean()
        lengths = positive * 4 / (width @ positive)
        if number == 2:
            total = lengths
    assert search._congested() == pytest.approx(total)


def test_cutting_keeps_the_shortest_hops_of_a_named_fabric() -> None:
    torus = parse("torus(3, 3)")
    found = cut_demands(torus, on_all_ranks(torus, CollectiveKind.ALLTOALL), max_routes=1)
    assert found.n_subflows == 72
    assert sorted(set(found.distance.tolist())) == [1, 2]
    assert found.most_hops == 5
