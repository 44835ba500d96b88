"""Step schedules from step schedules: reversal, finer chunks, several together.

Source: the dissertation, section A.2. Linear in the sends, but for `combine`, which sorts them by step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, Int32Array, frozen, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.steps.steps import MAX_CHUNKS, PathKind, Steps
from treadle.schedules.trees.forest import Direction

Columns = tuple[Int32Array, Int32Array, Int32Array, Int32Array]
"""Shard, link, low and high of every send."""

_WAYS = ("way_offset", "way_links", "way_kinds")
_REVERSED = np.array([PathKind.PLAIN, PathKind.SUM, PathKind.COPY], dtype=np.int32)
"""Kind of each kind of path in reverse direction."""


def reverse(steps: Steps) -> Steps:
    """Return the reverse schedule A^T: every send runs backwards, the last step first.

    Parameters
    ----------
    steps : Steps
        For a topology G.

    Returns
    -------
    Steps
        For `G.transpose()`, whose links have the same numbers: broadcasting becomes reducing and back.

    Notes
    -----
    Definition 5 and Theorem 1. `reverse(reverse(steps)) == steps`.

    Examples
    --------
    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> chain = steps_from_sends(Direction.BROADCAST, 3, 1, [(0, 0, 0, 0, 1), (0, 1, 1, 0, 1)], homes=[0])
    >>> reverse(chain), reverse(chain).link.tolist()
    (<Steps reduce: 3 ranks, 1 shards of 1 chunks, 2 steps, 2 sends>, [1, 0])
    """
    if steps.restarts:
        raise ScheduleError("steps: schedules whose sums start again cannot be reversed")
    direction = Direction.REDUCE if steps.direction is Direction.BROADCAST else Direction.BROADCAST
    offset = steps.n_sends - steps.step_offset[::-1]
    columns = [column[::-1] for column in _columns(steps)]
    found = replace(with_sends(steps, offset, columns), direction=direction)
    if not steps.has_paths:
        return found
    paths = [steps.path(number)[::-1] for number in range(steps.n_paths)]
    return replace(found, way_links=np.concatenate(paths), way_kinds=_REVERSED[steps.way_kinds])


def subdivide(steps: Steps, factor: int) -> Steps:
    """Return the schedule with every chunk cut into `factor` chunks; ScheduleError beyond 2**24 per shard."""
    if factor < 1:
        raise ScheduleError(f"subdivide: factor must be at least 1, found {factor}")
    if factor == 1:
        return steps
    n_chunks, columns = _checked_chunks(steps.n_chunks * factor), _scaled(steps, factor, 0)
    return with_sends(steps, steps.step_offset, columns, n_chunks=n_chunks, fresh=steps.fresh)


def pipelined(steps: Steps, pieces: int) -> Steps:
    """Return the schedule for each of `pieces` equal parts of every shard, each a step behind the one before.

    Raises
    ------
    ScheduleError
        If `pieces` is less than 1, or there are more than 2**24 chunks per shard.

    Notes
    -----
    Links that wait for each other's data are busy at the same time with different parts. If all ready data is
    sent in the order of steps, the early steps of late parts go before the late steps of early parts.
    """
    if pieces < 1:
        raise ScheduleError(f"pipelining: expected at least 1 part of a shard, found {pieces}")
    if pieces == 1:
        return steps
    n_chunks, part = _checked_chunks(steps.n_chunks * pieces), np.repeat(np.arange(pieces), steps.n_sends)
    step = np.tile(steps.send_steps(), pieces) + part
    shard, link, low, high = (np.tile(column, pieces) for column in _columns(steps))
    first = part * steps.n_chunks
    order = np.argsort(step, kind="stable")
    columns = [column[order] for column in (shard, link, low + first, high + first)]
    offset = offsets_of(np.bincount(step, minlength=steps.n_steps + pieces - 1 if steps.n_steps else 0))
    fresh = np.tile(steps.fresh, pieces)[order] if steps.restarts else steps.fresh
    return with_sends(steps, offset, columns, n_chunks=n_chunks, fresh=fresh)


def combine(parts: Sequence[Steps], *, shares: Sequence[int] | None = None) -> Steps:
    """Combine several schedules, each on its own part of every shard.

    Parameters
    ----------
    parts : sequence of Steps
        On the same topology, with equal directions, ranks and owners of shards.
    shares : sequence of int, optional
        Relative sizes of the parts of a shard, > 0; default all equal.

    Returns
    -------
    Steps
        Part i has the chunks after those of part i - 1. Broadcasts begin together and reductions end
        together, so that `reverse` commutes with `combine`.

    Raises
    ------
    ScheduleError
        If `parts` is empty, they differ, the number of shares is wrong, or the shard needs more than 2**24
        chunks.

    Examples
    --------
    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> pair = steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1), (1, 1, 0, 0, 1)])
    >>> both = combine([pair, pair], shares=[1, 2])
    >>> both.n_chunks, both.low.tolist(), both.high.tolist()
    (3, [0, 0, 1, 1], [1, 1, 3, 3])
    """
    _check_equal(parts)
    shares = [1] * len(parts) if shares is None else list(shares)
    if len(shares) != len(parts) or min(shares) < 1:
        raise ScheduleError(f"combine: expected {len(parts)} shares of at least 1, found {shares}")
    total = sum(shares)
    # a chunk of part i is shares[i] / (total * P_i) of the shard; the common chunk divides all of them
    pairs = [(share, total * part.n_chunks) for share, part in zip(shares, parts, strict=True)]
    n_chunks = _checked_chunks(lcm(*(whole // gcd(share, whole) for share, whole in pairs)))
    factors = [n_chunks * share // whole for share, whole in pairs]
    sizes = [factor * part.n_chunks for factor, part in zip(factors, parts, strict=True)]
    n_steps = max(part.n_steps for part in parts)
    # broadcasts begin together, reductions end together
    delays = [n_steps - part.n_steps if part.direction is Direction.REDUCE else 0 for part in parts]
    step = np.concatenate([part.send_steps() + delay for part, delay in zip(parts, delays, strict=True)])
    order = np.argsort(step, kind="stable")
    offset = offsets_of(np.bincount(step, minlength=n_steps))
    starts = accumulate(sizes, initial=0)
    scaled = [
        _scaled(part, factor, start) for part, factor, start in zip(parts, factors, starts, strict=False)
    ]
    columns = [np.concatenate(column)[order] for column in zip(*scaled, strict=True)]
    flags = [part.fresh if part.restarts else np.zeros(part.n_sends, dtype=np.bool_) for part in parts]
    fresh = np.concatenate(flags)[order]
    return with_sends(parts[0], offset, columns, n_chunks=n_chunks, fresh=fresh)


def _scaled(part: Steps, factor: int, start: int) -> Columns:
    """Return the sends of a part in chunks of 1/factor, `start` chunks later."""
    low, high = (ends * np.int32(factor) + np.int32(start) for ends in (part.low, part.high))
    return part.shard, part.link, low, high


def _check_equal(parts: Sequence[Steps]) -> None:
    if not parts:
        raise ScheduleError("steps: no schedule to combine; expected at least one")
    one = parts[0]
    for other in parts[1:]:
        if other.direction is not one.direction or other.n_ranks != one.n_ranks:
            raise ScheduleError("steps: combined schedules must have equal directions and ranks")
        if not np.array_equal(other.homes, one.homes) or not np.array_equal(other.twins, one.twins):
            raise ScheduleError("steps: combined schedules must have equal owners of shards")
        if not all(np.array_equal(getattr(other, key), getattr(one, key)) for key in _WAYS):
            raise ScheduleError("steps: combined schedules must have the same paths")


def _checked_chunks(n_chunks: int) -> int:
    if n_chunks > MAX_CHUNKS:
        raise ScheduleError(f"steps: this needs {n_chunks} chunks per shard, more than 2**24")
    return n_chunks


def _columns(steps: Steps) -> Columns:
    return steps.shard, steps.link, steps.low, steps.high


def with_sends(
    steps: Steps,
    offset: NDArray[Any],
    columns: Sequence[NDArray[np.int32]],
    *,
    n_chunks: int | None = None,
    fresh: BoolArray | None = None,
) -> Steps:
    """Return other sends of the same shards; `columns` are shard, link, low and high."""
    shard, link, low, high = (_own(column, np.int32) for column in columns)
    return replace(
        steps,
        n_chunks=steps.n_chunks if n_chunks is None else n_chunks,
        step_offset=_own(offset, np.int64),
        shard=shard,
        link=link,
        low=low,
        high=high,
        fresh=np.zeros(0, dtype=np.bool_) if fresh is None or not fresh.any() else fresh,
    )


def _own(values: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """Return a read-only array that `Steps` adopts: computed arrays are frozen in place, views are copied."""
    if values.base is None and values.dtype == dtype and values.flags.c_contiguous:
        values.setflags(write=False)
        return values
    return frozen(values, dtype)
