"""Schedules as values: each number at its limit and one beyond, and refusals word for word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands, block_demands, uniform_demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule, routes_from_paths
from treadle.schedules.alltoall.timed_routes import TimedRoutes, routes_in
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import PathKind, Steps, StepSchedule
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.schedules.trees.forest_transforms import coarsened, equalised, reverse, scaled


def said(call: Any) -> str:
    """The whole text of a refusal."""
    with pytest.raises(ScheduleError) as caught:
        call()
    return str(caught.value)


def routes(**changes: Any) -> RouteSchedule:
    """Three ranks: 0 to 1 over two paths of unequal length, 2 to 0 over one; 0 to 2 over none."""
    one = routes_from_paths(3, 5, [(2, 0, 4, 1, [7]), (0, 1, 3, 0, [0, 4, 1]), (0, 1, 2, 2, [5])])
    return replace(one, **changes)


def test_routes_are_sorted_by_pair() -> None:
    one = routes()
    assert one.pair.tolist() == [1, 1, 6]
    assert (one.n_paths, one.n_layers, one.hops.tolist()) == (3, 3, [3, 1, 1])
    assert sorted(one.units.tolist()[:2]) == [2, 3]
    assert [one.span(0, 1), one.span(0, 2), one.span(2, 0)] == [slice(0, 2), slice(2, 2), slice(2, 3)]
    assert one.path(0).tolist() == [0, 4, 1]
    assert one.layers_by_hop.tolist() == [0, 0, 0, 2, 1]
    rising = routes(hop_layer=[0, 1, 4, 2, 1])
    assert (rising.n_layers, rising.layers_by_hop.tolist()) == (5, [0, 1, 4, 2, 1])
    assert routes_from_paths(2, 1, []).n_layers == 0
    assert repr(one) == "<RouteSchedule: 3 ranks, 5 chunks, 3 paths, 5 hops, 3 layers>"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_ranks": 1}, "needs at least 2 ranks and 1 to 2**24 chunks per unit of demand"),
        ({"n_chunks": 0}, "needs at least 2 ranks and 1 to 2**24 chunks per unit of demand"),
        ({"n_chunks": 2**24 + 1}, "needs at least 2 ranks and 1 to 2**24 chunks per unit of demand"),
        ({"target": [1, 1]}, "target has 2 rows, expected 3"),
        ({"units": [1] * 4}, "units has 4 rows, expected 3"),
        ({"layer": []}, "layer has 0 rows, expected 3"),
        ({"path_offset": [0, 3, 4]}, "path_offset must rise from 0 to 5 in 4 values"),
        ({"path_offset": [1, 3, 4, 5]}, "path_offset must rise from 0 to 5 in 4 values"),
        ({"path_offset": [0, 3, 4, 4]}, "path_offset must rise from 0 to 5 in 4 values"),
        ({"path_offset": [0, 4, 3, 5]}, "path_offset must rise from 0 to 5 in 4 values"),
        ({"source": [0, 0, 3]}, "source: found 3, expected 0 to 2"),
        ({"source": [-1, 0, 2]}, "source: found -1, expected 0 to 2"),
        ({"target": [1, 1, 3]}, "target: found 3, expected 0 to 2"),
        ({"units": [0, 1, 1]}, f"units: found 0, expected 1 to {2**44}"),
        ({"units": [1, 2**44 + 1, 1]}, f"units: found {2**44 + 1}, expected 1 to {2**44}"),
        ({"layer": [0, 2**15 + 1, 0]}, "layer: found 32769, expected 0 to 32768"),
        ({"path_links": [0, 4, 1, 5, -1]}, f"path_links: found -1, expected 0 to {2**31 - 1}"),
        ({"hop_layer": [0, 1, 2**15 + 1, 2, 1]}, "hop_layer: found 32769, expected 0 to 32768"),
        ({"hop_layer": [0, 1, 2]}, "hop_layer has 3 rows, expected 5"),
        ({"hop_layer": [0, 1, 2, 2, 0]}, "layer must be that of each path's first hop in hop_layer"),
        ({"source": [2, 0, 0]}, "paths must be sorted by source, then by target"),
        ({"target": [2, 1, 0]}, "paths must be sorted by source, then by target"),
    ],
)
def test_what_are_no_routes(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: routes(**changes)) == f"routes: {text}"


def test_routes_at_their_limits() -> None:
    assert routes(n_chunks=2**24).n_chunks == 2**24
    most = routes(
        units=[1, 2**44, 2**44],
        layer=[0, 2**15, 1],
        hop_layer=[0, 1, 2**15, 2**15, 1],
        path_links=[0, 2**31 - 1, 1, 0, 0],
        source=[0, 0, 2],
        target=[1, 1, 2],
    )
    assert most.n_layers == 2**15 + 1
    assert routes(path_offset=[0, 0, 4, 5]).hops.tolist() == [0, 4, 1]


def test_rounds_of_routes() -> None:
    """Paths 0 and 1 leave rank 0 for rank 1, path 2 rank 2 for rank 0."""
    rounds = TimedRoutes(routes(), [0, 2, 2, 6], [0, 2, 1, 0, 1, 2])  # type: ignore[arg-type]
    assert (rounds.n_rounds, rounds.n_ranks, rounds.max_flows) == (3, 3, 3)
    assert [rounds.span(number) for number in range(3)] == [slice(0, 2), slice(2, 2), slice(2, 6)]
    assert TimedRoutes(routes(), [0], []).max_flows == 0  # type: ignore[arg-type]
    into = routes_from_paths(3, 1, [(0, 2, 1, 0, [1]), (1, 2, 1, 0, [2])])
    assert TimedRoutes(into, [0, 2], [0, 1]).max_flows == 2  # type: ignore[arg-type]
    assert repr(rounds) == f"<TimedRoutes: 3 rounds, 6 chunks of {routes()!r}>"
    for offset, path, text in (
        ([], [], "round_offset must rise from 0 to 0 in 1 values"),
        ([1, 2], [0, 1], "round_offset must rise from 0 to 2 in 2 values"),
        ([0, 1], [0, 1], "round_offset must rise from 0 to 2 in 2 values"),
        ([0, 2, 1, 2], [0, 1], "round_offset must rise from 0 to 2 in 4 values"),
        ([0, 1], [3], "path: found 3, expected 0 to 2"),
        ([0, 1], [-1], "path: found -1, expected 0 to 2"),
    ):
        assert said(lambda offset=offset, path=path: TimedRoutes(routes(), offset, path)) == f"rounds: {text}"
    assert routes_in(rounds, "x") == routes()
    assert routes_in(routes(), "x") == routes()
    assert said(lambda: routes_in(3, "mine")) == (
        "the plan (mine) has no routes; use treadle solve FABRIC alltoall --algorithm routes"
    )


def test_demands() -> None:
    odd = Demands(np.array([[5, 2, 0], [1, 0, 0], [7, 0, 3]]))
    assert odd.between.tolist() == [[0, 2, 0], [1, 0, 0], [7, 0, 0]]
    assert odd.buffer_units == 13  # what rank 0 gets
    assert Demands(odd.matrix.T).buffer_units == 13
    assert odd.blocks is None
    assert repr(odd) == "<Demands of 3 ranks>"
    assert Demands(np.array([[0, 2**20], [0, 0]])).buffer_units == 2**20
    for matrix, text in (
        ([[0.5, 1], [1, 0]], "expected integers, found float64; scale the matrix"),
        ([1, 2], "expected a square matrix of at least 2 ranks, found shape (2,)"),
        ([[1, 2]], "expected a square matrix of at least 2 ranks, found shape (1, 2)"),
        ([[1]], "expected a square matrix of at least 2 ranks, found shape (1, 1)"),
        ([[0, -1], [0, 0]], "entries must be integers from 0 to 2**20"),
        ([[0, 2**20 + 1], [0, 0]], "entries must be integers from 0 to 2**20"),
        ([[3, 0], [0, 1]], "no rank has data for another; expected a positive entry"),
    ):
        assert said(lambda matrix=matrix: Demands(np.array(matrix))) == f"demands: {text}"


def test_demands_of_groups() -> None:
    assert uniform_demands(3).blocks is None  # one group is none
    assert block_demands(4, [(3, 0), (2, 1)]).blocks == ((0, 3), (1, 2))
    assert block_demands(5, [(0, 1), (2, 3)]).blocks is None  # rank 4 is in none
    assert block_demands(5, [(0, 1), (2, 3, 4)]).blocks is None
    assert Demands(2 * block_demands(4, [(0, 1), (2, 3)]).matrix).blocks is None
    for groups, rank in (([(0, 4)], 4), ([(-1, 0)], -1), ([(0, 1), (1, 2)], 1)):
        assert said(lambda groups=groups: block_demands(4, groups)) == (
            f"groups: rank {rank}; expected ranks from 0 to 3, each in one group"
        )


def steps(**changes: Any) -> Steps:
    """Two steps of three sends, two shards of five chunks, among three ranks; two ways."""
    values: dict[str, Any] = {
        "direction": Direction.BROADCAST,
        "n_ranks": 3,
        "homes": [0, 2],
        "n_chunks": 5,
        "step_offset": [0, 1, 3],
        "shard": [0, 1, 1],
        "link": [0, 1, 0],
        "low": [0, 0, 2],
        "high": [5, 2, 5],
        "way_offset": [0, 2, 4],
        "way_links": [3, 4, 6, 7],
        "way_kinds": [0, 1],
    }
    return Steps(**(values | changes))


BARE = {"way_offset": [], "way_links": [], "way_kinds": []}


def test_steps_as_they_are() -> None:
    one = steps()
    assert (one.n_shards, one.n_paths, one.n_steps, one.n_sends) == (2, 2, 2, 3)
    assert one.has_paths
    assert one.has_operations
    assert not one.restarts
    assert [one.path(number).tolist() for number in (0, 1)] == [[3, 4], [6, 7]]
    assert one.links_of(1).tolist() == [6, 7]
    assert [one.span(step) for step in (0, 1)] == [slice(0, 1), slice(1, 3)]
    assert one.send_steps().tolist() == [0, 1, 1]
    assert [homes.tolist() for homes in steps(twins=[1, 0, 2, 1]).all_owners] == [[0, 2], [1, 0], [2, 1]]
    bare = steps(**BARE)
    assert (bare.n_paths, bare.has_paths, bare.has_operations) == (0, False, False)
    assert bare.links_of(1).tolist() == [1]
    assert (bare.crossed.tolist(), one.crossed.tolist()) == ([0, 1, 0], [3, 4, 6, 7])
    assert repr(one) == "<Steps broadcast: 3 ranks, 2 shards of 5 chunks, 2 steps, 3 sends>"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_ranks": 0}, "needs at least 1 rank and 1 to 2**24 chunks per shard"),
        ({"n_chunks": 0}, "needs at least 1 rank and 1 to 2**24 chunks per shard"),
        ({"n_chunks": 2**24 + 1}, "needs at least 1 rank and 1 to 2**24 chunks per shard"),
        ({"homes": [0, 3]}, "homes: found 3, expected 0 to 2"),
        ({"homes": [-1, 2]}, "homes: found -1, expected 0 to 2"),
        ({"step_offset": []}, "step_offset must rise from 0 to 3 in 1 values"),
        ({"step_offset": [1, 3]}, "step_offset must rise from 0 to 3 in 2 values"),
        ({"step_offset": [0, 2]}, "step_offset must rise from 0 to 3 in 2 values"),
        ({"step_offset": [0, 2, 1, 3]}, "step_offset must rise from 0 to 3 in 4 values"),
        ({"link": [0, 1]}, "link has 2 rows, expected 3"),
        ({"low": [0]}, "low has 1 rows, expected 3"),
        ({"high": [5] * 4}, "high has 4 rows, expected 3"),
        ({"shard": [0, 2, 1]}, "shard: found 2, expected 0 to 1"),
        ({"link": [0, 2, 0]}, "link: found 2, expected 0 to 1"),
        ({"link": [0, -1, 0]}, f"link: found -1, expected 0 to {2**31 - 1}"),
        ({"low": [0, -1, 2]}, "low: found -1, expected 0 to 4"),
        ({"low": [5, 0, 2]}, "low: found 5, expected 0 to 4"),
        ({"high": [6, 2, 5]}, "high: found 6, expected 1 to 5"),
        ({"low": [0, 2, 2]}, "a send carries no chunk"),
        ({"twins": [0, 3]}, "twins: found 3, expected 0 to 2"),
        ({"twins": [0, 1, 2]}, "3 further owners, expected as many for each shard"),
        ({"fresh": [True]}, "fresh has 1 rows, expected 3"),
        ({"fresh": [False, False, True]}, "only sums start again; broadcasts do not"),
        ({"way_offset": []}, "way_links or way_kinds without way_offset"),
        ({"way_offset": [], "way_links": []}, "way_links or way_kinds without way_offset"),
        ({"way_offset": [0, 2, 3]}, "way_offset must rise from 0 to 4 in 3 values, by 1 or more each"),
        ({"way_offset": [1, 2, 4]}, "way_offset must rise from 0 to 4 in 3 values, by 1 or more each"),
        ({"way_offset": [0, 2, 2, 4]}, "way_offset must rise from 0 to 4 in 4 values, by 1 or more each"),
        ({"way_links": [3, 4, -1, 7]}, f"way_links: found -1, expected 0 to {2**31 - 1}"),
        ({"way_kinds": [0]}, "way_kinds has 1 rows, expected 2"),
        ({"way_kinds": [0, len(PathKind)]}, "way_kinds: found 3, expected 0 to 2"),
        (
            {"way_offset": [0, 1, 4]},
            "expected two links on a path with in-network multicast or aggregation",
        ),
    ],
)
def test_what_are_no_steps(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: steps(**changes)) == f"steps: {text}"


def test_steps_at_their_limits() -> None:
    assert steps(n_chunks=2**24).n_chunks == 2**24
    assert steps(n_ranks=1, homes=[0, 0]).n_ranks == 1
    assert steps(**BARE, link=[0, 2**31 - 1, 0]).crossed.max() == 2**31 - 1
    assert steps(low=[4, 0, 2]).low.tolist() == [4, 0, 2]
    assert steps(way_offset=[0, 1, 4], way_kinds=[]).n_paths == 2
    assert steps(way_offset=[0, 1, 3], way_links=[3, 4, 6]).path(1).tolist() == [4, 6]
    assert steps(direction=Direction.REDUCE, fresh=[False, False, True]).restarts


def test_phases_of_step_schedules() -> None:
    spread = steps(way_kinds=[])
    gather = replace(spread, direction=Direction.REDUCE)
    both = StepSchedule(CollectiveKind.ALLREDUCE, gather, spread)
    assert both.phases == (gather, spread)
    for kind, reduce, broadcast, text in (
        ("alltoall", None, None, "expected a collective that reduces or broadcasts"),
        ("reduce", None, spread, "reducing steps are missing"),
        ("allgather", gather, spread, "reducing steps are not used"),
        ("broadcast", None, None, "broadcasting steps are missing"),
        ("reduce-scatter", gather, spread, "broadcasting steps are not used"),
        ("allgather", None, gather, "the broadcasting steps have the wrong direction"),
        ("reduce", spread, None, "the reducing steps have the wrong direction"),
        (
            "allreduce",
            replace(gather, homes=[2, 0]),
            spread,
            "the phases differ in ranks or in the owners of the shards",
        ),
        (
            "allreduce",
            replace(gather, n_ranks=4),
            spread,
            "the phases differ in ranks or in the owners of the shards",
        ),
        (
            "reduce",
            replace(gather, fresh=[True, False, False]),
            None,
            "sums may start again only in an allreduce of two phases",
        ),
    ):
        assert said(
            lambda kind=kind, reduce=reduce, broadcast=broadcast: StepSchedule(
                CollectiveKind(kind), reduce, broadcast
            )
        ) == (f"{kind}: {text}")


def test_exchanges_have_one_home_and_one_target() -> None:
    plain = steps(way_kinds=[])
    one = ExchangeSchedule(plain, [2, 1])  # type: ignore[arg-type]
    assert (one.n_ranks, one.n_shards, one.n_chunks, one.n_steps, one.n_sends) == (3, 2, 5, 2, 3)
    for sends, targets, text in (
        (replace(plain, twins=[1, 0]), [2, 1], "expected one owner of each shard"),
        (steps(), [2, 1], "shards have one target each, so no switch may multicast or aggregate"),
        (plain, [2, 1, 0], "targets has 3 rows, expected 2"),
        (plain, [3, 1], "targets: found 3, expected 0 to 2"),
        (plain, [1, -1], "targets: found -1, expected 0 to 2"),
        (plain, [1, 2], "shard 1 goes from rank 2 to itself"),
        (
            replace(plain, direction=Direction.REDUCE),
            [2, 1],
            "shards leave their owners; expected sends of direction broadcast",
        ),
    ):
        assert said(lambda sends=sends, targets=targets: ExchangeSchedule(sends, targets)) == (
            f"exchange: {text}"
        )


def forest(**changes: Any) -> Forest:
    """Two ranks: two trees of rank 0, one of rank 1, of multiplicities 2, 3 and 5; paths of 2 and 1 links."""
    values: dict[str, Any] = {
        "direction": Direction.BROADCAST,
        "root_multiplicity": [5, 5],
        "tree_root": [0, 0, 1],
        "tree_multiplicity": [2, 3, 5],
        "parent": [[-1, 0], [-1, 0], [1, -1]],
        "entry_offset": [0, 0, 1, 1, 3, 4, 4],
        "entry_path": [0, 0, 1, 2],
        "entry_units": [2, 1, 2, 5],
        "path_offset": [0, 2, 3, 6],
        "path_links": [4, 7, 1, 2, 3, 9],
    }
    return Forest(**(values | changes))


def test_forests_as_they_are() -> None:
    one = forest()
    assert (one.n_ranks, one.n_trees, one.n_paths) == (2, 3, 3)
    assert [one.path(number).tolist() for number in range(3)] == [[4, 7], [1], [2, 3, 9]]
    first, second = one.trees(0)
    assert (first.multiplicity, second.multiplicity) == (2, 3)
    assert second.entry_offset.tolist() == [0, 0, 2]
    assert (second.entry_path.tolist(), second.entry_units.tolist()) == ([0, 1], [1, 2])
    (third,) = one.trees(1)
    assert (third.root, third.parent.tolist(), third.entry_offset.tolist()) == (1, [1, -1], [0, 1, 1])
    assert ForestSchedule(CollectiveKind.ALLGATHER, broadcast=one).total_units == 10


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"parent": [[-1, 0], [-1, 0]]}, "parent has shape (2, 2), expected (3, 2)"),
        ({"tree_multiplicity": [2, 3]}, "every tree needs a positive multiplicity"),
        ({"tree_multiplicity": [2, 0, 5]}, "every tree needs a positive multiplicity"),
        ({"tree_root": [0, 0, 2]}, "tree_root: found 2, expected 0 to 1"),
        ({"tree_root": [-1, 0, 1]}, "tree_root: found -1, expected 0 to 1"),
        ({"tree_root": [0, 1, 0]}, "trees must be sorted by root"),
        ({"parent": [[-1, 0], [-1, 2], [1, -1]]}, "parent: found 2, expected -1 to 1"),
        ({"parent": [[-1, 0], [-2, 0], [1, -1]]}, "parent: found -2, expected -1 to 1"),
        (
            {"entry_offset": [0, 0, 1, 1, 3, 4]},
            "entry_offset must rise from 0 to 4 in 7 values",
        ),
        (
            {"entry_offset": [1, 1, 1, 1, 3, 4, 4]},
            "entry_offset must rise from 0 to 4 in 7 values",
        ),
        (
            {"entry_offset": [0, 0, 1, 1, 3, 3, 3]},
            "entry_offset must rise from 0 to 4 in 7 values",
        ),
        (
            {"entry_offset": [0, 2, 1, 1, 3, 4, 4]},
            "entry_offset must rise from 0 to 4 in 7 values",
        ),
        ({"path_offset": []}, "path_offset must rise from 0 to 6 in 1 values"),
        ({"path_offset": [0, 2, 3, 5]}, "path_offset must rise from 0 to 6 in 4 values"),
        ({"entry_units": [2, 1, 2]}, "entry_units has 3 rows, expected 4"),
        ({"entry_path": [0, 0, 3, 2]}, "entry_path: found 3, expected 0 to 2"),
        ({"entry_path": [0, 0, -1, 2]}, "entry_path: found -1, expected 0 to 2"),
        ({"entry_units": [2, 1, 0, 5]}, "path units must be positive"),
    ],
)
def test_what_is_no_forest(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: forest(**changes)) == f"forest: {text}"


def test_forests_in_other_units() -> None:
    one = forest()
    turned = reverse(one)
    assert turned.direction is Direction.REDUCE
    assert [turned.path(number).tolist() for number in range(3)] == [[7, 4], [1], [9, 3, 2]]
    assert reverse(turned) == one
    thrice = scaled(one, 3)
    assert (thrice.root_multiplicity.tolist(), thrice.tree_multiplicity.tolist()) == ([15, 15], [6, 9, 15])
    assert thrice.entry_units.tolist() == [6, 3, 6, 15]
    assert coarsened(thrice, 3) == one
    assert scaled(one, 1) is coarsened(one, 1) is one
    left, right = equalised(scaled(one, 2), thrice)  # 20 and 30 units: 60 each
    assert left == right == scaled(one, 6)
    large = forest(root_multiplicity=[2**60, 2**60])
    text = "the schedule needs more than 2**62 units; limit the trees (--max-trees 10)"
    assert said(lambda: scaled(large, 2)) == text
    just = forest(root_multiplicity=[2**60, 2**60 - 1])
    assert scaled(just, 2).root_multiplicity.tolist() == [2**61, 2**61 - 2]


def test_phases_of_forests() -> None:
    out = forest()
    back = reverse(out)
    both = ForestSchedule(CollectiveKind.ALLREDUCE, back, out)
    assert both.forests == (back, out)
    assert both.root_multiplicity.tolist() == [5, 5]
    for kind, reduce, broadcast, text in (
        ("alltoall", None, None, "expected a collective that reduces or broadcasts"),
        ("reduce", None, out, "in-trees are missing"),
        ("allgather", back, out, "in-trees are not used"),
        ("allreduce", back, None, "out-trees are missing"),
        ("reduce-scatter", back, out, "out-trees are not used"),
        ("reduce", out, None, "the in-trees have the wrong direction"),
        ("allgather", None, back, "the out-trees have the wrong direction"),
        (
            "allreduce",
            replace(back, root_multiplicity=[4, 6]),
            out,
            "in-trees and out-trees differ in trees per root",
        ),
    ):
        assert said(
            lambda kind=kind, reduce=reduce, broadcast=broadcast: ForestSchedule(
                CollectiveKind(kind), reduce, broadcast
            )
        ) == (f"{kind}: {text}")
