"""A plan out of an opened archive, whatever its version; the format is described in `files`."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, offsets_of
from treadle.errors import FormatError
from treadle.input_files import parse_json
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredForest, FactoredSchedule
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
from treadle.schedules.plan_files.members import MemberReader
from treadle.schedules.plan_files.rising_routes import read_hop_layers, read_rising_numbers
from treadle.schedules.plan_files.step_ways import WayNumbers
from treadle.schedules.schedule import Schedule
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


@dataclass(frozen=True)
class _Parts:
    """What entries name by number."""

    forests: list[Forest]
    grouped: list[tuple[Forest, ...]]
    factored: list[FactoredForest]
    steps: list[Steps]


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
        self._ways = WayNumbers(manifest, len(self._n_chunks))
        expected |= self._ways.members()
        self._rising = read_rising_numbers(manifest["rising"], len(self._route_chunks))
        expected.update(self._rising)
        members.check_names(expected | exchanged)

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
        kind, n_ranks = collective.kind, collective.n_ranks
        ways = self._directions("forests", self._n_forests)
        forests = [self._forest(number, way, n_ranks) for number, way in enumerate(ways)]
        ways = self._directions("groups", self._n_grouped)
        grouped = [self._grouped(number, way, collective) for number, way in enumerate(ways)]
        ways = self._directions("steps", len(self._n_chunks))
        steps = [self._step_phase(number, way, n_ranks) for number, way in enumerate(ways)]
        ways = self._directions("factored", len(self._n_layers))
        factored = [
            read_factored(self._members, number, self._n_layers[number], way)
            for number, way in enumerate(ways)
        ]
        routed = self._routed(kind, n_ranks)
        return tuple(
            self._entry(value, kind, _Parts(forests, grouped, factored, steps)) if found is None else found
            for value, found in zip(self._entries, routed, strict=True)
        )

    def _exchanged(self) -> dict[int, None]:
        """Numbers of the steps that exchanges name."""
        return {self._sends(entry): None for entry in self._entries if self._type(entry) == "exchange"}

    def _sends(self, entry: Mapping[str, Any]) -> int:
        return _numbered(entry, "sends", len(self._n_chunks))

    def _routed(self, kind: CollectiveKind, n_ranks: int) -> list[PlanEntry | None]:
        """The entries that have routes; None for others."""
        named: dict[str, set[int]] = {"routes": set(), "rounds": set()}
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
            named["routes"].add(number)
            if number not in routes:
                routes[number] = self._routes(number, n_ranks)
            if "rounds" not in fields:
                found.append(read_entry(fields, routes[number]))
                continue
            rounds = _numbered(fields, "rounds", self._n_rounds)
            named["rounds"].add(rounds)
            if (number, rounds) not in timed:
                timed[number, rounds] = self._timed(rounds, routes[number])
            found.append(read_entry(fields, timed[number, rounds]))
        for folder, total in (("routes", len(self._route_chunks)), ("rounds", self._n_rounds)):
            if len(named[folder]) != total:
                raise FormatError(f"{folder}: some are used by no entry")
        return found

    def _entry(self, value: Any, kind: CollectiveKind, parts: _Parts) -> PlanEntry:
        if self._type(value) == "exchange":
            return self._exchange_entry(value, kind, parts.steps)
        if kind is CollectiveKind.ALLTOALL:
            raise FormatError('entries: an all-to-all has entries of "type": "exchange" or "routes"')
        found = self._type(value)
        is_forest = found in ("forests", "factored", "groups")
        roles = {
            role for role, needed in (("reduce", kind.reduces), ("broadcast", kind.broadcasts)) if needed
        }
        # an allreduce of steps may do with the reducing phase
        optional = {"broadcast"} if roles == {"reduce", "broadcast"} and not is_forest else set()
        keys = SIZE_KEYS | ({"type"} if self._has_types else set())
        made = MADE_KEYS if self._has_types else set()
        fields = read_object(value, "entries", keys | roles - optional, optional | made)
        schedule: Schedule
        if found == "forests":
            schedule = ForestSchedule(kind, **{role: parts.forests[fields[role]] for role in roles})
        elif found == "groups":
            ways = [(role, parts.grouped[fields[role]]) for role in sorted(roles)]
            groups = zip(*(forests for _, forests in ways), strict=True)
            names = [role for role, _ in ways]
            schedule = GroupSchedule(
                kind,
                tuple(ForestSchedule(kind, **dict(zip(names, one, strict=True))) for one in groups),
            )
        elif found == "factored":
            schedule = FactoredSchedule(kind, **{role: parts.factored[fields[role]] for role in roles})
        else:
            schedule = StepSchedule(kind, **{role: parts.steps[fields[role]] for role in roles & set(fields)})
        return read_entry(fields, schedule)

    def _exchange_entry(self, value: Any, kind: CollectiveKind, steps: list[Steps]) -> PlanEntry:
        if kind is not CollectiveKind.ALLTOALL:
            raise FormatError(f'entries: {kind} has no entries of "type": "exchange"')
        fields = read_object(value, "entries", SIZE_KEYS | {"type", "sends"}, MADE_KEYS)
        number = self._sends(fields)
        targets = self._members.array(targets_member(number), np.int32)
        return read_entry(fields, ExchangeSchedule(steps[number], targets))

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
            found[offset] = _offsets(values, f"{place}: {key}")
        return found

    def _forest(self, number: int, direction: Direction, n_ranks: int) -> Forest:
        columns = self._columns(f"forests/{number}", FOREST_COLUMNS, FOREST_COUNTS)
        n_trees = columns["tree_root"].size
        if (
            columns["parent"].shape != (n_trees, n_ranks)
            or columns["entry_offset"].size != n_trees * n_ranks + 1
        ):
            raise FormatError(f"forest {number}: its columns do not fit {n_trees} trees of {n_ranks} ranks")
        return Forest(direction=direction, **columns)

    def _grouped(self, number: int, direction: Direction, collective: Collective) -> tuple[Forest, ...]:
        columns = self._columns(f"groups/{number}", FOREST_COLUMNS, GROUP_COUNTS)
        return split_group_forests(
            columns,
            number,
            direction,
            n_groups=collective.n_groups or 0,
            group_size=collective.group_size,
        )

    def _step_phase(self, number: int, direction: Direction, n_ranks: int) -> Steps:
        columns = self._columns(f"steps/{number}", STEP_COLUMNS, STEP_COUNTS)
        columns |= self._ways.columns(self._members, number)
        return Steps(direction=direction, n_ranks=n_ranks, n_chunks=self._n_chunks[number], **columns)

    def _routes(self, number: int, n_ranks: int) -> RouteSchedule:
        columns = self._columns(f"routes/{number}", ROUTE_COLUMNS, ROUTE_COUNTS)
        columns |= read_hop_layers(self._members, number) if number in self._rising.values() else {}
        return RouteSchedule(n_ranks=n_ranks, n_chunks=self._route_chunks[number], **columns)

    def _timed(self, number: int, routes: RouteSchedule) -> TimedRoutes:
        return TimedRoutes(routes, **self._columns(f"rounds/{number}", ROUND_COLUMNS, ROUND_COUNTS))


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


def _offsets(counts: Int64Array, place: str) -> Int64Array:
    if counts.size and (counts.min() < 0 or counts.max() >= 2**31):
        raise FormatError(f"{place} has a value out of range")
    offsets = offsets_of(counts)
    offsets.setflags(write=False)
    return offsets
