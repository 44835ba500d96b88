"""Allgathers as exchanges: in each round a rank sends all that it holds to some others, that lack it.

A round is an array of shape (k, N): row i has, for each rank v, whom it sends its i-th message; v itself
stands for none, and no rank is named twice in a row. So the ways of a single axis (`direct`, `bruck`,
`far_first`, `ring`) are a line each, and a grid of ranks goes through them axis by axis (`grid_trees`). Every
shard takes a tree from its root (`trees_of`): what a rank has it is not sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from treadle.arrays import Int32Array, Int64Array

Round = Int64Array
"""Shape (k, N): the targets of every rank's k messages."""

Messages = tuple[Int64Array, Int64Array, Int64Array]
"""Sender, target and shard of each send of a round."""


def direct(n: int) -> list[Round]:
    """One round: all ranks to all others, each beginning with the one after it."""
    ranks = np.arange(n)
    return [(ranks + np.arange(1, n)[:, None]) % n] if n > 1 else []


def bruck(n: int, radix: int = 2) -> list[Round]:
    """Rounds of distance 1, r, r^2, ...: messages grow with the distance (Bruck et al., TPDS 8, 1997)."""
    ranks, rounds, distance = np.arange(n), list[Round](), 1
    while distance < n:
        multiples = np.arange(1, radix) * distance
        rounds.append((ranks + multiples[multiples < n][:, None]) % n)
        distance *= radix
    return rounds


def far_first(n: int, radix: int = 2) -> list[Round]:
    """The same from the largest distance down: near messages are the large ones (PAT, arXiv 2506.20252)."""
    return bruck(n, radix)[::-1]


def ring(n: int) -> list[Round]:
    """N - 1 rounds from each rank to the next."""
    return [((np.arange(n) + 1) % n)[None]] * (n - 1)


def on_axis(shape: Sequence[int], axis: int, one: Round) -> Round:
    """A round of one axis of a grid of ranks in row major order."""
    places = np.arange(prod(shape)).reshape(shape)
    return np.stack([places.take(row, axis).ravel() for row in one])


def sends_of(rounds: Sequence[Round], n: int) -> list[Messages]:
    """Sender, shard and receiver, round by round: to each rank once, by the first message that brings it.

    Parameters
    ----------
    rounds : sequence of Round
    n : int
        N.
    """
    held = np.eye(n, dtype=np.bool_)  # [root, rank]
    ranks = np.arange(n)
    found = []
    for targets in rounds:
        before = held.copy()
        parts: list[Messages] = []
        for row in targets:
            roots, senders = np.nonzero(before & ~held[:, row] & (row != ranks))
            held[roots, row[senders]] = True
            parts.append((senders, row[senders], roots))
        found.append(joined(parts))
    return found


def joined(parts: Iterable[Messages]) -> Messages:
    """Messages of all parts, one after another."""
    none = np.zeros(0, dtype=np.int64)
    sender, target, shard = (np.concatenate(column) for column in zip((none,) * 3, *parts, strict=True))
    return sender, target, shard


def trees_of(rounds: Sequence[Round], n: int) -> Int32Array:
    """Return the sender of each shard to each rank.

    Parameters
    ----------
    rounds : sequence of Round
    n : int
        N.

    Returns
    -------
    array of int32, shape (N, N)
        [root, rank]: the parent in the root's tree; -1 at the root, and where the shard never comes.
    """
    parent = np.full((n, n), -1, dtype=np.int32)
    for sender, target, shard in sends_of(rounds, n):
        parent[shard, target] = sender
    return parent


def grid_trees(shape: Sequence[int]) -> Int32Array:
    """`trees_of` of all to all along one axis after another (`direct`), by what they come to.

    Before an axis a shard is with the ranks that agree with its root in that axis and all after it. So a rank
    gets it along the last axis in which it differs, from the rank that has the root's place there.

    Parameters
    ----------
    shape : sequence of int
        Of the grid of ranks in row major order.
    """
    n = prod(shape)
    ranks = np.arange(n, dtype=np.int32)
    parent = np.full((n, n), -1, dtype=np.int32)
    stride = n
    for size in shape:
        stride //= size
        place = ranks // stride % size
        away = place[:, None] - place  # [root, rank]
        np.copyto(parent, ranks + stride * away, where=away != 0)
    return parent
