"""What a schedule of others says, before it meets a fabric: messages between its ranks, or trees of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind

Way = tuple[str, ...]
"""Nodes between two ranks, by the names that the file gives them."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Messages of ranks that are numbered, with the order between them.

    Parameters
    ----------
    program : Program
        No send names a path.
    ways : mapping of operation to Way
        Of sends whose switches the file names.
    is_runnable : bool
        The program does on its buffers what the file does. Where it is False (runtimes that keep several
        versions of a chunk beside each other), it has the file's messages, their sizes and their order, which
        is what times and loads need, and no more; what the file does its judge says.
    notes : tuple of str
        What was made of the file, for people.
    """

    program: Program
    ways: Mapping[int, Way] = field(default_factory=dict)
    is_runnable: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedTree:
    """Equal out-trees of one root.

    Parameters
    ----------
    root, units : int
    parents : mapping of rank to rank
        Of every rank but the root.
    ways : mapping of rank to Way
        Nodes between a rank and its parent, from the parent on.
    place : str
        Where in the file it stands.
    """

    root: int
    units: int
    parents: Mapping[int, int]
    ways: Mapping[int, Way]
    place: str


@dataclass(frozen=True)
class NamedTrees:
    """Out-trees of ranks that are numbered.

    Parameters
    ----------
    ranks : tuple of str
        Names that the file gives the ranks, by number.
    trees : tuple of NamedTree
    reducing : tuple of NamedTree
        Those that reductions take turned round, where these are others.
    names_ways : bool
        The ways are what the file says; else they are chosen as those of messages are.
    """

    ranks: tuple[str, ...]
    trees: tuple[NamedTree, ...]
    reducing: tuple[NamedTree, ...] = ()
    names_ways: bool = True


@dataclass(frozen=True)
class NamedRings:
    """Rings of equal boxes, which data pass box by box.

    Parameters
    ----------
    chains : tuple of tuple of int
        For each channel, the GPUs of a box in the order that data pass, by their places in the box.
    has_cards : bool
        The file names network cards.
    """

    chains: tuple[tuple[int, ...], ...]
    has_cards: bool = False


def even_shards(kind: CollectiveKind, n: int, n_chunks: int, root: int) -> list[int]:
    """Return the shard offsets of a program of n ranks whose shards are as even as they can be."""
    if kind is CollectiveKind.ALLTOALL:
        return [place * (n_chunks // n) for place in range(n * n + 1)]
    if kind.is_rooted:
        return [0 if place <= root else n_chunks for place in range(n + 1)]
    return [n_chunks * place // n for place in range(n + 1)]
