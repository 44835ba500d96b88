"""Plan files: a zip of a JSON manifest, the fabric's JSON and .npy arrays; read with distrust.

Format, version 2. ``manifest.json`` has the collective, the claims, the witness, the provenance and, per
entry, the size range, its ``type`` (``forests``, ``steps`` or ``exchange``) and the numbers of its forests or
steps by role, of an exchange the number of its ``sends`` among the steps; ``topology.json`` is the fabric as
`treadle.topologies.files` writes it; ``forests/<number>/<column>.npy`` and ``steps/<number>/<column>.npy``
are little-endian signed integers of the narrowest sufficient width. ``forests`` says how many there are,
``steps`` lists the chunks per shard of each. Offsets are stored as counts, which deflate better. The steps of
an exchange have ``targets.npy`` besides. Where an all-to-all has demands, the collective's ``demands`` names
the member with their matrix. Equal plans give equal bytes.

All-to-all came to version 2 without a new number: a program that does not know it refuses the collective's
kind by its name, and all other plans have stayed the same to the byte.

Version 1, which is read as well, has no ``steps`` and no ``type``: all entries name forests.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from treadle.arrays import Int32Array
from treadle.atomic import write_bytes
from treadle.errors import FormatError, TreadleError
from treadle.schedules.exchange import ExchangeSchedule
from treadle.schedules.file_members import to_npy, write_member
from treadle.schedules.file_values import fraction_text
from treadle.schedules.forest import Forest, ForestSchedule
from treadle.schedules.plan import Plan
from treadle.schedules.plan_reader import (
    DEMANDS_MEMBER,
    FOREST_COLUMNS,
    FOREST_COUNTS,
    STEP_COLUMNS,
    STEP_COUNTS,
    VERSION,
    read_plan,
    targets_member,
)
from treadle.schedules.steps import Steps, StepSchedule
from treadle.topologies.files import dump_topology, topology_hash

_UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    OverflowError,
    MemoryError,
)
"""What zipfile and the decoders raise on damaged input."""


def save_plan(path: str | Path, plan: Plan) -> None:
    """Write a plan file, whole or not at all.

    Raises
    ------
    FormatError
        If the file cannot be written.

    Notes
    -----
    The 6.25 million sends of an allgather on a torus of 50x50 (11 MB) take 0.5 s of CPU time to
    write and 0.3 s to read.
    """
    forests: list[Forest | Steps] = []
    steps: list[Forest | Steps] = []
    targets: dict[int, Int32Array] = {}
    entries = []
    for entry in plan.entries:
        schedule = entry.schedule
        row: dict[str, object] = {"min_bytes": entry.min_bytes, "max_bytes": entry.max_bytes}
        if isinstance(schedule, ExchangeSchedule):
            number = _number(steps, schedule.sends)
            row |= {"type": "exchange", "sends": number}
            targets[number] = schedule.targets
        else:
            is_forest = isinstance(schedule, ForestSchedule)
            row["type"] = "forests" if is_forest else "steps"
            for part in _parts(schedule):
                row[part.direction.value] = _number(forests if is_forest else steps, part)
        entries.append(row)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        try:
            content = _manifest(plan, entries, forests, steps)
            manifest = json.dumps(content, indent=1, allow_nan=False)
            write_member(archive, "manifest.json", manifest.encode() + b"\n")
            write_member(archive, "topology.json", dump_topology(plan.topology).encode())
        except UnicodeEncodeError as error:
            raise FormatError(f"a name is no valid text ({error.reason})", source=str(path)) from None
        _write_columns(archive, "forests", forests, FOREST_COLUMNS, FOREST_COUNTS)
        _write_columns(archive, "steps", steps, STEP_COLUMNS, STEP_COUNTS)
        for number, ranks in targets.items():
            write_member(archive, targets_member(number), to_npy(ranks))
        if plan.collective.demands is not None:
            write_member(archive, DEMANDS_MEMBER, to_npy(plan.collective.demands.matrix))
    write_bytes(path, buffer.getvalue())


def load_plan(path: str | Path, *, max_bytes: int = 2**33) -> Plan:
    """Read a plan file.

    Parameters
    ----------
    path : str or Path
    max_bytes : int
        Most memory that the arrays may take; checked before any is allocated.

    Raises
    ------
    FormatError
        If the file is anything but a plan file of a known version. Its claims are not checked here.
    """
    source = str(path)
    if Path(path).exists() and not Path(path).is_file():  # a device might never end
        raise FormatError("no readable plan file: a directory or device", source=source)
    try:
        with zipfile.ZipFile(path) as archive:
            return read_plan(archive, max_bytes)
    except TreadleError as error:
        raise FormatError(str(error), source=source) from None
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        raise FormatError(f"no readable plan file: {reason}", source=source) from None


def _parts(schedule: ForestSchedule | StepSchedule) -> Iterable[Forest | Steps]:
    return schedule.forests if isinstance(schedule, ForestSchedule) else schedule.phases


def _number(known: list[Forest | Steps], part: Forest | Steps) -> int:
    """Number of `part` among those to be written; entries that share one store it once."""
    for number, other in enumerate(known):
        if other is part:
            return number
    known.append(part)
    return len(known) - 1


def _write_columns(
    archive: zipfile.ZipFile,
    folder: str,
    parts: list[Forest | Steps],
    columns: tuple[str, ...],
    counts: dict[str, str],
) -> None:
    for number, part in enumerate(parts):
        for key in columns:
            write_member(archive, f"{folder}/{number}/{key}.npy", to_npy(getattr(part, key)))
        for key, offset in counts.items():
            write_member(archive, f"{folder}/{number}/{key}.npy", to_npy(np.diff(getattr(part, offset))))


def _manifest(
    plan: Plan, entries: list[dict[str, object]], forests: list[Forest | Steps], steps: list[Forest | Steps]
) -> dict[str, object]:
    collective = plan.collective
    posed: dict[str, object] = {
        "kind": collective.kind.value,
        "ranks": list(collective.ranks),
        "root": collective.root,
        "weights": None if collective.weights is None else list(collective.weights),
        "forwarders": list(collective.forwarders),
    }
    if collective.demands is not None:
        posed["demands"] = DEMANDS_MEMBER
    return {
        "treadle": "plan",
        "version": VERSION,
        "topology_sha256": topology_hash(plan.topology),
        "collective": posed,
        "algorithm": plan.algorithm,
        "algbw": fraction_text(plan.algbw),
        "optimal_algbw": None if plan.optimal_algbw is None else fraction_text(plan.optimal_algbw),
        "witness": None if plan.witness is None else plan.witness.to_json(),
        "provenance": dict(plan.provenance),
        "entries": entries,
        "forests": len(forests),
        "steps": [{"n_chunks": part.n_chunks} for part in steps if isinstance(part, Steps)],
    }
