"""A plan out of an opened archive, whatever its version; the format is described in `files`."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.errors import FormatError
from treadle.input_files import parse_json
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Plan, PlanEntry
from treadle.schedules.plan_files.budget import (
    MemoryBudget,
    Shapes,
    array_bytes,
    json_bytes,
    state_bytes,
)
from treadle.schedules.plan_files.collective_values import DEMANDS_MEMBER, read_collective
from treadle.schedules.plan_files.entry_values import MADE_KEYS, SIZE_KEYS, read_entry
from treadle.schedules.plan_files.factored import LAYER_MEMBERS, MAX_LAYERS, factored_members, read_factored
from treadle.schedules.plan_files.group_forests import (
    FOREST_COLUMNS,
    FOREST_COUNTS,
    GROUP_COUNTS,
    split_group_forests,
)
from treadle.schedules.plan_files.manifest_values import (
    read_fraction,
    read_list,
    read_object,
    read_optional,
    read_scalars,
    read_string,
    read_whole,
)
from treadle.schedules.plan_files.members import MemberReader, offsets_from
from treadle.schedules.plan_files.optional_members import OptionalMembers
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.schedules.witness import witness_from_json
from treadle.topologies.files import topology_from_text, topology_hash

VERSION = 2
"""What is written; the one before is read as well."""

STEP_COLUMNS = ("homes", "shard", "link", "low", "high")
STEP_COUNTS = {"step_count": "step_offset"}
ROUTE_COLUMNS = ("source", "target", "units", "layer", "path_links")
ROUTE_COUNTS = {"path_length": "path_offset"}
ROUND_COLUMNS = ("path",)
ROUND_COUNTS = {"round_count": "round_offset"}
"""Members, and those that hold the differences of an offset array."""

MAX_MANIFEST = 2**26  # bytes; a witness may have a number for every link
_MAX_ITEMS = 1000  # entries, forests, steps, routes and rounds
_MAX_STEPS = 2**20  # rounds, too
_NARROW = {"tree_root", "parent", "entry_path", "path_links", *STEP_COLUMNS, *ROUTE_COLUMNS, *ROUND_COLUMNS}
_NARROW -= {"units"}
_FEW = {"step_count", "round_count"}  # other counts are as many as what they count out

_KEYS = {
    "treadle",
    "version",
    "topology_sha256",
    "collective",
    "algorithm",
    "algbw",
    "optimal_algbw",
    "witness",
    "provenance",
    "entries",
    "forests",
}


def targets_member(number: int) -> str:
    """Member with the targets of an exchange's shards, by the number of its steps."""
    return f"steps/{number}/targets.npy"


def read_plan(archive: zipfile.ZipFile, max_memory_bytes: int) -> Plan:
    """The plan in an archive; FormatError, another TreadleError or zipfile's own if it is none."""
    budget = MemoryBudget(max_memory_bytes)
    members = MemberReader(archive, budget)
    text = members.text("manifest.json", MAX_MANIFEST)
    budget.charge(json_bytes(text))
    manifest = _manifest(parse_json(text))
    items = _Items(members, manifest)
    shapes = items.charge(budget)
    text = members.text("topology.json")
    budget.charge(json_bytes(text) + 300 * text.count("{"))
    topology = topology_from_text(text)
    if manifest["topology_sha256"] != (found := topology_hash(topology)):
        raise FormatError(f"topology_sha256: does not belong to topology.json, which has {found}")
    collective = read_collective(manifest["collective"], members, topology, budget)
    items.check_lengths(shapes, collective)
    items.charge_state(budget, shapes, topology.n_nodes)
    return Plan(
        topology=topology,
        collective=collective,
        entries=items.entries(collective),
        algorithm=read_string(manifest["algorithm"], "algorithm"),
        algbw=read_fraction(manifest["algbw"], "algbw"),
        optimal_algbw=read_optional(manifest["optimal_algbw"], read_fraction, "optimal_algbw"),
        witness=None if manifest["witness"] is None else witness_from_json(manifest["witness"]),
        provenance=read_scalars(manifest["provenance"], "provenance"),
    )


def _manifest(value: Any) -> Mapping[str, Any]:
    """The manifest in the form of the current version."""
    if not isinstance(value, dict):
        raise FormatError("manifest: expected an object")
    version = value.get("version")
    if value.get("treadle") != "plan" or type(version) is not int:
        raise FormatError('manifest: expected "treadle": "plan" and a version')
    if version not in (VERSION - 1, VERSION):
        raise FormatError(f"manifest: version {version}, this program reads {VERSION - 1} and {VERSION}")
    absent = {"steps": [], "routes": [], "rising": [], "rounds": 0, "factored": [], "groups": 0}
    absent |= {"ways": [], "operations": [], "fresh": []}
    if version == 1:
        return {**absent, **read_object(value, "manifest", _KEYS)}
    return {**absent, **read_object(value, "manifest", _KEYS | {"steps"}, set(absent) - {"steps"})}


class _Items:
    """The forests, of one group or of several, steps, routes and rounds of an archive, and its entries."""

    def __init__(self, members: MemberReader, manifest: Mapping[str, Any]) -> None:
        self._members = members
        self._entries = read_list(manifest["entries"], "entries")
        if len(self._entries) > _MAX_ITEMS:  # each is verified
            raise FormatError(f"entries: {len(self._entries)}, expected 1 to {_MAX_ITEMS}")
        self._has_types = manifest["version"] > 1
        self._n_forests = _count(manifest, "forests")
        self._n_grouped = _count(manifest, "groups")
        self._n_layers = _item_numbers(manifest, "factored", "layers")
        if any(not 1 <= number <= MAX_LAYERS for number in self._n_layers):
            raise FormatError(f"factored: layers must be 1 to {MAX_LAYERS}")
        self._n_chunks = _item_numbers(manifest, "steps", "n_chunks")
        self._route_chunks = _item_numbers(manifest, "routes", "n_chunks")
        self._n_rounds = _count(manifest, "rounds")
        expected = {"manifest.json", "topology.json"}
        if isinstance(manifest["collective"], dict) and "demands" in manifest["collective"]:
            expected.add(DEMANDS_MEMBER)
        for folder, number, keys in (
            ("forests", self._n_forests, (*FOREST_COLUMNS, *FOREST_COUNTS)),
            ("groups", self._n_grouped, (*FOREST_COLUMNS, *GROUP_COUNTS)),
            ("steps", len(self._n_chunks), (*STEP_COLUMNS, *STEP_COUNTS)),
            ("routes", len(self._route_chunks), (*ROUTE_COLUMNS, *ROUTE_COUNTS)),
            ("rounds", self._n_rounds, (*ROUND_COLUMNS, *ROUND_COUNTS)),
        ):
            expected |= {f"{folder}/{i}/{key}.npy" for i in range(number) for key in keys}
        exchanged = {targets_member(number) for number in self._exchanged()}
        self._has_demands = DEMANDS_MEMBER in expected
        self._check_number(len(expected) + len(exchanged))  # before names of so many members are made
        for number, n_layers in enumerate(self._n_layers):
            expected |= factored_members(number, n_layers)
        self._optional = OptionalMembers(manifest, len(self._n_chunks), len(self._route_chunks))
        members.check_names(expected | exchanged | self._optional.names())

    def _check_number(self, n_others: int) -> None:
        """Refuse a manifest that speaks of many more factored members than there are."""
        n_factored = len(self._n_layers) + LAYER_MEMBERS * sum(self._n_layers)
        if n_others + n_factored > 2 * self._members.n_members + 2**16:
            n_members = self._members.n_members
            raise FormatError(f"factored: {n_factored} members expected, the archive has {n_members} in all")

    def charge(self, budget: MemoryBudget) -> Shapes:
        """Charge all arrays, by their headers; their shapes."""
        shapes = self._members.shapes()
        budget.charge(array_bytes(shapes, self._n_chunks, has_demands=self._has_demands))
        return shapes

    def charge_state(self, budget: MemoryBudget, shapes: Shapes, n_nodes: int) -> None:
        """Charge what following the shards of steps takes, one of the steps after the other."""
        exchanged = self._exchanged()
        sizes = [
            (prod(shapes[f"steps/{i}/homes.npy"]), self._n_chunks[i], prod(shapes[f"steps/{i}/shard.npy"]))
            for i in range(len(self._n_chunks))
            if i not in exchanged
        ]
        budget.charge(max((state_bytes(n_nodes, *size) for size in sizes), default=0))

    def check_lengths(self, shapes: Shapes, collective: Collective) -> None:
        """Refuse columns that are longer than the collective allows, before any is read."""
        n_ranks = collective.n_ranks
        if self._n_grouped and collective.n_groups is None:
            raise FormatError("groups: forests of several groups; the collective has one")
        most = {f"forests/{i}/root_multiplicity.npy": n_ranks for i in range(self._n_forests)}
        most |= {f"factored/{i}/root_multiplicity.npy": n_ranks for i in range(len(self._n_layers))}
        for number in range(self._n_grouped):
            most[f"groups/{number}/root_multiplicity.npy"] = n_ranks
            for key in ("tree_count", "path_count"):
                most[f"groups/{number}/{key}.npy"] = collective.n_groups or 0
        for number in self._exchanged():
            pairs = n_ranks * (n_ranks - 1)
            most |= {f"steps/{number}/homes.npy": pairs, targets_member(number): pairs}
        for name, limit in most.items():
            if prod(shapes[name]) > limit:
                raise FormatError(f"member {name}: {prod(shapes[name])} values, expected at most {limit}")

    def entries(self, collective: Collective) -> tuple[PlanEntry, ...]:
        """The plan's entries."""
        parts: dict[str, list[Any]] = {}
        for folder, total in (
            ("forests", self._n_forests),
            ("groups", self._n_grouped),
            ("steps", len(self._n_chunks)),
            ("factored", len(self._n_layers)),
        ):
            ways = self._directions(folder, total)
            parts[folder] = [self._part(folder, number, way, collective) for number, way in enumerate(ways)]
        routed = self._routed(collective.kind, collective.n_ranks)
        return tuple(
            self._entry(value, collective.kind, parts) if found is None else found
            for value, found in zip(self._entries, routed, strict=True)
        )

    def _exchanged(self) -> dict[int, None]:
        """Numbers of the steps that exchanges name."""
        exchanges = [entry for entry in self._entries if self._type(entry) == "exchange"]
        return {_numbered(entry, "sends", len(self._n_chunks)): None for entry in exchanges}

    def _routed(self, kind: CollectiveKind, n_ranks: int) -> list[PlanEntry | None]:
        """The entries that have routes; None for others."""
        found: list[PlanEntry | None] = []
        routes: dict[int, RouteSchedule] = {}
        timed: dict[tuple[int, int], TimedRoutes] = {}
        for entry in self._entries:
            if self._type(entry) != "routes":
                found.append(None)
                continue
            if kind is not CollectiveKind.ALLTOALL:
                raise FormatError(f'entries: {kind} has no entries of "type": "routes"')
            fields = read_object(entry, "entries", SIZE_KEYS | {"type", "routes"}, {"rounds"} | MADE_KEYS)
            number = _numbered(fields, "routes", len(self._route_chunks))
            if number not in routes:
                columns = self._columns(f"routes/{number}", ROUTE_COLUMNS, ROUTE_COUNTS)
                columns |= self._optional.columns(self._members, "routes", number)
                n_chunks = self._route_chunks[number]
                routes[number] = RouteSchedule(n_ranks=n_ranks, n_chunks=n_chunks, **columns)
            if "rounds" not in fields:
                found.append(read_entry(fields, routes[number]))
                continue
            rounds = _numbered(fields, "rounds", self._n_rounds)
            if (number, rounds) not in timed:
                columns = self._columns(f"rounds/{rounds}", ROUND_COLUMNS, ROUND_COUNTS)
                timed[number, rounds] = TimedRoutes(routes[number], **columns)
            found.append(read_entry(fields, timed[number, rounds]))
        named_rounds = {rounds for _, rounds in timed}
        for folder, named, total in (
            ("routes", len(routes), len(self._route_chunks)),
            ("rounds", len(named_rounds), self._n_rounds),
        ):
            if named != total:
                raise FormatError(f"{folder}: some are used by no entry")
        return found

    def _entry(self, value: Any, kind: CollectiveKind, parts: Mapping[str, list[Any]]) -> PlanEntry:
        found = self._type(value)
        if found == "exchange":
            if kind is not CollectiveKind.ALLTOALL:
                raise FormatError(f'entries: {kind} has no entries of "type": "exchange"')
            fields = read_object(value, "entries", SIZE_KEYS | {"type", "sends"}, MADE_KEYS)
            number = _numbered(fields, "sends", len(self._n_chunks))
            targets = self._members.array(targets_member(number), np.int32)
            return read_entry(fields, ExchangeSchedule(parts["steps"][number], targets))
        if kind is CollectiveKind.ALLTOALL:
            raise FormatError('entries: an all-to-all has entries of "type": "exchange" or "routes"')
        roles = [
            role for role, needed in (("broadcast", kind.broadcasts), ("reduce", kind.reduces)) if needed
        ]
        # an allreduce of steps may do with the reducing phase
        optional = {"broadcast"} if len(roles) == 2 and found == "steps" else set()
        keys = SIZE_KEYS | ({"type"} if self._has_types else set())
        made = MADE_KEYS if self._has_types else set()
        fields = read_object(value, "entries", keys | {*roles} - optional, optional | made)
        chosen = {role: parts[found][fields[role]] for role in roles if role in fields}
        if found == "groups":
            groups = zip(*chosen.values(), strict=True)
            forests = (ForestSchedule(kind, **dict(zip(chosen, one, strict=True))) for one in groups)
            return read_entry(fields, GroupSchedule(kind, tuple(forests)))
        forms = {"forests": ForestSchedule, "factored": FactoredSchedule, "steps": StepSchedule}
        return read_entry(fields, forms[found](kind, **chosen))

    def _type(self, entry: Any) -> str:
        """What an entry's numbers count; in version 1 always forests."""
        if not isinstance(entry, dict):
            raise FormatError("entries: expected objects")
        found = entry.get("type") if self._has_types else "forests"
        if found not in ("forests", "groups", "factored", "steps", "exchange", "routes"):
            raise FormatError(
                'entries: expected "type": "forests", "groups", "factored", "steps", "exchange" or "routes"'
            )
        return str(found)

    def _directions(self, folder: str, number: int) -> list[Direction]:
        """Which way each forest (or steps) flows: the role that the entries give it says so."""
        ways: dict[int, Direction] = {}
        if folder == "steps":
            ways = dict.fromkeys(self._exchanged(), Direction.BROADCAST)
        for entry in self._entries:
            if self._type(entry) != folder:
                continue
            for way in Direction:
                if way.value in entry:
                    named = read_whole(entry[way.value], f"entries: {way.value}")
                    if ways.setdefault(named, way) is not way or not 0 <= named < number:
                        raise FormatError(f"entries: {folder} {named} is used both ways or does not exist")
        if len(ways) != number:
            raise FormatError(f"{folder}: some are used by no entry")
        return [ways[i] for i in range(number)]

    def _part(self, folder: str, number: int, direction: Direction, collective: Collective) -> Any:
        """A forest, those of all groups, a factored forest, or steps."""
        n_ranks, place = collective.n_ranks, f"{folder}/{number}"
        if folder == "factored":
            return read_factored(self._members, number, self._n_layers[number], direction)
        if folder == "steps":
            columns = self._columns(place, STEP_COLUMNS, STEP_COUNTS)
            columns |= self._optional.columns(self._members, folder, number)
            return Steps(direction=direction, n_ranks=n_ranks, n_chunks=self._n_chunks[number], **columns)
        if folder == "groups":
            columns = self._columns(place, FOREST_COLUMNS, GROUP_COUNTS)
            n_groups, size = collective.n_groups or 0, collective.group_size
            return split_group_forests(columns, number, direction, n_groups=n_groups, group_size=size)
        columns = self._columns(place, FOREST_COLUMNS, FOREST_COUNTS)
        n_trees, n_entries = columns["tree_root"].size, columns["entry_offset"].size
        if columns["parent"].shape != (n_trees, n_ranks) or n_entries != n_trees * n_ranks + 1:
            raise FormatError(f"forest {number}: its columns do not fit {n_trees} trees of {n_ranks} ranks")
        return Forest(direction=direction, **columns)

    def _columns(
        self, place: str, columns: tuple[str, ...], counts: dict[str, str]
    ) -> dict[str, NDArray[Any]]:
        found = {
            key: self._members.array(
                f"{place}/{key}.npy",
                np.int32 if key in _NARROW else np.int64,
                n_dimensions=2 if key == "parent" else 1,
            )
            for key in columns
        }
        for key, offset in counts.items():
            most = _MAX_STEPS if key in _FEW else None
            values = self._members.array(f"{place}/{key}.npy", np.int64, most=most)
            found[offset] = offsets_from(values, f"{place}: {key} has")
        return found


def _item_numbers(manifest: Mapping[str, Any], key: str, number: str) -> list[int]:
    """A number of each of the steps, routes or factored forests."""
    items = read_list(manifest[key], key)
    if len(items) > _MAX_ITEMS:
        raise FormatError(f"{key}: {len(items)}, expected 0 to {_MAX_ITEMS}")
    return [read_whole(read_object(item, key, {number})[number], f"{key}: {number}") for item in items]


def _count(manifest: Mapping[str, Any], key: str) -> int:
    """How many forests or rounds there are."""
    number = read_whole(manifest[key], key)
    if not 0 <= number <= _MAX_ITEMS:
        raise FormatError(f"{key}: {number}, expected 0 to {_MAX_ITEMS}")
    return number


def _numbered(entry: Mapping[str, Any], key: str, total: int) -> int:
    """Number of the `key` that an entry names."""
    number = read_whole(entry.get(key), f"entries: {key}")
    if not 0 <= number < total:
        raise FormatError(f"entries: {key} {number} do not exist")
    return number
