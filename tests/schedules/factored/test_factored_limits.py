"""Factored forests as values: each number at its limit and one beyond, and refusals word for word."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from samples.factored import factored_samples as samples
from treadle.arrays import check_offsets
from treadle.errors import ScheduleError
from treadle.schedules.checks import check_length, check_range, check_sum
from treadle.schedules.factored import CirculantTrees, Crossings, Layer, Subproblem, TableTrees

MOST = 2**61 - 1
LAST_LINK = 2**31 - 2
two_boxes, nested_pods = cache(samples.two_boxes), cache(samples.nested_pods)


def said(call: Callable[[], object]) -> str:
    """The whole text of a refusal."""
    with pytest.raises(ScheduleError) as caught:
        call()
    return str(caught.value)


def test_lengths_ranges_offsets_and_sums() -> None:
    check_length("x", "y", np.zeros(3), 3)
    assert said(lambda: check_length("x", "y", np.zeros(3), 4)) == "x: y has 3 rows, expected 4"
    check_range("x", "y", np.array([2, 4]), 2, 5)
    check_range("x", "y", np.zeros(0), 2, 2)
    for values, wrong in (([2, 5], 5), ([1, 2], 1), ([1, 5], 1)):
        text = f"x: y: found {wrong}, expected 2 to 4"
        assert said(lambda values=values: check_range("x", "y", np.array(values), 2, 5)) == text
    check_offsets("x", "y", np.array([0, 0, 4]), 2, 4)
    check_offsets("x", "y", np.array([0, 2, 4]), 2, 4, least=2)
    for offsets in ([], [0, 4], [0, 1, 2, 4], [1, 2, 4], [0, 2, 3], [0, 5, 4], [0, 1, 4], [0, 3, 4]):
        assert said(lambda offsets=offsets: check_offsets("x", "y", np.array(offsets), 2, 4, least=2)) == (
            "x: y must rise from 0 to 4 in 3 values, by 2 or more each"
        )
    assert said(lambda: check_offsets("x", "y", np.zeros(0, dtype=np.int64), -1, 0)) == (
        "x: y must rise from 0 to 0 in 1 values"
    )
    check_sum("x", "y", np.array([2**60, 2**60 - 1]))
    check_sum("x", "y", np.array([7, 0, 0]), 8)
    for total, limit, power in (([2**60, 2**60], 2**61, 61), ([7, 0, 1], 8, 3), ([5, 9], 13, 3)):
        assert said(lambda total=total, limit=limit: check_sum("x", "y", np.array(total), limit)) == (
            f"x: y sum to 2**{power} or more; use a smaller number of trees"
        )


def table(**changes: Any) -> TableTrees:
    """Three children; five trees of child 0 in rows of two and three, five of child 2 in one."""
    values: dict[str, Any] = {
        "root": [0, 0, 2],
        "units": [2, 3, 5],
        "parent": [[-1, 0, 1], [-1, 2, 0], [2, 0, -1]],
        "path": [[-1, 0, 1], [-1, 2, 0], [3, 1, -1]],
        "first": [[-1, 0, 10], [-1, 4, 2], [7, 12, -1]],
        "last": [[-1, 0, 20], [-1, 4, 2], [8, 22, -1]],
        "path_offset": [0, 1, 3, 4, 6],
        "path_table": [0, 1, 2, 5, 3, 4],
    }
    return TableTrees(**(values | changes))


def test_tables_of_trees_as_they_are() -> None:
    one = table()
    assert (one.root_units.tolist(), one.n_paths, one.link_bound) == ([5, 0, 5], 4, 6)
    rows = one.rows(np.array([2, 0, 0, 0]), np.array([4, 1, 2, 4]))
    assert rows.parent.tolist() == [[2, 0, -1], [-1, 0, 1], [-1, 2, 0], [-1, 2, 0]]
    assert rows.path.tolist() == [[3, 1, -1], [-1, 0, 1], [-1, 2, 0], [-1, 2, 0]]
    assert rows.first.tolist() == [[11, 16, -1], [-1, 1, 11], [-1, 4, 2], [-1, 6, 4]]
    assert rows.last.tolist() == [[12, 26, -1], [-1, 1, 21], [-1, 4, 2], [-1, 6, 4]]
    assert rows.run.tolist() == [1, 1, 3, 1]
    offsets, links = one.path_links(np.array([3, 0, 1]))
    assert (offsets.tolist(), links.tolist()) == ([0, 2, 3, 5], [3, 4, 0, 1, 2])
    # link 2 ends path 1: units 20 and 21 of trees 0 and 1 of child 0, 22 to 26 of those of child 2
    roots, units = one.owners(np.full(9, 2, dtype=np.int32), np.arange(19, 28))
    assert roots.tolist() == [-1, 0, 0, 2, 2, 2, 2, 2, -1]
    assert units.tolist() == [-1, 0, 1, 0, 1, 2, 3, 4, -1]
    # link 0 is path 0: units 0 and 1, and 2 to 4 of the second row; link 1 and link 6 end no path
    roots, units = one.owners(np.array([0, 0, 0, 0, 1, 6], dtype=np.int32), np.array([1, 2, 4, 5, 1, 0]))
    assert (roots.tolist(), units.tolist()) == ([0, 0, 0, -1, -1, -1], [1, 2, 4, -1, -1, -1])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"root": [0, 2]}, "root has 2 rows, expected 3"),
        ({"units": [2, 3, 5, 1]}, "units has 4 rows, expected 3"),
        ({"last": [[-1, 0, 20]]}, "last has 1 rows, expected 3"),
        ({"first": [[-1, 0], [-1, 4], [7, 12]]}, "first has shape (3, 2), expected (3, 3)"),
        ({"root": [0, 0, 3]}, "root: found 3, expected 0 to 2"),
        ({"root": [-1, 0, 2]}, "root: found -1, expected 0 to 2"),
        ({"root": [2, 0, 2]}, "roots must rise from row to row"),
        ({"units": [2, 0, 5]}, f"units: found 0, expected 1 to {MOST}"),
        ({"units": [2**60, 2**60 - 1, 1]}, "units sum to 2**61 or more; use a smaller number of trees"),
        (
            {"path_offset": [0, 1, 1, 4, 6]},
            "path_offset must rise from 0 to 6 in 5 values, by 1 or more each",
        ),
        (
            {"path_table": [0, 1, 2, 5, 3, 2**31 - 1]},
            f"path_table: found {2**31 - 1}, expected 0 to {LAST_LINK}",
        ),
        ({"parent": [[-1, 0, 1], [-1, 3, 0], [2, 0, -1]]}, "parent: found 3, expected -1 to 2"),
        ({"path": [[-1, 0, 1], [-1, 4, 0], [3, 1, -1]]}, "path: found 4, expected -1 to 3"),
        ({"first": [[-1, 0, 2**61], [-1, 4, 2], [7, 0, -1]]}, f"first: found {2**61}, expected -1 to {MOST}"),
        ({"last": [[-2, 0, 1], [-1, 4, 2], [7, 0, -1]]}, f"last: found -2, expected -1 to {MOST}"),
        ({"path": [[-1, 0, 1], [-1, 2, -1], [3, 1, -1]]}, "path must be -1 at the root, and only there"),
        ({"last": [[0, 0, 1], [-1, 2, 1], [3, 1, -1]]}, "last must be -1 at the root, and only there"),
    ],
)
def test_what_are_no_tables(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: table(**changes)) == f"table of trees: {text}"


def test_tables_at_their_limits() -> None:
    most = table(
        units=[2**60, 2**60 - 2, 1],
        path_table=[0, 1, 2, 5, 3, LAST_LINK],
        first=[[-1, MOST, 0]] * 2 + [[MOST, 0, -1]],
    )
    assert (most.link_bound, most.root_units.tolist()) == (2**31 - 1, [2**61 - 2, 0, 1])
    for root, unit, text in (
        (3, 0, "roots: found 3, expected 0 to 2"),
        (0, 5, "child 0 has 5 unit trees, none of number 5"),
        (0, -1, "child 0 has 5 unit trees, none of number -1"),
        (1, 0, "child 1 has 0 unit trees, none of number 0"),
    ):
        where = np.array([2, root, 0]), np.array([4, unit, 9])
        assert said(lambda where=where: table().rows(*where)) == f"table of trees: {text}"


def circulant(**changes: Any) -> CirculantTrees:
    """Three children with four trees each in blocks of two; one link out, two in, of which 2 and 6 units."""
    values: dict[str, Any] = {
        "n_children": 3,
        "native_units": 4,
        "block": 2,
        "out_links": [[0], [1], [2]],
        "in_links": [[3, 4], [5, 6], [7, 8]],
        "out_first": [[0, 8]] * 3,
        "in_first": [[0, 2, 8]] * 3,
        "out_offset": [[10], [20], [30]],
        "in_offset": [[5, 0], [0, 7], [0, 0]],
    }
    return CirculantTrees(**(values | changes))


def test_circulant_trees_as_they_are() -> None:
    """Tree 3 = 1 g + 1 of child 1 takes exit units 4 + 1 for child 2 and 4 + 2 + 1 for child 0."""
    one = circulant()
    assert (one.root_units.tolist(), one.n_paths, one.link_bound) == ([4, 4, 4], 18, 9)
    rows = one.rows(np.array([1, 0]), np.array([3, 0]))
    assert rows.parent.tolist() == [[1, -1, 1], [-1, 0, 0]]
    assert rows.path.tolist() == [[6 + 1, -1, 6 + 5], [-1, 2, 5]]
    assert rows.first.tolist() == [[27, -1, 25], [-1, 10, 12]]
    assert rows.last.tolist() == [[5, -1, 3], [-1, 0, 0]]
    assert rows.run.tolist() == [1, 2]
    offsets, links = one.path_links(np.array([7, 17]))
    assert (offsets.tolist(), links.tolist()) == ([0, 2, 4], [1, 4, 2, 8])
    # entry units 0 and 1 of child 0 are units 5 and 6 of link 3; they come from child 2, at distance 1
    roots, units = one.owners(np.array([3, 3, 3, 3, 4, 4], dtype=np.int32), np.array([4, 5, 6, 7, 0, 5]))
    assert (roots.tolist(), units.tolist()) == ([-1, 2, 2, -1, 1, 1], [-1, 0, 1, -1, 0, 3])
    assert circulant(in_offset=[[MOST, 0], [0, 7], [0, 0]]).in_offset.max() == MOST
    assert said(lambda: one.rows(np.array([2]), np.array([4]))) == (
        "circulant trees: child 2 has 4 unit trees, none of number 4"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"block": 2.0}, "block must be an integer"),
        ({"n_children": 1}, "1 children of 4 unit trees in blocks of 2 make no such trees"),
        ({"native_units": 0}, "3 children of 0 unit trees in blocks of 2 make no such trees"),
        ({"block": 0}, "3 children of 4 unit trees in blocks of 0 make no such trees"),
        ({"block": 3}, "3 children of 4 unit trees in blocks of 3 make no such trees"),
        (
            {"native_units": 2**61 // 3 + 1, "block": 1},
            f"3 children of {2**61 // 3 + 1} unit trees in blocks of 1 make no such trees",
        ),
        ({"out_links": np.zeros((3, 0))}, "0 links for each of 3 children are none or too many"),
        ({"out_links": [[0], [1]]}, "out_links has shape (2, 1), expected (3, 1)"),
        ({"in_links": [[0], [1]]}, "in_links has shape (2, 1), expected (3, 1)"),
        ({"out_offset": [[0, 0]] * 3}, "out_offset has shape (3, 2), expected (3, 1)"),
        ({"in_offset": [[0]] * 3}, "in_offset has shape (3, 1), expected (3, 2)"),
        ({"out_links": [[0], [1], [2**31 - 1]]}, f"out_links: found {2**31 - 1}, expected 0 to {LAST_LINK}"),
        ({"in_offset": [[2**61, 0]] * 3}, f"in_offset: found {2**61}, expected 0 to {MOST}"),
        ({"out_first": [[0, 4, 8]] * 3}, "out_first has shape (3, 3), expected (3, 2)"),
        (
            {"in_first": [[0, 2, 8], [0, 2, 8], [1, 2, 8]]},
            "in_first must rise from 0 in each row",
        ),
        (
            {"in_first": [[0, 2, 8], [0, 2, 7], [0, 2, 8]]},
            "child 1 has 7 ingress units, its trees take 8",
        ),
        ({"in_first": [[0, 9, 8]] * 3}, "in_first must rise from 0 in each row"),
    ],
)
def test_what_are_no_circulant_trees(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: circulant(**changes)) == f"circulant trees: {text}"


def test_circulant_trees_at_their_limits() -> None:
    """Two children of 2**60 - 1 trees, one link each way; a column of no units is none."""
    most = 2**60 - 1
    one = CirculantTrees([[0], [1]], [[2], [3]], *([[[0, most]] * 2] * 2), *([[[0]] * 2] * 2), 2, most, 1)
    assert one.rows(np.array([1]), np.array([most - 1])).first.tolist() == [[most - 1, -1]]
    assert circulant(in_first=[[0, 0, 8]] * 3).owners(np.array([3, 4], dtype=np.int32), np.array([5, 7]))[
        0
    ].tolist() == [-1, 1]


def crossings(**changes: Any) -> Crossings:
    """Two runs of link 3, one of link 5; paths of one link and of two."""
    values: dict[str, Any] = {
        "link": [3, 3, 5],
        "offset": [0, 2, 1],
        "units": [2, 1, 4],
        "child": [1, 0, 1],
        "inner": [0, 7, 1],
        "path": [0, 1, 0],
        "root_unit": [0, 3, 5],
        "path_offset": [0, 1, 3],
        "path_links": [3, 3, 4],
    }
    return Crossings(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"path_offset": [0, 1, 2]}, "path_offset must rise from 0 to 3 in 3 values, by 1 or more each"),
        ({"path_offset": [0, 0, 3]}, "path_offset must rise from 0 to 3 in 3 values, by 1 or more each"),
        ({"inner": [0, 7]}, "inner has 2 rows, expected 3"),
        ({"link": [3, 3, 2**31 - 1]}, f"link: found {2**31 - 1}, expected 0 to {LAST_LINK}"),
        ({"offset": [0, -1, 1]}, f"offset: found -1, expected 0 to {MOST}"),
        ({"units": [2, 0, 4]}, f"units: found 0, expected 1 to {MOST}"),
        ({"child": [-1, 0, 1]}, f"child: found -1, expected 0 to {LAST_LINK}"),
        ({"inner": [0, 2**61, 1]}, f"inner: found {2**61}, expected 0 to {MOST}"),
        ({"path": [0, 2, 0]}, "path: found 2, expected 0 to 1"),
        ({"root_unit": [0, -3, 5]}, f"root_unit: found -3, expected 0 to {MOST}"),
        ({"path_links": [3, -1, 4]}, f"path_links: found -1, expected 0 to {LAST_LINK}"),
        ({"link": [3, 5, 3]}, "rows must be sorted by (link, offset)"),
        ({"offset": [2, 0, 1]}, "rows must be sorted by (link, offset)"),
    ],
)
def test_what_are_no_crossings(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: crossings(**changes)) == f"crossings: {text}"


def test_crossings_at_their_limits() -> None:
    most = {"link": [3, 3, LAST_LINK], "child": [LAST_LINK, 0, 1], "path_links": [3, LAST_LINK, 0]}
    assert crossings(**most, offset=[0, 0, MOST], root_unit=[0, 0, MOST]).offset.tolist() == [0, 0, MOST]


def piece(**changes: Any) -> Subproblem:
    """A box of three ranks, of `two_boxes`."""
    return replace(two_boxes()[2].forests[0].layers[0].pieces[1], **changes)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"capacity": [-1] * 12}, f"subproblem: capacity: found -1, expected 0 to {MOST}"),
        ({"native": [1, 1, 2**61]}, f"subproblem: native: found {2**61}, expected 0 to {MOST}"),
        (
            {"native": [1, 2**60, 2**60 - 1]},
            "subproblem: native sum to 2**61 or more; use a smaller number of trees",
        ),
        ({"native": [1, 1]}, "subproblem: native has 2 rows, its trees span 3 children"),
        ({"capacity": [5] * 11}, "subproblem: trees use local link 11 of 11"),
        (
            {"entrances": crossings(link=[3, 3, 12])},
            "subproblem: entrances: link: found 12, expected 0 to 11",
        ),
        (
            {"exits": crossings(path_links=[3, 3, 12])},
            "subproblem: exits: path_links: found 12, expected 0 to 11",
        ),
        ({"exits": crossings(child=[1, 0, 3])}, "subproblem: exits: child: found 3, expected 0 to 2"),
        (
            {"entrances": crossings(offset=[0, 2, 2])},
            "subproblem: entrances: units 2 to 5 of local link 5, which has 5",
        ),
        (
            {"exits": crossings(offset=[3, 3, 0], units=[2, 3, 9])},
            "subproblem: exits: units 3 to 5 of local link 3, which has 5",
        ),
    ],
)
def test_what_is_no_piece(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: piece(**changes)) == text


def test_a_piece_at_its_limits() -> None:
    assert piece(native=[1, 2**60, 2**60 - 2]).n_children == 3
    assert piece(capacity=[2**61 - 12] + [1] * 11).capacity[0] == 2**61 - 12
    assert piece(entrances=crossings(offset=[0, 3, 1], units=[3, 2, 4])).entrances.units.tolist() == [3, 2, 4]


def layer(**changes: Any) -> Layer:
    """Two pods of two boxes of two ranks; pieces are the fabric, the pods, and the boxes pod by pod."""
    return replace(nested_pods()[2].forests[0].layers[0], **changes)


NONE = np.zeros(0)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"kind": NONE}, "no subproblem; expected the outermost one, number 0"),
        ({"kind": [0, 1, 1, 2, 3, 2, 4]}, "kind: found 4, expected 0 to 3"),
        ({"outer": [-1, 0, 0, 1, 1, 2]}, "outer has 6 rows, expected 7"),
        (
            {"outer": [0, 0, 0, 1, 1, 2, 2]},
            "outer must be -1 at subproblem 0, and a smaller number elsewhere",
        ),
        (
            {"outer": [-1, 0, -1, 1, 1, 2, 2]},
            "outer must be -1 at subproblem 0, and a smaller number elsewhere",
        ),
        (
            {"outer": [-1, 0, 0, 1, 4, 2, 2]},
            "outer must be -1 at subproblem 0, and a smaller number elsewhere",
        ),
        (
            {"child_offset": [0, 2, 4, 6, 8, 10, 12, 13]},
            "child_offset must rise from 0 to 14 in 8 values",
        ),
        (
            {"link_offset": [0, 8, 20, 32, 42, 50, 60, 67]},
            "link_offset must rise from 0 to 68 in 8 values",
        ),
        ({"child_offset": [0, 2, 4, 6, 9, 10, 12, 14]}, "subproblem 3 has 3 children, its class 2"),
        ({"link_offset": [0, 8, 20, 31, 42, 50, 60, 68]}, "subproblem 2 has 11 links, its class 12"),
        (
            {"children": [-2, -3, -4, -5, -6, -8, *range(8)]},
            f"children: found -8, expected -7 to {LAST_LINK}",
        ),
        (
            {"children": [-2, -3, -4, -5, -6, -6, *range(8)]},
            "every subproblem but 0 must be a child of its outer subproblem, once",
        ),
        (
            {"children": [-2, -3, -4, -6, -5, -7, *range(8)]},
            "every subproblem but 0 must be a child of its outer subproblem, once",
        ),
        (
            {"children": [-2, -3, -4, -5, -6, 8, *range(8)]},
            "every subproblem but 0 must be a child of its outer subproblem, once",
        ),
        ({"children": [-2, -3, -4, -5, -6, -7, 0, *range(1, 7), 0]}, "a rank is a child of two subproblems"),
    ],
)
def test_what_is_no_layer(changes: dict[str, Any], text: str) -> None:
    assert said(lambda: layer(**changes)) == f"component: {text}"


def test_links_rise_within_pieces_alone() -> None:
    one = layer()
    for place in range(len(one.links) - 1):
        links = one.links.copy()
        links[place + 1] = links[place] if place + 1 not in one.link_offset else 0
        if place + 1 in one.link_offset:
            assert layer(links=links).links[place + 1] == 0
        else:
            assert (
                said(lambda links=links: layer(links=links)) == "component: links of a subproblem must rise"
            )


@pytest.mark.parametrize(("depth", "is_read"), [(64, True), (65, False)])
def test_pieces_nest_sixty_four_deep(depth: int, is_read: bool) -> None:
    n = depth + 1
    alone = TableTrees([0], [1], [[-1]], [[-1]], [[-1]], [[-1]], [0], [])
    empty = two_boxes()[2].forests[0].layers[0].pieces[0].exits
    inner = Subproblem(np.zeros(0), np.ones(1), alone, empty, empty)

    def made() -> Layer:
        children = np.append(~np.arange(1, n), 0)
        offsets = np.arange(n + 1)
        return Layer((inner,), np.zeros(n), np.arange(-1, n - 1), offsets, children, np.zeros(n + 1), NONE)

    if is_read:
        assert made().n_subproblems == n
    else:
        assert said(made) == "component: subproblems are nested more than 64 deep"


def test_capacities_of_a_layer_are_summed_over_all_pieces() -> None:
    """Of four pieces kinds 2 and 3 come twice each."""
    one = layer()
    totals = [int(kind.capacity.sum()) for kind in one.pieces]
    more = 2**60 - totals[2] - totals[1] - totals[3] - totals[0] // 2
    for extra, is_read in ((-1, True), (0, False)):
        capacity = one.pieces[2].capacity.copy()
        capacity[0] += more + extra
        pieces = (*one.pieces[:2], replace(one.pieces[2], capacity=capacity), one.pieces[3])
        if is_read:
            assert layer(pieces=pieces).n_subproblems == 7
        else:
            assert said(lambda pieces=pieces: layer(pieces=pieces)) == (
                "component: capacity units sum to 2**61 or more; use a smaller number of trees"
            )


def test_forests_count_the_trees_of_all_their_layers() -> None:
    forest: Any = samples.superposed()[2].forests[0]
    assert said(lambda: replace(forest, root_multiplicity=[2, 2, 2, 3, 1, 2])) == (
        "factored forest: rank 3 has 2 native unit trees in the components, root_multiplicity 3"
    )
    assert said(lambda: replace(forest, root_multiplicity=[2] * 5)) == (
        "factored forest: component 0 must have ranks 0 to 4, once each"
    )
    assert said(lambda: replace(forest, root_multiplicity=[-1] * 6)) == (
        f"factored forest: root_multiplicity: found -1, expected 0 to {MOST}"
    )
    assert said(lambda: replace(forest, root_multiplicity=[2**60, 2**60, 0, 0, 0, 0])) == (
        "factored forest: root_multiplicity sum to 2**61 or more; use a smaller number of trees"
    )
    last: Any = forest.layers[1]
    other = replace(last, children=[0, 1, 2, 3, 4, 6])
    assert said(lambda: replace(forest, layers=(forest.layers[0], other))) == (
        "factored forest: component 1 must have ranks 0 to 5, once each"
    )
