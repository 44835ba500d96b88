"""Plan files: a zip of a JSON manifest, the fabric's JSON and .npy arrays, all of which readers check.

Format, version 2. ``manifest.json`` has the collective, the claims, the certificate (key ``witness``), the
provenance and, per entry, the size range, its ``type`` (``forests``, ``groups``, ``factored``, ``steps``,
``exchange`` or ``routes``) and the numbers of its forests or steps by role. An exchange has the number of its
``sends`` among the steps; routes have their number and that of their ``rounds`` if there are any.
``topology.json`` is the fabric as `treadle.topologies.files` writes it. ``forests/<number>/<column>.npy``,
and likewise ``steps``, ``routes`` and ``rounds``, are little-endian signed integers of the narrowest
sufficient width. ``forests`` and ``rounds`` give their number; ``steps`` and ``routes`` list the chunks per
shard or unit of demand of each. Offsets are stored as counts, which deflate better. The steps of an exchange
also have ``targets.npy``. Where an all-to-all has demands, the collective's ``demands`` names the member with
their matrix. Equal plans give equal bytes.

Factored forests have members of their own (`plan_files.factored`); ``factored`` lists the number of
components (``layers``) of each. Where the collective has ``groups`` (and ``ranks_forward``), entries are of
the type ``groups``: the forests of all groups with one direction are one table (`plan_files.group_forests`),
and ``groups`` is the number of such tables.

An entry may name its ``algorithm`` and ``options``, and ``pipelining``: rows of bytes, slices and protocol
(`plan_files.manifest`).

All-to-all, its routes, factored forests, groups, the paths of steps (`plan_files.optional_members`) and the
algorithms of entries were added to version 2 without a new version number. An older program rejects the
manifest's key, the collective's kind, or the entry's type or key by its name. The bytes of all other plans
are unchanged: the keys ``routes``, ``rising``, ``rounds``, ``factored``, ``groups``, ``ways``, ``operations``
and ``fresh`` are present only where an entry needs them.

Version 1, which can be read as well, has no ``steps`` and no ``type``: all entries name forests.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Sequence
from operator import is_
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from msgspec import UNSET, to_builtins

from treadle.atomic import write_bytes
from treadle.checking import checked, unexpected
from treadle.errors import FormatError, MemoryLimitError, TreadleError
from treadle.input_files import open_input
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.alltoall.routes import RouteSchedule
from treadle.schedules.alltoall.timed_routes import TimedRoutes
from treadle.schedules.factored import FactoredForest
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
from treadle.schedules.steps.steps import Steps, StepSchedule
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
"""Errors of zipfile and the decoders on damaged input."""

_LONGEST_REASON = 200

_Parts = dict[str, list[Any]]
"""Parts that entries name by folder and number; entries that share a part store it once."""


def _as_path(value: Any, place: str) -> str | Path:
    """Return the path to write; TreadleError for a plan, the second argument, and for anything else."""
    if isinstance(value, str | Path):
        return value
    if plan_of(value) is not None:
        raise TreadleError("save_plan: path and plan have changed places; expected save_plan(path, plan)")
    raise unexpected(place, "a string or a Path", value)


def _as_plan(value: Any, place: str) -> Plan:
    plan = plan_of(value)
    if plan is None:
        raise unexpected(place, "a Plan, or a result with a plan", value)
    return plan


@checked(path=_as_path, plan=_as_plan)
def save_plan(path: str | Path, plan: Plan | HasPlan) -> None:
    """Write the file of a plan, or of a result's plan, atomically; FormatError if a name cannot be written.

    Examples
    --------
    >>> import treadle
    >>> treadle.save_plan("ring.plan", treadle.solve("ring:4", "allgather"))
    >>> treadle.verify("ring.plan").is_ok
    True
    """
    assert isinstance(plan, Plan)  # `_as_plan` replaced a result by its plan
    write_bytes(path, dump_plan(plan, source=str(path)))


def dump_plan(plan: Plan, *, source: str = "plan") -> bytes:
    """Return the content of a plan file.

    Parameters
    ----------
    plan : Plan
    source : str
        Its name in messages.

    Raises
    ------
    FormatError
        If a name in it is not valid text.

    Notes
    -----
    The 6.25 million sends of an allgather on a torus of 50x50 (11 MB) take 0.5 s of CPU time to
    write and 0.3 s to read.
    """
    parts: _Parts = {key: [] for key in ("forests", "steps", "routes", "rounds", "factored", "groups")}
    entries = tuple(_row(entry, parts) for entry in plan.entries)
    targets = {
        row.sends: entry.schedule.targets
        for row, entry in zip(entries, plan.entries, strict=True)
        if isinstance(entry.schedule, ExchangeSchedule)
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        try:
            fabric, digest = dump_with_hash(plan.topology)
            content = to_builtins(_manifest(plan, digest, entries, parts))
            write_member(archive, "manifest.json", indented(content).encode() + b"\n")
            write_member(archive, "topology.json", fabric.encode())
        except UnicodeEncodeError as error:
            raise FormatError(f"a name is not valid text ({error.reason})", source=source) from None
        _write_columns(archive, "forests", parts)
        _write_columns(archive, "steps", parts)
        _write_columns(archive, "routes", parts)
        write_optional(archive, ["rising"], parts["routes"])
        _write_columns(archive, "rounds", parts)
        for number, forest in enumerate(parts["factored"]):
            write_factored(archive, number, forest)
        for number, forests in enumerate(parts["groups"]):
            write_group_forests(archive, number, forests)
        write_optional(archive, ["ways", "operations"], parts["steps"])
        write_optional(archive, ["fresh"], parts["steps"])
        for number, ranks in targets.items():
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
        Most memory that reading and verifying it may take. The sizes that the file declares are compared with
        it before anything is allocated, see `treadle.schedules.plan_files.budget`.

    Raises
    ------
    FormatError
        If the file is not a plan file of a known version. Its claims are not checked here.
    MemoryLimitError
        If it might need more memory than that.

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
    """Return the plan of a plan file's content; as `load_plan`."""
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
        # zipfile repeats names of members, which may have any length
        raise FormatError(f"no readable plan file: {reason[:_LONGEST_REASON]}", source=source) from None


def _row(entry: PlanEntry, parts: _Parts) -> EntryTable:
    """Return an entry as in the manifest, and add the parts that it names."""
    schedule = entry.schedule
    word: EntryType
    named: dict[str, tuple[str, Any]]
    if isinstance(schedule, ExchangeSchedule):
        word, named = "exchange", {"sends": ("steps", schedule.sends)}
    elif isinstance(schedule, RouteSchedule):
        word, named = "routes", {"routes": ("routes", schedule)}
    elif isinstance(schedule, TimedRoutes):
        word, named = "routes", {"routes": ("routes", schedule.routes), "rounds": ("rounds", schedule)}
    elif isinstance(schedule, GroupSchedule):
        columns = zip(*(one.forests for one in schedule.groups), strict=True)
        word, named = "groups", {forests[0].direction.value: ("groups", forests) for forests in columns}
    else:
        phases: Sequence[Forest | FactoredForest | Steps]
        if isinstance(schedule, StepSchedule):
            word, phases = "steps", schedule.phases
        else:
            word, phases = "forests" if isinstance(schedule, ForestSchedule) else "factored", schedule.forests
        named = {part.direction.value: (word, part) for part in phases}
    return EntryTable(
        min_bytes=entry.min_bytes,
        max_bytes=entry.max_bytes,
        algorithm=entry.algorithm,
        options=entry.options,
        pipelining=tuple((one.min_bytes, one.slices, one.protocol) for one in entry.pipelining),
        type=word,
        **{key: _number(parts[folder], part) for key, (folder, part) in named.items()},
    )


def _number(known: list[Any], part: Any) -> int:
    """Return the number of `part` among those to be written; the same object, or tuple of them, is shared."""
    for number, other in enumerate(known):
        if other is part or (isinstance(part, tuple) and all(map(is_, other, part))):
            return number
    known.append(part)
    return len(known) - 1


def _write_columns(archive: zipfile.ZipFile, folder: str, parts: _Parts) -> None:
    columns, counts = COLUMNS[folder]
    for number, part in enumerate(parts[folder]):
        values = {key: getattr(part, key) for key in columns}
        values |= {key: np.diff(getattr(part, offset)) for key, offset in counts.items()}
        for key, value in values.items():
            write_member(archive, f"{folder}/{number}/{key}.npy", to_npy(value))


def _manifest(plan: Plan, digest: str, entries: tuple[EntryTable, ...], parts: _Parts) -> Manifest:
    collective = plan.collective
    table = CollectiveTable(
        **{key: getattr(collective, key) for key in ("kind", "ranks", "root", "weights", "forwarders")},
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
        certificate=None if plan.certificate is None else plan.certificate.to_json(),
        provenance=dict(plan.provenance),
        entries=entries,
        forests=len(parts["forests"]),
        steps=tuple(ChunkTable(part.n_chunks) for part in parts["steps"]),
        routes=tuple(ChunkTable(part.n_chunks) for part in parts["routes"]),
        rising=numbers_with("rising", parts["routes"]),
        rounds=len(parts["rounds"]),
        factored=tuple(LayerTable(len(forest.layers)) for forest in parts["factored"]),
        groups=len(parts["groups"]),
        **{key: numbers_with(key, parts["steps"]) for key in ("ways", "operations", "fresh")},
    )
