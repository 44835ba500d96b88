"""Rotations of boxes and of equivalent parts within them, proposed by the names of nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"([A-Za-z_]*[A-Za-z_])(\d+)$")

Shifts = Mapping[tuple[int, str], tuple[int, int]]
"""Shift of the numbers at each position and word of a name, and size of their blocks."""


def box_rotations(names: Sequence[str]) -> Iterator[NDArray[np.int64]]:
    """Maps of nodes, right or wrong: ``box3.gpu1`` becomes ``box4.gpu1``, ``box3.gpu2``, and so on.

    Parameters
    ----------
    names : sequence of str
        Words with numbers behind them, and dots between what holds and what is held.

    Yields
    ------
    array of int64, shape (n,)
        The node that each node becomes; of maps that are none (two nodes become one) nothing.

    Examples
    --------
    >>> names = ["box0.gpu0", "box0.gpu1", "box1.gpu0", "box1.gpu1", "rail0", "rail1"]
    >>> [one.tolist() for one in box_rotations(names)]
    [[2, 3, 0, 1, 4, 5], [1, 0, 3, 2, 4, 5], [1, 0, 3, 2, 5, 4]]
    """
    split = [[_WORD.match(word) for word in name.split(".")] for name in names]
    index = {name: node for node, name in enumerate(names)}
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for words in split:
        for place, word in enumerate(words):
            if word is not None:
                counts[place, word[1]] = max(counts[place, word[1]], int(word[2]) + 1)
    holders = {words[0][1] for words in split if len(words) > 1 and words[0] is not None}
    for shifts in _shifts(counts, holders):
        mapped = [
            index.get(_moved(words, name, shifts), -1) for words, name in zip(split, names, strict=True)
        ]
        if len(set(mapped)) == len(names) and -1 not in mapped:
            yield np.array(mapped, dtype=np.int64)


def _shifts(counts: Mapping[tuple[int, str], int], holders: set[str]) -> Iterator[Shifts]:
    """Yield possible rotations: containers, alone or with their neighbours; then their contents.

    Words at one position rotate together (a GPU with its NIC) or alone, rails next to boxes with their
    contents.
    """
    outer = {key: count for key, count in counts.items() if key[0] == 0 and key[1] in holders}
    beside = {key: count for key, count in counts.items() if key[0] == 0 and key[1] not in holders}
    for key, count in outer.items():
        yield {key: (1, count)}
        for other, fewer in beside.items():  # pods: boxes by whole pods with their leaves, and within pods
            if 1 < fewer < count and count % fewer == 0:
                yield {key: (count // fewer, count), other: (1, fewer)}
                yield {key: (1, count // fewer)}
    for depth in sorted({place for place, _ in counts if place > 0}):
        held = {key: (1, count) for key, count in counts.items() if key[0] == depth}
        yield held
        yield from ({key: shift} for key, shift in held.items() if len(held) > 1)
        yield held | {key: (1, count) for key, count in beside.items()}


def _moved(words: Sequence[re.Match[str] | None], name: str, shifts: Shifts) -> str:
    found = name.split(".")
    for place, word in enumerate(words):
        if word is not None and (place, word[1]) in shifts:
            step, block = shifts[place, word[1]]
            number = int(word[2])
            found[place] = f"{word[1]}{number - number % block + (number + step) % block}"
    return ".".join(found)
