"""The groups that are not representatives: their pairs in the representatives' classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from treadle.arrays import Int64Array, offsets_of
from treadle.synthesis.trees.groups.capacity import class_lookup
from treadle.synthesis.trees.groups.group_colours import Colours
from treadle.synthesis.trees.groups.representative import Representative, group_of
from treadle.synthesis.trees.groups.union import GroupUnion


@dataclass(frozen=True, eq=False)
class EveryGroup:
    """One group of each type, seen through the classes of its representative.

    Parameters
    ----------
    union : GroupUnion
    colours : Colours
    groups : tuple of Representative
        By colour.
    number : array of int64, shape (P,)
        Class of each pair, all representatives' classes in turn.
    """

    union: GroupUnion
    colours: Colours
    groups: tuple[Representative, ...]
    number: Int64Array
    starts: Int64Array = field(repr=False)

    def colour_of(self, kind: int) -> int:
        """Number of the representative of a type."""
        return int(self.colours.kinds[kind])

    def of_type(self, kind: int) -> Representative:
        """The first group of a type."""
        colour = self.colour_of(kind)
        if self.groups[colour].kind == kind:
            return self.groups[colour]
        pair_class = self.number[self.union.pairs_of(kind)] - self.starts[colour]
        return group_of(self.union, self.colours, kind, pair_class, 1)

    def others(self) -> Iterator[tuple[int, Representative]]:
        """Types that are not representatives, with the number of their representative."""
        for kind in range(self.union.n_types):
            colour = self.colour_of(kind)
            if self.groups[colour].kind != kind:
                yield colour, self.of_type(kind)

    def in_order_of(self, kind: int, values: Sequence[int]) -> list[int]:
        """Values of a representative's members, in the order of a type's members of the same colours."""
        one = self.groups[self.colour_of(kind)]
        if kind == one.kind:
            return list(values)
        known = dict(zip(one.place_colour[one.members].tolist(), values, strict=True))
        return [known[v] for v in self.colours.places[self.union.members[kind]].tolist()]


def every_group(union: GroupUnion, colours: Colours, groups: Sequence[Representative]) -> EveryGroup:
    """All types' pairs in the classes of their representatives."""
    starts = offsets_of([group.n_classes for group in groups])
    colour = colours.kinds[union.kind_of_pair]
    number = starts[colour] + class_lookup(groups, colour, colours.pairs)
    return EveryGroup(union, colours, tuple(groups), number, starts)
