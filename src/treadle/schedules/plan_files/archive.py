"""Plan files: a zip of a JSON manifest, the fabric's JSON and .npy arrays; read with distrust.

Format, version 2. ``manifest.json`` has the collective, the claims, the witness, the provenance and, per
entry, the size range, its ``type`` (``forests``, ``groups``, ``factored``, ``steps``, ``exchange`` or
``routes``) and the numbers of its forests or steps by role, of an exchange the number of its ``sends`` among
the steps, of routes their number and that of their ``rounds`` if they have any; ``topology.json`` is the
fabric as `treadle.topologies.files` writes it; ``forests/<number>/<column>.npy``, and likewise ``steps``,
``routes`` and ``rounds``, are little-endian signed integers of the narrowest sufficient width. ``forests``
and ``rounds`` say how many there are, ``steps`` and ``routes`` list the chunks per shard or unit of demand of
each. Offsets are stored as counts, which deflate better. The steps of an exchange have ``targets.npy``
besides. Where an all-to-all has demands, the collective's ``demands`` names the member with their matrix.
Equal plans give equal bytes.

Factored forests have members of their own (`plan_files.factored`); ``factored`` lists how many layers
each has. Where the collective has ``groups`` (and ``ranks_forward``), entries are of the type ``groups``: the
forests of all groups that flow one way are one table (`plan_files.group_forests`), and ``groups`` says how
many such tables there are.

An entry of a set may name its ``algorithm`` and ``options``, and ``pipelining``: rows of bytes, slices and
protocol (`plan_files.manifest`).

All-to-all, its routes, factored forests, groups, the ways of steps (`plan_files.optional_members`) and what
entries say of their making came to version 2 without a new number: a program that does not know them refuses
the manifest's key, the collective's kind, the entry's type or its key by its name, and all other plans are as
they were to the byte (the keys ``routes``, ``rising``, ``rounds``, ``factored``, ``groups``, ``ways``,
``operations`` and ``fresh`` are there only where an entry has them).

Version 1, which is read as well, has no ``steps`` and no ``type``: all entries name forests.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import is_
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from msgspec import UNSET, to_builtins

from treadle.arrays import Int32Array
from treadle.atomic import write_bytes
from treadle.checking import checked, unexpected
from treadle.errors import FormatError, MemoryLimitError, TreadleError
from treadle.input_files import open_input
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.factored import FactoredForest, FactoredSchedule
from treadle.schedules.plan import HasPlan, Plan, PlanEntry, plan_of
from treadle.schedules.plan_files.budget import MAX_MEMORY
from treadle.schedules.plan_files.factored import write_factored
from treadle.schedules.plan_files.group_forests import write_group_forests
from treadle.schedules.plan_files.manifest import (
    DEMANDS_MEMBER,
    VERSION,
    ChunkTable,
    CollectiveTable,
    EntryTable,
    EntryType,
    LayerTable,
    Manifest,
)
from treadle.schedules.plan_files.manifest_values import format_fraction, indented
from treadle.schedules.plan_files.members import to_npy, write_member
from treadle.schedules.plan_files.optional_members import numbers_with, write_optional
from treadle.schedules.plan_files.plan_reader import COLUMNS, read_plan, targets_member
from treadle.schedules.steps.steps import Steps
from treadle.schedules.trees.forest import Forest, ForestSchedule
from treadle.schedules.trees.group_schedule import GroupSchedule
from treadle.topologies.files import dump_with_hash

_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
)
"""What zipfile and the decoders raise on damaged input."""

_LONGEST_REASON = 200


def _as_path(value: Any, place: str) -> str | Path:
    """Where to write; TreadleError for a plan, which comes second, and for anything else."""
    if isinstance(value, str | Path):
        return value
    if plan_of(value) is not None:
        raise TreadleError("save_plan: path and plan have changed places; expected save_plan(path, plan)")
    raise unexpected(place, "a text or a Path", value)


def _as_plan(value: Any, place: str) -> Plan:
    plan = plan_of(value)
    if plan is None:
        raise unexpected(place, "a Plan, or a result with a plan", value)
    return plan


@checked(path=_as_path, plan=_as_plan)
def save_plan(path: str | Path, plan: Plan | HasPlan) -> None:
    """Write the file of a plan, or of a result's plan, whole or not at all; FormatError if it cannot be.

    Examples
    --------
    >>> import treadle
    >>> treadle.save_plan("ring.plan", treadle.solve("ring:4", "allgather"))
    >>> treadle.verify("ring.plan").is_ok
    True
    """
    assert isinstance(plan, Plan)  # a result's was taken out of it
    write_bytes(path, dump_plan(plan, source=str(path)))


def dump_plan(plan: Plan, *, source: str = "plan") -> bytes:
    """A plan file's content.

    Parameters
    ----------
    plan : Plan
    source : str
        What to call it in messages.

    Raises
    ------
    FormatError
        If a name in it cannot be written.

    Notes
    -----
    The 6.25 million sends of an allgather on a torus of 50x50 (11 MB) take 0.5 s of CPU time to
    write and 0.3 s to read.
    """
    parts = _Parts()
    entries = tuple(_row(entry, parts) for entry in plan.entries)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        try:
            fabric, digest = dump_with_hash(plan.topology)
            content = to_builtins(_manifest(plan, digest, entries, parts))
            write_member(archive, "manifest.json", indented(content).encode() + b"\n")
            write_member(archive, "topology.json", fabric.encode())
        except UnicodeEncodeError as error:
            raise FormatError(f"a name is no valid text ({error.reason})", source=source) from None
        _write_columns(archive, "forests", parts.forests)
        _write_columns(archive, "steps", parts.steps)
        _write_columns(archive, "routes", parts.routes)
        for number, routes in enumerate(parts.routes):
            write_optional(archive, "rising", number, routes)
        _write_columns(archive, "rounds", parts.rounds)
        for number, forest in enumerate(parts.factored):
            write_factored(archive, number, forest)
        for number, forests in enumerate(parts.grouped):
            write_group_forests(archive, number, forests)
        for number, steps in enumerate(parts.steps):
            write_optional(archive, "ways", number, steps)
            write_optional(archive, "operations", number, steps)
        for number, steps in enumerate(parts.steps):
            write_optional(archive, "fresh", number, steps)
        for number, ranks in parts.targets.items():
            write_member(archive, targets_member(number), to_npy(ranks))
        if plan.collective.demands is not None:
            write_member(archive, DEMANDS_MEMBER, to_npy(plan.collective.demands.matrix))
    return buffer.getvalue()


@checked()
def load_plan(path: str | Path, *, max_memory_bytes: int = MAX_MEMORY) -> Plan:
    """Read a plan file.

    Parameters
    ----------
    path : str or Path
    max_memory_bytes : int
        Most memory that reading and verifying it may take; what the file declares is held against it before
        anything is allocated, see `treadle.schedules.plan_files.budget`.

    Raises
    ------
    FormatError
        If the file is anything but a plan file of a known version. Its claims are not checked here.
    MemoryLimitError
        If more memory might be needed than is granted.

    Examples
    --------
    >>> import treadle
    >>> treadle.save_plan("ring.plan", treadle.solve("ring:4", "allgather").plan)
    >>> treadle.load_plan("ring.plan").collective.n_ranks
    4
    """
    source = str(path)
    with open_input(path) as file:
        return _read(file, source, max_memory_bytes)


def parse_plan(content: bytes, *, source: str, max_memory_bytes: int = MAX_MEMORY) -> Plan:
    """The plan of a plan file's content; as `load_plan`."""
    return _read(io.BytesIO(content), source, max_memory_bytes)


def _read(file: BinaryIO, source: str, max_memory_bytes: int) -> Plan:
    try:
        with zipfile.ZipFile(file) as archive:
            return read_plan(archive, max_memory_bytes)
    except MemoryLimitError as error:
        raise MemoryLimitError(f"{source}: {error}") from None
    except TreadleError as error:
        raise FormatError(str(error), source=source) from None
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        # zipfile repeats names of members, which may be as long as the file likes
        raise FormatError(f"no readable plan file: {reason[:_LONGEST_REASON]}", source=source) from None


@dataclass
class _Parts:
    """What entries name by number; those that share a part store it once."""

    forests: list[Forest] = field(default_factory=list)
    steps: list[Steps] = field(default_factory=list)
    targets: dict[int, Int32Array] = field(default_factory=dict)
    routes: list[RouteSchedule] = field(default_factory=list)
    rounds: list[TimedRoutes] = field(default_factory=list)
    factored: list[FactoredForest] = field(default_factory=list)
    grouped: list[tuple[Forest, ...]] = field(default_factory=list)


def _row(entry: PlanEntry, parts: _Parts) -> EntryTable:
    """An entry as the manifest has it; what it names is added to the parts."""
    schedule = entry.schedule
    numbers: dict[str, int] = {}
    word: EntryType
    if isinstance(schedule, ExchangeSchedule):
        word, numbers["sends"] = "exchange", _number(parts.steps, schedule.sends)
        parts.targets[numbers["sends"]] = schedule.targets
    elif isinstance(schedule, RouteSchedule | TimedRoutes):
        routes = schedule if isinstance(schedule, RouteSchedule) else schedule.routes
        word, numbers["routes"] = "routes", _number(parts.routes, routes)
        if isinstance(schedule, TimedRoutes):
            numbers["rounds"] = _number(parts.rounds, schedule)
    elif isinstance(schedule, GroupSchedule):
        word = "groups"
        for forests in zip(*(one.forests for one in schedule.groups), strict=True):
            numbers[forests[0].direction.value] = _number(parts.grouped, forests)
    else:
        known: list[Any]
        phases: Sequence[Forest | FactoredForest | Steps]
        if isinstance(schedule, ForestSchedule):
            word, known, phases = "forests", parts.forests, schedule.forests
        elif isinstance(schedule, FactoredSchedule):
            word, known, phases = "factored", parts.factored, schedule.forests
        else:
            word, known, phases = "steps", parts.steps, schedule.phases
        numbers = {part.direction.value: _number(known, part) for part in phases}
    return EntryTable(
        min_bytes=entry.min_bytes,
        max_bytes=entry.max_bytes,
        algorithm=entry.algorithm,
        options=entry.options,
        pipelining=tuple((one.min_bytes, one.slices, one.protocol) for one in entry.pipelining),
        type=word,
        **numbers,
    )


def _number(known: list[Any], part: Any) -> int:
    """Number of `part` among those to be written; entries that share it or all its forests store it once."""
    for number, other in enumerate(known):
        if other is part or (isinstance(part, tuple) and all(map(is_, other, part))):
            return number
    known.append(part)
    return len(known) - 1


def _write_columns(archive: zipfile.ZipFile, folder: str, parts: Sequence[object]) -> None:
    columns, counts = COLUMNS[folder]
    for number, part in enumerate(parts):
        for key in columns:
            write_member(archive, f"{folder}/{number}/{key}.npy", to_npy(getattr(part, key)))
        for key, offset in counts.items():
            write_member(archive, f"{folder}/{number}/{key}.npy", to_npy(np.diff(getattr(part, offset))))


def _manifest(plan: Plan, digest: str, entries: tuple[EntryTable, ...], parts: _Parts) -> Manifest:
    collective = plan.collective
    table = CollectiveTable(
        kind=collective.kind,
        ranks=collective.ranks,
        root=collective.root,
        weights=collective.weights,
        forwarders=collective.forwarders,
        groups=collective.groups or UNSET,
        ranks_forward=collective.ranks_forward if collective.groups else UNSET,
        demands=UNSET if collective.demands is None else DEMANDS_MEMBER,
    )
    return Manifest(
        treadle="plan",
        version=VERSION,
        topology_sha256=digest,
        collective=table,
        algorithm=plan.algorithm,
        algbw=format_fraction(plan.algbw),
        optimal_algbw=None if plan.optimal_algbw is None else format_fraction(plan.optimal_algbw),
        witness=None if plan.witness is None else plan.witness.to_json(),
        provenance=dict(plan.provenance),
        entries=entries,
        forests=len(parts.forests),
        steps=tuple(ChunkTable(part.n_chunks) for part in parts.steps),
        routes=tuple(ChunkTable(part.n_chunks) for part in parts.routes),
        rising=numbers_with("rising", parts.routes),
        rounds=len(parts.rounds),
        factored=tuple(LayerTable(len(forest.layers)) for forest in parts.factored),
        groups=len(parts.grouped),
        **{key: numbers_with(key, parts.steps) for key in ("ways", "operations", "fresh")},
    )
