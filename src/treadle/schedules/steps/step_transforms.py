"""Step schedules from step schedules: reversal, isomorphism, halves of shards, finer and coarser chunks.

Source: the dissertation, sections A.1.6 and A.2. Everything is linear in the sends, but `merge_sends`, which
sorts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from math import gcd, lcm
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from treadle.arrays import Int32Array, Int64Array, frozen, offsets_of
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.steps.steps import MAX_CHUNKS, Steps, StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.topologies.topology import Topology

Columns = tuple[Int32Array, Int32Array, Int32Array, Int32Array]
"""Shard, link, low and high of every send."""

_KEY_BITS = 62  # a sort key of this many bits fits an int64


def reverse(steps: Steps) -> Steps:
    """The reverse schedule A^T: every send runs backwards, the last step first.

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
    turned = Direction.REDUCE if steps.direction is Direction.BROADCAST else Direction.BROADCAST
    offset = steps.n_sends - steps.step_offset[::-1]
    columns = [column[::-1] for column in _columns(steps)]
    return replace(_with_sends(steps, offset, columns), direction=turned)


def relabel(steps: Steps, node_map: ArrayLike, link_map: ArrayLike) -> Steps:
    """The schedule f(A) that an isomorphism f of graphs makes of a schedule A.

    Parameters
    ----------
    steps : Steps
        For a topology whose nodes are the ranks.
    node_map : array_like of int, shape (N,)
        f of every node: a permutation.
    link_map : array_like of int, shape (m,)
        The link that each link becomes; all different.

    Returns
    -------
    Steps
        For the topology that f leads to. A shard whose home is v gets the home f(v); if homes were rising
        (shard v at rank v, say), shards are renumbered so that they rise again.

    Raises
    ------
    ScheduleError
        If `node_map` is no permutation, or `link_map` misses a link or repeats one.

    Notes
    -----
    Definition 7. That f is an isomorphism is for the verifier to find out.
    """
    nodes, links = _integers("node_map", node_map), _integers("link_map", link_map)
    if not np.array_equal(np.sort(nodes), np.arange(steps.n_ranks)):
        raise ScheduleError(f"relabel: node_map must be a permutation of 0 to {steps.n_ranks - 1}")
    used = int(steps.link.max(initial=-1))
    if used >= len(links):
        raise ScheduleError(f"relabel: link_map has {len(links)} links, but link {used} is used")
    if links.size and (links.min() < 0 or links.max() >= 2**31 or len(np.unique(links)) < len(links)):
        raise ScheduleError("relabel: link_map must hold different link numbers from 0")
    homes, shard = nodes[steps.homes], steps.shard
    if np.all(np.diff(steps.homes) >= 0):
        order = np.argsort(homes, kind="stable")
        renumbered = np.empty(steps.n_shards, dtype=np.int32)
        renumbered[order] = np.arange(steps.n_shards, dtype=np.int32)
        homes, shard = homes[order], _own(renumbered[shard], np.int32)
    return replace(
        steps,
        homes=_own(homes, np.int32),
        shard=shard,
        link=_own(links.astype(np.int32)[steps.link], np.int32),
    )


def reverse_by_symmetry(steps: Steps, node_map: ArrayLike, link_map: ArrayLike) -> Steps:
    """Reduce-scatter from allgather, or back, on the same reverse-symmetric graph.

    Parameters
    ----------
    steps : Steps
        For a topology G.
    node_map, link_map : array_like of int, shapes (N,) and (m,)
        An isomorphism from `G.transpose()` to G, and the link of G that each link of the transpose becomes.

    Returns
    -------
    Steps
        f(A^T), for G: as many steps, and the same bandwidth time if f respects bandwidths.

    Raises
    ------
    ScheduleError
        If a map has the wrong form; see `relabel`.

    Notes
    -----
    Theorem 2.
    """
    return relabel(reverse(steps), node_map, link_map)


def reverse_by_transpose(topology: Topology, generate: Callable[[Topology], Steps]) -> Steps:
    """Reduce-scatter of any graph from a generator of allgathers, or back: f(G^T)^T.

    Parameters
    ----------
    topology : Topology
        G.
    generate : callable
        Steps for the topology that it is given.

    Returns
    -------
    Steps
        For G, in the direction that `generate` does not give.

    Notes
    -----
    Corollary 1.1.
    """
    return reverse(generate(topology.transpose()))


def expand_by_transpose(
    topology: Topology, steps: Steps, expand: Callable[[Topology, Steps], tuple[Topology, Steps]]
) -> tuple[Topology, Steps]:
    """Apply an expansion of allgathers to a reduce-scatter, or back: (f(G^T)^T, f(A^T)^T).

    Notes
    -----
    Corollary 1.2.
    """
    expanded, schedule = expand(topology.transpose(), reverse(steps))
    return expanded.transpose(), reverse(schedule)


def allreduce_from(reduce_scatter: Steps, allgather: Steps) -> StepSchedule:
    """The allreduce that runs a reduce-scatter, then an allgather.

    Raises
    ------
    ScheduleError
        If the directions are wrong, or ranks or homes of the shards differ.
    """
    return StepSchedule(CollectiveKind.ALLREDUCE, reduce=reduce_scatter, broadcast=allgather)


def bidirectional(
    topology: Topology, steps: Steps, node_map: ArrayLike, link_map: ArrayLike
) -> tuple[Topology, Steps]:
    """A bidirectional topology of twice the degree, and its schedule: one half of every shard each way.

    Parameters
    ----------
    topology : Topology
        G: d-regular, compute nodes only.
    steps : Steps
        A, for G.
    node_map, link_map : array_like of int, shapes (N,) and (m,)
        An isomorphism g from G to `G.transpose()`, and the link of the transpose that each link of G becomes.

    Returns
    -------
    topology : Topology
        The links of G, then, as numbers m to 2m - 1, those of its transpose.
    steps : Steps
        The first half of every shard follows A, the second g(A): as many steps, and the same T_B in M/B.

    Raises
    ------
    ScheduleError
        If G has switches or a map has the wrong form.

    Notes
    -----
    Section A.1.6. Where G has links both ways already, the result has parallel links.
    """
    if topology.switches.size:
        raise ScheduleError(f"{topology.name}: has switches; expected compute nodes only")
    both = replace(
        topology,
        name=f"bidirectional({topology.name})",
        tails=np.concatenate([topology.tails, topology.heads]),
        heads=np.concatenate([topology.heads, topology.tails]),
        bandwidths=np.tile(topology.bandwidths, 2),
        latencies_ns=np.tile(topology.latencies_ns, 2),
    )
    links = _integers("link_map", link_map)
    if links.shape != (topology.n_links,):
        raise ScheduleError(f"bidirectional: link_map has {len(links)} links, expected {topology.n_links}")
    return both, combine([steps, relabel(steps, node_map, links + topology.n_links)])


def subdivide(steps: Steps, factor: int) -> Steps:
    """The same schedule with every chunk cut into `factor` chunks; ScheduleError beyond 2**24 per shard."""
    if factor < 1:
        raise ScheduleError(f"subdivide: factor must be at least 1, found {factor}")
    if factor == 1:
        return steps
    n_chunks = _checked_chunks(steps.n_chunks * factor)
    return replace(
        steps,
        n_chunks=n_chunks,
        low=_own(steps.low * np.int32(factor), np.int32),
        high=_own(steps.high * np.int32(factor), np.int32),
    )


def reduce_chunks(steps: Steps) -> Steps:
    """The same schedule with the fewest chunks per shard: ranges and P divided by what they share."""
    divisor = gcd(steps.n_chunks, int(np.gcd.reduce(steps.low)), int(np.gcd.reduce(steps.high)))
    if divisor == 1:
        return steps
    return replace(
        steps,
        n_chunks=steps.n_chunks // divisor,
        low=_own(steps.low // divisor, np.int32),
        high=_own(steps.high // divisor, np.int32),
    )


def merge_sends(steps: Steps) -> Steps:
    """Join sends of neighbouring chunk ranges of a shard over the same link in the same step.

    Returns
    -------
    Steps
        Within a step sorted by shard, link and chunk. Ranges that overlap stay apart: what is sent twice
        costs twice.
    """
    order = np.concatenate([np.zeros(0, dtype=np.int64), *(_sorted(steps, t) for t in range(steps.n_steps))])
    shard, link, low, high = (column[order] for column in _columns(steps))
    is_first = np.ones(len(order), dtype=np.bool_)
    is_first[1:] = (shard[1:] != shard[:-1]) | (link[1:] != link[:-1]) | (low[1:] != high[:-1])
    begins = steps.step_offset[:-1]
    is_first[begins[begins < len(order)]] = True
    first = np.flatnonzero(is_first)
    last = np.append(first[1:], len(order)) - 1
    columns = [shard[first], link[first], low[first], high[last[: len(first)]]]
    return _with_sends(steps, np.searchsorted(first, steps.step_offset), columns)


def _sorted(steps: Steps, step: int) -> Int64Array:
    """Numbers of a step's sends by shard, link and first chunk."""
    span = steps.span(step)
    shard, link, low = steps.shard[span], steps.link[span], steps.low[span]
    n_links = int(link.max(initial=0)) + 1
    if (steps.n_shards * n_links * steps.n_chunks).bit_length() > _KEY_BITS:
        order = np.lexsort((low, link, shard))
    else:  # one key sorts several times as fast as three
        key = (shard.astype(np.int64) * n_links + link) * steps.n_chunks + low
        order = np.argsort(key, kind="stable")
    numbers: Int64Array = order + span.start
    return numbers


def aligned(*schedules: Steps) -> tuple[Steps, ...]:
    """The same schedules with equally many chunks per shard: the least common multiple."""
    common = _checked_chunks(lcm(*(steps.n_chunks for steps in schedules)))
    return tuple(subdivide(steps, common // steps.n_chunks) for steps in schedules)


def concatenate(first: Steps, *rest: Steps) -> Steps:
    """One schedule after another, on the same shards.

    Raises
    ------
    ScheduleError
        If the schedules differ in direction, ranks or homes, or need too many chunks.
    """
    _check_alike((first, *rest))
    parts = aligned(first, *rest)
    starts = accumulate((part.n_sends for part in parts), initial=0)
    offsets = [part.step_offset[1:] + start for part, start in zip(parts, starts, strict=False)]
    offset = np.concatenate([np.zeros(1, dtype=np.int64), *offsets])
    columns = [np.concatenate(column) for column in zip(*map(_columns, parts), strict=True)]
    return _with_sends(parts[0], offset, columns)


def combine(parts: Sequence[Steps], *, shares: Sequence[int] | None = None) -> Steps:
    """Several schedules side by side, each on its own part of every shard.

    Parameters
    ----------
    parts : sequence of Steps
        On the same topology, alike in direction, ranks and homes.
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
        If there is no part, the parts differ or their number from that of the shares, or the shard needs
        more than 2**24 chunks.

    Examples
    --------
    >>> from treadle.schedules.steps.steps import steps_from_sends
    >>> pair = steps_from_sends(Direction.BROADCAST, 2, 1, [(0, 0, 0, 0, 1), (1, 1, 0, 0, 1)])
    >>> both = combine([pair, pair], shares=[1, 2])
    >>> both.n_chunks, both.low.tolist(), both.high.tolist()
    (3, [0, 0, 1, 1], [1, 1, 3, 3])
    """
    _check_alike(parts)
    shares = [1] * len(parts) if shares is None else list(shares)
    if len(shares) != len(parts) or min(shares) < 1:
        raise ScheduleError(f"combine: expected {len(parts)} shares of at least 1, found {shares}")
    total = sum(shares)
    # a chunk of part i is shares[i] / (total * P_i) of the shard: the common chunk divides all of them
    pairs = [(share, total * part.n_chunks) for share, part in zip(shares, parts, strict=True)]
    n_chunks = _checked_chunks(lcm(*(whole // gcd(share, whole) for share, whole in pairs)))
    factors = [n_chunks * share // whole for share, whole in pairs]
    sizes = [factor * part.n_chunks for factor, part in zip(factors, parts, strict=True)]
    n_steps = max(part.n_steps for part in parts)
    step = np.concatenate([part.send_steps() + _delay(part, n_steps) for part in parts])
    order = np.argsort(step, kind="stable")
    offset = offsets_of(np.bincount(step, minlength=n_steps))
    starts = accumulate(sizes, initial=0)
    scaled = [
        _scaled(part, factor, start) for part, factor, start in zip(parts, factors, starts, strict=False)
    ]
    columns = [np.concatenate(column)[order] for column in zip(*scaled, strict=True)]
    return _with_sends(parts[0], offset, columns, n_chunks=n_chunks)


def _scaled(part: Steps, factor: int, start: int) -> Columns:
    """The sends of a part in chunks of 1/factor, `start` chunks further on."""
    low, high = (ends * np.int32(factor) + np.int32(start) for ends in (part.low, part.high))
    return part.shard, part.link, low, high


def _delay(part: Steps, n_steps: int) -> int:
    return n_steps - part.n_steps if part.direction is Direction.REDUCE else 0


def _check_alike(parts: Sequence[Steps]) -> None:
    if not parts:
        raise ScheduleError("steps: no schedule to put together; expected at least one")
    one = parts[0]
    for other in parts[1:]:
        if other.direction is not one.direction or other.n_ranks != one.n_ranks:
            raise ScheduleError("steps: schedules put together must be alike in direction and ranks")
        if not np.array_equal(other.homes, one.homes):
            raise ScheduleError("steps: schedules put together must have the same homes of shards")


def _checked_chunks(n_chunks: int) -> int:
    if n_chunks > MAX_CHUNKS:
        raise ScheduleError(f"steps: this needs {n_chunks} chunks per shard, more than 2**24")
    return n_chunks


def _integers(key: str, values: ArrayLike) -> Int64Array:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise ScheduleError(f"{key}: expected integers in one dimension")
    return array.astype(np.int64)


def _columns(steps: Steps) -> Columns:
    return steps.shard, steps.link, steps.low, steps.high


def _with_sends(
    steps: Steps, offset: NDArray[Any], columns: Sequence[NDArray[np.int32]], *, n_chunks: int | None = None
) -> Steps:
    """Other sends of the same shards; `columns` are shard, link, low and high."""
    shard, link, low, high = (_own(column, np.int32) for column in columns)
    return replace(
        steps,
        n_chunks=steps.n_chunks if n_chunks is None else n_chunks,
        step_offset=_own(offset, np.int64),
        shard=shard,
        link=link,
        low=low,
        high=high,
    )


def _own(values: NDArray[Any], dtype: type[np.generic]) -> NDArray[Any]:
    """A read-only array that `Steps` adopts; computed arrays are frozen in place, views are copied."""
    if values.base is None and values.dtype == dtype and values.flags.c_contiguous:
        values.setflags(write=False)
        return values
    return frozen(values, dtype)
