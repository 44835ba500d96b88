"""Members of a plan's archive: JSON and .npy arrays.

Equal values are written as equal bytes. Readers check all sizes before they allocate memory.
"""

from __future__ import annotations

import io
import re
import zipfile
from itertools import pairwise
from math import prod
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, offsets_of
from treadle.errors import FormatError
from treadle.schedules.plan_files.budget import MemoryBudget, declares_too_much

_MAX_TEXT = 2**28
"""Largest topology.json, bytes."""
_COMPRESSION_LEVEL = 1
_CHUNK = 2**22

_MAGIC = b"\x93NUMPY\x01\x00"
_HEADER = re.compile(
    rb"\{'descr': '(\|i1|<i2|<i4|<i8)', 'fortran_order': False, "
    rb"'shape': \((\d{1,18}(?:, \d{1,18}){0,3},?)?\), \} *\n"
)


def write_member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add a member, with the date 1980 so that equal plans give equal bytes."""
    info = zipfile.ZipInfo(name)
    info.create_system = 3
    archive.writestr(info, data, zipfile.ZIP_DEFLATED, _COMPRESSION_LEVEL)


def to_npy(values: NDArray[Any]) -> bytes:
    """Return the array as .npy of little-endian integers of the narrowest sufficient width."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    width = next(w for w in (1, 2, 4, 8) if -(2 ** (8 * w - 1)) <= low and high < 2 ** (8 * w - 1))
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, values.astype(f"<i{width}"), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def offsets_from(counts: Int64Array, place: str, *, least: int = 0) -> Int64Array:
    """Return read-only offsets from stored counts; FormatError for a count that is out of range."""
    if counts.size and (counts.min() < least or counts.max() >= 2**31):
        raise FormatError(f"{place} a value out of range")
    offsets = offsets_of(counts)
    offsets.setflags(write=False)
    return offsets


class MemberReader:
    """Reader of the members of an opened archive; every error is one line that names the member.

    Parameters
    ----------
    archive : zipfile.ZipFile
    budget : MemoryBudget
        Charged for JSON before it is read; the caller charges it for arrays, by their `shapes`.
    """

    def __init__(self, archive: zipfile.ZipFile, budget: MemoryBudget) -> None:
        self._archive = archive
        self._budget = budget
        self._infos: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            if info.filename in self._infos:
                raise FormatError(f"member {info.filename[:100]!r} appears twice")
            if declares_too_much(info.file_size, info.compress_size):
                raise FormatError(
                    f"member {info.filename[:100]!r}: {info.file_size} bytes out of {info.compress_size} are "
                    f"more than any compression gives"
                )
            self._infos[info.filename] = info
        # members that share bytes of the file may be small each, but large together
        places = sorted((info.header_offset, info.compress_size) for info in self._infos.values())
        for (start, size), (following, _) in pairwise(places):
            if start + size > following:
                raise FormatError("members of the archive overlap")

    @property
    def n_members(self) -> int:
        """Number of members of the archive."""
        return len(self._infos)

    def check_names(self, expected: set[str]) -> None:
        """Raise FormatError if a member is missing or there is another one."""
        for name in sorted(expected - set(self._infos)):
            raise FormatError(f"member {name} is missing")
        for name in sorted(set(self._infos) - expected):
            raise FormatError(f"member {name[:100]!r} does not belong in a plan")

    def string(self, name: str, most: int = _MAX_TEXT) -> str:
        """Read a UTF-8 member of at most `most` bytes; the caller charges the budget for the parsed value."""
        stream, size = self._open(name)
        with stream:
            if size > most:
                raise FormatError(f"member {name}: {size} bytes, expected at most {most}")
            self._budget.charge(2 * size)
            data = _read_exactly(stream, size, name)
        if not data.isascii():
            self._budget.charge(3 * size)  # characters of up to four bytes each
        return data.decode("utf-8")

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every array of the archive; only headers are read."""
        found = {}
        for name in (name for name in self._infos if name.endswith(".npy")):
            stream, size = self._open(name)
            with stream:
                found[name] = _header(stream, size, name)[1]
        return found

    def array(
        self,
        name: str,
        wide: type[np.signedinteger[Any]],
        *,
        n_dimensions: int = 1,
        most: int | None = None,
    ) -> NDArray[Any]:
        """Read a read-only array of type `wide`, stored in it or a narrower type; at most `most` values."""
        stream, size = self._open(name)
        with stream:
            dtype, shape = _header(stream, size, name)
            if len(shape) != n_dimensions:
                raise FormatError(f"member {name}: shape {shape} has the wrong number of dimensions")
            if most is not None and prod(shape) > most:
                raise FormatError(f"member {name}: {prod(shape)} values, expected at most {most}")
            data = _read_exactly(stream, prod(shape) * dtype.itemsize, name)
        values = np.frombuffer(data, dtype=dtype).reshape(shape)
        limits = np.iinfo(wide)
        if values.size and not limits.min <= int(values.min()) <= int(values.max()) <= limits.max:
            raise FormatError(f"member {name}: a value out of range")
        result = values.astype(wide)
        result.setflags(write=False)
        return result

    def _open(self, name: str) -> tuple[IO[bytes], int]:
        info = self._infos.get(name)
        if info is None:
            raise FormatError(f"member {name} is missing; expected a plan file")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.flag_bits & 1:
            raise FormatError(f"member {name}: encrypted or compressed in an unknown way")
        return self._archive.open(info), info.file_size


def _header(stream: IO[bytes], size: int, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Read the header of an .npy of `size` bytes; return type and shape."""
    start = stream.read(10)
    if len(start) < 10 or start[:8] != _MAGIC:
        raise FormatError(f"member {name}: not an .npy of version 1.0")
    length = int.from_bytes(start[8:], "little")
    match = _HEADER.fullmatch(stream.read(length)) if length <= 1024 else None
    if match is None:
        raise FormatError(f"member {name}: header is not of plain little-endian integers")
    shape = tuple(int(part) for part in (match[2] or b"").replace(b" ", b"").split(b",") if part)
    dtype = np.dtype(match[1].decode())
    if size != 10 + length + prod(shape) * dtype.itemsize:
        raise FormatError(f"member {name}: {size} bytes do not hold shape {shape} of {dtype}")
    return dtype, shape


def _read_exactly(stream: IO[bytes], size: int, name: str) -> bytearray:
    """Read `size` bytes in chunks, so that memory grows with the actual data, not with the declared size."""
    data = bytearray()
    while len(data) < size:
        chunk = stream.read(min(_CHUNK, size - len(data)))
        if not chunk:
            raise FormatError(f"member {name}: truncated")
        data += chunk
    return data
