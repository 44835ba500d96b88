"""Trees by formula as schedules of a fabric of their own, and their lookups against their rows."""

from __future__ import annotations

import numpy as np

from treadle.arrays import Int64Array
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.factored import (
    CirculantTrees,
    FactoredForest,
    FactoredSchedule,
    FormulaTrees,
    Layer,
    Subproblem,
    no_crossings,
)
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology, TopologyBuilder
from treadle.verification.factored.formulas import formula_depth


def one_piece(topology: Topology, trees: FormulaTrees | CirculantTrees) -> FactoredSchedule:
    """Trees by formula as a schedule; local links are those of the fabric, one byte/s a unit."""
    n, m = trees.n_children, topology.n_links
    piece = Subproblem(topology.bandwidths, trees.root_units, trees, no_crossings(), no_crossings())
    layer = Layer(
        (piece,),
        np.zeros(1, dtype=np.int32),
        np.full(1, -1, dtype=np.int32),
        np.array([0, n]),
        np.arange(n, dtype=np.int32),
        np.array([0, m]),
        np.arange(m, dtype=np.int32),
    )
    forest = FactoredForest(Direction.BROADCAST, trees.root_units, (layer,))
    return FactoredSchedule(CollectiveKind.ALLGATHER, broadcast=forest)


def check_lookups(trees: FormulaTrees, links: int) -> None:
    """`owners` is the inverse of `rows`, and single edges are those of the rows."""
    units = trees.root_units
    roots = np.repeat(np.arange(len(units)), units)
    numbers = np.concatenate([np.arange(size) for size in units.tolist()])
    rows = trees.rows(roots, numbers)
    line, child = np.nonzero(rows.parent >= 0)
    offsets, path = trees.path_links(rows.path[line, child])
    found = trees.owners(path[offsets[1:] - 1], rows.last[line, child])
    np.testing.assert_array_equal(found[0], roots[line])
    np.testing.assert_array_equal(found[1], numbers[line])
    depth, above = np.zeros(rows.parent.shape, dtype=np.int64), np.arange(len(units)) + 0 * rows.path
    for _ in units:
        parent = np.take_along_axis(rows.parent, above, axis=1)
        depth += parent >= 0
        above = np.where(parent >= 0, parent, above)
    assert depth.max() <= trees.depth <= formula_depth(trees)
    for child in range(len(units)):
        others = np.flatnonzero(roots != child)
        edges = trees.edges_into(roots[others], numbers[others], child)
        for edge, column in zip(edges, (rows.parent, rows.path, rows.first, rows.last), strict=True):
            np.testing.assert_array_equal(edge, column[others, child])
        sent = set(zip(*(one.tolist() for one in trees.trees_out_of(child)), strict=True))
        senders = np.flatnonzero((rows.parent == child).any(axis=1))
        assert sent >= set(zip(roots[senders].tolist(), numbers[senders].tolist(), strict=True))
    beyond = trees.owners(np.arange(links, dtype=np.int32), np.full(links, 10**9))
    assert all((column == -1).all() for column in beyond)


def planes_star(out: Int64Array, into: Int64Array) -> Topology:
    """Ranks around several switches; bandwidths out and in, a row for each rank."""
    builder = TopologyBuilder("planes")
    names = [builder.compute(f"r{i}") for i in range(len(out))]
    switches = [builder.switch(f"sw{i}") for i in range(out.shape[1])]
    for i, name in enumerate(names):
        for plane, switch in enumerate(switches):
            if out[i, plane]:
                builder.link(name, switch, bandwidth=int(out[i, plane]))
            if into[i, plane]:
                builder.link(switch, name, bandwidth=int(into[i, plane]))
    return builder.build()
