"""The largest rate of collectives in all groups at once, between two certificates: shares and link lengths.

Source: Edmonds' theorem for each group with switches split off (dissertation, section 4.4, appendix B.7),
with links shared by the groups; docs/algorithms/groups.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.brief import brief
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.group_witness import GroupLengthWitness
from treadle.synthesis.trees.groups.capacity import capacity_rows
from treadle.synthesis.trees.groups.every_group import EveryGroup, every_group
from treadle.synthesis.trees.groups.group_colours import Colours, can_sharpen, refined, sharpened
from treadle.synthesis.trees.groups.rational_program import RationalProgram
from treadle.synthesis.trees.groups.representative import representatives
from treadle.synthesis.trees.groups.rounded_shares import rounded_shares
from treadle.synthesis.trees.groups.share_program import ShareProgram
from treadle.synthesis.trees.groups.shares import RationalShares
from treadle.synthesis.trees.groups.union import GroupUnion, union_of
from treadle.synthesis.trees.groups.whole_shares import whole_shares
from treadle.topologies.topology import Topology
from treadle.watch import UNWATCHED, TimeLimitError, Watch


@dataclass(frozen=True, eq=False)
class GroupShares:
    """What trees of one group may use, in one direction of data.

    Parameters
    ----------
    links : array of int64, shape (p,)
        Fabric links of which the group has a share, none twice.
    bandwidths : array of int objects, shape (p,)
        Positive, in units of bytes/s / denominator.
    roots : tuple of int
        What each member of the group, in its order, feeds in, in the same units.
    denominator : int
    """

    links: Int64Array
    bandwidths: NDArray[Any]
    roots: tuple[int, ...]
    denominator: int


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
        Bound on it that the witness proves.
    witness : GroupLengthWitness
    families : tuple of bool
        Shares for out-trees (False) and in-trees (True); both for an allreduce.
    n_classes : int
        Share variables of the program.
    n_sinks : int
        Sinks that it had to be asked for.
    rounds : int
        Of colour refinement.
    """

    topology: Topology
    collective: Collective
    lower: Fraction
    upper: Fraction
    witness: GroupLengthWitness
    families: tuple[bool, ...]
    n_classes: int
    n_sinks: int
    rounds: int
    _every: EveryGroup = field(repr=False)
    _shares: RationalShares = field(repr=False)
    _rational: RationalProgram = field(repr=False)

    @property
    def is_exact(self) -> bool:
        """Whether both sides meet: this is the optimum."""
        return self.lower == self.upper

    @property
    def n_representatives(self) -> int:
        """Groups that differ."""
        return len(self._every.groups)

    def representative(self, group: int) -> int:
        """The group that stands for this one and all that are like it."""
        union = self._every.union
        colour = self._every.colour_of(int(union.type_of[group]))
        return int(union.first[self._every.groups[colour].kind])

    def shares(self, group: int, *, reducing: bool | None = None) -> GroupShares:
        """The links that a group may use, and how much of each.

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
        found = np.array(self._shares.shares[family][colour], dtype=object)[one.pair_class]
        used = np.flatnonzero(found)
        return GroupShares(
            links=union.links_of(group)[used],
            bandwidths=found[used],
            roots=tuple(self._every.in_order_of(kind, self._shares.roots[colour])),
            denominator=self._shares.denominator,
        )

    def in_fewer_units(self, watch: Watch = UNWATCHED) -> GroupOptimum | None:
        """The same optimum by shares that fewer unit trees fill; None if there are none, or none were found.

        Parameters
        ----------
        watch : Watch
            When its deadline passes the search ends.
        """
        if not self.is_exact:
            return None
        found = whole_shares(self._rational, self._shares, self.witness, watch)
        return None if found is None else replace(self, _shares=found)


def group_optimum(topology: Topology, collective: Collective, *, watch: Watch = UNWATCHED) -> GroupOptimum:
    """The largest algbw that all groups have at once, exactly where both certificates meet.

    Parameters
    ----------
    topology : Topology
        What its switches can copy or combine is not made use of.
    collective : Collective
        With or without groups; no all-to-all.
    watch : Watch
        When its deadline passes, what is known so far is returned: a bracket.

    Returns
    -------
    GroupOptimum

    Raises
    ------
    InfeasibleError
        If a member of a group cannot reach another by nodes that its group may use; names the group.
    ScheduleError
        If ranks and forwarders are not just the compute nodes of the fabric.
    TimeLimitError
        If the deadline passed before colours were stable.
    """
    watch.announce("groups")
    union = union_of(topology, collective)
    colours = refined(union, watch)
    found = _optimum_of(union, colours, watch)
    if not found.is_exact and not watch.is_late and can_sharpen(union):
        finer = sharpened(union, colours, watch)
        if len(np.unique(finer.pairs)) > len(np.unique(colours.pairs)):
            other = _optimum_of(union, finer, watch)
            found = _better(found, other)
    return found


def count_classes(topology: Topology, collective: Collective, *, watch: Watch = UNWATCHED) -> int:
    """How many classes of links the program of `group_optimum` has: what its time depends on."""
    return len(np.unique(refined(union_of(topology, collective), watch).pairs))


def _better(one: GroupOptimum, other: GroupOptimum) -> GroupOptimum:
    """The shares of one and the lengths of one, whichever prove more."""
    shares = one if one.lower > other.lower else other
    lengths = one if one.upper < other.upper else other
    return replace(shares, upper=lengths.upper, witness=lengths.witness)


def _optimum_of(union: GroupUnion, colours: Colours, watch: Watch) -> GroupOptimum:
    """The optimum of shares and lengths that are the same within classes."""
    topology, collective = union.topology, union.collective
    groups = representatives(union, colours)
    families = _families(collective.kind)
    program = ShareProgram(
        groups,
        capacity_rows(union, colours, groups),
        families,
        free_roots=len(families) > 1,
        unit=int(topology.bandwidths.max()),
    )
    total = 1 if program.free_roots else sum(groups[0].weights)
    rational = RationalProgram(every_group(union, colours, groups), program, total, watch)
    found: RationalShares | None = None
    try:
        found = rational.optimise()
    except TimeLimitError:
        watch = watch.unlimited  # what is left to do is short
    lengths, upper = rational.lengths()
    if found is None:
        for near in rational.guesses():
            rounded = rounded_shares(rational.every, program, near, watch)
            if found is None or rounded.rate > found.rate:
                found = rounded
    assert found is not None
    return GroupOptimum(
        topology=topology,
        collective=collective,
        lower=found.rate,
        upper=upper,
        witness=lengths,
        families=families,
        n_classes=program.n_own - 1,
        n_sinks=len(program.sinks),
        rounds=colours.rounds,
        _every=rational.every,
        _shares=found,
        _rational=rational,
    )


def _families(kind: CollectiveKind) -> tuple[bool, ...]:
    return (False, True) if kind.broadcasts and kind.reduces else (kind.reduces,)
