"""Plan files: a zip of a JSON manifest, the fabric's JSON and .npy arrays; read with distrust.

Format, version 1. ``manifest.json`` has the collective, the claims, the witness, the provenance and, per
entry, the size range and the numbers of its forests; ``topology.json`` is the fabric as
`treadle.topologies.files` writes it; ``forests/<number>/<column>.npy`` are little-endian signed integers of
the narrowest sufficient width. Offsets are stored as counts, which deflate better. Equal plans give equal
bytes.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import isfinite, prod
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from treadle.atomic import write_bytes
from treadle.errors import FormatError, TreadleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.forest import Direction, Forest, ForestSchedule
from treadle.schedules.plan import Plan, PlanEntry, Scalar
from treadle.schedules.witness import witness_from_json
from treadle.topologies.files import dump_topology, parse_json, topology_from_json, topology_hash

_T = TypeVar("_T")

_VERSION = 1
_MAX_TEXT = 2**28  # bytes of manifest.json and of topology.json
_MAX_FORESTS = 1000
_COMPRESSION_LEVEL = 1
_CHUNK = 2**22

_COLUMNS = ("root_multiplicity", "tree_root", "tree_multiplicity", "parent", "entry_path", "entry_units")
_COUNTS = {"entry_count": "entry_offset", "path_length": "path_offset"}
_MEMBERS = (*_COLUMNS, *_COUNTS, "path_links")

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '(\|i1|<i2|<i4|<i8)', 'fortran_order': False, "
    rb"'shape': \((\d{1,18}(?:, \d{1,18}){0,3},?)?\), \} *\n"
)
_FRACTION = re.compile(r"(\d{1,1000})/(\d{1,1000})")

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
    """
    forests: list[Forest] = []
    entries = []
    for entry in plan.entries:
        row: dict[str, object] = {"min_bytes": entry.min_bytes, "max_bytes": entry.max_bytes}
        for forest in entry.schedule.forests:
            row[_role(forest)] = _number(forests, forest)
        entries.append(row)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        try:
            manifest = json.dumps(_manifest(plan, entries, len(forests)), indent=1, allow_nan=False)
            _write(archive, "manifest.json", manifest.encode() + b"\n")
            _write(archive, "topology.json", dump_topology(plan.topology).encode())
        except UnicodeEncodeError as error:
            raise FormatError(f"a name is no valid text ({error.reason})", source=str(path)) from None
        for number, forest in enumerate(forests):
            for key in _MEMBERS:
                column = np.diff(getattr(forest, _COUNTS[key])) if key in _COUNTS else getattr(forest, key)
                _write(archive, f"forests/{number}/{key}.npy", _to_npy(column))
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
            return _PlanReader(archive, max_bytes).plan()
    except TreadleError as error:
        raise FormatError(str(error), source=source) from None
    except _UNREADABLE as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split()) or type(error).__name__
        raise FormatError(f"no readable plan file: {reason}", source=source) from None


def _role(forest: Forest) -> str:
    return "broadcast" if forest.direction is Direction.BROADCAST else "reduce"


def _number(forests: list[Forest], forest: Forest) -> int:
    """Number of `forest` among those to be written; entries that share one store it once."""
    for number, known in enumerate(forests):
        if known is forest:
            return number
    forests.append(forest)
    return len(forests) - 1


def _manifest(plan: Plan, entries: list[dict[str, object]], n_forests: int) -> dict[str, object]:
    collective = plan.collective
    return {
        "treadle": "plan",
        "version": _VERSION,
        "topology_sha256": topology_hash(plan.topology),
        "collective": {
            "kind": collective.kind.value,
            "ranks": list(collective.ranks),
            "root": collective.root,
            "weights": None if collective.weights is None else list(collective.weights),
            "forwarders": list(collective.forwarders),
        },
        "algorithm": plan.algorithm,
        "algbw": _fraction_text(plan.algbw),
        "optimal_algbw": None if plan.optimal_algbw is None else _fraction_text(plan.optimal_algbw),
        "witness": None if plan.witness is None else plan.witness.to_json(),
        "provenance": dict(plan.provenance),
        "entries": entries,
        "forests": n_forests,
    }


def _fraction_text(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _write(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name)  # dated 1980, so that equal plans give equal bytes
    info.create_system = 3
    archive.writestr(info, data, zipfile.ZIP_DEFLATED, _COMPRESSION_LEVEL)


def _to_npy(values: NDArray[Any]) -> bytes:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    width = next(w for w in (1, 2, 4, 8) if -(2 ** (8 * w - 1)) <= low and high < 2 ** (8 * w - 1))
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, values.astype(f"<i{width}"), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


class _PlanReader:
    """Reads the members of an opened archive; every error is one line that names the member or key."""

    def __init__(self, archive: zipfile.ZipFile, max_bytes: int) -> None:
        self._archive = archive
        self._left = max_bytes
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            if info.filename in self._infos:
                raise FormatError(f"member {info.filename!r} appears twice")
            self._infos[info.filename] = info

    def plan(self) -> Plan:
        manifest = _object(parse_json(self._text("manifest.json")), "manifest", _MANIFEST_KEYS)
        n_forests = _whole(manifest["forests"], "forests")
        if not 1 <= n_forests <= _MAX_FORESTS:
            raise FormatError(f"forests: {n_forests}, expected 1 to {_MAX_FORESTS}")
        self._check_names(n_forests)
        topology = topology_from_json(parse_json(self._text("topology.json")))
        found = topology_hash(topology)
        if manifest["topology_sha256"] != found:
            raise FormatError(f"topology_sha256: does not belong to topology.json, which has {found}")
        collective = _collective(manifest["collective"])
        entries = _list(manifest["entries"], "entries")
        forests = self._forests(entries, n_forests, collective.n_ranks)
        return Plan(
            topology=topology,
            collective=collective,
            entries=tuple(_entry(entry, collective.kind, forests) for entry in entries),
            algorithm=_string(manifest["algorithm"], "algorithm"),
            algbw=_fraction(manifest["algbw"], "algbw"),
            optimal_algbw=_optional(manifest["optimal_algbw"], _fraction, "optimal_algbw"),
            witness=None if manifest["witness"] is None else witness_from_json(manifest["witness"]),
            provenance=_provenance(manifest["provenance"]),
        )

    def _check_names(self, n_forests: int) -> None:
        expected = {"manifest.json", "topology.json"}
        expected |= {f"forests/{number}/{key}.npy" for number in range(n_forests) for key in _MEMBERS}
        for name in sorted(expected - set(self._infos)):
            raise FormatError(f"member {name} is missing")
        for name in sorted(set(self._infos) - expected):
            raise FormatError(f"member {name[:100]!r} does not belong in a plan")

    def _open(self, name: str) -> tuple[IO[bytes], int]:
        info = self._infos.get(name)
        if info is None:
            raise FormatError(f"member {name} is missing; expected a plan file")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise FormatError(f"member {name}: encrypted or compressed in an unknown way")
        return self._archive.open(info), info.file_size

    def _text(self, name: str) -> str:
        stream, size = self._open(name)
        with stream:
            if size > _MAX_TEXT:
                raise FormatError(f"member {name}: {size} bytes, expected at most {_MAX_TEXT}")
            return _read_exactly(stream, size, name).decode("utf-8")

    def _forests(self, entries: list[Any], n_forests: int, n_ranks: int) -> list[Forest]:
        """All forests; the role that the entries give a forest says which way it flows."""
        roles: dict[int, Direction] = {}
        for entry in entries:
            for role in Direction:
                if isinstance(entry, dict) and role.value in entry:
                    number = _whole(entry[role.value], f"entries: {role.value}")
                    if roles.setdefault(number, role) is not role or not 0 <= number < n_forests:
                        raise FormatError(f"entries: forest {number} is used both ways or does not exist")
        if len(roles) != n_forests:
            raise FormatError("forests: some are used by no entry")
        return [self._forest(number, roles[number], n_ranks) for number in range(n_forests)]

    def _forest(self, number: int, direction: Direction, n_ranks: int) -> Forest:
        columns = {key: self._array(f"forests/{number}/{key}.npy", key) for key in _MEMBERS}
        n_trees = columns["tree_root"].size
        if columns["parent"].shape != (n_trees, n_ranks) or columns["entry_count"].size != n_trees * n_ranks:
            raise FormatError(f"forest {number}: its columns do not fit {n_trees} trees of {n_ranks} ranks")
        for key, offset in _COUNTS.items():
            counts = columns.pop(key)
            if counts.size and (counts.min() < 0 or counts.max() >= 2**31):
                raise FormatError(f"forest {number}: {key} has a value out of range")
            columns[offset] = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        return Forest(direction=direction, **columns)

    def _array(self, name: str, key: str) -> NDArray[Any]:
        stream, size = self._open(name)
        with stream:
            start = stream.read(10)
            if len(start) < 10 or start[:8] != _MAGIC:
                raise FormatError(f"member {name}: no .npy of version 1.0")
            length = int.from_bytes(start[8:], "little")
            match = _HEADER.fullmatch(stream.read(length)) if length <= 1024 else None
            if match is None:
                raise FormatError(f"member {name}: header is not of plain little-endian integers")
            shape = tuple(int(part) for part in (match[2] or b"").replace(b" ", b"").split(b",") if part)
            dtype = np.dtype(match[1].decode())
            if len(shape) != (2 if key == "parent" else 1):
                raise FormatError(f"member {name}: shape {shape} has the wrong number of dimensions")
            if size != 10 + length + prod(shape) * dtype.itemsize:
                raise FormatError(f"member {name}: {size} bytes do not hold shape {shape} of {dtype}")
            wide = np.dtype(np.int32 if key in _NARROW else np.int64)
            self._left -= prod(shape) * wide.itemsize
            if self._left < 0:
                raise FormatError(f"member {name}: the plan's arrays exceed the memory limit")
            data = _read_exactly(stream, size - 10 - length, name)
        values = np.frombuffer(data, dtype=dtype).reshape(shape)
        limit = 2 ** (8 * wide.itemsize - 1)
        if values.size and not -limit <= int(values.min()) <= int(values.max()) < limit:
            raise FormatError(f"member {name}: a value out of range")
        result = values.astype(wide)
        result.setflags(write=False)
        return result


_NARROW = {"tree_root", "parent", "entry_path", "path_links"}
_MANIFEST_KEYS = {
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


def _read_exactly(stream: IO[bytes], size: int, name: str) -> bytearray:
    """`size` bytes and no more; memory grows with what really arrives, whatever was declared."""
    data = bytearray()
    while len(data) < size:
        chunk = stream.read(min(_CHUNK, size - len(data)))
        if not chunk:
            raise FormatError(f"member {name}: truncated")
        data += chunk
    return data


def _object(value: Any, place: str, keys: set[str]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: expected an object")
    if place == "manifest" and (value.get("treadle") != "plan" or type(value.get("version")) is not int):
        raise FormatError('manifest: expected "treadle": "plan" and a version')
    if place == "manifest" and value["version"] != _VERSION:
        raise FormatError(f"manifest: version {value['version']}, this program reads {_VERSION}")
    for key in sorted(keys ^ set(value)):
        raise FormatError(f"{place}: key {key[:100]!r} is {'missing' if key in keys else 'unknown'}")
    return value


def _list(value: Any, place: str) -> list[Any]:
    if not isinstance(value, list):
        raise FormatError(f"{place}: expected a list")
    return value


def _whole(value: Any, place: str) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise FormatError(f"{place}: expected an integer")
    return value


def _wholes(value: Any, place: str) -> tuple[int, ...]:
    return tuple(_whole(item, place) for item in _list(value, place))


def _string(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{place}: expected a string")
    return value


def _fraction(value: Any, place: str) -> Fraction:
    match = _FRACTION.fullmatch(value) if isinstance(value, str) and value.isascii() else None
    if match is None or not int(match[2]):
        raise FormatError(f'{place}: expected a fraction "p/q"')
    return Fraction(int(match[1]), int(match[2]))


def _optional(value: Any, read: Callable[[Any, str], _T], place: str) -> _T | None:
    return None if value is None else read(value, place)


def _provenance(value: Any) -> dict[str, Scalar]:
    if not isinstance(value, dict):
        raise FormatError("provenance: expected an object")
    for key, item in value.items():
        if type(item) not in (str, int, float) or (isinstance(item, float) and not isfinite(item)):
            raise FormatError(f"provenance: {key[:100]!r} is neither text nor a finite number")
    return value


def _collective(value: Any) -> Collective:
    keys = {"kind", "ranks", "root", "weights", "forwarders"}
    fields = _object(value, "collective", keys)
    kind = _string(fields["kind"], "collective.kind")
    if kind not in set(CollectiveKind):
        raise FormatError(f"collective.kind: {kind[:100]!r}, expected one of {', '.join(CollectiveKind)}")
    return Collective(
        CollectiveKind(kind),
        _wholes(fields["ranks"], "collective.ranks"),
        root=_optional(fields["root"], _whole, "collective.root"),
        weights=_optional(fields["weights"], _wholes, "collective.weights"),
        forwarders=_wholes(fields["forwarders"], "collective.forwarders"),
    )


def _entry(value: Any, kind: CollectiveKind, forests: list[Forest]) -> PlanEntry:
    roles = [role for role, needed in (("reduce", kind.reduces), ("broadcast", kind.broadcasts)) if needed]
    fields = _object(value, "entries", {"min_bytes", "max_bytes", *roles})
    return PlanEntry(
        _whole(fields["min_bytes"], "entries: min_bytes"),
        _optional(fields["max_bytes"], _whole, "entries: max_bytes"),
        ForestSchedule(kind, **{role: forests[fields[role]] for role in roles}),
    )
