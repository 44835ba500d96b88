"""The manifest of a plan file as typed tables, for writing and for reading files that may be hostile."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import asdict

from treadle.errors import FormatError
from treadle.input_files import parse_json
from treadle.schedules.collective import CollectiveKind
from treadle.schedules.plan_files.factored import MAX_LAYERS
from treadle.schedules.plan_files.manifest_values import FractionText, Whole, Wholes, read_table
from treadle.schedules.trees.forest import Direction
from treadle.typed_files import Table

VERSION = 2
"""Version that is written; the version before can be read as well."""

DEMANDS_MEMBER = "demands.npy"
EntryType = Literal["forests", "groups", "factored", "steps", "exchange", "routes"]
_NAMED: dict[str, tuple[str, ...]] = {"exchange": ("sends",), "routes": ("routes", "rounds")}
_ROLES = ("reduce", "broadcast")
_MAX_ITEMS = 1000
"""Most entries (all of which are verified), slice sizes of an entry, and parts of one folder."""
_ADDED = {"steps", "routes", "rising", "rounds", "factored", "groups", "ways", "operations", "fresh"}
_ADDED_KEYS = {"type", "algorithm", "options", "pipelining", "sends", "routes", "rounds"}
"""Keys of a manifest and of its entries that version 2 added."""

_Number = Whole | UnsetType


class CollectiveTable(Table, frozen=True):
    """A collective; keys that few collectives need are present only where they are needed."""

    kind: str
    ranks: Wholes
    root: Whole | None
    weights: Wholes | None
    forwarders: Wholes
    groups: tuple[Wholes, ...] | UnsetType = UNSET
    ranks_forward: bool | UnsetType = UNSET
    demands: Any = UNSET

    def __post_init__(self) -> None:
        if self.kind not in set(CollectiveKind):
            raise FormatError(f"kind: {self.kind[:100]!r}, expected one of {', '.join(CollectiveKind)}")
        if self.demands not in (UNSET, DEMANDS_MEMBER):
            raise FormatError(f"demands: expected {DEMANDS_MEMBER!r}")
        if (self.groups is UNSET) is not (self.ranks_forward is UNSET):
            raise FormatError("groups and ranks_forward: expected both or neither")


class EntryTable(Table, frozen=True, kw_only=True):
    """An entry: its sizes, its algorithm, the slices of messages, and the numbers of its parts."""

    min_bytes: Whole
    max_bytes: Whole | None
    algorithm: str = ""
    options: str = ""
    pipelining: tuple[
        Annotated[tuple[Whole, Whole, str], Meta(description="bytes, slices and protocol")], ...
    ] = ()
    type: Any = None
    reduce: _Number = UNSET
    broadcast: _Number = UNSET
    sends: Any = UNSET
    routes: _Number = UNSET
    rounds: _Number = UNSET

    def __post_init__(self) -> None:
        if self.type not in (types := get_args(EntryType)):
            *others, last = (f'"{name}"' for name in types)
            raise FormatError(f'expected "type": {", ".join(others)} or {last}')
        if len(self.pipelining) > _MAX_ITEMS:
            raise FormatError(f"pipelining: {len(self.pipelining)}, expected 0 to {_MAX_ITEMS}")
        if self.type == "exchange" and type(self.sends) is not int:
            raise FormatError("sends: expected an integer")

    def parts(self) -> Iterator[tuple[str, str, int]]:
        """Yield key, folder and number of each part of the entry."""
        for key in _NAMED.get(self.type, _ROLES):
            if (number := getattr(self, key)) is not UNSET:
                yield key, {"sends": "steps", "rounds": "rounds"}.get(key, self.type), number

    def check_keys(self, kind: CollectiveKind) -> None:
        """Raise FormatError for an entry that the collective cannot have, or that lacks or adds a part."""
        if kind is CollectiveKind.ALLTOALL and self.type not in _NAMED:
            raise FormatError('entries: an all-to-all has entries of "type": "exchange" or "routes"')
        if kind is not CollectiveKind.ALLTOALL and self.type in _NAMED:
            raise FormatError(f'entries: {kind} has no entries of "type": "{self.type}"')
        roles = [key for key, used in zip(_ROLES, (kind.reduces, kind.broadcasts), strict=True) if used]
        required, optional = set(_NAMED.get(self.type, roles)), set[str]()
        if self.type == "routes":
            optional = {"rounds"}
        elif self.type == "steps" and len(roles) == 2:
            optional = {"broadcast"}  # an allreduce of steps may have the reducing phase only
        numbers = asdict(self)
        given = {key for key in (*_ROLES, "sends", "routes", "rounds") if numbers[key] is not UNSET}
        for key in sorted((required ^ given) - optional):
            raise FormatError(f"entries: key {key!r} is {'missing' if key in required else 'unknown'}")


class ChunkTable(Table, frozen=True):
    """Fields of steps or routes in the manifest."""

    n_chunks: Whole


class LayerTable(Table, frozen=True):
    """Fields of a factored forest in the manifest."""

    layers: Whole

    def __post_init__(self) -> None:
        if not 1 <= self.layers <= MAX_LAYERS:
            raise FormatError(f"layers must be 1 to {MAX_LAYERS}")


class Manifest(Table, frozen=True):
    """A manifest of the current version."""

    treadle: Literal["plan"]
    version: int
    topology_sha256: str
    collective: CollectiveTable
    algorithm: str
    algbw: FractionText
    optimal_algbw: FractionText | None
    certificate: Any = field(name="witness")
    provenance: dict[str, Any]
    entries: tuple[EntryTable, ...]
    forests: Whole
    steps: tuple[ChunkTable, ...]
    routes: tuple[ChunkTable, ...] = ()
    rising: Wholes = ()
    rounds: Whole = 0
    factored: tuple[LayerTable, ...] = ()
    groups: Whole = 0
    ways: Wholes = ()
    operations: Wholes = ()
    fresh: Wholes = ()

    def __post_init__(self) -> None:
        for key, item in self.provenance.items():
            if type(item) not in (str, int, float) or (isinstance(item, float) and not isfinite(item)):
                raise FormatError(f"provenance: {key[:100]!r} is neither text nor a finite number")
        for key, total in ("entries", len(self.entries)), *self.totals.items():
            if not 0 <= total <= _MAX_ITEMS:
                least = 1 if key == "entries" else 0
                raise FormatError(f"{key}: {total}, expected {least} to {_MAX_ITEMS}")
        for key in ("rising", "ways", "operations", "fresh"):
            numbers, total = getattr(self, key), len(self.routes if key == "rising" else self.steps)
            if len(set(numbers)) < len(numbers) or not all(0 <= number < total for number in numbers):
                raise FormatError(f"{key}: expected numbers from 0 to {total - 1}, each once")

    @property
    def totals(self) -> dict[str, int]:
        """Number of parts in each folder."""
        listed = {key: len(getattr(self, key)) for key in ("steps", "routes", "factored")}
        return {"forests": self.forests, "groups": self.groups, "rounds": self.rounds} | listed

    def exchanged(self) -> dict[int, None]:
        """Return the numbers of the steps that exchanges name, in order."""
        numbers = dict.fromkeys(entry.sends for entry in self.entries if entry.type == "exchange")
        for number in numbers:
            if not 0 <= number < len(self.steps):
                raise FormatError(f"entries: sends {number} do not exist")
        return numbers

    def directions(self) -> dict[tuple[str, int], Direction]:
        """Return the direction of each part by folder and number; FormatError for parts without one."""
        found: dict[tuple[str, int], Direction] = {}
        totals = self.totals
        for entry in self.entries:
            for key, folder, number in entry.parts():
                direction = Direction.REDUCE if key == "reduce" else Direction.BROADCAST
                exists = 0 <= number < totals[folder]
                if not exists and entry.type == "routes":
                    raise FormatError(f"entries: {folder} {number} do not exist")
                if not exists or found.setdefault((folder, number), direction) is not direction:
                    raise FormatError(f"entries: {folder} {number} has two directions or does not exist")
        for folder, total in totals.items():
            if sum(used == folder for used, _ in found) != total:
                raise FormatError(f"{folder}: some are used by no entry")
        return found


def read_manifest(text: str) -> Manifest:
    """Return a manifest of any version in the form of the current one; FormatError if it is malformed."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise FormatError("manifest: expected an object")
    version, entries = value.get("version"), value.get("entries")
    if value.get("treadle") != "plan" or type(version) is not int:
        raise FormatError('manifest: expected "treadle": "plan" and a version')
    if version not in (VERSION - 1, VERSION):
        raise FormatError(f"manifest: version {version}, expected {VERSION - 1} or {VERSION}")
    listed = entries if isinstance(entries, list) else []
    if not all(isinstance(entry, dict) for entry in listed):
        raise FormatError("entries: expected objects")
    if version < VERSION:  # all entries name forests
        for place, tables, added in (("manifest", [value], _ADDED), ("entries", listed, _ADDED_KEYS)):
            for key in (key for table in tables for key in sorted(added & table.keys())):
                raise FormatError(f"{place}: key {key!r} is unknown")
        value["steps"] = []
        for entry in listed:
            entry["type"] = "forests"
    return read_table(value, Manifest, "manifest")
