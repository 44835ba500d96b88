"""Fabrics with families as JSON: a few lines, however many nodes they have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType, to_builtins

from treadle.errors import FormatError, TopologyError
from treadle.topologies.families import Each, Families, LinkFamily, NodeFamily, Part
from treadle.topologies.limits import MAX_LINKS, MAX_NODES
from treadle.topologies.topology import MAX_BANDWIDTH, SWITCH_FLAGS, Topology
from treadle.typed_files import Table, read_json

_MAX_PARTS, _MAX_INDICES, _MAX_NAME = 64, 8, 100


class FamilyPart(Table, frozen=True):
    """A node family (`name`), a link family (`ends`), or parts that are numbered together (`each`)."""

    name: str | UnsetType = UNSET
    kind: Literal["compute", "switch"] | UnsetType = UNSET
    multicast: bool = False
    aggregation: bool = False
    turns_round: bool = False
    ends: tuple[str, str] | UnsetType = UNSET
    bandwidth_bytes_per_s: Annotated[int, Meta(ge=1, le=MAX_BANDWIDTH)] | UnsetType = UNSET
    each: tuple[str, ...] | UnsetType = UNSET
    parts: tuple[FamilyPart, ...] | UnsetType = UNSET


class FamilyTable(Table, frozen=True):
    """Index sizes, node families and link families."""

    sizes: dict[str, Annotated[int, Meta(ge=1, le=MAX_NODES)]]
    nodes: tuple[FamilyPart, ...]
    links: tuple[FamilyPart, ...]


class FamilyFile(Table, frozen=True):
    """A topology file, version 2."""

    treadle: Literal["topology"]
    version: Literal[2]
    name: str
    families: FamilyTable


_NODE_BYTES, _LINK_BYTES = 400, 60
"""Memory of a fabric while it is built: names twice (and up to four bytes for each character), ends,
bandwidths and what sorts them."""


def read_families(text: str, *, source: str = "", charge: Callable[[int], None] | None = None) -> Topology:
    """Return the fabric of a topology file, version 2; FormatError if it is malformed.

    `charge` is called with the bytes of memory that the fabric will take, before it is built.
    """
    file = read_json(text, FamilyFile, source=source)
    try:
        families = families_from_table(file.families)
        if charge is not None:
            longest = max(len(family.name) for family in families.node_families)
            charge((_NODE_BYTES + 8 * longest) * families.n_nodes + _LINK_BYTES * families.n_links)
        return families.build(file.name)
    except (FormatError, TopologyError) as error:
        raise FormatError(str(error), source=source) from None


def dump_families(name: str, families: Families) -> str:
    """Return a topology file, version 2, as a string."""
    nodes, links = (tuple(map(_row, parts)) for parts in (families.nodes, families.links))
    file = {"treadle": "topology", "version": 2, "name": name}
    table = to_builtins(FamilyTable(families.indices, nodes, links))
    return json.dumps(file | {"families": table}, ensure_ascii=False) + "\n"


def _row(part: Part) -> FamilyPart:
    if isinstance(part, Each):
        return FamilyPart(each=part.indices, parts=tuple(map(_row, part.parts)))
    if isinstance(part, LinkFamily):
        return FamilyPart(ends=(part.one.name, part.other.name), bandwidth_bytes_per_s=part.bandwidth)
    row: dict[str, Any] = {"name": part.name, "kind": "compute" if part.is_compute else "switch"}
    return FamilyPart(**row | dict.fromkeys(part.able, True))


def families_from_table(table: FamilyTable) -> Families:
    """Return the families that a table describes.

    Raises
    ------
    FormatError
        If a part is malformed, names an unknown index or family, or the fabric would be too large.
    """
    if len(table.sizes) > _MAX_INDICES:
        raise FormatError(f"families: {len(table.sizes)} indices, expected at most {_MAX_INDICES}")
    reader = _Reader(table.sizes)
    nodes = reader.parts(table.nodes, (), links=False)
    links = reader.parts(table.links, (), links=True)
    families = Families(dict(table.sizes), nodes, links)
    sizes = (("nodes", families.n_nodes, MAX_NODES), ("links", families.n_links, MAX_LINKS))
    for what, count, most in sizes:
        if count > most:
            raise FormatError(f"families: {count} {what}, expected at most {most}")
    return families


class _Reader:
    """Reads parts; node families are known by name from then on."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._sizes, self._families, self._left = sizes, dict[str, NodeFamily](), _MAX_PARTS

    def parts(self, rows: Sequence[FamilyPart], outer: tuple[str, ...], *, links: bool) -> tuple[Part, ...]:
        """Return parts within those that fix the outer indices."""
        self._left -= len(rows)
        if self._left < 0:
            raise FormatError(f"families: expected at most {_MAX_PARTS} parts")
        return tuple(self._part(row, outer, links) for row in rows)

    def _part(self, row: FamilyPart, outer: tuple[str, ...], links: bool) -> Part:
        if row.each is not UNSET and row.parts is not UNSET and row.name is row.ends is UNSET:
            if not row.each or not row.parts:
                raise FormatError("families: each needs an index and a part")
            indices = self._known((*outer, *row.each))
            return Each(row.each, self.parts(row.parts, indices, links=links))
        part = self._link(row) if links else self._node(row)
        self._known(part.indices)
        if not set(outer) <= set(part.indices):
            raise FormatError(f"families: {row.name or row.ends} lacks an index of the parts around it")
        return part

    def _node(self, row: FamilyPart) -> NodeFamily:
        if row.name is UNSET or row.kind is UNSET or not row.ends is row.each is UNSET:
            raise FormatError("families: expected name and kind of a node family, or each and parts")
        if len(row.name) > _MAX_NAME or row.name in self._families:
            raise FormatError(f"families: {row.name[:_MAX_NAME]!r} is too long, or named twice")
        try:
            fields = list(Formatter().parse(row.name))
        except ValueError as error:
            raise FormatError(f"families: {row.name!r}: {error}") from None
        if any(spec or conversion for _, _, spec, conversion in fields):
            raise FormatError(f"families: {row.name!r}: expected indices in braces and nothing else there")
        able = tuple(key for key in SWITCH_FLAGS if getattr(row, key))
        found = self._families[row.name] = NodeFamily(row.name, row.kind == "compute", able)
        return found

    def _link(self, row: FamilyPart) -> LinkFamily:
        if row.ends is UNSET or row.bandwidth_bytes_per_s is UNSET or not row.name is row.each is UNSET:
            raise FormatError("families: expected ends and bandwidth of a link family, or each and parts")
        for end in row.ends:
            if end not in self._families:
                raise FormatError(f"families: no node family is called {end[:_MAX_NAME]!r}")
        one, other = (self._families[end] for end in row.ends)
        return LinkFamily(one, other, row.bandwidth_bytes_per_s)

    def _known(self, indices: tuple[str, ...]) -> tuple[str, ...]:
        for index in indices:
            if index not in self._sizes:
                raise FormatError(f"families: no index is called {index[:_MAX_NAME]!r}")
        if len(set(indices)) < len(indices):
            raise FormatError("families: an index appears twice in one part")
        return indices
