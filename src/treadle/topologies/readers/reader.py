"""Formats that fabrics are read from: one record each, and the table of them.

Treadle's are declared in `FORMATS` of the folders next to this module. A file is recognised by its beginning;
a record whose files cannot be recognised (`detect` is None) is used when it is named, or by its extension.
All functions are loaded when they are first used.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import treadle.topologies.readers
from treadle.errors import FormatError, TopologyError
from treadle.input_files import is_file, is_plan_file, read_head, read_input_string
from treadle.spelling import known_name
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile, spelt

MAX_IMPORT_BYTES = 8 * 2**20
"""Largest third-party file that is read."""
HEAD_CHARACTERS = 16384
"""Number of characters that `detect` gets."""


@dataclass(frozen=True, kw_only=True)
class TopologyFormat:
    """One format of files that describe fabrics.

    Parameters
    ----------
    name : str
        As on the command line, after ``--format``.
    title : str
        As people call it.
    read : str
        ``module:function`` of ``function(source: SourceFile, options: ImportOptions) -> Imported``, which
        raises FormatError, with the option that gives a value that the file lacks.
    options : frozenset of str
        Supported fields of ImportOptions.
    detect : callable, optional
        Whether a file, by its first `HEAD_CHARACTERS`, is of this format. No two may accept the same file.
    extensions : tuple of str
        With their dots; for files that are not recognised.
    max_bytes : int
        Largest file.
    contents, missing : str
        For the documentation: values in such files, and options for values that they lack.
    """

    name: str
    title: str
    read: str
    options: frozenset[str]
    detect: Callable[[str], object] | None = None
    extensions: tuple[str, ...] = ()
    max_bytes: int = MAX_IMPORT_BYTES
    contents: str = ""
    missing: str = ""

    def imported(self, source: SourceFile, options: ImportOptions) -> Imported:
        """Read a file by the format's reader; FormatError for an unsupported option."""
        for option in options.given():
            if option not in self.options:
                others = ", ".join(one.name for one in topology_formats() if option in one.options)
                raise source.error(f"{spelt(option)} means nothing to {self.name}; it is for {others}")
        module, _, name = self.read.partition(":")
        read: Callable[[SourceFile, ImportOptions], Imported] = getattr(import_module(module), name)
        try:
            return read(source, options)
        except TopologyError as error:
            raise source.error(str(error)) from None


@cache
def _table() -> Mapping[str, TopologyFormat]:
    """Return all records by name, in the order of their folders."""
    found: dict[str, TopologyFormat] = {}
    place = treadle.topologies.readers
    for module in pkgutil.iter_modules(place.__path__, f"{place.__name__}."):
        if not module.ispkg:
            continue
        for record in getattr(import_module(module.name), "FORMATS", ()):
            if record.name in found:
                raise FormatError(f"format {record.name}: {module.name} declares it a second time")
            found[record.name] = record
    return MappingProxyType(found)


def topology_formats() -> tuple[TopologyFormat, ...]:
    """Return all formats that fabrics are read from."""
    return tuple(_table().values())


def read_topology(
    path: str | Path, *, format: str | None = None, options: ImportOptions | None = None
) -> Imported:
    """Read a fabric from a file of any known format.

    Parameters
    ----------
    path : str or Path
        At most 8 MiB, Treadle's own JSON 256 MiB; UTF-8.
    format : str, optional
        Name of the format; default: recognised by content, then by extension.
    options : ImportOptions, optional
        Values that the file lacks.

    Raises
    ------
    FormatError
        If the file cannot be read, is of no known format or malformed, or lacks a value; then the message
        names the option that gives it.
    """
    name, table = str(path), _table()
    if format is not None:
        format = known_name("format", format, table)
    if os.path.isdir(name):
        raise FormatError("this is a folder; expected a file that describes a fabric", source=name)
    if is_file(name) and not read_head(name, 1):
        raise FormatError("this file is empty; expected a file that describes a fabric", source=name)
    if is_plan_file(name):
        uses = "verify, run, simulate, lower and repair take plans"
        python = "in Python treadle.load_plan reads it, and has its fabric as .topology"
        raise FormatError(f"this is a plan, not a topology; {uses} ({python})", source=name)
    text = read_input_string(name, max(record.max_bytes for record in table.values()))
    record = table[format] if format is not None else _detect(name, text)
    if len(text) > record.max_bytes:  # characters: never more than bytes
        limit = f"{record.max_bytes} bytes, the most that is read of {record.title}"
        raise FormatError(f"is larger than {limit}", source=name)
    return record.imported(SourceFile(text, name), options or ImportOptions())


def topology_name(head: str) -> TopologyFormat | None:
    """Return the format of a file by its beginning; None if it is not recognised."""
    head = head[:HEAD_CHARACTERS]
    return next((one for one in topology_formats() if one.detect is not None and one.detect(head)), None)


def _detect(name: str, text: str) -> TopologyFormat:
    """Return the format of a file by its content, else by its extension; FormatError if neither is known."""
    if (found := topology_name(text)) is not None:
        return found
    suffix = Path(name).suffix.casefold()
    for record in topology_formats():
        if suffix in record.extensions:
            return record
    if text.lstrip()[:1] in ("{", "["):  # other JSON: Treadle's reader reports what is wrong with it
        return _table()["json"]
    known = ", ".join(_table())
    raise FormatError(f"is of no known format; name one by --format: {known}", source=name)
