"""Step schedules: which chunk crosses which link in which synchronous communication step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, FrozenArrays, Int32Array, Int64Array, frozen, offsets_of
from treadle.errors import ScheduleError
from treadle.notebook import displayed, own_repr
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.trees.forest import Direction

MAX_CHUNKS = 2**24
"""Most chunks per shard."""


class PathKind(IntEnum):
    """What a switch does on a way.

    Sends of a step that carry the same chunks and share a link are one operation of a switch, for the rank
    at that link, which asks for it (`treadle.schedules.in_network`).
    """

    PLAIN = 0
    """Data go from end to end."""
    COPY = 1
    """Two links; the first is shared: what crosses it once, the switch copies to all heads."""
    SUM = 2
    """Two links; the last is shared: the switch adds up what comes from all tails, and the sum crosses it
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
        BROADCAST: a shard spreads from its home, receivers store. REDUCE: it is summed up towards its home;
        the tail sends its partial sum, the head adds it to its own.
    n_ranks : int
        N.
    homes : array of int32, shape (S,)
        Rank at which each shard starts (BROADCAST) or ends (REDUCE).
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
        Ways that sends take in one step without being stored, through switches and other nodes: the links of
        way i are way_links[way_offset[i]:way_offset[i + 1]], and `link` numbers ways. Without ways, links.
    way_kinds : array of int32, shape (W,), optional
        What a switch does on each way, a `PathKind`; without, all are plain.
    twins : array of int32, shape (K * S,), optional
        Each shard is at home at K ranks besides: those of shard v are twins[v], twins[S + v], ... It starts
        at all of them (BROADCAST), or its sum, of one and the same data, has to be at all of them (REDUCE).
    fresh : array of bool, shape (n,), optional
        Of an allreduce's REDUCE: whether the head's sum begins anew with what the step brings it of these
        chunks. What it had of them, its own contribution at first, is dropped once the step has read it.
        Without, nowhere.

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
        self._check_range("homes", self.homes, 0, self.n_ranks)
        offset, total = self.step_offset, len(self.shard)
        if not offset.size or offset[0] != 0 or offset[-1] != total or np.any(np.diff(offset) < 0):
            raise ScheduleError(f"steps: step_offset must rise from 0 to {total}, the number of sends")
        for key in ("link", "low", "high"):
            if len(getattr(self, key)) != total:
                raise ScheduleError(f"steps: {key} has {len(getattr(self, key))} values, expected {total}")
        self._check_range("shard", self.shard, 0, self.n_shards)
        self._check_range("link", self.link, 0, 2**31)
        self._check_range("low", self.low, 0, self.n_chunks)
        self._check_range("high", self.high, 1, self.n_chunks + 1)
        if np.any(self.low >= self.high):
            raise ScheduleError("steps: a send carries no chunk")
        self._check_ways()
        self._check_range("twins", self.twins, 0, self.n_ranks)
        if self.twins.size and (not self.n_shards or self.twins.size % self.n_shards):
            raise ScheduleError(f"steps: {self.twins.size} twins, expected as many for each shard")
        if self.fresh.size not in (0, total):
            raise ScheduleError(f"steps: fresh has {self.fresh.size} values, expected {total}")
        if self.restarts and self.direction is not Direction.REDUCE:
            raise ScheduleError("steps: only sums begin anew; what is broadcast does not")

    def _check_ways(self) -> None:
        offset, total = self.way_offset, len(self.way_links)
        if not self.has_paths:
            if total or self.way_kinds.size:
                raise ScheduleError("steps: way_links or way_kinds without way_offset")
            return
        if offset[0] != 0 or offset[-1] != total or np.any(np.diff(offset) < 1):
            raise ScheduleError(f"steps: way_offset must rise from 0 to {total}, by a link at least")
        self._check_range("way_links", self.way_links, 0, 2**31)
        self._check_range("link", self.link, 0, self.n_paths)
        if self.way_kinds.size not in (0, self.n_paths):
            raise ScheduleError(f"steps: {self.way_kinds.size} way_kinds, expected {self.n_paths}")
        self._check_range("way_kinds", self.way_kinds, PathKind.PLAIN, len(PathKind))
        if self.has_operations and np.any(np.diff(offset)[self.way_kinds != PathKind.PLAIN] != 2):
            raise ScheduleError("steps: a way on which a switch copies or adds up has other than two links")

    def _check_range(self, key: str, values: NDArray[np.int32], low: int, high: int) -> None:
        if values.size and not (low <= int(values.min()) and int(values.max()) < high):
            raise ScheduleError(f"steps: {key} has a value outside {low} to {high - 1}")

    @property
    def n_shards(self) -> int:
        """Number of shards S."""
        return len(self.homes)

    @property
    def has_paths(self) -> bool:
        """Whether `link` numbers ways of several links."""
        return bool(self.way_offset.size)

    @property
    def n_paths(self) -> int:
        """Number of ways W."""
        return max(0, len(self.way_offset) - 1)

    @property
    def has_operations(self) -> bool:
        """Whether switches copy or add up."""
        return bool(self.way_kinds.any())

    @property
    def restarts(self) -> bool:
        """Whether some sum begins anew."""
        return bool(self.fresh.any())

    def path(self, number: int) -> Int32Array:
        """Links of a way, in order."""
        return self.way_links[int(self.way_offset[number]) : int(self.way_offset[number + 1])]

    @property
    def crossed(self) -> Int32Array:
        """Links of all ways, or of all sends where there are none; in no order, some more than once."""
        return self.way_links if self.has_paths else self.link

    def links_of(self, send: int) -> Int32Array:
        """Links that a send takes, in order."""
        return self.path(int(self.link[send])) if self.has_paths else self.link[send : send + 1]

    @property
    def all_owners(self) -> tuple[Int32Array, ...]:
        """Homes of the shards: `homes`, then the twins."""
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
        """Where the sends of a step (from 0) are."""
        return slice(int(self.step_offset[step]), int(self.step_offset[step + 1]))

    def send_steps(self) -> Int32Array:
        """Step of every send, from 0, shape (n,)."""
        return np.repeat(np.arange(self.n_steps, dtype=np.int32), np.diff(self.step_offset))

    def __repr__(self) -> str:
        return (
            f"<Steps {self.direction}: {self.n_ranks} ranks, {self.n_shards} shards of {self.n_chunks} "
            f"chunks, {self.n_steps} steps, {self.n_sends} sends>"
        )


@dataclass(frozen=True)
class StepSchedule:
    """Steps that perform a collective: a reducing phase, a broadcasting one, or the first then the second.

    Parameters
    ----------
    kind : CollectiveKind
    reduce, broadcast : Steps, optional
        Allgather and broadcast: only `broadcast`; reduce-scatter and reduce: only `reduce`. Allreduce: both,
        about the same shards; or `reduce` alone, where every shard is the *whole* buffer and each rank is the
        home of one (the allreduce within one diameter of section A.3.3).

    Raises
    ------
    ScheduleError
        If the parts do not belong to the kind or to each other.
    """

    kind: CollectiveKind
    reduce: Steps | None = None
    broadcast: Steps | None = None

    def __post_init__(self) -> None:
        kind, reducing, broadcasting = self.kind, self.reduce, self.broadcast
        if not (kind.reduces or kind.broadcasts):
            raise ScheduleError(f"{kind}: its schedules have no reducing or broadcasting phase")
        if kind.reduces != (reducing is not None):
            raise ScheduleError(
                f"{kind}: a reducing phase {'is missing' if kind.reduces else 'is of no use'}"
            )
        if broadcasting is None and kind.broadcasts and not kind.reduces:
            raise ScheduleError(f"{kind}: the broadcasting phase is missing")
        if broadcasting is not None and not kind.broadcasts:
            raise ScheduleError(f"{kind}: a broadcasting phase is of no use")
        for steps, direction in ((reducing, Direction.REDUCE), (broadcasting, Direction.BROADCAST)):
            if steps is not None and steps.direction is not direction:
                raise ScheduleError(f"{kind}: the {direction} phase flows the other way")
        one, other = self.phases[0], self.phases[-1]
        if one.n_ranks != other.n_ranks or not (
            np.array_equal(one.homes, other.homes) and np.array_equal(one.twins, other.twins)
        ):
            raise ScheduleError(f"{kind}: the phases differ in ranks or in the homes of the shards")
        if reducing is not None and reducing.restarts and (broadcasting is None):
            raise ScheduleError(f"{kind}: sums begin anew in allreduces of two phases only")

    @property
    def phases(self) -> tuple[Steps, ...]:
        """The phases in the order in which they run."""
        return tuple(steps for steps in (self.reduce, self.broadcast) if steps is not None)

    @property
    def n_ranks(self) -> int:
        """Number of ranks N."""
        return self.phases[0].n_ranks

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
        """Whether every shard is the whole buffer (an allreduce without a broadcasting phase)."""
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
    """Steps from tuples, or from five arrays, in any order.

    Parameters
    ----------
    direction : Direction
    n_ranks, n_chunks : int
    sends : iterable of (shard, link, step, low, high), or a list of those five arrays
        Steps count from 0. Sorted here by step; the order within a step is kept.
    homes : sequence of int, optional
        Default: shard v is at home at rank v.
    n_steps : int, optional
        Default: one more than the last step used.

    Raises
    ------
    ScheduleError
        If a value is out of range.
    """
    if isinstance(sends, list) and sends and isinstance(sends[0], np.ndarray):
        columns = [np.asarray(column) for column in sends]
    else:
        table = np.array(list(sends), dtype=np.int64).reshape(-1, 5)
        columns = list(table.T)
    shard, link, step, low, high = columns
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
        shard=_narrow(shard[order]),
        link=_narrow(link[order]),
        low=_narrow(low[order]),
        high=_narrow(high[order]),
    )


def _narrow(values: NDArray[np.integer]) -> Int32Array:
    if values.size and not (int(values.min()) >= 0 and int(values.max()) < 2**31):
        raise ScheduleError("steps: a value is negative or beyond 32 bits")
    return frozen(values, np.int32)
