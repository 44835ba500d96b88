"""A component: the subproblems of a family whose sets are tight, each class solved once, from the inside
out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int32Array, Int64Array, mask_of
from treadle.context import context, under
from treadle.schedules.factored import Layer, Subproblem, SubproblemTrees, no_crossings
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.tight_cuts.alignment import EgressPorts, egress_ports
from treadle.synthesis.trees.tight_cuts.balancing import balance_capacities
from treadle.synthesis.trees.tight_cuts.closed_forms.boundary_runs import Outermost
from treadle.synthesis.trees.tight_cuts.closed_forms.child_classes import class_trees, spread_on_planes
from treadle.synthesis.trees.tight_cuts.closed_forms.class_allocation import ClassAllocation
from treadle.synthesis.trees.tight_cuts.closed_forms.equal_children import circulant_trees
from treadle.synthesis.trees.tight_cuts.closed_forms.even_planes import relay_planes
from treadle.synthesis.trees.tight_cuts.closed_forms.one_relay import relay_trees
from treadle.synthesis.trees.tight_cuts.closed_forms.relayed_stars import relayed_stars
from treadle.synthesis.trees.tight_cuts.closed_forms.star import star_trees
from treadle.synthesis.trees.tight_cuts.closed_forms.unequal_planes import plane_trees
from treadle.synthesis.trees.tight_cuts.family import Family
from treadle.synthesis.trees.tight_cuts.subproblem_tables import solve_table, violated_cut
from treadle.synthesis.trees.tight_cuts.subproblems import Cutting, cut
from treadle.unsupported import Unsupported

_MOST_CELLS = 2**24
"""A table of unit trees times children is not begun beyond this."""

_SEARCH = 2**28
"""Steps of local search to reduce heights, divided equally among subproblem classes; those that need more go
without. In large subproblems it gains little: what counts is how trees go from boundary to boundary."""


@dataclass(frozen=True)
class ClassReport:
    """Solution of one subproblem class.

    Parameters
    ----------
    count : int
        Subproblems of this class.
    children, relays : int
    packer : str
    """

    count: int
    children: int
    relays: int
    packer: str


@dataclass(frozen=True)
class InfeasibleSubproblem:
    """A subproblem that violates the cut condition: fabric nodes S with d+(S) < r(S), and the sets at fault.

    Parameters
    ----------
    nodes : array of int32
    blamed : array of int64
    reason : str
    others : tuple of InfeasibleSubproblem
        More of them.
    """

    nodes: Int32Array
    blamed: Int64Array
    reason: str
    others: tuple[InfeasibleSubproblem, ...] = ()

    @property
    def all(self) -> tuple[InfeasibleSubproblem, ...]:
        """This one and the others."""
        return (self, *self.others)


def fitted_layer(
    problem: Instance,
    family: Family,
    capacities: Int64Array,
    multiplicities: Int64Array,
    guarded: Sequence[Sequence[int]],
) -> tuple[Layer, tuple[ClassReport, ...]] | InfeasibleSubproblem | Unsupported:
    """Solve the subproblems of a family after making its sets tight: by what classes of children send each
    other, else by balancing that spares the guarded cuts.
    """
    # punctured(dgx_a100(64), links=1, seed=1): height 3, without 5
    spread = spread_on_planes(problem, family, capacities, multiplicities)
    if not isinstance(spread, Unsupported):
        shares, lowered = spread
        built = solve_layer(problem, family, lowered, multiplicities, shares)
        if isinstance(built, tuple):
            return built
    trimmed = balance_capacities(problem, family, capacities, multiplicities, guarded)
    if trimmed.failed.any():
        none = np.zeros(0, dtype=np.int32)
        return InfeasibleSubproblem(none, np.flatnonzero(trimmed.failed), "no way to trim")
    return solve_layer(problem, family, trimmed.capacities, multiplicities)


def solve_layer(
    problem: Instance,
    family: Family,
    capacities: Int64Array,
    multiplicities: Int64Array,
    shares: ClassAllocation | None = None,
) -> tuple[Layer, tuple[ClassReport, ...]] | InfeasibleSubproblem | Unsupported:
    """Solve the subproblems of a family whose sets are tight; `shares` are those of the outermost children,
    if the capacities come from them.
    """
    cutting = cut(problem, family, capacities, multiplicities)
    block = int(np.gcd.reduce(multiplicities))
    solved = _solve_kinds(problem, family, cutting, block, shares)
    if not isinstance(solved, list):
        return solved
    counts = np.bincount(cutting.kind, minlength=len(cutting.kinds)).tolist()
    reports = tuple(
        ClassReport(count, kind.n_children, kind.n_relays, packer)
        for count, kind, (_, packer) in zip(counts, cutting.kinds, solved, strict=True)
    )
    return layer_of(cutting, [piece for piece, _ in solved]), reports


def layer_of(cutting: Cutting, solved: list[Subproblem]) -> Layer:
    """Return the component of a family with the trees of each class of its subproblems."""
    children, links = (cutting.child_offset, cutting.children), (cutting.link_offset, cutting.links)
    return Layer(tuple(solved), cutting.kind, cutting.outer, *children, *links)


def _solve_kinds(
    problem: Instance, family: Family, cutting: Cutting, block: int, shares: ClassAllocation | None
) -> list[tuple[Subproblem, str]] | InfeasibleSubproblem | Unsupported:
    """Solve every class from the inside out; return its trees and packer."""
    depth = family.depth
    # the innermost subproblem of each class, so that the classes of its children are solved before it
    order = np.lexsort((-np.arange(family.n_sets), depth)).tolist()
    example = {int(cutting.kind[number]): number for number in order}
    inner = sorted((number for number in example.values() if number), key=lambda number: -int(depth[number]))
    kind = int(cutting.kind[0])
    local = cutting.kinds[kind]
    is_direct = not local.n_relays  # then no direct construction applies
    # the cut condition is tested in every subproblem before any is solved: a violated cut changes the family
    with under(context().unlimited):
        refused = _refused(problem, family, cutting, [*inner, 0] if is_direct else inner)
    if refused is not None:
        return refused
    solved: dict[int, Subproblem] = {}
    packers: dict[int, str] = {}
    steps = _SEARCH // len(example)
    for number in inner:
        own = int(cutting.kind[number])
        solved[own], packers[own] = solve_table(cutting.kinds[own], _ports(cutting, number, solved), steps)
    formula: tuple[SubproblemTrees, str] | Unsupported
    if shares is None:
        formula = _closed_form(cutting, solved, block)
    else:
        formula = class_trees(Outermost.of(cutting, solved, block), shares), "class trees"
    if isinstance(formula, Unsupported):
        with under(context().unlimited):
            refused = None if is_direct else _refused(problem, family, cutting, [0])
        if isinstance(refused, Unsupported):
            children = f"the outermost subproblem of {local.n_children} children"
            return Unsupported(f"{children} has no direct construction ({formula})")
        if refused is not None:
            return refused
        solved[kind], packers[kind] = solve_table(local, _ports(cutting, 0, solved), steps)
    else:
        solved[kind] = Subproblem(local.capacity, local.native, formula[0], no_crossings(), no_crossings())
        packers[kind] = formula[1]
    return [(solved[kind], packers[kind]) for kind in range(len(cutting.kinds))]


def _refused(
    problem: Instance, family: Family, cutting: Cutting, numbers: list[int]
) -> InfeasibleSubproblem | Unsupported | None:
    """Return why some of these subproblems cannot become tables: a size, or violated cuts."""
    violated = []
    for number in numbers:
        local = cutting.kinds[int(cutting.kind[number])]
        trees = int(local.native.sum()) // max(1, int(np.gcd.reduce(local.native)))
        # stars are one row for each child, however many unit trees there are
        if local.n_children * trees > _MOST_CELLS and star_trees(local) is None:
            return Unsupported(f"a subproblem of {local.n_children} children is too large for a table")
        nodes = violated_cut(local)
        if nodes is not None:
            violated.append(_infeasible(problem, family, cutting, number, nodes))
    return replace(violated[0], others=tuple(violated[1:])) if violated else None


def _ports(cutting: Cutting, number: int, solved: dict[int, Subproblem]) -> EgressPorts | None:
    """Return the members of a subproblem's children that are sets; None if all are ranks."""
    codes, links = cutting.children_of(number), cutting.links_of(number)
    if np.all(codes >= 0):
        return None
    children: list[tuple[Subproblem, Int64Array] | None] = []
    for code in codes.tolist():
        if code >= 0:
            children.append(None)
            continue
        theirs = cutting.links_of(~code)
        place = np.minimum(np.searchsorted(links, theirs), len(links) - 1)
        known = np.where(links[place] == theirs, place, -1).astype(np.int64)
        children.append((solved[int(cutting.kind[~code])], known))
    return egress_ports(len(links), children)


def _closed_form(
    cutting: Cutting, solved: dict[int, Subproblem], block: int
) -> tuple[SubproblemTrees, str] | Unsupported:
    """Return the outermost subproblem's trees and the name of their construction, or why none applies."""
    local = cutting.kinds[int(cutting.kind[0])]
    if local.n_children < 2:
        return Unsupported("it has one child")
    if np.any((local.tails < local.n_children) & (local.heads < local.n_children)):
        return Unsupported("some links join two children")
    outer, reasons = Outermost.of(cutting, solved, block), []
    # what each is worth is in tests/synthesis/trees/test_alternatives.py
    forms = (
        ("circulant trees", circulant_trees),
        ("relay trees", relay_trees),  # punctured(dgx_h100(64), links=1, seed=1): height 4, without 5
        ("plane trees", plane_trees),
        ("relay planes", relay_planes),  # rail_optimized(64), shards of 1 and 2: height 3, without 5
        ("relayed stars", relayed_stars),  # 100 boxes of 2 to 8 GPUs on two planes: height 5, without 7
    )
    for name, form in forms:
        trees = form(outer)
        if not isinstance(trees, Unsupported):
            return trees, name
        reasons.append(trees.reason)
    return Unsupported("; ".join(dict.fromkeys(reasons)))


def _infeasible(
    problem: Instance, family: Family, cutting: Cutting, number: int, violated: Int32Array
) -> InfeasibleSubproblem:
    """Return the violated cut of a subproblem as fabric nodes, and the sets whose balancing may be at
    fault."""
    local = cutting.kinds[int(cutting.kind[number])]
    inside = mask_of(local.n_nodes, violated)
    # a contracted set lies entirely on one side, so the same links cross this cut in the fabric
    nodes: list[NDArray[np.signedinteger]] = []
    if local.has_outside and inside[local.outside]:
        nodes.append(np.flatnonzero(family.ancestors[family.depth[number]] != number))
    codes = cutting.children_of(number)[inside[: local.n_children]]
    nodes.append(problem.terminals[codes[codes >= 0]])
    nodes.extend(family.members(int(~code)) for code in codes[codes < 0])
    relays = cutting.relays[cutting.relay_offset[number] : cutting.relay_offset[number + 1]]
    nodes.append(relays[inside[local.n_children : local.n_children + local.n_relays]])
    # subproblems of a class were balanced equally; in the outermost one the boundaries of its children were
    blamed = cutting.kind == cutting.kind[number] if number else family.outer == 0
    return InfeasibleSubproblem(
        np.concatenate(nodes).astype(np.int32),
        np.flatnonzero(blamed),
        f"{len(violated)} of a piece's {local.n_nodes} nodes lack capacity",
    )
