"""Joint colour refinement of the groups' subgraphs: equivalence classes of links and groups.

Places are coloured by role, links by bandwidth. In every round a pair (a link as one group sees it) takes a
colour of its ends and its link; a place adds the colours of the pairs out of it and into it, a fabric link
adds those of all groups' pairs on it. When no colour splits any more, the classes are equitable: shares that
are averages over them keep balance and capacity, so one variable for each class suffices. Colours of fabric
nodes alone would be too coarse: on a torus all nodes are equivalent, but not for a group.

Colours are 64-bit hashes; sums of hashes stand for multisets. Nothing rests on them: shares are checked on
every link, lengths by a certificate without colours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import BoolArray, Int64Array, mask_of, positions_of
from treadle.context import context
from treadle.math.symmetry import LINK, Hashes, Refinement, RunSums, scramble
from treadle.schedules.collective import Collective
from treadle.synthesis.trees.groups.union import GroupUnion

TOLD_APART = np.uint64(0x5851F42D4C957F2D)
"""Marks the colour of one place."""

_ROUND_WORK, _PAIR_WORK = 250_000, 150
"""Cost of a round of refinement, and of a pair in it: nanoseconds."""

_MOST_SHARPENED = 4_000_000
"""Pairs, times members of a group."""

_SHARPENED_ROUNDS = 6
"""Until what each member sees is stable, about."""


@dataclass(frozen=True, eq=False)
class Colours:
    """Stable colours of a union.

    Parameters
    ----------
    places : array of uint64, shape (T * n_local,)
    pairs : array of uint64, shape (P,)
    links : array of uint64, shape (n_links,)
    kinds : array of int64, shape (T,)
        Colour of each type, from 0 on in order of first appearance.
    rounds : int
    """

    places: Hashes
    pairs: Hashes
    links: Hashes
    kinds: Int64Array
    rounds: int


def refined(union: GroupUnion) -> Colours:
    """Return stable colours of positions, pairs, fabric links and types.

    Parameters
    ----------
    union : GroupUnion

    Raises
    ------
    TimeLimitError
        If the deadline passed.
    """
    links = scramble(union.topology.bandwidths.astype(np.uint64))
    return _stable(union, _roles(union), links, scramble(union.is_own.astype(np.uint64)))


def separate_nodes(union: GroupUnion, colours: Colours, chosen: BoolArray) -> Colours:
    """Return stable colours with some positions separated.

    Raises
    ------
    TimeLimitError
        If the deadline passed.
    """
    places = colours.places.copy()
    places[chosen] ^= TOLD_APART
    return _stable(union, places, colours.links, colours.pairs)


def can_sharpen(union: GroupUnion) -> bool:
    """Whether `sharpened` is worth its memory."""
    return bool(len(union.tails) * union.members.shape[1] <= _MOST_SHARPENED)


def sharpened(union: GroupUnion, colours: Colours) -> Colours:
    """Return colours that also separate what differs as seen from some member.

    Notes
    -----
    For every member the group's colours are refined with that member separated; a pair takes up the multiset
    of its colours over all members, a member that of all pairs as it sees them; and so on until stable. That
    is colour refinement of the entire program with its flows to every sink, whose classes are certain to have
    an optimum that is equal within them (Grohe, Kersting, Mladenov and Selman, ESA 2014). The plain classes,
    which are larger, mostly do, too.
    """
    while True:
        context().spend(_SHARPENED_ROUNDS * _PAIR_WORK * len(union.tails) * union.members.shape[1])
        pairs, places = _as_members_see(union, colours)
        finer = _stable(union, places, colours.links, pairs)
        counts = [
            [len(np.unique(part)) for part in (found.places, found.pairs, found.links)]
            for found in (colours, finer)
        ]
        if counts[0] == counts[1]:
            return finer
        colours = finer


def _as_members_see(union: GroupUnion, colours: Colours) -> tuple[Hashes, Hashes]:
    """Return colours of pairs and positions, separated by how each member sees them."""
    n_types, size = union.members.shape
    width = union.n_local * size
    starts = np.arange(n_types) * width
    kinds = union.kind_of_pair
    shift = starts[kinds] - kinds * union.n_local  # to the first copy of a type
    steps = np.arange(size) * union.n_local
    tails = (union.tails + shift)[None, :] + steps[:, None]  # (size, P)
    heads = (union.heads + shift)[None, :] + steps[:, None]
    places = np.repeat(colours.places.reshape(n_types, 1, union.n_local), size, axis=1).ravel()
    separated = union.members + (starts - np.arange(n_types) * union.n_local)[:, None] + steps[None, :]
    places[separated] ^= TOLD_APART
    graph = Refinement(tails.ravel(), heads.ravel(), len(places))
    _, seen = graph.stable(places, np.tile(colours.pairs, size))
    seen = scramble(seen).reshape(size, -1)
    pairs = scramble(colours.pairs + seen.sum(axis=0, dtype=np.uint64))
    by_member = np.add.reduceat(seen, union.offsets[:-1], axis=1)  # (size, T)
    found = colours.places.copy()
    found[union.members] = scramble(found[union.members] + by_member.T)
    return pairs, found


def _stable(union: GroupUnion, places: Hashes, links: Hashes, marks: Hashes) -> Colours:
    """Refine until no colour splits; `marks` are colours of pairs that stay."""
    graph = Refinement(union.tails, union.heads, len(union.node))
    on_link = RunSums.by(union.links, union.topology.n_links)
    copies = np.where(union.is_own, 1, union.copies[union.kind_of_pair])
    times = copies.astype(np.uint64) if (copies != 1).any() else None
    used = mask_of(union.topology.n_links, union.links)
    counts, rounds = (len(np.unique(places)), len(np.unique(links[used]))), 0
    while True:
        context().report("refinement of groups", rounds, 0)
        context().spend(_ROUND_WORK + _PAIR_WORK * len(union.tails))
        pairs = graph.pairs(places, links[union.links] + marks)
        finer = graph.refine_positions(places, pairs)
        finer_links = scramble(links * LINK + on_link(pairs if times is None else pairs * times))
        found = len(np.unique(finer)), len(np.unique(finer_links[used]))
        rounds += 1
        if found == counts:
            break
        places, links, counts = finer, finer_links, found
    kinds = scramble(places.copy()).reshape(union.n_types, union.n_local).sum(axis=1, dtype=np.uint64)
    _, first, inverse = np.unique(kinds, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return Colours(places, pairs, links, rank[inverse.ravel()], rounds)


def _roles(union: GroupUnion) -> Hashes:
    """Return the role of each position: member (by weight, or root), other rank, or relay."""
    collective = union.collective
    role = union.topology.is_compute.astype(np.uint64)[union.node]
    weights = np.array(member_weights(collective), dtype=np.uint64) + np.uint64(2)
    role[union.members] = weights[None, :]
    return scramble(role)


def member_weights(collective: Collective) -> tuple[int, ...]:
    """Return the relative shard of each position in a group: 1, the weights of a single group, or the root's
    alone."""
    if collective.root is not None:
        return tuple(int(place == collective.root) for place in range(collective.group_size))
    return (1,) * collective.group_size if collective.weights is None else collective.shard_weights


def classes(colours: Hashes) -> tuple[Int64Array, Int64Array]:
    """Return the class of each item, in order of first appearance, and the first item of each class."""
    _, first, inverse = np.unique(colours, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = positions_of(len(order), order)
    return rank[inverse.ravel()], first[order]
