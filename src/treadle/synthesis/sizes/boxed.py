"""Trees over boxes and in them, for boxes of any sizes.

Where a box has fewer ranks than another, rank p of the larger one corresponds to rank p modulo its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt, prod

import numpy as np

from treadle.arrays import Int32Array
from treadle.errors import ScheduleError
from treadle.synthesis.sizes.exchanges import Round, trees_of

Boxes = Sequence[Sequence[int]]
"""Ranks of each box."""


def rail_trees(boxes: Boxes, rounds: Sequence[Round]) -> Int32Array:
    """Each shard from box to box at its place, then to all others in each box.

    Parameters
    ----------
    boxes : sequence of sequences of int
    rounds : sequence of Round
        Of the boxes, as if each were a rank.

    Returns
    -------
    array of int32, shape (N, N)
        As `trees_of`.
    """
    above = trees_of(rounds, len(boxes))
    parent = np.empty((sum(map(len, boxes)),) * 2, dtype=np.int32)
    for home, box in enumerate(boxes):
        for place, root in enumerate(box):
            heads = [other[place % len(other)] for other in boxes]
            for other, members in enumerate(boxes):
                parent[root, list(members)] = heads[other]
                parent[root, heads[other]] = heads[above[home, other]] if other != home else -1
    return parent


def three_stage_trees(boxes: Boxes) -> Int32Array:
    """All to all in the box, each member to a few other boxes with the whole box's data, all to all there.

    The other boxes, each as often as the box has shards, are dealt out to its members in runs: so a member
    is for one or a few boxes, and of a box one or a few members send, each one message.

    Returns
    -------
    array of int32, shape (N, N)
        As `trees_of`.
    """
    n, others = sum(map(len, boxes)), len(boxes) - 1
    parent = np.empty((n, n), dtype=np.int32)
    for home, box in enumerate(boxes):
        for place, root in enumerate(box):
            parent[root, list(box)] = root
            for distance in range(others):
                members = boxes[(home + 1 + distance) % len(boxes)]
                carrier = (distance * len(box) + place) // others
                head = members[carrier % len(members)]
                parent[root, list(members)] = head
                parent[root, head] = box[carrier]
            parent[root, root] = -1
    return parent


def usual_factors(boxes: Boxes) -> tuple[int, ...]:
    """Radices of the place in the box and of the box, where boxes have one size; else of the rank alone."""
    is_regular = len(boxes) > 1 and len({len(box) for box in boxes}) == 1
    return (len(boxes[0]), len(boxes)) if is_regular else (sum(map(len, boxes)),)


def nearest_factor(n: int) -> int:
    """Return the greatest factor of a number up to its square root."""
    return next(part for part in range(isqrt(n), 0, -1) if n % part == 0)


def checked_factors(name: str, boxes: Boxes, factors: Sequence[int]) -> tuple[int, ...]:
    """Return the factors; ScheduleError unless they multiply to the number of ranks."""
    n = sum(map(len, boxes))
    if prod(factors) != n or min(factors) < 1:
        raise ScheduleError(f"{name}: factors {listed(factors)}: expected a product of {n} ranks")
    return tuple(factors)


def listed(numbers: Sequence[int]) -> str:
    """Return the numbers as options spell them."""
    return ",".join(map(str, numbers))
