"""Links by kind: the same bandwidth between the same sorts of nodes."""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, distinct
from treadle.drawing.pages.drawn_fabric import DrawnFabric


def link_kinds(
    fabric: DrawnFabric, busy: NDArray[np.float64] | None, full: BoolArray | None
) -> list[dict[str, object]]:
    """How many there are of each kind, how busy they are, and where in the picture.

    Parameters
    ----------
    fabric : DrawnFabric
    busy : array of float, shape (links,), optional
        Share of the time for which each is busy.
    full : array of bool, shape (links,), optional
        Whether it is all the time, by exact numbers.
    """
    topology = fabric.topology
    words, sort = np.unique([_sort(name) for name in topology.node_names], return_inverse=True)
    widths, width = np.unique(topology.bandwidths, return_inverse=True)
    keys = (width * len(words) + sort[topology.tails]) * len(words) + sort[topology.heads]
    rows: list[dict[str, object]] = []
    for key in distinct(keys).tolist():
        own = np.flatnonzero(keys == key)
        tail, head = words[key // len(words) % len(words)], words[key % len(words)]
        rows.append(
            {
                "name": f"{tail} \N{RIGHTWARDS ARROW} {head}",
                "links": len(own),
                "bytesPerS": int(widths[key // len(words) ** 2]),
                "mean": None if busy is None else round(float(busy[own].mean()), 4),
                "most": None if busy is None else round(float(busy[own].max()), 4),
                "full": None if full is None else int(full[own].sum()),
                "lines": sorted({abs(line) for line in fabric.lines_of(own.tolist())}),
            }
        )
    return rows


def _sort(name: str) -> str:
    """A node's name without its box and without numbers: ``box3.gpu5`` is a gpu."""
    return re.sub(r"[0-9]+", "", name.rpartition(".")[2]).strip("_.-: ") or "node"
