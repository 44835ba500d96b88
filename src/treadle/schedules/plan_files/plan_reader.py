"""Reader of plans of any version from an opened archive; module `archive` describes the format."""

from __future__ import annotations

import zipfile
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from msgspec import UNSET
from msgspec.structs import asdict

from treadle.errors import FormatError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.certificate import certificate_from_json
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.factored import FactoredSchedule
from treadle.schedules.plan import Pipelining, Plan, PlanEntry
from treadle.schedules.plan_files.budget import (
    MemoryBudget,
    Shapes,
    array_bytes,
    json_bytes,
    pair_bytes,
    state_bytes,
)
from treadle.schedules.plan_files.factored import LAYER_MEMBERS, factored_members, read_factored
from treadle.schedules.plan_files.group_forests import (
    FOREST_COLUMNS,
    FOREST_COUNTS,
    GROUP_COUNTS,
    split_group_forests,
)
from treadle.schedules.plan_files.manifest import (
    DEMANDS_MEMBER,
    CollectiveTable,
    EntryTable,
    Manifest,
    read_manifest,
)
from treadle.schedules.plan_files.members import MemberReader, offsets_from
from treadle.schedules.plan_files.optional_members import optional_columns, optional_names
from treadle.schedules.schedule import Schedule
from treadle.schedules.steps.steps import Steps, StepSchedule
from treadle.schedules.trees.forest import Direction, Forest, ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.files import parse_topology_file, topology_hash
from treadle.topologies.topology import Topology

STEP_COLUMNS = ("homes", "shard", "link", "low", "high")
STEP_COUNTS = {"step_count": "step_offset"}
ROUTE_COLUMNS = ("source", "target", "units", "layer", "path_links")
ROUTE_COUNTS = {"path_length": "path_offset"}
ROUND_COLUMNS = ("path",)
ROUND_COUNTS = {"round_count": "round_offset"}
COLUMNS = {
    "forests": (FOREST_COLUMNS, FOREST_COUNTS),
    "groups": (FOREST_COLUMNS, GROUP_COUNTS),
    "steps": (STEP_COLUMNS, STEP_COUNTS),
    "routes": (ROUTE_COLUMNS, ROUTE_COUNTS),
    "rounds": (ROUND_COLUMNS, ROUND_COUNTS),
}
"""Members of each folder, and those that hold the differences of an offset array."""

MAX_MANIFEST = 2**26
"""Largest manifest, bytes; a certificate may have a number for every link."""
_MAX_STEPS = 2**20
"""Most steps or rounds."""
_NARROW = {"tree_root", "parent", "entry_path", "path_links", *STEP_COLUMNS, *ROUTE_COLUMNS, *ROUND_COLUMNS}
_NARROW -= {"units"}
_FEW = {"step_count", "round_count"}
"""Counts limited by `_MAX_STEPS`; the memory budget limits the others."""


def targets_member(number: int) -> str:
    """Return the member with the targets of an exchange's shards, by the number of its steps."""
    return f"steps/{number}/targets.npy"


def read_plan(archive: zipfile.ZipFile, max_memory_bytes: int) -> Plan:
    """Read the plan in an archive; a TreadleError or an error of zipfile if it is malformed."""
    budget = MemoryBudget(max_memory_bytes)
    members = MemberReader(archive, budget)
    text = members.string("manifest.json", MAX_MANIFEST)
    budget.charge(json_bytes(text))
    manifest = read_manifest(text)
    exchanged = manifest.exchanged()
    has_demands = manifest.collective.demands is not UNSET
    _check_names(members, manifest, exchanged, has_demands=has_demands)
    shapes = members.shapes()
    n_chunks = [one.n_chunks for one in manifest.steps]
    budget.charge(array_bytes(shapes, n_chunks, has_demands=has_demands))
    text = members.string("topology.json")
    budget.charge(json_bytes(text) + 300 * text.count("{"))
    topology = parse_topology_file(text, charge=budget.charge)
    if manifest.topology_sha256 != (found := topology_hash(topology)):
        raise FormatError(f"topology_sha256: does not belong to topology.json, which has {found}")
    collective = _collective(manifest.collective, members, topology, budget)
    _check_lengths(shapes, manifest, exchanged, collective)
    # the verifier follows the shards of one steps object after the other
    sizes = [
        (prod(shapes[f"steps/{i}/homes.npy"]), chunks, prod(shapes[f"steps/{i}/shard.npy"]))
        for i, chunks in enumerate(n_chunks)
        if i not in exchanged
    ]
    budget.charge(max((state_bytes(topology.n_nodes, *size) for size in sizes), default=0))
    reader = _PartReader(members, manifest, collective)
    return Plan(
        topology=topology,
        collective=collective,
        entries=tuple(map(reader.entry, manifest.entries)),
        algorithm=manifest.algorithm,
        algbw=Fraction(manifest.algbw),
        optimal_algbw=None if manifest.optimal_algbw is None else Fraction(manifest.optimal_algbw),
        certificate=None if manifest.certificate is None else certificate_from_json(manifest.certificate),
        provenance=manifest.provenance,
    )


def _check_names(
    members: MemberReader, manifest: Manifest, exchanged: dict[int, None], *, has_demands: bool
) -> None:
    """Raise FormatError if a member is missing or there is another one."""
    layers = [one.layers for one in manifest.factored]
    n_factored = len(layers) + LAYER_MEMBERS * sum(layers)
    if n_factored > 2 * members.n_members + 2**16:  # checked before that many names are built
        raise FormatError(
            f"factored: {n_factored} members expected, the archive has {members.n_members} in all"
        )
    expected = {"manifest.json", "topology.json", *map(targets_member, exchanged), *optional_names(manifest)}
    if has_demands:
        expected.add(DEMANDS_MEMBER)
    for folder, total in manifest.totals.items():
        columns = [key for keys in COLUMNS.get(folder, ()) for key in keys]
        expected |= {f"{folder}/{number}/{key}.npy" for number in range(total) for key in columns}
    for number, n_layers in enumerate(layers):
        expected |= factored_members(number, n_layers)
    members.check_names(expected)


def _collective(
    table: CollectiveTable, members: MemberReader, topology: Topology, budget: MemoryBudget
) -> Collective:
    """Read the collective; FormatError or ScheduleError if it does not fit the fabric."""
    n_ranks, n_forwarders = len(table.ranks), len(table.forwarders)
    if n_ranks + n_forwarders > topology.n_nodes:
        raise FormatError(
            f"collective: {n_ranks} ranks and {n_forwarders} forwarders, the fabric has "
            f"{topology.n_nodes} nodes"
        )
    if table.kind == CollectiveKind.ALLTOALL:
        budget.charge(pair_bytes(n_ranks))
    fields = {key: value for key, value in asdict(table).items() if value is not UNSET}
    fields["kind"] = CollectiveKind(table.kind)
    if "demands" in fields:
        matrix = members.array(DEMANDS_MEMBER, np.int64, n_dimensions=2, most=n_ranks**2)
        fields["demands"] = Demands(matrix)
    return Collective(**fields)


def _check_lengths(
    shapes: Shapes, manifest: Manifest, exchanged: dict[int, None], collective: Collective
) -> None:
    """Raise FormatError for columns that are longer than the collective allows, before any is read."""
    n_ranks, totals = collective.n_ranks, manifest.totals
    if manifest.groups and collective.n_groups is None:
        raise FormatError("groups: forests of several groups; the collective has one")
    most = {
        f"{folder}/{number}/root_multiplicity.npy": n_ranks
        for folder in ("forests", "factored", "groups")
        for number in range(totals[folder])
    }
    most |= {
        f"groups/{number}/{key}.npy": collective.n_groups or 0
        for number in range(manifest.groups)
        for key in ("tree_count", "path_count")
    }
    pairs = n_ranks * (n_ranks - 1)
    for number in exchanged:
        most |= {f"steps/{number}/homes.npy": pairs, targets_member(number): pairs}
    for name, limit in most.items():
        if prod(shapes[name]) > limit:
            raise FormatError(f"member {name}: {prod(shapes[name])} values, expected at most {limit}")


class _PartReader:
    """Reader of the entries of a plan and of the parts that they name."""

    def __init__(self, members: MemberReader, manifest: Manifest, collective: Collective) -> None:
        self._members = members
        self._manifest = manifest
        self._collective = collective
        directions = manifest.directions().items()
        self._parts = {part: self._part(*part, way) for part, way in directions if part[0] != "rounds"}
        self._timed: dict[tuple[int, int], TimedRoutes] = {}

    def _part(self, folder: str, number: int, direction: Direction) -> Any:
        """Read a forest, those of all groups, a factored forest, steps or routes."""
        n_ranks, group_size = self._collective.n_ranks, self._collective.group_size
        if folder == "factored":
            return read_factored(self._members, number, self._manifest.factored[number].layers, direction)
        columns = self._columns(folder, number)
        if folder in ("steps", "routes"):
            n_chunks = getattr(self._manifest, folder)[number].n_chunks
            columns |= optional_columns(self._members, self._manifest, folder, number)
            columns |= {"n_ranks": n_ranks, "n_chunks": n_chunks}
            return Steps(direction, **columns) if folder == "steps" else RouteSchedule(**columns)
        if folder == "groups":
            n_groups = self._collective.n_groups or 0
            return split_group_forests(columns, number, direction, n_groups=n_groups, group_size=group_size)
        return Forest(direction=direction, **columns)

    def _columns(self, folder: str, number: int) -> dict[str, Any]:
        """Read the columns of a part, with offsets in place of counts."""
        columns, counts = COLUMNS[folder]
        place = f"{folder}/{number}"
        found = {}
        for key in columns:
            wide, n_dimensions = np.int32 if key in _NARROW else np.int64, 2 if key == "parent" else 1
            found[key] = self._members.array(f"{place}/{key}.npy", wide, n_dimensions=n_dimensions)
        for key, offset in counts.items():
            most = _MAX_STEPS if key in _FEW else None
            values = self._members.array(f"{place}/{key}.npy", np.int64, most=most)
            found[offset] = offsets_from(values, f"{place}: {key} has")
        return found

    def entry(self, table: EntryTable) -> PlanEntry:
        """Return an entry."""
        cuts, schedule = tuple(Pipelining(*cut) for cut in table.pipelining), self._schedule(table)
        return PlanEntry(table.min_bytes, table.max_bytes, schedule, table.algorithm, table.options, cuts)

    def _schedule(self, table: EntryTable) -> Schedule:
        kind, parts = self._collective.kind, self._parts
        table.check_keys(kind)
        named = {key: (folder, number) for key, folder, number in table.parts()}
        if table.type == "exchange":
            targets = self._members.array(targets_member(named["sends"][1]), np.int32)
            return ExchangeSchedule(parts[named["sends"]], targets)
        if table.type == "routes":
            routes: RouteSchedule = parts[named["routes"]]
            if "rounds" not in named:
                return routes
            pair = named["routes"][1], named["rounds"][1]
            if pair not in self._timed:
                self._timed[pair] = TimedRoutes(routes, **self._columns("rounds", pair[1]))
            return self._timed[pair]
        chosen = {role: parts[part] for role, part in named.items()}
        if table.type == "groups":
            groups = zip(*chosen.values(), strict=True)
            return GroupSchedule(
                kind, tuple(ForestSchedule(kind, **dict(zip(chosen, one, strict=True))) for one in groups)
            )
        forms = {"forests": ForestSchedule, "factored": FactoredSchedule, "steps": StepSchedule}
        schedule: Schedule = forms[table.type](kind, **chosen)
        return schedule
