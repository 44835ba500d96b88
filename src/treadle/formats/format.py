"""Formats that plans are written in: one record each, and the table of them.

A format is what writes its files, reads them back, judges what was written, and says how a runtime loads
them; beside these the record holds what everything else asks of a format, so that nothing else knows formats
by name. Ours are declared by the packages beside this module, each in `FORMATS`; others register theirs, or
name them as entry points of the group `treadle.formats`. Functions may be given as ``"module:function"``:
they are loaded when they are first used.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import treadle.formats
from treadle.brief import brief
from treadle.checking import checked
from treadle.errors import ScheduleError
from treadle.formats.file_options import PROTOCOLS, FileOptions, given_options, spelt
from treadle.formats.verdict import Check, RangedFile, Terms, Verdict
from treadle.plug_ins import find_plug_ins, load_plug_in
from treadle.spelling import known_name
from treadle.unsupported import Unsupported

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from treadle.formats.loading import Loading
    from treadle.formats.request import FileRequest, Written
    from treadle.formats.selection.file_set import Delivery, FileSet

GROUP = "treadle.formats"
"""Of entry points: the name is the format's, the value its record."""
PROGRAM_OPTIONS = frozenset({"in_place", "channels", "instances", "name"})
"""Options that shape the program which most formats hold."""
_R = TypeVar("_R")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@brief("name", "title", "extension", "check", "collectives")
@dataclass(frozen=True, kw_only=True)
class Format:
    """One format.

    Parameters
    ----------
    name : str
        As on the command line: lower-case words with hyphens.
    title : str
        As people call it.
    extension : str
        With its dot, such as ``.xml``.
    check : Check
        What the judge does with whole files that were written from a plan.
    options : frozenset of str
        Fields of `FileOptions` that make a difference. A format that heeds ``accept_any_root`` is read by a
        runtime that does not compare the root; one that heeds ``rank`` can be written for one rank alone.
    write : callable or str
        From a `FileRequest` to `Written`. ScheduleError if the format cannot express the plan.
    read : callable or str
        From one file's bytes and `Terms` to a value of the format's own; FormatError if it is malformed.
    judge : callable or str
        From all files' bytes and `Terms` to a `Verdict`. Shares no code with the writer.
    load : callable or str
        From the request, what was written and the judgement to `Loading`: what a runtime needs.
    begins : str
        Pattern (of `re`) with which every such file begins, after comments of XML; empty where files are not
        told by their content.
    is_per_rank : bool
        A file for each rank, whose suffixes end in the extension; what is named is their prefix.
    parses_folder : bool
        Some runtime parses every file of the folder, and ends at one that is none of this format.
    holds_routes : bool
        It holds routes for network cards, and no program.
    holds_ranges : bool
        One file names all ranges of sizes of a plan.
    deliver : callable or str
        From a `FileSet` to `Delivery`: how a runtime chooses from the texts of a folder by size; empty where
        none does.
    judge_set : callable or str
        From the texts of a folder, files beside them by name, and a dialect to what is wrong with the
        runtime's choices, as tuple of str. Shares no code with `deliver`.
    protocols : tuple of str
        Those of ``PROTOCOLS`` that its runtimes have, where it heeds ``protocol``. What a plan's cost model
        says of NCCL's protocols is followed where they have all.
    files, readers, collectives, sizes : str
        For people: what is written, who reads it, and what it serves.

    Raises
    ------
    ScheduleError
        If the name, an option or the extension cannot be.

    Examples
    --------
    >>> from treadle import planning
    >>> record = planning.find_format("msccl-xml")
    >>> record.title, record.extension, record.check.value
    ('MSCCL XML', '.xml', 'executed')
    >>> "in_place" in record.options
    True
    """

    name: str
    title: str
    extension: str
    check: Check
    options: frozenset[str]
    write: Callable[[FileRequest], Written] | str
    read: Callable[[bytes, Terms], Any] | str
    judge: Callable[[Sequence[bytes], Terms], Verdict] | str
    load: Callable[[FileRequest, Written, Verdict], Loading] | str
    begins: str = ""
    is_per_rank: bool = False
    parses_folder: bool = False
    holds_routes: bool = False
    holds_ranges: bool = False
    deliver: Callable[[FileSet], Delivery] | str = ""
    judge_set: Callable[[Sequence[RangedFile], Mapping[str, bytes], str | None], tuple[str, ...]] | str = ""
    protocols: tuple[str, ...] = PROTOCOLS
    files: str = ""
    readers: str = ""
    collectives: str = ""
    sizes: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ScheduleError(f"format {self.name[:40]!r}: expected lower-case words with hyphens")
        if not re.fullmatch(r"\.[A-Za-z0-9]+", self.extension):
            raise ScheduleError(f"format {self.name}: extension {self.extension!r}: expected such as '.xml'")
        for option in sorted(self.options - set(FileOptions.__dataclass_fields__)):
            raise ScheduleError(f"format {self.name}: option {option!r} is no field of FileOptions")

    def written(self, request: FileRequest) -> Written:
        """The files, by the format's writer."""
        return load_function(self.write)(request)

    def parsed(self, data: bytes, terms: Terms) -> Any:
        """One file, by the format's reader."""
        return load_function(self.read)(data, terms)

    def interpreted(self, files: Sequence[bytes], terms: Terms) -> Verdict:
        """The verdict on files, by the format's judge."""
        return load_function(self.judge)(files, terms)

    def loading(self, request: FileRequest, written: Written, judgement: Verdict) -> Loading:
        """How the files are loaded."""
        return load_function(self.load)(request, written, judgement)

    def delivery(self, texts: FileSet) -> Delivery:
        """How a runtime loads a folder of texts and chooses from it."""
        return load_function(self.deliver)(texts)

    def interpreted_set(
        self, texts: Sequence[RangedFile], files: Mapping[str, bytes], dialect: str | None
    ) -> tuple[str, ...]:
        """Calls for which the runtime would take another text than is meant."""
        return load_function(self.judge_set)(texts, files, dialect)

    def is_begun_by(self, head: str) -> bool:
        """Whether a text, or its first part, begins as the format's files do."""
        return bool(self.begins) and begins_as(self.begins, head)

    @property
    def has_all_protocols(self) -> bool:
        """Whether its messages may go by any of NCCL's protocols."""
        return "protocol" in self.options and self.protocols == PROTOCOLS

    def check_options(self, options: FileOptions) -> None:
        """Refuse options that make no difference here; ScheduleError, which names who heeds them."""
        if "protocol" in self.options and options.protocol not in (None, *self.protocols):
            raise ScheduleError(f"--protocol {options.protocol}: {self.name} has {', '.join(self.protocols)}")
        for option in given_options(options):
            if option in self.options:
                continue
            *several, last = [other.name for other in all_formats() if option in other.options] or ["none"]
            heeding = f"{', '.join(several)} and {last}" if several else last
            raise ScheduleError(
                f"{spelt(option)} is for {heeding}; {self.name} has nothing that it could change"
            )


def begins_as(pattern: str, text: str) -> bool:
    """Whether a text, after space and comments of XML, begins with a pattern."""
    text = text.lstrip()
    while text.startswith("<!--") and "-->" in text:
        text = text.partition("-->")[2].lstrip()
    return re.match(pattern, text) is not None


def load_function(given: Callable[..., _R] | str) -> Callable[..., _R]:
    """Return a function that may be given as ``"module:function"``."""
    if not isinstance(given, str):
        return given
    module, _, name = given.partition(":")
    found: Callable[..., _R] = getattr(import_module(module), name)
    return found


def declared(table: str) -> Iterator[tuple[str, Any]]:
    """Yield the records in a table of each package beside this module, with the package."""
    for module in pkgutil.iter_modules(treadle.formats.__path__, f"{treadle.formats.__name__}."):
        if module.ispkg:
            for record in getattr(import_module(module.name), table, ()):
                yield module.name, record


_registered: dict[str, Format] = {}


@checked()
def register_format(record: Format) -> Format:
    """Add a format to the table for as long as the process runs.

    Parameters
    ----------
    record : Format

    Returns
    -------
    Format
        The record, so that a module can register what it names.

    Raises
    ------
    ScheduleError
        If another format has that name.

    Examples
    --------
    >>> import treadle
    >>> xml = treadle.planning.find_format("msccl-xml")
    >>> treadle.register_format(xml) is xml
    True
    """
    known = _own().get(record.name) or _registered.get(record.name)
    if known is not None and known != record:
        raise ScheduleError(f"format {record.name}: there is one of that name already ({known.title})")
    _registered[record.name] = record
    return record


@cache
def _own() -> Mapping[str, Format]:
    """Those of the packages and modules beside this one."""
    found: dict[str, Format] = {}
    for package, record in declared("FORMATS"):
        if record.name in found:
            raise ScheduleError(f"format {record.name}: {package} declares it a second time")
        found[record.name] = record
    return MappingProxyType(found)


@cache
def _plug_ins() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Formats that installed packages name, not yet loaded; none that has the name of one of ours."""
    return find_plug_ins(GROUP, taken=_own())


def _plugged(name: str) -> Format:
    """The record that a plug-in names; ScheduleError, in one line, if it is broken."""
    entry, *others = _plug_ins()[name]
    record = load_plug_in(entry, *others)
    if isinstance(record, Unsupported):
        raise ScheduleError(f"format {name}: {record}")
    if not isinstance(record, Format) or record.name != name:
        raise ScheduleError(f"format {name}: its plug-in {entry.value} is no record of that name")
    return register_format(record)


def format_names() -> tuple[str, ...]:
    """Names of all formats: ours, registered ones, and those of plug-ins, loaded or not."""
    return tuple(dict.fromkeys((*_own(), *_registered, *_plug_ins())))


def find_format(name: str) -> Format:
    """The record of a format, however its name is spelt.

    Raises
    ------
    ScheduleError
        If there is none of that name, or its plug-in is broken.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.find_format("msccl-xml").extension
    '.xml'
    """
    meant = known_name("format", name, format_names(), error=ScheduleError)
    return _own().get(meant) or _registered.get(meant) or _plugged(meant)


def all_formats() -> tuple[Format, ...]:
    """All records that can be loaded, in the order of `format_names`.

    Examples
    --------
    >>> from treadle import planning
    >>> "msccl-xml" in {one.name for one in planning.all_formats()}
    True
    """
    found = []
    for name in format_names():
        with suppress(ScheduleError):  # told where that format is asked for
            found.append(find_format(name))
    return tuple(found)


def own_formats() -> tuple[Format, ...]:
    """Those that come with Treadle, in the order of their packages.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.name for one in planning.own_formats() if one.extension == ".xml"]
    ['cpu-xml', 'forestcoll-xml', 'msccl-xml', 'nccl-graph', 'routes-xml']
    """
    return tuple(_own().values())


def format_name(head: str) -> Format | None:
    """The format that a text, or its first part, begins as; None if it is of none.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.format_name("<algo name='ring'>").name
    'msccl-xml'
    """
    own = next((record for record in own_formats() if record.is_begun_by(head)), None)
    return own or next((record for record in all_formats() if record.is_begun_by(head)), None)
