"""Collectives: kind, ranks, root, shard weights, demands and groups."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from itertools import chain
from math import gcd

import numpy as np

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands, uniform_demands
from treadle.topologies.topology import Topology


class CollectiveKind(StrEnum):
    """The collectives, spelt as on the command line.

    Examples
    --------
    >>> import treadle
    >>> treadle.CollectiveKind("allgather").reduces
    False
    """

    ALLGATHER = "allgather"
    REDUCE_SCATTER = "reduce-scatter"
    ALLREDUCE = "allreduce"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALLTOALL = "alltoall"

    @property
    def is_rooted(self) -> bool:
        """Whether one rank is the root, as in broadcast and reduce."""
        return self in (CollectiveKind.BROADCAST, CollectiveKind.REDUCE)

    @property
    def reduces(self) -> bool:
        """Whether data is reduced on its way."""
        return self in (CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE, CollectiveKind.REDUCE)

    @property
    def broadcasts(self) -> bool:
        """Whether data is copied on its way."""
        return self in (CollectiveKind.ALLGATHER, CollectiveKind.ALLREDUCE, CollectiveKind.BROADCAST)


MAX_WEIGHT = 2**20
"""Largest relative size of a shard."""

SPANNING_KINDS = tuple(kind for kind in CollectiveKind if kind.reduces or kind.broadcasts)
"""Collectives that spread or gather along spanning trees: all but all-to-all."""


def busbw_factor(kind: CollectiveKind, n_ranks: int) -> Fraction:
    """Return busbw / algbw as nccl-tests defines it."""
    if kind is CollectiveKind.ALLREDUCE:
        return Fraction(2 * (n_ranks - 1), n_ranks)
    if kind in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLTOALL):
        return Fraction(n_ranks - 1, n_ranks)
    return Fraction(1)


@brief("kind", "n_ranks", "n_groups", "root", "weights", "forwarders")
@dataclass(frozen=True)
class Collective:
    """A collective on some compute nodes of a fabric.

    Parameters
    ----------
    kind : CollectiveKind
    ranks : tuple of int, length N >= 2
        Node index of each rank; distinct.
    root : int, optional
        Rank of the root of broadcast and reduce; None for the others.
    weights : tuple of int, optional
        Relative shard sizes per rank, not negative, of allgather and reduce-scatter; default all equal.
    forwarders : tuple of int
        Node indices of compute nodes outside `ranks` that may forward.
    demands : Demands, optional
        Relative amounts between ranks of an all-to-all; default all equal.
    groups : tuple of tuples of int, optional
        Ranks that communicate with each other only, all groups concurrently: disjoint, of equal size,
        together all ranks. Sizes, shards and the root are then those of a group, `root` an index in each
        group. Shards are equal; an all-to-all in groups is given by `demands`.
    ranks_forward : bool
        With groups: the ranks of other groups forward as well, not only `forwarders`.

    Raises
    ------
    ScheduleError
        If any of the above does not hold.

    Notes
    -----
    Code for a single group uses `shard_weights`, `check_membership` or `as_one_group`, which raise
    ScheduleError for several groups; `member` is the collective of one group.

    Examples
    --------
    >>> from treadle import Collective, CollectiveKind
    >>> Collective(CollectiveKind.ALLGATHER, (0, 1, 2)).n_ranks
    3
    """

    kind: CollectiveKind
    ranks: tuple[int, ...]
    root: int | None = None
    weights: tuple[int, ...] | None = None
    forwarders: tuple[int, ...] = ()
    demands: Demands | None = None
    groups: tuple[tuple[int, ...], ...] | None = None
    ranks_forward: bool = False

    def __post_init__(self) -> None:
        n = len(self.ranks)
        if n < 2:
            raise ScheduleError(f"{self.kind} needs at least 2 ranks, found {n}")
        is_sorted = not self.forwarders and np.all(np.diff(np.array(self.ranks, dtype=np.int64)) > 0)
        members = () if is_sorted else (*self.ranks, *self.forwarders)
        if len(set(members)) != len(members):
            raise ScheduleError("a compute node may appear once among ranks and forwarders")
        if self.kind.is_rooted != (self.root is not None):
            raise ScheduleError(f"{self.kind} {'needs a root' if self.kind.is_rooted else 'has no root'}")
        self._check_groups()
        if self.root is not None and not 0 <= self.root < self.group_size:
            raise ScheduleError(f"root {self.root}: expected a rank from 0 to {self.group_size - 1}")
        if self.weights is not None:
            if self.kind not in (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER):
                raise ScheduleError(f"{self.kind} has no shards to weight")
            if len(self.weights) != self.n_ranks:
                raise ScheduleError(f"weights: expected {self.n_ranks} values, found {len(self.weights)}")
            if min(self.weights) < 0 or max(self.weights) == 0 or max(self.weights) > MAX_WEIGHT:
                raise ScheduleError("weights must be integers from 0 to 2**20, not all 0")
        if self.demands is not None and self.pair_demands.n_ranks != self.n_ranks:
            raise ScheduleError(
                f"demands: a matrix of {self.demands.n_ranks} ranks, the collective has {self.n_ranks}; "
                f"expected a row and a column for each"
            )

    def _check_groups(self) -> None:
        if self.groups is None:
            if self.ranks_forward:
                raise ScheduleError("ranks_forward: expected groups, whose ranks forward for each other")
            return
        if self.kind is CollectiveKind.ALLTOALL:
            raise ScheduleError("an all-to-all in groups is one of demands (block_demands), found groups")
        if self.weights is not None:
            raise ScheduleError(f"{self.kind} in groups has equal shards, found weights")
        sizes = set(map(len, self.groups))
        if len(sizes) != 1 or min(sizes) < 2:
            raise ScheduleError("groups: expected equally many ranks in each, at least 2")
        if sorted(chain.from_iterable(self.groups)) != list(range(self.n_ranks)):
            raise ScheduleError(f"groups: expected each rank from 0 to {self.n_ranks - 1} in one of them")

    @property
    def pair_demands(self) -> Demands:
        """Data of each rank for each other rank in an all-to-all.

        Raises
        ------
        ScheduleError
            For the other collectives.
        """
        if self.kind is not CollectiveKind.ALLTOALL:
            raise ScheduleError(f"{self.kind} has no demands between pairs; only an all-to-all has")
        return uniform_demands(self.n_ranks) if self.demands is None else self.demands

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return len(self.ranks)

    @property
    def n_groups(self) -> int | None:
        """Number of groups; None for a single collective over all ranks."""
        return None if self.groups is None else len(self.groups)

    @property
    def blocks(self) -> tuple[tuple[int, ...], ...] | None:
        """Groups of ranks that communicate only with each other: `groups`, or those of the demands."""
        return self.groups if self.demands is None else self.demands.blocks

    @property
    def group_size(self) -> int:
        """Number of ranks that communicate with each other: those of a group, or else all."""
        return self.n_ranks if self.blocks is None else len(self.blocks[0])

    def member(self, group: int) -> Collective:
        """Return the collective of one group; nodes outside its `ranks` and `forwarders` are absent."""
        if self.groups is None:
            if group:
                raise ScheduleError(f"group {group}: {self.kind} has no groups")
            return self
        nodes = tuple(self.ranks[rank] for rank in self.groups[group])
        others = frozenset(self.ranks).difference(nodes) if self.ranks_forward else ()
        return Collective(self.kind, nodes, self.root, forwarders=(*self.forwarders, *sorted(others)))

    def as_one_group(self) -> Collective:
        """Return the collective itself; ScheduleError if it has several groups."""
        if self.groups is not None:
            raise ScheduleError(
                f"{self.kind} of {len(self.groups)} concurrent groups: expected a single group; leave out "
                f"the mesh, or choose the --ranks of one group"
            )
        return self

    @property
    def shard_weights(self) -> tuple[int, ...]:
        """Relative amount of data that starts (or ends) at each rank, in lowest terms.

        One-hot at the root for broadcast and reduce.

        Raises
        ------
        ScheduleError
            For an all-to-all, whose data goes from one rank to one rank (`pair_demands`), and for groups.
        """
        self.as_one_group()
        if self.kind is CollectiveKind.ALLTOALL:
            raise ScheduleError(
                "an all-to-all sends different data to every rank, which spanning trees cannot"
            )
        if self.root is not None:
            return tuple(int(rank == self.root) for rank in range(self.n_ranks))
        if self.weights is None:
            return (1,) * self.n_ranks
        divisor = gcd(*self.weights)
        return tuple(weight // divisor for weight in self.weights)


def on_all_ranks(
    topology: Topology,
    kind: CollectiveKind,
    *,
    root: int | None = None,
    weights: tuple[int, ...] | None = None,
) -> Collective:
    """Return the collective over every compute node of `topology`."""
    return Collective(kind, tuple(topology.compute_nodes.tolist()), root=root, weights=weights)


def collective_of_group(topology: Topology, collective: Collective, group: int) -> Collective:
    """Return the collective of one group on the entire fabric, where all other compute nodes forward.

    For use with the paths of a verified schedule, which follow the actual forwarders.
    """
    member = collective.member(group)
    others = frozenset(topology.compute_nodes.tolist()).difference(member.ranks)
    return replace(member, forwarders=tuple(sorted(others)))


def check_membership(topology: Topology, collective: Collective) -> None:
    """Raise ScheduleError unless a single group has all compute nodes of `topology`, and only these."""
    check_declared(topology, collective.as_one_group())


def check_declared(topology: Topology, collective: Collective) -> None:
    """Raise ScheduleError unless ranks of all groups and forwarders are the compute nodes of `topology`."""
    declared = (*collective.ranks, *collective.forwarders)
    if np.array_equal(np.sort(np.array(declared)), topology.compute_nodes):
        return
    members, compute = set(declared), set(topology.compute_nodes.tolist())
    for node in sorted(members - compute):
        raise ScheduleError(f"node {node} of the collective is not a compute node of {topology.name}")
    for node in sorted(compute - members):
        raise ScheduleError(
            f"compute node {topology.node_names[node]!r} is neither a rank nor a forwarder; "
            f"remove it from the fabric (subset) or declare it a forwarder"
        )
