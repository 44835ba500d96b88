"""TTO, three trees overlapped: an allreduce of a square mesh by three spanning trees that share no link.

With rows and columns numbered from the first tree's corner: the first tree goes down the first column and
from there along every row; the third comes from the opposite corner along the last row and up every column;
the second starts in the corner between them and goes down the diagonal in steps, from each place of it along
the row and down the column. One corner has only two links in, so three trees cannot all reach it: the paper
leaves it out of the collective, and lets it pass data on. Source: Laskar et al., Enhancing Collective
Communication in MCM Accelerators for Deep Learning Training (HPCA 2024), and its public code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.synthesis.alltoall.baselines.grids import find_grid
from treadle.synthesis.scheduler import unsupported_reason
from treadle.synthesis.trees.baselines.embedding import ForestBuilder, compose
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

_Place = tuple[int, int]
"""Row and column."""
_Edges = dict[_Place, _Place]
"""The parent of every place but the root."""


def square_mesh(topology: Topology, collective: Collective) -> Unsupported | None:
    """A mesh of as many rows as columns, all of it ranks, or all but one corner, which forwards."""
    return unsupported_reason(_corner, topology, collective)


def tto(topology: Topology, collective: Collective) -> ForestSchedule:
    """Reduce up three trees and broadcast down them.

    Parameters
    ----------
    topology : Topology
        An n x n mesh, nodes in row-major order.
    collective : Collective
        An allreduce of all its nodes, or as in the paper of all but one corner, which forwards (``--ranks``
        with ``--forward``).

    Raises
    ------
    ScheduleError
        For any other fabric.

    Notes
    -----
    Where all nodes are ranks the corner that the paper leaves out hangs on the second tree all the same, for
    half of its units from either neighbour: two links are then shared, and throughput is less than the
    paper's.
    """
    side, spare, is_rank = _corner(topology, collective)

    def build(fabric: Topology, _: Collective) -> Forest:
        return _forest(fabric, collective, side, spare, is_rank=is_rank)

    return compose(topology, collective, build)


def _corner(topology: Topology, collective: Collective) -> tuple[int, int, bool]:
    """Side of the mesh, the node of the corner that a tree cannot reach, and whether it is a rank."""
    grid = find_grid(topology, "tto")
    if grid.n_axes != 2 or grid.sides[0] != grid.sides[1] or any(grid.wraps):
        raise ScheduleError(f"tto: {topology.name} is no square mesh")
    side = grid.sides[0]
    corners = [row * side + column for row in (side - 1, 0) for column in (0, side - 1)]
    if not collective.forwarders:
        return side, corners[0], True
    if len(collective.forwarders) > 1 or collective.forwarders[0] not in corners:
        raise ScheduleError("tto: expected all nodes as ranks, or all but one corner, which forwards")
    return side, collective.forwarders[0], False


def _forest(topology: Topology, collective: Collective, side: int, spare: int, *, is_rank: bool) -> Forest:
    """The out-trees: two units of each, the second's apart where they reach the spare corner differently."""
    builder = ForestBuilder(topology, collective)
    ends = zip(topology.tails.tolist(), topology.heads.tolist(), strict=True)
    links = {pair: link for link, pair in enumerate(ends)}
    turned = _turned(side, spare)
    rank = {node: number for number, node in enumerate(collective.ranks)}
    for edges, units in _trees(side, is_rank=is_rank):
        parents = {turned(place): turned(parent) for place, parent in edges.items()}
        (root,) = set(parents.values()) - set(parents)
        parent, paths = np.full((2, collective.n_ranks), -1, dtype=np.int32)
        for node in parents:
            if node not in rank:
                continue
            way, above = [], node
            while above == node or above not in rank:  # the spare corner passes on
                way.append(links[parents[above], above])
                above = parents[above]
            parent[rank[node]] = rank[above]
            paths[rank[node]] = builder.path_number(tuple(reversed(way)))
        builder.add_tree(rank[root], units, parent, paths)
    return builder.build()


def _turned(side: int, spare: int) -> Callable[[_Place], int]:
    """Places to nodes, such that the spare corner is that of the last row and the first column."""
    flips_rows, flips_columns = spare // side == 0, spare % side != 0

    def node(place: _Place) -> int:
        row = side - 1 - place[0] if flips_rows else place[0]
        column = side - 1 - place[1] if flips_columns else place[1]
        return row * side + column

    return node


def _trees(side: int, *, is_rank: bool) -> Iterator[tuple[_Edges, int]]:
    """The trees as edges, and how many units each has."""
    last = side - 1
    first: _Edges = {(row, 0): (row - 1, 0) for row in range(1, side)}
    first |= {(row, column): (row, column - 1) for row in range(side) for column in range(1, side)}
    third: _Edges = {(last, column): (last, column + 1) for column in range(last)}
    third |= {(row, column): (row + 1, column) for row in range(last) for column in range(side)}
    second: _Edges = {}
    for row in range(last):
        diagonal = last - row
        second |= {(row, column): (row, column + 1) for column in range(diagonal)}
        second |= {(below, diagonal): (below - 1, diagonal) for below in range(row + 1, side)}
        if row + 1 < last:  # the next place of the diagonal, from above it
            second[row + 1, diagonal - 1] = (row, diagonal - 1)
    second.pop((last, 0), None)
    if not is_rank:
        yield first, 1
        yield second, 1
        yield third, 1
        return
    yield first, 2
    yield second | {(last, 0): (last - 1, 0)}, 1
    yield second | {(last, 0): (last, 1)}, 1
    yield third, 2
