"""Contents of third-party schedules before they are placed on a fabric: messages between ranks, or trees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from treadle.program.program import Program
from treadle.schedules.collective import CollectiveKind

Way = tuple[str, ...]
"""Nodes between two ranks, by their names in the file."""


@dataclass(frozen=True, eq=False)
class Traffic:
    """Messages of numbered ranks, with the order between them."""

    program: Program
    """Program without paths."""
    ways: Mapping[int, Way] = field(default_factory=dict)
    """Ways of the sends whose switches the file names, by operation."""
    is_runnable: bool = True
    """Whether the program has the same effect on its buffers as the file.

    Otherwise (for runtimes that store several versions of a chunk) it only has the messages of the file,
    their sizes and their order, which times and loads need; the verifier of the format checks the file.
    """
    notes: tuple[str, ...] = ()
    """Explanations of the conversion, for users."""


@dataclass(frozen=True)
class NamedTree:
    """Equal out-trees of one root."""

    root: int
    units: int
    parents: Mapping[int, int]
    """Parent of every rank except the root."""
    ways: Mapping[int, Way]
    """Nodes between a rank and its parent, from the parent on."""
    place: str
    """Location in the file."""


@dataclass(frozen=True)
class NamedTrees:
    """Out-trees of numbered ranks."""

    ranks: tuple[str, ...]
    """Names of the ranks in the file, by number."""
    trees: tuple[NamedTree, ...]
    reducing: tuple[NamedTree, ...] = ()
    """Trees that reductions use reversed, if they differ."""
    names_ways: bool = True
    """Whether the file names the ways; otherwise they are chosen like those of messages."""


@dataclass(frozen=True)
class NamedRings:
    """Rings of equal boxes, which data pass box by box."""

    chains: tuple[tuple[int, ...], ...]
    """For each channel, the GPUs of a box in the order of the data, by their index in the box."""
    has_cards: bool = False
    """Whether the file names network cards."""


def even_shards(kind: CollectiveKind, n: int, n_chunks: int, root: int) -> list[int]:
    """Return the shard offsets of a program of n ranks whose shards are as even as they can be."""
    if kind is CollectiveKind.ALLTOALL:
        return [place * (n_chunks // n) for place in range(n * n + 1)]
    if kind.is_rooted:
        return [0 if place <= root else n_chunks for place in range(n + 1)]
    return [n_chunks * place // n for place in range(n + 1)]
