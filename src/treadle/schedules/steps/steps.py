"""Step schedules: sends of chunks over links in synchronous communication steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, FrozenArrays, Int32Array, Int64Array, check_offsets, frozen, offsets_of
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.schedules.checks import check_length, check_range
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction, Phases

MAX_CHUNKS = 2**24
"""Most chunks per shard."""


class PathKind(IntEnum):
    """Operation of a switch on a path of several links.

    Sends of a step that carry the same chunks and share a link are one operation of the switch; the rank at
    that link initiates it (`treadle.schedules.in_network`).
    """

    PLAIN = 0
    """No operation: data goes from end to end."""
    COPY = 1
    """Multicast over two links: data crosses the first link once, and the switch copies it to all heads."""
    SUM = 2
    """Aggregation over two links: the switch adds up the data of all tails, and the sum crosses the last link
    once. Only in reductions."""


@displayed(own_repr)
@dataclass(frozen=True, eq=False)
class Steps(FrozenArrays):
    """Sends of one direction, grouped by communication step.

    The data are S = `n_shards` shards of equal size, each cut into P = `n_chunks` equal chunks. Send i is the
    tuple ((v, C), (u, w), t) of the dissertation, section A.2: chunks [low[i], high[i]) of shard `shard[i]`
    cross link `link[i]` from u to w. All sends of a step read what their tails hold at its beginning, and
    what arrives can be sent on in the next step.

    Parameters
    ----------
    direction : Direction
        BROADCAST: a shard spreads from its owner, and receivers store it. REDUCE: it is summed up towards its
        owner; the tail sends its partial sum, and the head adds it to its own.
    n_ranks : int
        N.
    `homes` : array of int32, shape (S,)
        Owner of each shard: the rank where it starts (BROADCAST) or ends (REDUCE).
    n_chunks : int
        P >= 1.
    step_offset : array of int64, shape (T + 1,)
        Sends of step t (from 0) are step_offset[t] up to step_offset[t + 1]; a step may be empty.
    shard, link : arrays of int32, shape (n,)
        Shard and physical link of each send.
    low, high : arrays of int32, shape (n,)
        Chunks [low, high) of the shard, 0 <= low < high <= P.
    way_offset : array of int64, shape (W + 1,), optional
    way_links : array of int32, optional
        Paths of several links that sends take in one step without being stored on the way: the links of path
        i are way_links[way_offset[i]:way_offset[i + 1]], and `link` has path numbers. Without paths, links.
    way_kinds : array of int32, shape (W,), optional
        `PathKind` of each path; default: all are plain.
    `twins` : array of int32, shape (K * S,), optional
        K further owners of each shard: those of shard v are ``twins[v]``, ``twins[S + v]``, ... It starts at
        all of them (BROADCAST), or its sum, of the same data, must arrive at all of them (REDUCE).
    fresh : array of bool, shape (n,), optional
        For the REDUCE phase of an allreduce: whether the head's sum of these chunks starts again with the
        data of the step. Its previous sum (at first its own contribution) is dropped after the step has read
        it. Default: nowhere.

    Raises
    ------
    ScheduleError
        If shapes or ranges are wrong. `treadle.verification.schedules` checks meaning.

    Notes
    -----
    16 bytes a send. Read-only arrays of the right type are adopted without a copy.
    """

    direction: Direction
    n_ranks: int
    homes: Int32Array
    n_chunks: int
    step_offset: Int64Array
    shard: Int32Array
    link: Int32Array
    low: Int32Array
    high: Int32Array
    way_offset: Int64Array = field(default_factory=lambda: frozen([], np.int64))
    way_links: Int32Array = field(default_factory=lambda: frozen([], np.int32))
    way_kinds: Int32Array = field(default_factory=lambda: frozen([], np.int32))
    twins: Int32Array = field(default_factory=lambda: frozen([], np.int32))
    fresh: BoolArray = field(default_factory=lambda: frozen([], np.bool_))

    def __post_init__(self) -> None:
        self._freeze("steps")
        if self.n_ranks < 1 or not 1 <= self.n_chunks <= MAX_CHUNKS:
            raise ScheduleError("steps: needs at least 1 rank and 1 to 2**24 chunks per shard")
        check_range("steps", "homes", self.homes, 0, self.n_ranks)
        check_offsets("steps", "step_offset", self.step_offset, self.n_steps, self.n_sends)
        for key, low, high in (
            ("shard", 0, self.n_shards),
            ("link", 0, 2**31),
            ("low", 0, self.n_chunks),
            ("high", 1, self.n_chunks + 1),
        ):
            check_length("steps", key, getattr(self, key), self.n_sends)
            check_range("steps", key, getattr(self, key), low, high)
        if np.any(self.low >= self.high):
            raise ScheduleError("steps: a send carries no chunk")
        self._check_ways()
        check_range("steps", "twins", self.twins, 0, self.n_ranks)
        if self.twins.size and (not self.n_shards or self.twins.size % self.n_shards):
            raise ScheduleError(f"steps: {self.twins.size} further owners, expected as many for each shard")
        if self.fresh.size:
            check_length("steps", "fresh", self.fresh, self.n_sends)
        if self.restarts and self.direction is not Direction.REDUCE:
            raise ScheduleError("steps: only sums start again; broadcasts do not")

    def _check_ways(self) -> None:
        if not self.has_paths:
            if self.way_links.size or self.way_kinds.size:
                raise ScheduleError("steps: way_links or way_kinds without way_offset")
            return
        check_offsets("steps", "way_offset", self.way_offset, self.n_paths, len(self.way_links), least=1)
        check_range("steps", "way_links", self.way_links, 0, 2**31)
        check_range("steps", "link", self.link, 0, self.n_paths)
        if self.way_kinds.size:
            check_length("steps", "way_kinds", self.way_kinds, self.n_paths)
        check_range("steps", "way_kinds", self.way_kinds, PathKind.PLAIN, len(PathKind))
        if self.has_operations and np.any(np.diff(self.way_offset)[self.way_kinds != PathKind.PLAIN] != 2):
            raise ScheduleError(
                "steps: expected two links on a path with in-network multicast or aggregation"
            )

    @property
    def n_shards(self) -> int:
        """Number of shards S."""
        return len(self.homes)

    @property
    def has_paths(self) -> bool:
        """Whether `link` has numbers of paths of several links."""
        return bool(self.way_offset.size)

    @property
    def n_paths(self) -> int:
        """Number of paths W."""
        return max(0, len(self.way_offset) - 1)

    @property
    def has_operations(self) -> bool:
        """Whether switches multicast or aggregate."""
        return bool(self.way_kinds.any())

    @property
    def restarts(self) -> bool:
        """Whether some sum starts again."""
        return bool(self.fresh.any())

    def path(self, number: int) -> Int32Array:
        """Return the links of a path, in order."""
        return self.way_links[int(self.way_offset[number]) : int(self.way_offset[number + 1])]

    @property
    def crossed(self) -> Int32Array:
        """Links of all paths, or of all sends if there are none; unordered, some more than once."""
        return self.way_links if self.has_paths else self.link

    def links_of(self, send: int) -> Int32Array:
        """Return the links that a send takes, in order."""
        return self.path(int(self.link[send])) if self.has_paths else self.link[send : send + 1]

    @property
    def all_owners(self) -> tuple[Int32Array, ...]:
        """Owners of the shards: `homes`, then the further ones."""
        rest = self.twins.reshape(-1, self.n_shards) if self.twins.size else ()
        return (self.homes, *rest)

    @property
    def n_steps(self) -> int:
        """Number of communication steps T, empty ones included."""
        return len(self.step_offset) - 1

    @property
    def n_sends(self) -> int:
        """Number of sends."""
        return len(self.shard)

    def span(self, step: int) -> slice:
        """Return the slice of the sends of a step (from 0)."""
        return slice(int(self.step_offset[step]), int(self.step_offset[step + 1]))

    def send_steps(self) -> Int32Array:
        """Return the step of every send, from 0, shape (n,)."""
        return np.repeat(np.arange(self.n_steps, dtype=np.int32), np.diff(self.step_offset))

    def __repr__(self) -> str:
        return (
            f"<Steps {self.direction}: {self.n_ranks} ranks, {self.n_shards} shards of {self.n_chunks} "
            f"chunks, {self.n_steps} steps, {self.n_sends} sends>"
        )


@dataclass(frozen=True)
class StepSchedule(Phases[Steps]):
    """Steps that perform a collective: a reducing phase, a broadcasting one, or the first then the second.

    Parameters
    ----------
    kind : CollectiveKind
    reduce, broadcast : Steps, optional
        Allgather and broadcast: only `broadcast`; reduce-scatter and reduce: only `reduce`. Allreduce: both,
        about the same shards; or `reduce` alone, where every shard is the *entire* buffer and each rank owns
        one (the allreduce within one diameter of section A.3.3).

    Raises
    ------
    ScheduleError
        If the parts do not belong to the kind or to each other.
    """

    _names = "reducing steps", "broadcasting steps"
    _may_only_reduce = True

    def __post_init__(self) -> None:
        super().__post_init__()
        first, last = self.phases[0], self.phases[-1]
        if first.n_ranks != last.n_ranks or not (
            np.array_equal(first.homes, last.homes) and np.array_equal(first.twins, last.twins)
        ):
            raise ScheduleError(f"{self.kind}: the phases differ in ranks or in the owners of the shards")
        if self.reduce is not None and self.reduce.restarts and self.broadcast is None:
            raise ScheduleError(f"{self.kind}: sums may start again only in an allreduce of two phases")

    @property
    def n_steps(self) -> int:
        """Communication steps of all phases."""
        return sum(steps.n_steps for steps in self.phases)

    @property
    def n_sends(self) -> int:
        """Sends of all phases."""
        return sum(steps.n_sends for steps in self.phases)

    @property
    def has_full_shards(self) -> bool:
        """Whether every shard is the entire buffer (an allreduce without a broadcasting phase)."""
        return self.kind is CollectiveKind.ALLREDUCE and self.broadcast is None


Send = tuple[int, int, int, int, int]
"""(shard, link, step from 0, low, high)."""


def steps_from_sends(
    direction: Direction,
    n_ranks: int,
    n_chunks: int,
    sends: Iterable[Send] | Sequence[NDArray[np.integer]],
    *,
    homes: Sequence[int] | None = None,
    n_steps: int | None = None,
) -> Steps:
    """Return steps from tuples, or from five arrays, in any order.

    Parameters
    ----------
    direction : Direction
    n_ranks, n_chunks : int
    sends : iterable of (shard, link, step, low, high), or a list of those five arrays
        Steps count from 0. Sorted here by step; the order within a step is kept.
    `homes` : sequence of int, optional
        Owners of the shards; default: rank v owns shard v.
    n_steps : int, optional
        Default: one more than the last step used.

    Raises
    ------
    ScheduleError
        If a value is out of range.
    """
    if isinstance(sends, list) and sends and isinstance(sends[0], np.ndarray):
        shard, link, step, low, high = map(np.asarray, sends)
    else:
        shard, link, step, low, high = np.array(list(sends), dtype=np.int64).reshape(-1, 5).T
    total = int(step.max()) + 1 if step.size else 0
    n_steps = total if n_steps is None else n_steps
    if step.size and (int(step.min()) < 0 or total > n_steps):
        raise ScheduleError(f"steps: a step lies outside 0 to {n_steps - 1}")
    # 16 bits are sorted by radix, ten times as fast
    order = np.argsort(step.astype(np.uint16) if total < 2**16 else step, kind="stable")
    offset = offsets_of(np.bincount(step, minlength=n_steps))
    return Steps(
        direction=direction,
        n_ranks=n_ranks,
        homes=np.arange(n_ranks, dtype=np.int32) if homes is None else np.asarray(homes, dtype=np.int32),
        n_chunks=n_chunks,
        step_offset=offset,
        shard=shard[order],
        link=link[order],
        low=low[order],
        high=high[order],
    )
