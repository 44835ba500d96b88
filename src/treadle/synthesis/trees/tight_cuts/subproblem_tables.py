"""Solve one subproblem class by the general pipeline, and write its trees out as a table.

The world outside is one more terminal while relays are split off. It is then deleted, and each unit that
enters at a child becomes a tree rooted there, which loses nothing (Lemmas 4 and 5 of
docs/proofs/decomposition.md).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from treadle.arrays import BoolArray, Int32Array, Int64Array, mask_of, offsets_of, sums_of
from treadle.engine import core
from treadle.schedules.factored import Crossings, Subproblem, TableTrees
from treadle.schedules.factored.subproblem_trees import ragged
from treadle.schedules.trees.forest import Forest
from treadle.synthesis.core_values.tree_values import Arcs, PathRows, Segments
from treadle.synthesis.runs import run_starts, sums_before
from treadle.synthesis.trees.instance import Instance, find_violated_cut, graph_instance
from treadle.synthesis.trees.packers.packers import pack_smallest_height
from treadle.synthesis.trees.packers.tree_packing import to_forest
from treadle.synthesis.trees.switch_removal import LogicalGraph, remove_switches
from treadle.synthesis.trees.tight_cuts.alignment import EgressPorts, aligned_rows
from treadle.synthesis.trees.tight_cuts.closed_forms.star import star_trees
from treadle.synthesis.trees.tight_cuts.subproblems import LocalSubproblem

_MOST_SEGMENTS = 2**15
_MOST_CELLS = 2**18

_MOST_ALIGNED = 2**18
"""Trees times children up to which paths are reassigned, in Python."""


def local_instance(local: LocalSubproblem) -> Instance:
    """Return a subproblem as a separate flow problem; the outside is its last terminal."""
    # a relay without links is a terminal here, as the constructor of fabrics rejects such switches
    linked = np.concatenate([local.tails, local.heads])
    is_terminal = ~mask_of(local.n_nodes, linked) | mask_of(local.n_nodes, local.terminals)
    arcs = Arcs(local.tails, local.heads, local.capacity)
    return graph_instance("piece", is_terminal, local.terminals, local.multiplicities, arcs)


def violated_cut(local: LocalSubproblem) -> Int32Array | None:
    """Return local nodes S with d+(S) < r(S); None if the cut condition holds."""
    found = find_violated_cut(local_instance(local), local.capacity)
    return None if found is None else found[1]


def solve_table(
    local: LocalSubproblem, ports: EgressPorts | None = None, steps: int | None = None
) -> tuple[Subproblem, str]:
    """Return the trees of a subproblem, for which the cut condition must hold, and their packer.

    `ports` are the members of children that are sets; None: all children are ranks. Local search
    is left out if it may take more than `steps` steps.

    Relays are split off with the outside as a terminal; then the outside is deleted, and the units that enter
    at a child become unit trees rooted there.
    """
    problem = local_instance(local)
    star = star_trees(local)
    graph = star[0] if star else remove_switches(problem, local.capacity, local.multiplicities)
    if ports is not None:
        graph = balanced_over_links(graph, local.tails, local.heads)
    used = np.zeros(len(local.tails), dtype=np.int64)
    is_exit, is_entrance = (
        (ends == local.outside) & local.has_outside for ends in (graph.heads, graph.tails)
    )
    # units of links go to what leaves, then to what enters, and only then to the trees inside
    exits = _crossings(graph, np.flatnonzero(is_exit), used, entering=False, native=local.native)
    entrances = _crossings(graph, np.flatnonzero(is_entrance), used, entering=True, native=local.native)
    multiplicities = local.native + sums_of(local.n_children, entrances.child, entrances.units)
    inner = replace(problem, terminals=problem.terminals[: local.n_children], weights=multiplicities)
    rest = subgraph(graph, ~(is_exit | is_entrance))
    if star is None:
        free = local.capacity.copy()  # without what enters and leaves
        for rows in (entrances, exits):
            lengths = np.diff(rows.path_offset)[rows.path]
            links = rows.path_links[ragged(rows.path_offset[rows.path], lengths)]
            np.subtract.at(free, links, np.repeat(rows.units, lengths))
        packed = pack_smallest_height(inner, rest, multiplicities, capacities=free, search_steps=steps)
        forest, packer = to_forest(inner, packed.graph, packed.packing), str(packed.packer)
    else:
        forest, packer = to_forest(inner, rest, star[1]), "star"
    if ports is None or forest.n_trees * forest.n_ranks > _MOST_ALIGNED:
        table = table_of(forest, used)
    else:
        root, units, parent, path = aligned_rows(forest, ports, entrances)
        at = path >= 0
        each = np.broadcast_to(units[:, None], path.shape)[at]
        first, last = np.full((2, *path.shape), -1, dtype=np.int64)
        first[at], last[at] = _first_and_last_units(forest, path[at], each, used)
        table = TableTrees(root, units, parent, path, first, last, *forest.all_paths())
    return Subproblem(local.capacity, local.native, table, entrances, exits), packer


def subgraph(graph: LogicalGraph, keep: BoolArray) -> LogicalGraph:
    """Return the logical graph of some arcs; paths stay as they are."""
    counts = np.diff(graph.segment_offset)
    segments = np.repeat(keep, counts)
    return replace(
        graph,
        tails=graph.tails[keep],
        heads=graph.heads[keep],
        capacities=graph.capacities[keep],
        segment_offset=offsets_of(counts[keep]),
        segment_path=graph.segment_path[segments],
        segment_units=graph.segment_units[segments],
    )


def _crossings(
    graph: LogicalGraph, arcs: Int64Array, used: Int64Array, *, entering: bool, native: Int64Array
) -> Crossings:
    """Return arcs to or from the outside as runs of capacity units; `used` counts the units of each link."""
    counts = np.diff(graph.segment_offset)[arcs]
    segments = ragged(graph.segment_offset[arcs], counts)
    child = np.repeat((graph.heads if entering else graph.tails)[arcs], counts)
    path, units = graph.segment_path[segments], graph.segment_units[segments]
    ends = graph.path_links[graph.path_offset[path]], graph.path_links[graph.path_offset[path + 1] - 1]
    border, inside = ends if entering else ends[::-1]
    order = np.lexsort((border, inside, child))
    child, path, units = child[order], path[order], units[order]
    border, inside = border[order], inside[order]
    offset = take_units(border, units, used)
    longer = border != inside
    inner = offset.copy()
    inner[longer] = take_units(inside[longer], units[longer], used)
    # unit trees that enter are numbered after the native ones of their child
    unit = sums_before(child, units) + native[child] if entering else np.zeros_like(units)
    rows = np.lexsort((offset, border))
    return Crossings(
        link=border[rows].astype(np.int32),
        offset=offset[rows],
        units=units[rows],
        child=child[rows].astype(np.int32),
        inner=inner[rows],
        path=path[rows].astype(np.int32),
        root_unit=unit[rows],
        path_offset=graph.path_offset,
        path_links=graph.path_links,
    )


def take_units(links: Int32Array, units: Int64Array, used: Int64Array) -> Int64Array:
    """Return the first of the next `units` capacity units of each row's link; `used` counts them."""
    order = np.argsort(links, kind="stable")
    first = np.empty(len(links), dtype=np.int64)
    first[order] = used[links[order]] + sums_before(links[order], units[order])
    np.add.at(used, links, units)
    return first


def table_of(forest: Forest, used: Int64Array) -> TableTrees:
    """Return a forest as rows of unit trees with one path for each edge, with capacity units of its own."""
    n = forest.n_ranks
    root, _, parent = forest.tree_table()
    entry_offset, path, units = forest.edge_paths()
    path_offset, path_links = forest.all_paths()
    first, last = _first_and_last_units(forest, path, units, used)
    edge = np.repeat(np.arange(len(entry_offset) - 1), np.diff(entry_offset))
    before = np.cumsum(units) - units
    start = before - before[entry_offset[edge]] if len(units) else before
    tree, begin, count = _rows(forest, edge // n, start)
    # entry of each (row, child): the last entry of that edge that starts no later than the row
    values = np.unique(start)
    keys = edge * len(values) + np.searchsorted(values, start)
    row_edge = tree[:, None] * n + np.arange(n)
    wanted = row_edge * len(values) + (np.searchsorted(values, begin, side="right") - 1)[:, None]
    entry = np.searchsorted(keys, wanted, side="right") - 1
    is_root = np.arange(n) == root[tree][:, None]
    entry = np.where(is_root, 0, entry)
    if not len(start):  # a single child, whose trees have no edge in this subproblem
        path, (first, last, start) = np.zeros(1, dtype=np.int32), np.zeros((3, 1), dtype=np.int64)
    shift = begin[:, None] - start[entry]
    return TableTrees(
        root=root[tree],
        units=count,
        parent=parent[tree],
        path=np.where(is_root, -1, path[entry]).astype(np.int32),
        first=np.where(is_root, -1, first[entry] + shift),
        last=np.where(is_root, -1, last[entry] + shift),
        path_offset=path_offset,
        path_table=path_links,
    )


def _first_and_last_units(
    forest: Forest, path: Int32Array, units: Int64Array, used: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return the first of the capacity units that each row takes of its path's first link, and of its
    last."""
    first_link, last_link = (ends[path] for ends in forest.path_ends())
    first = take_units(first_link, units, used)
    last = first.copy()
    # a path of one link has one and the same units at both of its ends
    longer = np.diff(forest.all_paths()[0])[path] > 1
    last[longer] = take_units(last_link[longer], units[longer], used)
    return first, last


def _rows(forest: Forest, tree: Int64Array, start: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the rows of a table: tree, first unit in it, units; a tree is cut where an edge changes path."""
    trees = np.arange(forest.n_trees)
    pairs = np.stack([np.concatenate([trees, tree]), np.concatenate([np.zeros_like(trees), start])])
    ordered = pairs[:, np.lexsort(pairs[::-1])]
    of, begin = ordered[:, run_starts(*ordered)]
    _, multiplicity, _ = forest.tree_table()
    end = np.where(np.append(of[1:] == of[:-1], False), np.append(begin[1:], 0), multiplicity[of])
    return of, begin, end - begin


def balanced_over_links(graph: LogicalGraph, tails: Int32Array, heads: Int32Array) -> LogicalGraph:
    """Return the same arcs over paths whose first and last links, with these ends, are spread evenly.

    Paths that leave a node for the same relay may swap their first links, and paths that come to a node
    from the same relay their last ones: no link's load and no arc's capacity changes. What an arc has there
    is spread over the links in proportion to what they carry.
    """
    if len(graph.segment_path) > _MOST_SEGMENTS:
        return graph
    arc = np.repeat(np.arange(len(graph.tails), dtype=np.int32), np.diff(graph.segment_offset))
    found = core.spread_paths(
        tails,
        heads,
        Segments(arc, graph.segment_path, graph.segment_units),
        PathRows(graph.path_offset, graph.path_links),
        _MOST_CELLS,
    )
    segments, paths = Segments(*found[0]), PathRows(*found[1])
    counts = np.bincount(segments.arc, minlength=len(graph.tails))
    return replace(
        graph,
        segment_offset=offsets_of(counts),
        segment_path=segments.path,
        segment_units=segments.units,
        path_offset=paths.offset,
        path_links=paths.links,
    )
