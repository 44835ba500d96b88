"""One group's subgraph for each colour, and its reduction for the flow to one sink."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from treadle.arrays import Int64Array, mask_of, positions_of
from treadle.math.symmetry import Hashes, Refinement
from treadle.synthesis.trees.groups.group_colours import (
    TOLD_APART,
    Colours,
    classes,
    member_weights,
)
from treadle.synthesis.trees.groups.union import GroupUnion


@dataclass(frozen=True, eq=False)
class Representative:
    """A group that stands for all of its colour.

    Parameters
    ----------
    kind : int
        Type in the union.
    times : int
        Groups of that colour.
    n_places : int
    members : array of int64, shape (group size,)
        Places, in the order of the group.
    weights : tuple of int
        Relative shard of each member.
    tails, heads : arrays of int64, shape (p,)
    links : array of int64, shape (p,)
        Fabric links.
    place_class : array of int64, shape (n_places,)
        -1: no pair ends there.
    pair_class : array of int64, shape (p,)
    pair_colour : array of uint64, shape (p,)
    place_colour : array of uint64, shape (n_places,)
    """

    kind: int
    times: int
    n_places: int
    members: Int64Array
    weights: tuple[int, ...]
    tails: Int64Array
    heads: Int64Array
    links: Int64Array
    place_class: Int64Array
    pair_class: Int64Array
    pair_colour: Hashes
    place_colour: Hashes

    @property
    def n_classes(self) -> int:
        """Classes of pairs."""
        return int(self.pair_class.max()) + 1

    def relay_classes(self) -> Int64Array:
        """One position of each class of positions that are not members."""
        is_relay = ~mask_of(self.n_places, self.members)
        is_relay &= mask_of(self.n_places, self.tails) | mask_of(self.n_places, self.heads)
        relays = np.flatnonzero(is_relay)
        _, first = np.unique(self.place_class[relays], return_index=True)
        return relays[first]

    def class_sizes(self) -> Int64Array:
        """Pairs of each class."""
        return np.bincount(self.pair_class, minlength=self.n_classes)


def representatives(union: GroupUnion, colours: Colours) -> list[Representative]:
    """Return the first type of each colour."""
    found = []
    for colour in range(int(colours.kinds.max()) + 1):
        kinds = np.flatnonzero(colours.kinds == colour)
        kind, times = int(kinds[0]), int(union.copies[kinds].sum())
        found.append(group_of(union, colours, kind, classes(colours.pairs[union.pairs_of(kind)])[0], times))
    return found


def group_of(
    union: GroupUnion, colours: Colours, kind: int, pair_class: Int64Array, times: int
) -> Representative:
    """Return the group of a type, with its pairs in these classes."""
    here, shift = union.pairs_of(kind), kind * union.n_local
    places = colours.places[shift : shift + union.n_local]
    return Representative(
        kind=kind,
        times=times,
        n_places=union.n_local,
        members=union.members[kind] - shift,
        weights=member_weights(union.collective),
        tails=union.tails[here] - shift,
        heads=union.heads[here] - shift,
        links=union.links[here],
        place_class=classes(places)[0],
        pair_class=pair_class,
        pair_colour=colours.pairs[here],
        place_colour=places,
    )


@dataclass(frozen=True, eq=False)
class SinkFlow:
    """Rows of the flow to one sink, with one variable for each class of pairs that separate it.

    Parameters
    ----------
    share : array of int64, shape (f,)
        Class of pairs, of the group's own classes, that holds each flow variable.
    places : array of int64, shape (r,)
        One place of each class but the sink's.
    rows, columns, signs : arrays of int64
        Pairs of those places: place (as its row), flow variable, +1 into it or -1 out of it.
    """

    share: Int64Array
    places: Int64Array
    rows: Int64Array
    columns: Int64Array
    signs: Int64Array


def sink_flow(group: Representative, sink: int, *, turned: bool) -> SinkFlow:
    """Return the flow to `sink` from all members; on reversed links if `turned`.

    Notes
    -----
    The sink is separated and colours are refined again, on this group alone: with shares that are the same
    within a class, flows may be averaged over the new classes.
    """
    tails, heads = (group.heads, group.tails) if turned else (group.tails, group.heads)
    colours = group.place_colour.copy()
    colours[sink] ^= TOLD_APART
    graph = Refinement(tails, heads, group.n_places)
    places, pairs = graph.stable(colours, group.pair_colour)
    useful = tails != sink  # data that leave the sink again are useless
    pair_class, first = classes(pairs[useful])
    kept = np.flatnonzero(useful)
    ends = mask_of(group.n_places, tails[kept]) | mask_of(group.n_places, heads[kept])
    ends[sink] = False
    chosen = np.flatnonzero(ends)
    chosen = chosen[np.unique(places[chosen], return_index=True)[1]]
    row = positions_of(group.n_places, chosen)
    into, out = row[heads[kept]] >= 0, row[tails[kept]] >= 0
    return SinkFlow(
        share=group.pair_class[kept[first]],
        places=chosen,
        rows=np.concatenate([row[heads[kept[into]]], row[tails[kept[out]]]]),
        columns=np.concatenate([pair_class[into], pair_class[out]]),
        signs=np.concatenate([np.ones(into.sum(), dtype=np.int64), -np.ones(out.sum(), dtype=np.int64)]),
    )
