"""Formats that fabrics are read from: one record each, and the table of them.

Ours are declared in `FORMATS` of the rooms beside this module. A text is told by how it begins; a record
whose texts cannot be told (`tells` is None) is used when it is named, or by its extension. All functions are
loaded when they are first used.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

import treadle.topologies.readers
from treadle.errors import FormatError, TopologyError
from treadle.input_files import is_file, read_head, read_input_string
from treadle.spelling import known_name
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile, spelt

MAX_IMPORT_BYTES = 8 * 2**20
"""Largest file of others that is read."""
HEAD_CHARACTERS = 16384
"""How much of a text `tells` sees."""
_ZIP = b"PK\x03\x04"
"""How plans begin."""


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
        raises FormatError, naming the option that says what the file does not.
    options : frozenset of str
        Fields of ImportOptions that make a difference.
    tells : callable, optional
        Whether a text, by its first `HEAD_CHARACTERS`, is of this format. No two may claim the same text.
    extensions : tuple of str
        With their dots; for texts that nothing tells.
    max_bytes : int
        Largest file.
    says, asks : str
        For people: what such files say, and what has to be asked.
    """

    name: str
    title: str
    read: str
    options: frozenset[str]
    tells: Callable[[str], object] | None = None
    extensions: tuple[str, ...] = ()
    max_bytes: int = MAX_IMPORT_BYTES
    says: str = ""
    asks: str = ""

    def imported(self, source: SourceFile, options: ImportOptions) -> Imported:
        """What the format's reader makes of a text; FormatError for an option that means nothing here."""
        for option in options.given():
            if option not in self.options:
                heeding = ", ".join(one.name for one in topology_formats() if option in one.options)
                raise source.error(f"{spelt(option)} means nothing to {self.name}; it is for {heeding}")
        module, _, name = self.read.partition(":")
        read: Callable[[SourceFile, ImportOptions], Imported] = getattr(import_module(module), name)
        try:
            return read(source, options)
        except TopologyError as error:
            raise source.error(str(error)) from None


@cache
def _table() -> Mapping[str, TopologyFormat]:
    """All records by name, in the order of their rooms."""
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
    """All formats that fabrics are read from."""
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
        Name of the format; default: told by content, then by extension.
    options : ImportOptions, optional
        What the file does not say.

    Raises
    ------
    FormatError
        If the file cannot be read, is of no known format or malformed, or does not say all; then the
        message names the option that does.
    """
    name, table = str(path), _table()
    if format is not None:
        format = known_name("format", format, table)
    _refuse_what_is_no_text(name)
    most = max(record.max_bytes for record in table.values())
    text = read_input_string(name, most)
    record = table[format] if format is not None else _told(name, text)
    if len(text) > record.max_bytes:  # characters: never more than bytes
        raise FormatError(
            f"is larger than {record.max_bytes} bytes, the most that is read of {record.title}", source=name
        )
    return record.imported(SourceFile(text, name), options or ImportOptions())


def _refuse_what_is_no_text(name: str) -> None:
    """FormatError for what is taken for a fabric's file: a plan, a folder, an empty file."""
    try:
        if Path(name).is_dir():
            raise FormatError("this is a folder; expected a file that describes a fabric", source=name)
    except (OSError, ValueError) as error:
        if isinstance(error, FormatError):
            raise
        return  # said when it is read
    head = read_head(name, len(_ZIP))
    if not head and is_file(name):
        raise FormatError("this file is empty; expected a file that describes a fabric", source=name)
    if head == _ZIP:
        raise FormatError(
            "this is a plan, not a topology; verify, run, simulate, lower and repair take plans (in Python "
            "treadle.load_plan reads it, and has its fabric as .topology)",
            source=name,
        )


def topology_name(head: str) -> TopologyFormat | None:
    """The format that a text, or its first part, begins as; None if nothing tells."""
    found = (one for one in topology_formats() if one.tells is not None and one.tells(head[:HEAD_CHARACTERS]))
    return next(found, None)


def _told(name: str, text: str) -> TopologyFormat:
    head = text[:HEAD_CHARACTERS]
    if (told := topology_name(head)) is not None:
        return told
    suffix = Path(name).suffix.casefold()
    for record in topology_formats():
        if suffix in record.extensions:
            return record
    if head.lstrip()[:1] in (
        "{",
        "[",
    ):  # JSON that nothing tells: Treadle's reader says what is wrong with it
        return _table()["json"]
    known = ", ".join(_table())
    raise FormatError(f"is of no known format; name one by --format: {known}", source=name)
