"""Fabrics that index sets describe: families of nodes, and links between all members that agree.

A DGX fabric is the families gpu[box, gpu], nvswitch[box] and ib[]; a link family joins each two members whose
shared indices are equal. Any permutation of the values of one index is then an automorphism, so all members
of a family are equivalent, and fixing some nodes leaves a few classes per index: their own values, and all
others. Problems on these classes (`Classes`) are as small for a million nodes as for ten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import product
from math import prod
from string import Formatter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.topologies.topology import SWITCH_FLAGS, Topology

Int8Array = NDArray[np.int8]


@dataclass(frozen=True)
class NodeFamily:
    """Nodes called `name` for all values of its indices.

    Parameters
    ----------
    name : str
        Template with the indices in braces, outermost first: ``box{box}.gpu{gpu}``; ``{pod,box}`` numbers the
        boxes of all pods consecutively.
    is_compute : bool
    able : tuple of str
        Operations of a switch: fields of `Topology` such as "multicast".
    """

    name: str
    is_compute: bool = False
    able: tuple[str, ...] = ()

    @cached_property
    def fields(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Literal strings of the template, and the indices after each."""
        parts = Formatter().parse(self.name)
        return tuple((text, tuple(field.split(",")) if field else ()) for text, field, _, _ in parts)

    @property
    def indices(self) -> tuple[str, ...]:
        """Names of the indices, outermost first."""
        return tuple(index for _, indices in self.fields for index in indices)


@dataclass(frozen=True)
class LinkFamily:
    """A link in each direction between each two members of two node families whose shared indices are equal.

    Parameters
    ----------
    one, other : NodeFamily
    bandwidth : int
        Bytes/s per direction.
    """

    one: NodeFamily
    other: NodeFamily
    bandwidth: int

    @property
    def indices(self) -> tuple[str, ...]:
        """Indices of both ends."""
        return tuple(dict.fromkeys((*self.one.indices, *self.other.indices)))


@dataclass(frozen=True)
class Each:
    """Parts that are numbered together for each value of `indices`: all of one box, then all of the next."""

    indices: tuple[str, ...]
    parts: tuple[NodeFamily | LinkFamily | Each, ...]


Part = NodeFamily | LinkFamily | Each


@dataclass(frozen=True, eq=False)
class Classes:
    """Nodes and links in classes that automorphisms of a fabric which fix some nodes map to each other.

    Parameters
    ----------
    members : list of (NodeFamily, tuple of int), length c
        The family of each class, and the class of each index's value.
    size : list of int, length c
        Number of nodes.
    tails, heads : list of int, length a
        Classes that each class of links joins.
    links : list of int, length a
        Number of links in each.
    family : list of int, length a
        Their place in `Families.link_families`.
    """

    members: list[tuple[NodeFamily, tuple[int, ...]]]
    size: list[int]
    tails: list[int]
    heads: list[int]
    links: list[int]
    family: list[int]


@dataclass(frozen=True)
class Families:
    """A fabric by node and link families, in the order in which they are numbered."""

    sizes: Mapping[str, int]
    nodes: tuple[Part, ...]
    links: tuple[Part, ...]

    @cached_property
    def node_families(self) -> list[NodeFamily]:
        """All node families."""
        return list(_leaves(self.nodes))

    @cached_property
    def link_families(self) -> list[LinkFamily]:
        """All link families."""
        return list(_leaves(self.links))

    @cached_property
    def indices(self) -> dict[str, int]:
        """Sizes of the indices that nodes have."""
        used = dict.fromkeys(index for family in self.node_families for index in family.indices)
        return {index: self.sizes[index] for index in used}

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return sum(self._width(part, ()) for part in self.nodes)

    @property
    def n_links(self) -> int:
        """Number of directed links."""
        return 2 * sum(self._width(part, ()) for part in self.links)

    def count(self, indices: Sequence[str]) -> int:
        """Return the number of combinations of values of these indices."""
        return prod(self.sizes[index] for index in indices)

    def _width(self, part: Part, fixed: Sequence[str]) -> int:
        """Return the members of a part for one value of each fixed index."""
        free = self.count([index for index in part.indices if index not in fixed])
        return free * self._within(part, fixed)

    def _within(self, part: Part, fixed: Sequence[str]) -> int:
        """Return the members of a part for one value of each fixed index and of its own."""
        if not isinstance(part, Each):
            return 1
        return sum(self._width(one, (*fixed, *part.indices)) for one in part.parts)

    def _places(
        self, parts: Sequence[Part], first: int, offsets: Mapping[str, Int64Array]
    ) -> Iterator[tuple[Any, Int64Array]]:
        """Number of each member of each family, an axis per index; `offsets`: what outer indices add."""
        for part in parts:
            own, stride = dict(offsets), self._within(part, tuple(offsets))
            for index in reversed(part.indices):
                if index not in offsets:
                    own[index] = np.arange(self.sizes[index]) * stride
                    stride *= self.sizes[index]
            if isinstance(part, Each):
                yield from self._places(part.parts, first, own)
            else:
                yield part, reduce(np.add.outer, [own[index] for index in part.indices], np.array(first))
            first += self._width(part, tuple(offsets))

    def build(self, name: str) -> Topology:
        """Return the fabric, which `families_of` gives this description of."""
        n, m = self.n_nodes, self.n_links // 2
        names, where = np.empty(n, dtype=object), self.node_positions()
        flags = np.zeros((4, n), dtype=np.bool_)
        for family, places in where.items():
            texts = [""]
            for literal, indices in family.fields:
                numbers = range(self.count(indices)) if indices else ("",)
                texts = [f"{head}{literal}{number}" for head in texts for number in numbers]
            names[places.ravel()] = np.array(texts, dtype=object)
            has = [family.is_compute, *(key in family.able for key in SWITCH_FLAGS)]
            flags[:, places.ravel()] = np.array(has)[:, None]
        tails, heads = (np.empty((m, 2), dtype=np.int32) for _ in range(2))
        bandwidths = np.empty((m, 2), dtype=np.int64)
        for link, places in self._places(self.links, 0, {}):
            rows = places.ravel()  # pair i is links 2 i and 2 i + 1
            for column, end in enumerate((link.one, link.other)):
                at = [link.indices.index(index) for index in end.indices]
                others = [axis for axis in range(places.ndim) if axis not in at]
                own = np.expand_dims(where[end].transpose(np.argsort(at)), others)
                nodes = np.broadcast_to(own, places.shape).ravel()
                tails[rows, column] = heads[rows, 1 - column] = nodes
            bandwidths[rows] = link.bandwidth
        arrays: tuple[NDArray[Any], ...] = (tails, heads, bandwidths, flags)
        for values in arrays:
            values.setflags(write=False)  # the topology adopts read-only arrays without a copy
        links = (column.reshape(-1) for column in (tails, heads, bandwidths))
        able: dict[str, Any] = dict(zip(SWITCH_FLAGS, flags[1:], strict=True))
        topology = Topology(name, tuple(names.tolist()), flags[0], *links, **able)  # type: ignore[arg-type]
        object.__setattr__(topology, _KEY, self)
        return topology

    def classes(self, split: Mapping[str, Sequence[int]]) -> Classes:
        """Return nodes and links by classes; `split` has the sizes, not 0, of the classes of each index."""
        members = [
            (family, choice)
            for family in self.node_families
            for choice in product(*(range(len(split[index])) for index in family.indices))
        ]
        number = {member: place for place, member in enumerate(members)}
        rows = []
        for place, link in enumerate(self.link_families):
            for choice in product(*(range(len(split[index])) for index in link.indices)):
                at = dict(zip(link.indices, choice, strict=True))
                one, other = (
                    number[end, tuple(at[i] for i in end.indices)] for end in (link.one, link.other)
                )
                links = prod(split[index][value] for index, value in at.items())
                rows += [(one, other, links, place), (other, one, links, place)]
        size = [
            prod(split[index][value] for index, value in zip(family.indices, choice, strict=True))
            for family, choice in members
        ]
        tails, heads, links_of, family_of = map(list, zip(*rows, strict=True))
        return Classes(members, size, tails, heads, links_of, family_of)

    def node_positions(self) -> dict[NodeFamily, Int64Array]:
        """Return the node numbers of each family, an axis per index."""
        return dict(self._places(self.nodes, 0, {}))

    def link_numbers(self) -> Int8Array:
        """Return the link family of each link, by its place in `link_families`."""
        found = np.empty((self.n_links // 2, 2), dtype=np.int8)
        for number, (_, places) in enumerate(self._places(self.links, 0, {})):
            found[places.ravel()] = number
        return found.ravel()


_KEY = "_families"


def families_of(topology: Topology) -> Families | None:
    """Return the description that a fabric was built from; a fabric derived from another one has none."""
    found: Families | None = topology.__dict__.get(_KEY)
    return found


def _leaves(parts: Sequence[Part]) -> Iterator[Any]:
    for part in parts:
        yield from _leaves(part.parts) if isinstance(part, Each) else (part,)
