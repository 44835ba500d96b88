"""Names of the packers of forests, the outcome of each, and a packed forest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from treadle.brief import brief
from treadle.synthesis.trees.packers.tree_packing import Packing
from treadle.synthesis.trees.switch_removal import LogicalGraph


class Packer(StrEnum):
    """Names of the packers, in the order in which they are tried; on dense graphs breadth-first is second.

    Tight cuts, box-by-box and height-first replace switch removal too; the others work on the logical graph
    that it leaves. Local search reduces the height of another packing; given by name, it follows incremental
    packing.

    Examples
    --------
    >>> from treadle import planning
    >>> list(planning.Packer)[0].value
    'tight-cuts'
    """

    TIGHT_CUTS = "tight-cuts"
    BOX_BY_BOX = "box-by-box"
    HEIGHT_FIRST = "height-first"
    BREADTH_FIRST = "breadth-first"
    SHORTEST_PATHS = "shortest-paths"
    MATCHING = "matching"
    PRICED_MATCHING = "priced-matching"
    GROWTH = "growth"
    LOCAL_SEARCH = "local-search"


@brief("packer", "outcome")
@dataclass(frozen=True)
class PackingAttempt:
    """Outcome of one packer.

    Parameters
    ----------
    packer : Packer
    outcome : str
        "made the forest" and how, why it failed, or why it was not tried.
    """

    packer: Packer
    outcome: str


@dataclass(frozen=True)
class Packed:
    """A packing, its packer, and the outcomes of the other packers.

    Parameters
    ----------
    graph : LogicalGraph
        The one that was given, or what local search has made of it.
    packing : Packing
        Trees of that graph.
    packer : Packer
    attempts : tuple of PackingAttempt
        In the order of trial; the last one packed the forest unless its outcome says otherwise.
    """

    graph: LogicalGraph
    packing: Packing
    packer: Packer
    attempts: tuple[PackingAttempt, ...]
