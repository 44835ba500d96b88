"""The subproblems that a laminar family cuts a flow problem into, with their own numberings; equal ones once.

Fabrics of thousands of boxes have few kinds of subproblems, so what follows costs by kinds and not by ranks.
Subproblems are equal if all that a solver sees of them is: links, capacities and numbers of trees in local
numbers. Source: docs/proofs/decomposition.md, section 3, "Nesting in practice".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int32Array, Int64Array, distinct_rows, offsets_of
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.family import Family


@dataclass(frozen=True, eq=False)
class LocalSubproblem:
    """One set contracted from within and from without: children, relays, and the outside as one terminal.

    Parameters
    ----------
    n_children, n_relays : int
        Children are nodes 0, 1, ...; relays follow; the outside, if there is one, comes last.
    has_outside : bool
    tails, heads : arrays of int32, shape (l,)
        Local nodes; links in rising order of their numbers in the fabric.
    capacity : array of int64, shape (l,)
    native : array of int64, shape (n,)
        Unit trees rooted in each child.
    total : int
        R, unit trees of the whole problem.
    """

    n_children: int
    n_relays: int
    has_outside: bool
    tails: Int32Array
    heads: Int32Array
    capacity: Int64Array
    native: Int64Array
    total: int

    @property
    def n_nodes(self) -> int:
        """Children, relays and the outside."""
        return self.n_children + self.n_relays + self.has_outside

    @property
    def outside(self) -> int:
        """Number of the outside, the last node."""
        return self.n_nodes - 1

    @property
    def terminals(self) -> Int32Array:
        """Children, then the outside."""
        nodes = list(range(self.n_children)) + ([self.outside] if self.has_outside else [])
        return np.array(nodes, dtype=np.int32)

    @property
    def multiplicities(self) -> Int64Array:
        """Unit trees rooted at each of `terminals`."""
        outer = [self.total - int(self.native.sum())] if self.has_outside else []
        return np.concatenate([self.native, np.array(outer, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class Cutting:
    """All subproblems of a family; arrays as in `treadle.schedules.factored.Layer`.

    Parameters
    ----------
    kinds : tuple of LocalSubproblem
    kind : array of int32, shape (p,)
    outer : array of int32, shape (p,)
    child_offset, children : arrays of int64, int32
    link_offset, links : arrays of int64, int32
    relay_offset, relays : arrays of int64, int32
        Relays of each subproblem, nodes of the fabric.
    """

    kinds: tuple[LocalSubproblem, ...]
    kind: Int32Array
    outer: Int32Array
    child_offset: Int64Array
    children: Int32Array
    link_offset: Int64Array
    links: Int32Array
    relay_offset: Int64Array
    relays: Int32Array

    def children_of(self, number: int) -> Int32Array:
        """Codes of a subproblem's children."""
        return self.children[self.child_offset[number] : self.child_offset[number + 1]]

    def links_of(self, number: int) -> Int32Array:
        """Fabric links of a subproblem, rising."""
        return self.links[self.link_offset[number] : self.link_offset[number + 1]]


def cut(problem: Instance, family: Family, capacities: Int64Array, multiplicities: Int64Array) -> Cutting:
    """Cut a problem into the subproblems of a family whose sets are tight.

    Parameters
    ----------
    problem : Instance
    family : Family
    capacities : array of int64, shape (m,)
    multiplicities : array of int64, shape (N,)
        r(v) of each rank.
    """
    child_offset, children, place_of_rank, place_of_set = children_of(problem, family)
    counts = np.diff(child_offset)
    relays = problem.relays
    relays = relays[np.argsort(family.innermost[relays], kind="stable")]
    owner = family.innermost[relays]
    relay_offset = offsets_of(np.bincount(owner, minlength=family.n_sets))
    own_place = np.empty(problem.n_nodes, dtype=np.int32)  # of a node in the piece that it is a member of
    own_place[problem.terminals] = place_of_rank
    own_place[relays] = np.arange(len(relays)) - relay_offset[owner] + counts[owner]
    piece, link, tail, head = _incidences(problem, family, capacities, own_place, place_of_set)
    link_offset = offsets_of(np.bincount(piece, minlength=family.n_sets))
    weight = np.zeros(problem.n_nodes, dtype=np.int64)
    weight[problem.terminals] = multiplicities
    roots = family.sums(weight)
    native = np.concatenate([multiplicities, roots[::-1]])[children]  # ~s, of set s: from the end
    outside = (counts + np.diff(relay_offset)).astype(np.int32)[piece]
    del piece
    for end in (tail, head):
        np.copyto(end, outside, where=end < 0)
    columns = tail, head, link, capacities
    kind, examples = _classify(child_offset, link_offset, relay_offset, native, columns)

    def local(number: int) -> LocalSubproblem:
        own = slice(link_offset[number], link_offset[number + 1])
        return LocalSubproblem(
            n_children=int(counts[number]),
            n_relays=int(relay_offset[number + 1] - relay_offset[number]),
            has_outside=number > 0,
            tails=tail[own].copy(),
            heads=head[own].copy(),
            capacity=capacities[link[own]],
            native=native[child_offset[number] : child_offset[number + 1]].copy(),
            total=int(multiplicities.sum()),
        )

    kinds = tuple(map(local, examples.tolist()))
    return Cutting(kinds, kind, family.outer, child_offset, children, link_offset, link, relay_offset, relays)


_CELLS = 2**20
"""Cells of the tables of subproblems that are compared at a time."""


def _classify(
    child_offset: Int64Array,
    link_offset: Int64Array,
    relay_offset: Int64Array,
    native: Int64Array,
    columns: tuple[Int32Array, Int32Array, Int32Array, Int64Array],
) -> tuple[Int32Array, Int64Array]:
    """Return the class of each subproblem, numbered as they appear, and the first subproblem of each class.

    `columns` has the tail, head and number of each link of each subproblem, and the capacities by number.
    """
    tail, head, link, capacities = columns
    children, links = np.diff(child_offset), np.diff(link_offset)
    is_outermost = np.arange(len(children)) == 0
    _, shape = distinct_rows(np.stack([is_outermost, children, links, np.diff(relay_offset)], axis=1))
    groups = np.split(np.argsort(shape, kind="stable"), np.cumsum(np.bincount(shape))[:-1])
    example = np.empty(len(children), dtype=np.int64)
    for group in groups:  # as many children, links and relays each
        known: dict[bytes, int] = {}
        width = int(children[group[0]] + 3 * links[group[0]])
        rows = max(1, _CELLS // width)
        for some in (group[begin : begin + rows] for begin in range(0, len(group), rows)):
            of_children = child_offset[some][:, None] + np.arange(children[group[0]])
            of_links = link_offset[some][:, None] + np.arange(links[group[0]])
            ends = tail[of_links], head[of_links], capacities[link[of_links]]
            table = np.concatenate([native[of_children], *ends], axis=1)
            first, which = distinct_rows(table)
            names = [known.setdefault(table[row].tobytes(), int(some[row])) for row in first.tolist()]
            example[some] = np.array(names, dtype=np.int64)[which]
    examples, kind = np.unique(example, return_inverse=True)
    return kind.astype(np.int32), examples


def children_of(problem: Instance, family: Family) -> tuple[Int64Array, Int32Array, Int32Array, Int32Array]:
    """Children of each subproblem by least rank: offsets, codes, and the place of each rank and set."""
    n = len(problem.terminals)
    home = family.innermost[problem.terminals]
    ranks = np.arange(n, dtype=np.int64)
    first = np.full(family.n_sets, n, dtype=np.int64)
    for row in family.ancestors[:, problem.terminals]:
        live = row >= 0
        np.minimum.at(first, row[live], ranks[live])
    sets = np.arange(1, family.n_sets, dtype=np.int64)
    piece = np.concatenate([home, family.outer[1:]]).astype(np.int64)
    order = np.lexsort((np.concatenate([ranks, first[1:]]), piece))
    offset = offsets_of(np.bincount(piece, minlength=family.n_sets))
    codes = np.concatenate([ranks, ~sets])[order].astype(np.int32)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order)) - offset[piece[order]]
    return offset, codes, place[:n], np.concatenate([np.zeros(1, dtype=np.int32), place[n:]])


def _incidences(
    problem: Instance,
    family: Family,
    capacities: Int64Array,
    own_place: Int32Array,
    place_of_set: Int32Array,
) -> tuple[Int32Array, Int32Array, Int32Array, Int32Array]:
    """Each subproblem's links and their local ends, -1 outside, by (subproblem, link)."""
    ancestors = family.ancestors
    depths = len(ancestors)
    live = np.flatnonzero((capacities > 0) & (problem.tails != problem.heads)).astype(np.int32)
    tails, heads = problem.tails[live], problem.heads[live]
    parts: list[tuple[Int32Array, Int32Array, Int32Array, Int32Array]] = []
    # a link lies in the deepest piece that holds both of its ends, and in each whose border it crosses
    for depth in range(depths):
        at_tail, at_head = ancestors[depth, tails], ancestors[depth, heads]
        below = ancestors[depth + 1] if depth + 1 < depths else np.full(problem.n_nodes, -1, dtype=np.int32)
        place = np.where(below >= 0, place_of_set[below], own_place)
        same_child = (below[tails] >= 0) & (below[tails] == below[heads])
        within = (at_tail >= 0) & (at_tail == at_head) & ~same_child
        leaves = (at_tail >= 0) & (at_tail != at_head)
        enters = (at_head >= 0) & (at_tail != at_head)
        for mask, piece, has_tail, has_head in (
            (within, at_tail, True, True),
            (leaves, at_tail, True, False),
            (enters, at_head, False, True),
        ):
            at = np.flatnonzero(mask)
            outside = np.full(len(at), -1, dtype=np.int32)
            near = place[tails[at]] if has_tail else outside, place[heads[at]] if has_head else outside
            parts.append((piece[at], live[at], *near))
    piece, link, *ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    del parts
    order = np.argsort(piece * np.int64(len(problem.tails) + 1) + link, kind="stable")  # a few rising runs
    return piece[order], link[order], ends[0][order], ends[1][order]
