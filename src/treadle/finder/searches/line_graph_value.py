"""Exact cost of breadth-first-broadcast on line graphs of Cayley digraphs, from the base graph alone.

A node of L^n(G) is a walk of n arcs of G. A walk `a` whose last j arcs are the first j of walk w, j as large
as possible, is n - j steps away from w; where no arcs are shared, n + D(head of a, tail of w). So in step
n + t, t > 0, w has to receive what its tail receives in step t on G, d^n times, less the walks that share
arcs with w: for each j those that end with the first j arcs of w, d^(n - j) of them, whose head is the node
that w comes to after j arcs. They may use the same in-links. In steps 1, ..., n the fullest link carries
1, d, ..., d^(n - 1) walks.

The group moves any walk to the one with the same generators from node 0, so that d^n walks stand for all. T_B
falls below Theorem 7's bound only in those steps in which every walk has something taken away: L(G) stays
bandwidth-optimal if all generators return over equally many hops (and the rest can be shared evenly), L^2(G)
if besides all products of two generators do, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.errors import TopologyError
from treadle.finder.searches.cayley_batch import GroupTable, Int16Array, batch_distances
from treadle.finder.searches.cayley_library import LineGraphEntry
from treadle.finder.searches.cayley_value import load_scale, scaled_loads
from treadle.topologies.catalogue.cayley import CayleyGraph
from treadle.topologies.limits import check_count

MAX_POWER = 3
"""Largest n: walks of four arcs can meet themselves in more ways than are reckoned with here."""

MAX_LINE_DEGREE = 8
"""Largest degree: there are d^n walks, and 2^d sets of links for each."""

_MAX_ORDER = 4096


def line_graph_value(graph: CayleyGraph, n: int = 1) -> LineGraphEntry:
    """Compute the costs of breadth-first broadcast on L^n and its transpose, without building L^n.

    Parameters
    ----------
    graph : CayleyGraph
        At most 4096 nodes, degree 2 to 8.
    n : int
        1 to 3.

    Raises
    ------
    TopologyError
        If an argument is out of range.

    Examples
    --------
    >>> from treadle.topologies.catalogue.cayley import cayley_graph
    >>> value = line_graph_value(cayley_graph("metacyclic_cayley(16, 8, 11, 29, 50, 53, 76)"))
    >>> value.nodes, value.t_l, str(value.gather_t_b), str(value.reduce_t_b)
    (512, 5, '511/512', '511/512')
    """
    size, d = graph.n_nodes, graph.degree
    check_power(n, d)
    if size > _MAX_ORDER:
        raise TopologyError(
            f"{graph.expression}: {size} nodes; line graphs of at most {_MAX_ORDER} are valued"
        )
    table = GroupTable(graph.group)
    generators = np.array([graph.generators], dtype=np.int64)
    distance = batch_distances(table, generators, size)
    gather, reduce = (
        Fraction(int(batch_line_graph_costs(table, products, generators, distance, n)[0]) * d)
        / (load_scale(d) * size * d**n)
        for products in (table.products, table.reversed_products)
    )
    return LineGraphEntry(d, size * d**n, n, graph.expression, int(distance.max()) + n, gather, reduce)


def check_power(n: int, degree: int) -> None:
    """Reject line graphs that the formulas above do not cover."""
    check_count("line graph value", "n", n, most=MAX_POWER)
    check_count("line graph value", "degree", degree, least=2, most=MAX_LINE_DEGREE)


def batch_line_graph_costs(
    table: GroupTable, products: Int16Array, generators: Int64Array, distance: Int16Array, n: int
) -> Int64Array:
    """Return the sum of the loads over the steps of L^n times lcm(1, ..., d), for each generator set.

    Parameters
    ----------
    table : GroupTable
    products : array of int16, shape (N, N)
        `table.products` for the allgather, `table.reversed_products` for the reduce-scatter.
    generators : array of int64, shape (B, d)
    distance : array of int16, shape (B, N)
        Word lengths: distances to node 0, complete.
    n : int

    Returns
    -------
    array of int64, shape (B,)
    """
    batch, d = generators.shape
    steps = int(distance.max()) + 1
    inverses = table.inverses[generators]
    key = _step_and_links(products, inverses, distance)
    place = np.arange(batch)[:, None] * (steps << d) + key
    counts = np.bincount(place.ravel(), minlength=batch * steps << d) * d**n
    counts = counts.reshape(batch, steps << d)
    rows = np.arange(batch)
    worst = np.zeros((batch, steps), dtype=np.int64)
    for taken in _taken_away(products, inverses, n):
        for node, amount in taken:
            np.subtract.at(counts, (rows, key[rows, node]), amount)
        worst = np.maximum(worst, scaled_loads(counts.reshape(batch, steps, 1 << d)))
        for node, amount in taken:
            np.add.at(counts, (rows, key[rows, node]), amount)
    first = sum(d**i for i in range(n)) * load_scale(d)
    totals: Int64Array = worst[:, 1:].sum(axis=1) + first
    return totals


def _step_and_links(products: Int16Array, inverses: Int64Array, distance: Int16Array) -> Int64Array:
    """Return for every source the step in which node 0 receives it, times 2^d, plus the links it may use."""
    d = inverses.shape[1]
    key: Int64Array = distance.astype(np.int64) << d
    for link in range(d):
        closer = np.take_along_axis(distance, products[inverses[:, link]].astype(np.int64), 1)
        key |= ((closer == distance - 1) & (distance > 0)).astype(np.int64) << link
    return key


def _taken_away(
    products: Int16Array, inverses: Int64Array, n: int
) -> Iterator[list[tuple[Int64Array, Int64Array]]]:
    """Yield for every walk from node 0 its nodes, and how many walks that end there share its arcs.

    Notes
    -----
    Walks that end with the first three arcs of w are among those that end with the first one if the third
    arc is the first; no other walks of at most three arcs without self-loops are counted twice. Where w
    returns to node 0 the count goes off step 0, which is not used.
    """
    batch, d = inverses.shape
    for walk in product(range(d), repeat=n):
        node = np.zeros(batch, dtype=np.int64)
        taken: list[tuple[Int64Array, Int64Array]] = []
        for j, link in enumerate(walk):
            is_new: BoolArray = np.ones(batch, dtype=np.bool_)
            if j == 2 and link == walk[0]:
                is_new = node != 0
            node = products[node, inverses[:, link]].astype(np.int64)
            taken.append((node, np.where(is_new, d ** (n - 1 - j), 0)))
        yield taken
