"""Pieces of demands and the routes that they become: counts, amounts, layers, merged paths."""

from __future__ import annotations

import re
from time import monotonic

import numpy as np
import pytest

from treadle.context import UNLIMITED, Context, under
from treadle.errors import InfeasibleError, ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import MAX_UNITS
from treadle.schedules.collective import Collective, CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.searched.searched_routes import searched_routes, subflow_routes, until
from treadle.synthesis.alltoall.searched.subflows import Subflows, cut_demands
from treadle.topologies import parse
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology, TopologyBuilder


def uneven() -> tuple[Topology, Collective]:
    """Demands of 1, 10 and 1000 among ranks 2, 0, 1 of three nodes that are all joined."""
    matrix = np.zeros((3, 3), dtype=np.int64)
    matrix[0, 1], matrix[0, 2], matrix[1, 2] = 1, 10, 1000
    return parse("complete(3)"), Collective(CollectiveKind.ALLTOALL, (2, 0, 1), demands=Demands(matrix))


@pytest.mark.parametrize(
    ("options", "n_chunks", "counts", "amounts"),
    [
        # 600 pieces of a sixth of 1011: 3.6, 36 and 3561, by powers of two up to 1024
        ({}, 128, [4, 64, 1024], [32, 20, 125]),
        ({"chunks": 4}, 4, [4, 8, 32], [1, 5, 125]),  # what divides 4, 40 and 4000 besides
        ({"max_routes": 5}, 4, [4, 4, 4], [1, 10, 1000]),
        ({"max_routes": 1}, 1, [1, 1, 1], [1, 10, 1000]),
        ({"max_routes": 64, "chunks": 3}, 3, [1, 2, 8], [3, 15, 375]),
    ],
)
def test_pieces_are_little_of_the_fullest_link(
    options: dict[str, int], n_chunks: int, counts: list[int], amounts: list[int]
) -> None:
    fabric, collective = uneven()
    pieces = cut_demands(fabric, collective, **options)
    assert pieces.n_chunks == n_chunks
    assert pieces.n_subflows == sum(counts)
    assert pieces.source.tolist() == [0] * (counts[0] + counts[1]) + [1] * counts[2]
    assert pieces.target.tolist() == [1] * counts[0] + [2] * (counts[1] + counts[2])
    assert pieces.table.amount.tolist() == np.repeat(amounts, counts).tolist()
    assert pieces.table.first.tolist() == [0, counts[0] + counts[1], sum(counts), sum(counts)]
    assert pieces.table.node.tolist() == [2, 0, 1]
    assert pieces.table.target.tolist() == np.repeat([0, 1, 1], counts).tolist()
    assert pieces.distance.tolist() == [1] * sum(counts)
    assert pieces.most_hops == 4


def test_equal_demands_have_few_pieces() -> None:
    """200 pieces of the load of a link, 16 at most; of a ring of 40 two: 10.25 units are on each link."""
    small = parse("complete(3)")
    assert cut_demands(small, on_all_ranks(small, CollectiveKind.ALLTOALL)).n_subflows == 6 * 16
    ring = parse("ring(40)")
    pieces = cut_demands(ring, on_all_ranks(ring, CollectiveKind.ALLTOALL))
    # 1 or 2 pieces of 200 / 200: 39 ranks at 1, ..., 19, 20 hops from each over 2 links: 200 units
    assert pieces.n_subflows == 40 * 39
    assert (pieces.n_chunks, pieces.most_hops) == (1, 23)
    ring = parse("ring(39)")
    pieces = cut_demands(ring, on_all_ranks(ring, CollectiveKind.ALLTOALL))
    assert (pieces.n_subflows, pieces.n_chunks) == (2 * 39 * 38, 2)  # 190 units


def test_narrow_links_count_for_less_width() -> None:
    """Links of 4, 1, 2 and 1: twice the width of the widest; 7 units of demand over 1, 2 and 1 links."""
    builder = TopologyBuilder("line")
    for name in "abc":
        builder.compute(name)
    for ends, width in (("ab", 4), ("ba", 1), ("bc", 2), ("cb", 1)):
        builder.link(ends[0], ends[1], width)
    matrix = np.array([[0, 1, 2], [0, 0, 4], [0, 0, 0]])
    everyone = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=Demands(matrix))
    pieces = cut_demands(builder.build(), everyone)
    # 600 / (9 / 2) = 133 for each unit: 133, 267 and 533
    assert np.bincount(3 * pieces.source + pieces.target).tolist() == [0, 256, 512, 0, 0, 1024]
    assert pieces.table.width.tolist() == [1, 0.25, 0.5, 0.25]
    assert pieces.distance.tolist() == [1] * 256 + [2] * 512 + [1] * 1024
    assert pieces.most_hops == 5
    assert cut_demands(builder.build(), everyone, max_hops=2).most_hops == 2
    message = "line: rank 0 to rank 2 is 2 hops, at most 1 are allowed (--max-hops, or --max-steps)"
    with pytest.raises(InfeasibleError, match=f"^{re.escape(message)}$"):
        cut_demands(builder.build(), everyone, max_hops=1)


def test_ranks_without_a_way_are_named_unless_they_need_none() -> None:
    oneway = from_arcs("oneway", [0, 1], [1, 2], n=3)
    matrix = np.array([[0, 1, 0], [0, 0, 0], [0, 3, 0]])
    some = Collective(CollectiveKind.ALLTOALL, (1, 2, 0), demands=Demands(matrix))
    assert cut_demands(oneway, some, max_routes=1).distance.tolist() == [1, 2]
    for ranks in ((1, 2, 0), (0, 1, 2)):
        wanting = Collective(CollectiveKind.ALLTOALL, ranks)
        lost = {(1, 2, 0): (0, 2), (0, 1, 2): (1, 0)}[ranks]
        with pytest.raises(InfeasibleError, match=f"^oneway: rank {lost[0]} cannot reach rank {lost[1]}$"):
            cut_demands(oneway, wanting)


def test_numbers_out_of_range() -> None:
    fabric, collective = uneven()
    cut_demands(fabric, collective, chunks=MAX_UNITS, max_routes=1)
    for chunks in (0, MAX_UNITS + 1):
        message = f"routes: {chunks} chunks per unit of demand, expected 1 to 2**24"
        with pytest.raises(ScheduleError, match=f"^{re.escape(message)}$"):
            cut_demands(fabric, collective, chunks=chunks)
    with pytest.raises(ScheduleError, match=r"^routes: at most 0 routes a pair, expected at least 1$"):
        cut_demands(fabric, collective, max_routes=0)
    with pytest.raises(ScheduleError, match=r"^layers: at most 0, expected at least 1$"):
        searched_routes(fabric, collective, max_layers=0)


def test_a_part_of_the_time_that_is_left() -> None:
    assert until(0.25) is UNLIMITED
    before = monotonic()
    with under(Context(deadline=before + 1000)):
        half = until(0.25)
    after = monotonic()
    assert half.deadline is not None
    # a quarter of what is left when it is asked for, which is a little less than 1000
    assert before + 249 < half.deadline <= after + 250
    heard: list[str] = []
    with under(Context(lambda stage, *_: heard.append(stage), monotonic() + 1000)):
        told = until(0.5)
    told.report("it", 0, 0)
    assert heard in ([], ["it"])
    assert told.progress is not None


def four_pieces() -> Subflows:
    """4 units from 0 to 1 in four pieces, 1 to 2 in one; links 0 and 1 to 1, 2 to 2, and 3 from 2 to 1."""
    fabric = from_arcs("four", [0, 0, 0, 2], [1, 1, 2, 1], n=3)
    matrix = np.array([[0, 4, 1], [0, 0, 0], [0, 0, 0]])
    everyone = Collective(CollectiveKind.ALLTOALL, (0, 1, 2), demands=Demands(matrix))
    pieces = cut_demands(fabric, everyone, chunks=1, max_routes=4)
    assert pieces.source.tolist() == [0] * 5
    assert pieces.target.tolist() == [1, 1, 1, 1, 2]
    return pieces


def routes(paths: list[list[int]], layers: list[list[int]]) -> list[tuple[object, ...]]:
    """Target, units, links and the layer of each link."""
    offset = np.cumsum([0, *map(len, paths)])
    flat = [np.array([one for row in rows for one in row], dtype=np.int32) for rows in (paths, layers)]
    made = subflow_routes(four_pieces(), offset, *flat)
    found: list[tuple[object, ...]] = []
    for path in range(made.n_paths):
        span = slice(int(made.path_offset[path]), int(made.path_offset[path + 1]))
        rising = made.hop_layer[span].tolist() if len(made.hop_layer) else [int(made.layer[path])]
        assert rising[0] == made.layer[path]
        found.append((int(made.target[path]), int(made.units[path]), made.path(path).tolist(), rising))
    assert made.n_ranks == 3
    assert made.n_chunks == 1
    return sorted(found, key=str)


def test_pieces_of_a_pair_on_one_path_in_one_layer_are_one_route() -> None:
    assert routes([[0], [1], [0], [0], [2]], [[0]] * 5) == [
        (1, 1, [1], [0]),
        (1, 3, [0], [0]),
        (2, 1, [2], [0]),
    ]
    # layers apart are routes apart, and are numbered without gaps
    assert routes([[0], [1], [0], [0], [2]], [[0], [3], [1], [0], [3]]) == [
        (1, 1, [0], [1]),
        (1, 1, [1], [2]),
        (1, 2, [0], [0]),
        (2, 1, [2], [2]),
    ]


def test_layers_may_rise_on_the_way() -> None:
    paths = [[2, 3], [2, 3], [2, 3], [0], [2]]
    assert routes(paths, [[0, 0], [0, 1], [0, 1], [1], [0]]) == [
        (1, 1, [0], [1]),
        (1, 1, [2, 3], [0, 0]),
        (1, 2, [2, 3], [0, 1]),
        (2, 1, [2], [0]),
    ]
    # without rising hops a layer is that of the whole path
    assert routes(paths, [[1, 1], [0, 0], [1, 1], [1], [0]]) == [
        (1, 1, [0], [1]),
        (1, 1, [2, 3], [0]),
        (1, 2, [2, 3], [1]),
        (2, 1, [2], [0]),
    ]
