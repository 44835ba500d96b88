"""The largest rate of collectives in all concurrent groups, between two certificates: allocations and
lengths.

Source: Edmonds' theorem for each group with switches split off (dissertation, section 4.4, appendix B.7),
with links shared by the groups; docs/how-it-works/allreduce-and-groups.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, sums_of
from treadle.brief import brief
from treadle.context import context, under
from treadle.schedules.collective import Collective
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.synthesis.trees.groups.allocation_lp import AllocationLp
from treadle.synthesis.trees.groups.capacity import capacity_rows
from treadle.synthesis.trees.groups.every_group import EveryGroup, every_group
from treadle.synthesis.trees.groups.group_colours import (
    Colours,
    can_sharpen,
    refined,
    sharpened,
)
from treadle.synthesis.trees.groups.integral_allocation import integral_group_allocation, units_of
from treadle.synthesis.trees.groups.rational_allocation import RationalAllocation
from treadle.synthesis.trees.groups.representative import representatives
from treadle.synthesis.trees.groups.symmetries import Symmetry, orbit_colours, symmetries
from treadle.synthesis.trees.groups.tree_optimum import TreeOptimum, TreeParts
from treadle.synthesis.trees.groups.tree_program import TreeProgram
from treadle.synthesis.trees.groups.union import GroupUnion, union_of
from treadle.topologies.topology import Topology

_MIN_LINKS_PER_CLASS = 2
"""Links of a class, on average, from which it is quicker to solve for classes and pack trees afterwards."""

_MOST_FLOW_CLASSES = 1000
"""Classes of links up to which a program with flows to sinks takes seconds."""


_MOST_UNITS = 2**40
"""Unit trees of a group that shares by flows may have."""


@dataclass(frozen=True, eq=False)
class GroupAllocation:
    """Capacities for the trees of one group, in one direction of data.

    Parameters
    ----------
    links : array of int64, shape (p,)
        Fabric links of which the group has a share, none twice.
    bandwidths : array of int objects, shape (p,)
        Positive, in units of bytes/s / denominator.
    roots : tuple of int
        Amount that each member of the group, in its order, injects, in the same units.
    denominator : int
    """

    links: Int64Array
    bandwidths: NDArray[Any]
    roots: tuple[int, ...]
    denominator: int


@dataclass(frozen=True, eq=False)
class GroupTree:
    """A tree of one group, in one direction of data.

    Parameters
    ----------
    root : int
        Place in the group's order.
    bandwidth : Fraction
        Bytes/s that it carries.
    parent : tuple of int
        Place of the member above each, -1 at the root.
    paths : mapping of place to tuple of int
        Links of the edge between a member and the one above it, as the data go.
    """

    root: int
    bandwidth: Fraction
    parent: tuple[int, ...]
    paths: Mapping[int, tuple[int, ...]]


@brief("lower", "upper", "is_exact")
@dataclass(frozen=True, eq=False)
class GroupOptimum:
    """The optimum of a collective in groups, or what is known of it.

    Parameters
    ----------
    topology : Topology
    collective : Collective
    lower : Fraction
        algbw of every group that the shares attain, bytes/s.
    upper : Fraction
        Bound on it that the certificate proves.
    certificate : GroupDualCertificate
    families : tuple of bool
        Shares for out-trees (False) and in-trees (True); both for an allreduce.
    n_classes : int
        Classes of links as the groups see them.
    n_columns : int
        Trees that the program was given.
    rounds : int
        Of colour refinement.
    """

    topology: Topology
    collective: Collective
    lower: Fraction
    upper: Fraction
    certificate: GroupDualCertificate
    families: tuple[bool, ...]
    n_classes: int
    n_columns: int
    rounds: int
    _every: EveryGroup = field(repr=False)
    _allocation: RationalAllocation = field(repr=False)
    _parts: TreeParts = field(default=(), repr=False)
    _symmetries: tuple[Symmetry, ...] = field(default=(), repr=False)

    @property
    def is_exact(self) -> bool:
        """Whether both sides meet: this is the optimum."""
        return self.lower == self.upper

    def representative(self, group: int) -> int:
        """Return the group that represents this one and all equal ones."""
        union = self._every.union
        colour = self._every.colour_of(int(union.type_of[group]))
        return int(union.first[self._every.groups[colour].kind])

    def allocation(self, group: int, *, reducing: bool | None = None) -> GroupAllocation:
        """Return the links that a group may use, and its capacity on each.

        Parameters
        ----------
        group : int
        reducing : bool, optional
            Those of in-trees, or of out-trees. Default: the only ones, out-trees of an allreduce.
        """
        family = 0 if reducing is None else self.families.index(reducing)
        union = self._every.union
        kind = int(union.type_of[group])
        one = self._every.of_type(kind)
        colour = self._every.colour_of(kind)
        found = np.array(self._allocation.shares[family][colour], dtype=object)[one.pair_class]
        used = np.flatnonzero(found)
        return GroupAllocation(
            links=union.links_of(group)[used],
            bandwidths=found[used],
            roots=tuple(self._every.in_order_of(kind, self._allocation.roots[colour])),
            denominator=self._allocation.denominator,
        )

    def in_fewer_units(self) -> GroupOptimum | None:
        """Return the same optimum in fewer unit trees, None if none were found."""
        if not self.is_exact or self.n_classes > _MOST_FLOW_CLASSES:
            return None
        with under(context().unlimited):
            program = AllocationLp(self._every, self.families)
        units = units_of(self._allocation)
        found = integral_group_allocation(program, self.lower, self.certificate, units=units)
        return None if found is None else replace(self, _allocation=found, _parts=())

    @property
    def has_trees(self) -> bool:
        """Whether trees are known that make up the shares; else they are to be packed into these."""
        return bool(self._parts)

    def trees(self, group: int, *, reducing: bool) -> Iterator[GroupTree]:
        """Yield the trees of a group that make up its shares, if they are known.

        Parameters
        ----------
        group : int
        reducing : bool
            In-trees, or out-trees.
        """
        family = self.families.index(reducing)
        kind = int(self._every.union.type_of[group])
        colour = self._every.colour_of(kind)
        original = self._every.groups[colour].kind
        images = [self._image(group, each) for each in self._symmetries if each.kinds[original] == kind]
        own = [part for part in self._parts if (part[0].family, part[0].group) == (family, colour)]
        for column, bandwidth in own:
            tree, above = column.tree, column.tree.parent.tolist()
            for places, links in images:
                taken = links[tree.pairs].tolist()
                parent, paths = [-1] * len(above), {}
                for member, rank in enumerate(places):
                    if above[member] >= 0:
                        parent[rank] = places[above[member]]
                        path = taken[int(tree.starts[member]) : int(tree.starts[member + 1])]
                        paths[rank] = tuple(reversed(path) if reducing else path)
                yield GroupTree(places[tree.root], bandwidth / len(images), tuple(parent), paths)

    def _image(self, group: int, symmetry: Symmetry) -> tuple[list[int], Int64Array]:
        """Return the position in a group of each member of its representative, and the links of its pairs."""
        union = self._every.union
        original = self._every.groups[self._every.colour_of(int(union.type_of[group]))].kind
        links = union.links_of(int(union.first[original]))
        if len(self._symmetries) == 1:  # then types may have copies, which are alike place by place
            return list(range(union.nodes.shape[1])), union.links_of(group)
        place = {node: number for number, node in enumerate(union.nodes[group].tolist())}
        nodes = symmetry.nodes[union.nodes[union.first[original]]]
        return [place[node] for node in nodes.tolist()], symmetry.links[links]


def group_optimum(topology: Topology, collective: Collective) -> GroupOptimum:
    """Return the largest algbw of all concurrent groups, exactly where both certificates meet.

    Parameters
    ----------
    topology : Topology
        What its switches can copy or combine is not made use of.
    collective : Collective
        With or without groups; no all-to-all.

    Returns
    -------
    GroupOptimum

    Raises
    ------
    InfeasibleError
        If a member of a group cannot reach another by nodes that its group may use; names the group.
    ScheduleError
        If ranks and forwarders are not exactly the compute nodes of the fabric.
    TimeLimitError
        If the deadline passed before colours were stable.
    """
    context().announce("groups")
    union = union_of(_without_surplus(topology, collective), collective)
    colours = refined(union)
    n_classes, found = len(np.unique(colours.pairs)), None
    # without groups no trees are packed
    known: Sequence[Symmetry] = symmetries(union, colours) if collective.groups is None else ()
    classes_first = _MIN_LINKS_PER_CLASS * n_classes <= len(union.links)
    if classes_first and known:  # unless known symmetries carry all pairs of a colour to each other
        classes_first = len(np.unique(orbit_colours(union, known).pairs)) != n_classes
    if classes_first:
        found = _optimum_of(union, colours)
        if not found.is_exact and not context().is_late and can_sharpen(union):
            finer = sharpened(union, colours)
            if len(np.unique(finer.pairs)) > n_classes:
                found = _better(found, _optimum_of(union, finer))
        if not (found.is_exact or context().is_late or found.n_classes > _MOST_FLOW_CLASSES):
            # perhaps flows to all sinks find shares in few units that attain what the lengths prove
            program = AllocationLp(found._every, found.families)
            shares = integral_group_allocation(program, found.upper, found.certificate, units=_MOST_UNITS)
            if shares is not None:
                found = replace(found, lower=found.upper, _allocation=shares, _parts=())
    if found is None or not (found.is_exact or context().is_late):
        known = known or symmetries(union, colours)
        other = _optimum_of(union, orbit_colours(union, known), tuple(known))
        found = other if found is None else _better(found, other)
    return replace(found, topology=topology)


def _without_surplus(topology: Topology, collective: Collective) -> Topology:
    """Return the fabric with no more bandwidth on any link than trees could use: solvers compute in floats.

    All groups have one rate. What enters a rank, or leaves it where data are reduced, bounds it, and each
    edge of a tree takes a link at most once. Links keep more than that: a proof still gives them no length.
    """
    ends = topology.tails if collective.kind.reduces else topology.heads
    apart = topology.tails != topology.heads
    width = sums_of(topology.n_nodes, ends[apart], topology.bandwidths[apart].astype(object), dtype=object)
    weights = collective.weights or (1,) * collective.group_size
    total = sum(weights)
    rate = min(
        Fraction(width[collective.ranks[rank]] * total, total - weight)
        for group in collective.groups or (range(collective.n_ranks),)
        for place, (rank, weight) in enumerate(zip(group, weights, strict=True))
        # data need not enter a member that sends all of them
        if place != collective.root and weight < total
    )
    most = 2 * collective.n_ranks * ceil(rate) + 1
    if not rate or most >= int(topology.bandwidths.max()):
        return topology
    return replace(topology, bandwidths=np.minimum(topology.bandwidths, most))


def count_classes(topology: Topology, collective: Collective) -> int:
    """Number of link classes of the groups, which determines the time of `group_optimum`."""
    return len(np.unique(refined(union_of(topology, collective)).pairs))


def _better(one: GroupOptimum, other: GroupOptimum) -> GroupOptimum:
    """Return the better shares with the better lengths."""
    shares = one if one.lower > other.lower else other
    lengths = one if one.upper < other.upper else other
    return replace(shares, upper=lengths.upper, certificate=lengths.certificate)


def _optimum_of(union: GroupUnion, colours: Colours, known: tuple[Symmetry, ...] = ()) -> GroupOptimum:
    """Return the optimum of shares and lengths that are equal within classes, perhaps of known symmetries."""
    topology, collective = union.topology, union.collective
    groups = representatives(union, colours)
    kind = collective.kind
    families = (False, True) if kind.broadcasts and kind.reduces else (kind.reduces,)
    program = TreeProgram(
        groups,
        capacity_rows(union, colours, groups),
        families,
        is_rooted=collective.root is not None,
        joins_twins=not known,
        unit=int(topology.bandwidths.max()),
    )
    total = 1 if program.free_roots else sum(groups[0].weights)
    every = every_group(union, colours, groups)
    found = TreeOptimum(every, program, total, is_proven=bool(known))
    return GroupOptimum(
        topology=topology,
        collective=collective,
        lower=found.shares.rate,
        upper=found.upper,
        certificate=found.certificate,
        families=families,
        n_classes=sum(group.n_classes for group in groups),
        n_columns=len(program.columns),
        rounds=colours.rounds,
        _every=every,
        _allocation=found.shares,
        _parts=found.parts,
        _symmetries=known,
    )
