"""Exact optima of fabrics that index sets describe, in milliseconds however many nodes they have.

Permutations of the values of an index are automorphisms (`topologies.families`). The minimum cuts of a root
and a sink form a lattice, so the smallest one is a union of the classes that are left when root and sink are
fixed. Flows and link lengths may be averaged over all automorphisms, so that some optimal ones are equal
within each class of links. The small problems on classes hence have the optima of the whole fabric. Source:
problem (*) of section 4.4 of the dissertation (cuts), and the linear programs behind the certificates
`GroupDualCertificate` and `FlowDualCertificate`; docs/proofs/decomposition.md, "Classes of nodes".
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import permutations, product
from math import gcd, lcm
from typing import TYPE_CHECKING

import numpy as np

from treadle.arrays import Float64Array, Int64Array
from treadle.errors import ScheduleError
from treadle.math.graphs import reached
from treadle.schedules.alltoall.alltoall_certificate import MAX_LENGTH, FlowDualCertificate
from treadle.schedules.certificate import BottleneckCut
from treadle.schedules.collective import Collective
from treadle.schedules.group_certificate import GroupDualCertificate
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.trees.instance import Instance
from treadle.synthesis.trees.optimality import Optimum, instance_optimum
from treadle.topologies.families import Classes, Families, NodeFamily, families_of
from treadle.topologies.topology import Topology

if TYPE_CHECKING:
    from treadle.math.columns import RestrictedMaster
    from treadle.synthesis.alltoall.rate.certificate import RateResult


def class_problem(topology: Topology, collective: Collective) -> ClassProblem | None:
    """The problem on classes; None where the fabric has no families, or ranks are not equivalent."""
    families = families_of(topology)
    alike = collective.weights is None and collective.demands is None and collective.groups is None
    if families is None or not alike or len(collective.ranks) != len(topology.compute_nodes):
        return None
    ranks = [family for family in families.node_families if family.is_compute]
    if len(ranks) != 1 or len(families.indices) > _MOST_INDICES:
        return None
    found = ClassProblem(topology, collective, families, ranks[0])
    return found if found.is_connected() else None


_MOST_INDICES = 6
"""Classes and orders of indices grow exponentially with their number."""


@dataclass(frozen=True)
class ClassProblem:
    """A collective of all compute nodes of a fabric with families.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        Of equal ranks, without groups.
    families : Families
    rank : NodeFamily
        The compute nodes.
    """

    topology: Topology
    collective: Collective
    families: Families
    rank: NodeFamily

    def cut_optimum(self) -> Optimum:
        """Return the optimum of an allgather, a reduce-scatter, a broadcast or a reduce, with its cut.

        Raises
        ------
        InfeasibleError
            If ranks cannot be reached.
        """
        root = self.collective.root
        sizes = [self.families.sizes[index] for index in self.rank.indices]
        if root is None:
            # all ranks are equivalent, so any of them is the sink
            return self._cut([dict.fromkeys(self.rank.indices, 0)])
        places = self._places[self.rank]
        at = [int(axis[0]) for axis in np.nonzero(places == self.collective.ranks[root])]
        found = []
        for differs in product(*((False, True) if size > 1 else (False,) for size in sizes)):
            if any(differs):
                sink = [(v + 1) % n if other else v for v, n, other in zip(at, sizes, differs, strict=True)]
                named = [dict(zip(self.rank.indices, values, strict=True)) for values in (at, sink)]
                found.append(self._cut(named))
        return min(found, key=lambda one: one.algbw)

    @cached_property
    def _places(self) -> dict[NodeFamily, Int64Array]:
        return self.families.node_positions()

    def _cut(self, fixed: Sequence[Mapping[str, int]]) -> Optimum:
        """The optimum by cuts that are unions of classes; the first of two fixed ranks is the root."""
        kind, split = self.collective.kind, dict[str, list[Int64Array]]()
        for index, size in self.families.indices.items():
            single = list(dict.fromkeys(node[index] for node in fixed if index in node))
            rest = np.setdiff1d(np.arange(size), single)
            split[index] = [*(np.array([value]) for value in single), *([rest] if len(rest) else [])]
        classes = self.families.classes({index: [*map(len, values)] for index, values in split.items()})
        is_rank = np.array([family.is_compute for family, _ in classes.members])
        terminals = np.flatnonzero(is_rank).astype(np.int32)
        weights = np.array(classes.size, dtype=np.int64)[terminals]
        if kind.is_rooted:  # the first class of every index has the root's value
            weights = (np.arange(len(terminals)) == 0).astype(np.int64)
        each = np.array([family.bandwidth for family in self.families.link_families])
        bandwidths = np.array(classes.links) * each[classes.family]
        tails, heads = (np.array(ends, dtype=np.int32) for ends in (classes.tails, classes.heads))
        names = tuple(map(str, range(len(is_rank))))
        quotient = Topology(self.topology.name, names, is_rank, tails, heads, np.ones_like(bandwidths))
        # every link has an opposite one of the same bandwidth, so the transpose has the same cuts
        best = instance_optimum(
            Instance(quotient, Direction.BROADCAST, terminals, weights, tails, heads, bandwidths)
        )
        inside = np.zeros(self.topology.n_nodes, dtype=np.bool_)
        for number in best.certificate.nodes:
            family, choice = classes.members[number]
            values = (split[index][at] for index, at in zip(family.indices, choice, strict=True))
            inside[self._places[family][np.ix_(*values)].ravel()] = True
        return Optimum(best.rate, best.algbw, BottleneckCut(tuple(np.flatnonzero(inside).tolist())))

    @cached_property
    def _around(self) -> Classes:
        """Classes around one rank, which is alone in the first class of ranks."""
        return self.families.classes(
            {index: [1, size - 1] if size > 1 else [1] for index, size in self.families.indices.items()}
        )

    def is_connected(self) -> bool:
        """Whether links lead from a rank to all nodes."""
        classes = self._around
        tails, heads = np.array(classes.tails), np.array(classes.heads)
        return bool(reached(len(classes.size), tails, heads, self._rank_class()).all())

    def _volumes(self) -> list[int]:
        """Bandwidth of all links of each family, both directions."""
        families = self.families.link_families
        return [2 * self.families.count(family.indices) * family.bandwidth for family in families]

    def _length_program(self, unit: int) -> tuple[RestrictedMaster, list[int], list[int]]:
        """The program of least volume over link lengths, and its columns: lengths, and distances of classes.

        Volumes are in `unit`. Both directions have one length: the fabric is its own transpose.
        """
        from treadle.math.columns import RestrictedMaster  # brings a solver, which cuts do without

        program = RestrictedMaster()
        length = [program.add_column(-volume // unit) for volume in self._volumes()]
        distance = [program.add_column(0) for _ in self._around.size]
        for tail, head, family in zip(
            self._around.tails, self._around.heads, self._around.family, strict=True
        ):
            program.add_row({distance[head]: 1, distance[tail]: -1, length[family]: -1})
        program.add_row({distance[self._rank_class()]: 1})
        return program, length, distance

    def _rank_class(self, *differs: str) -> int:
        """Class of the ranks that differ from the first one in these indices."""
        return self._around.members.index((self.rank, tuple(int(i in differs) for i in self.rank.indices)))

    def _distances(self, lengths: Sequence[Fraction]) -> list[Fraction]:
        """Shortest distance of each class from the first rank."""
        classes = self._around
        found: dict[int, Fraction] = {self._rank_class(): Fraction(0)}
        for _ in classes.size:  # Bellman and Ford
            for tail, head, family in zip(classes.tails, classes.heads, classes.family, strict=True):
                if tail in found:
                    reached = found[tail] + lengths[family]
                    found[head] = min(reached, found.get(head, reached))
        return [found[place] for place in range(len(classes.size))]

    def allreduce_bound(self) -> tuple[Fraction, GroupDualCertificate] | None:
        """Return the least bound on an allreduce that link lengths prove; None if the program fails.

        Notes
        -----
        Projecting all nodes on one value of an index maps links to links, so ranks that differ in several
        indices are at least as far apart as those that differ in one of them. Minimum spanning trees of the
        ranks hence join along one index after the other, the nearest first: all but one of every n_1 ranks
        have a parent at distance d_1, all but one of every n_2 that are left at distance d_2, and so on.
        Other orders give longer trees, so the least bound is a linear program with a row per order.
        """
        indices = [index for index in self.rank.indices if self.families.sizes[index] > 1]
        volumes = self._volumes()
        program, length, distance = self._length_program(gcd(*volumes))
        for order in permutations(indices):
            terms = self._tree_terms(order)
            program.add_row({distance[self._rank_class(index)]: -count for index, count in terms.items()}, -1)
        program.near_optimum()
        vertex = program.exact_optimum()
        if vertex is None:
            return None
        lengths = [vertex.primal[column] for column in length]
        near = self._distances(lengths)
        away = {index: near[self._rank_class(index)] for index in indices}
        terms = self._tree_terms(sorted(indices, key=away.__getitem__))
        tree = sum((count * away[index] for index, count in terms.items()), Fraction(0))
        volume = sum((one * each for one, each in zip(volumes, lengths, strict=True)), Fraction(0))
        rising = sorted(set(lengths))
        number = np.array([rising.index(one) for one in lengths], dtype=np.int8)
        of_link = number[self.families.link_numbers()]
        return volume / (2 * tree), GroupDualCertificate.of_classes(rising, of_link)

    def _tree_terms(self, order: Sequence[str]) -> dict[str, int]:
        """Edges of a spanning tree of the ranks along each index, if joined in this order."""
        left, found = self.collective.n_ranks, {}
        for index in order:
            fewer = left // self.families.sizes[index]
            found[index], left = left - fewer, fewer
        return found

    def alltoall_rate(self) -> RateResult | None:
        """Return the exact rate of an all-to-all, by flow and link lengths; None if the program fails."""
        from treadle.synthesis.alltoall.rate.certificate import RateResult  # brings what only flows need

        began, n, volumes = time.process_time(), self.collective.n_ranks, self._volumes()
        unit = gcd(*volumes)
        program, length, distance = self._length_program(unit)
        ranks = {
            place: self._around.size[place]
            for place, (family, _) in enumerate(self._around.members)
            if family == self.rank
        }
        program.add_row({distance[place]: -count for place, count in ranks.items()}, -1)
        program.near_optimum()
        vertex = program.exact_optimum()
        if vertex is None:
            return None
        values = [vertex.primal[column] for column in length]
        near = self._distances(values)
        volume = sum((one * each for one, each in zip(volumes, values, strict=True)), Fraction(0))
        upper = volume / (n * sum(count * near[place] for place, count in ranks.items()))
        # the prices of rows of distances are a flow from one rank to all others, that of the last its value
        value = abs(vertex.dual[-1])
        if not value or upper != value * unit / n:
            return None
        flow = [Fraction(0)] * len(volumes)
        for family, amount in zip(self._around.family, vertex.dual, strict=False):
            flow[family] += abs(amount)
        links = [2 * self.families.count(family.indices) for family in self.families.link_families]
        loads = [float(n * one / value / count) for one, count in zip(flow, links, strict=True)]
        scale = lcm(*(one.denominator for one in values))
        whole = [int(one * scale) for one in values]
        numbers, divisor = self.families.link_numbers(), gcd(*whole)
        if max(whole) // divisor > MAX_LENGTH:
            return None

        def flow_of_ranks() -> Float64Array:
            raise ScheduleError("the flow of each rank is too large to be written out; choose fewer ranks")

        return RateResult(
            topology=self.topology,
            collective=self.collective,
            rate=float(upper),
            upper=upper,
            exact=upper,
            loads=np.array(loads)[numbers],
            stored_flow=flow_of_ranks,
            certificate=FlowDualCertificate(np.array(whole)[numbers] // divisor),
            method="classes of nodes",
            seconds=time.process_time() - began,
        )
