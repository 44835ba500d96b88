"""Linear programs over cuts that are too many to list: add violated ones until none is left, then exactly.

A solution that satisfies the rows so far is tested by maximum flows; each violated cut becomes a row. Floats
lead to the last rows; the basis is then solved in rationals and separated once more, so that what is returned
holds exactly. Source: docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from treadle.context import context
from treadle.math.columns import IntegerProgram, RestrictedMaster
from treadle.math.exact import Vertex, over_common_denominator
from treadle.synthesis.trees.allreduce.pair_network import PairNetwork
from treadle.synthesis.trees.allreduce.separation import Number, violated_cuts

_TOLERANCE = 1e-8

CutProgram = RestrictedMaster | IntegerProgram
Roots = Mapping[int, int]
"""Column of each root's rate."""


@dataclass
class CutFamily:
    """Rooted connectivity in one direction: for every S that leaves out some rank, capacity(S) >= x(S).

    Parameters
    ----------
    leaving : bool
        True: capacity out of S (broadcast); False: into S (reduce).
    columns : tuple of int
        The column of each pair's capacity.
    asked : mapping of group node to tuple of int
        Column of the operations that each member initiates, for the groups whose operations the family may
        use. They cross a cut that separates the initiator from another member.
    rows : dict of node set to row number
        The cuts added so far, closed by `PairNetwork.with_full_groups`.
    """

    leaving: bool
    columns: tuple[int, ...]
    asked: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    rows: dict[frozenset[int], int] = field(default_factory=dict)

    def add(self, lp: CutProgram, network: PairNetwork, roots: Roots, nodes: frozenset[int]) -> bool:
        """Add the row of S = `nodes`; return whether it is new."""
        # a group is inside if and only if all of its members are: then its operations do not leave S
        nodes = network.with_full_groups(nodes)
        if nodes in self.rows:
            return False
        coefficients = {column: 1 for root, column in roots.items() if root in nodes}
        for column, tail, head in zip(self.columns, network.tails, network.heads, strict=True):
            start, end = (tail, head) if self.leaving else (head, tail)
            if start in nodes and end not in nodes:
                coefficients[column] = -1
        for group in network.groups:
            if group.node in self.asked and group.node not in nodes:
                for member, column in zip(group.members, self.asked[group.node], strict=True):
                    if member in nodes:
                        coefficients[column] = -1
        self.rows[nodes] = lp.add_row(coefficients, upper=0)
        return True


def add_first_cuts(lp: CutProgram, network: PairNetwork, families: Sequence[CutFamily], roots: Roots) -> None:
    """Add cuts around single ranks, which bound every root: without them there may be no optimum."""
    everything = frozenset(range(network.n_vertices))
    for family in families:
        for done, rank in enumerate(network.ranks):
            context().report("cuts of ranks", done, len(network.ranks))
            if rank in roots:
                family.add(lp, network, roots, frozenset([rank]))
            # the largest set that leaves out the rank and lets no operation out of its group
            apart = {group.node for group in network.groups if rank in group.members}
            family.add(lp, network, roots, everything - apart - {rank})


def capacity_rows(
    network: PairNetwork, families: Sequence[CutFamily], add: Callable[[int, int, int], int]
) -> list[int]:
    """Add the row of each pair by `add(pair, broadcast column, reduce column)`, and return the rows.

    One family stands for both: its reducing share of a pair is its own of the opposite, so both have one row.
    """
    rows: list[int] = []
    for e, (opposite, broadcast) in enumerate(zip(network.reverse, families[0].columns, strict=True)):
        if len(families) > 1:
            rows.append(add(e, broadcast, families[1].columns[e]))
        else:
            rows.append(rows[opposite] if opposite < e else add(e, broadcast, families[0].columns[opposite]))
    return rows


def maximise_over_cuts(
    lp: RestrictedMaster, network: PairNetwork, families: Sequence[CutFamily], roots: Roots
) -> tuple[Vertex, bool]:
    """Solve `lp`, which has all columns and all rows but cuts, with all cuts of `families`.

    Returns
    -------
    vertex : Vertex
        The optimum; its dual is indexed by row.
    is_exact : bool
        The optimum, every cut included. False only where no exact optimum was found: the result is then
        rounded from floats, and its dual still proves a bound.
    """
    add_first_cuts(lp, network, families, roots)

    def separate_near(values: Sequence[float], _: Sequence[float]) -> int:
        return separate(lp, network, families, roots, values, _TOLERANCE)

    def separate_exactly(vertex: Vertex) -> int:
        # there are no rounding errors now: no tolerance
        values, _ = over_common_denominator(vertex.primal)
        return separate(lp, network, families, roots, values, 0)

    vertex = lp.generate(separate_near, separate_exactly)
    if vertex is not None:
        return vertex, True
    near = lp.near_optimum()
    primal, dual = (tuple(Fraction(value).limit_denominator(10**6) for value in part) for part in near)
    return Vertex(tuple(value * lp.scale for value in primal), dual), False


def balance_of(
    network: PairNetwork, columns: Sequence[int], capable: frozenset[int]
) -> dict[int, dict[int, int]]:
    """Return by column the ingress less egress of each node that is neither a rank nor capable."""
    balance: dict[int, dict[int, int]] = {
        node: {} for node in range(network.n_nodes) if node not in network.ranks and node not in capable
    }
    for column, tail, head in zip(columns, network.tails, network.heads, strict=True):
        if head in balance:
            balance[head][column] = 1
        if tail in balance:
            balance[tail][column] = -1
    return {node: row for node, row in balance.items() if row}


def separate(
    lp: CutProgram,
    network: PairNetwork,
    families: Sequence[CutFamily],
    roots: Roots,
    values: Sequence[Number],
    tolerance: Number,
) -> int:
    """Add cuts that `values` violate; return how many are new."""
    added = 0
    supply = {root: values[column] for root, column in roots.items()}
    total = sum(supply.values())
    for family in families:
        room = [values[column] for column in family.columns]
        ends = zip(network.tails, network.heads, room, strict=True)
        arcs = [(t, h, c) if family.leaving else (h, t, c) for t, h, c in ends if c > 0]
        for group in network.groups:
            columns = family.asked.get(group.node, ())
            arcs += [(v, group.node, values[j]) for v, j in zip(group.members, columns, strict=False)]
            arcs += [(group.node, v, total) for v in group.members if columns]
        cuts = violated_cuts(network.n_vertices, arcs, supply, network.ranks, tolerance=tolerance)
        added += sum(family.add(lp, network, roots, nodes) for nodes in cuts)
    return added
