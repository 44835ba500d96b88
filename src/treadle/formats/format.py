"""Table of the formats in which plans are written, one record per format.

A record names the functions that write files, read them back, verify them, and describe how a runtime loads
them. It also has every property of a format that other packages use, so that none of them refers to a format
by name. Treadle's formats are declared in `FORMATS` of the subpackages; other packages call
`register_format`, or name a record as an entry point of the group `treadle.formats`. Functions may be given
as ``"module:function"``: they are imported when they are first used.
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
"""Group of entry points; each is named like its format and refers to its record."""
PROGRAM_OPTIONS = frozenset({"in_place", "channels", "instances", "name"})
"""Options of all formats that contain a program."""
_R = TypeVar("_R")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@brief("name", "title", "extension", "check", "collectives")
@dataclass(frozen=True, kw_only=True)
class Format:
    """A file format: its writer, reader, verifier and loading instructions.

    Parameters
    ----------
    name : str
        Name on the command line: lower-case words with hyphens.
    title : str
        Name in prose.
    extension : str
        File extension with its dot, e.g. ``.xml``.
    check : Check
        Verification of complete files that were written from a plan.
    options : frozenset of str
        Fields of `FileOptions` that have an effect. A format with ``accept_any_root`` is for a runtime that
        does not compare the root; one with ``rank`` can be written for a single rank.
    write : callable or str
        From a `FileRequest` to `Written`. ScheduleError if the format cannot express the plan.
    read : callable or str
        From one file's bytes and `Terms` to a value of the format's own; FormatError if it is malformed.
    judge : callable or str
        From all files' bytes and `Terms` to a `Verdict`. Shares no code with the writer.
    load : callable or str
        From the request, the written files and the verdict to `Loading`.
    begins : str
        Regular expression that matches the beginning of every such file, after XML comments; empty if files
        cannot be recognized by their content.
    is_per_rank : bool
        Whether there is one file per rank, whose suffixes end in the extension; the given path is their
        prefix.
    parses_folder : bool
        Whether some runtime parses every file of the folder, and stops at a file of another format.
    holds_routes : bool
        Whether files contain routes for network cards and no program.
    holds_ranges : bool
        Whether one file contains all size ranges of a plan.
    deliver : callable or str
        From a `FileSet` to `Delivery`: how a runtime chooses by size among the files of a folder; empty if
        no runtime does.
    judge_set : callable or str
        From the runtime files of a folder, the other files there by name, and a dialect to the errors in the
        runtime's choices, as tuple of str. Shares no code with `deliver`.
    protocols : tuple of str
        Members of ``PROTOCOLS`` that its runtimes support, if ``protocol`` is an option. A plan's choice of
        protocols is followed only by formats with all of them.
    files, readers, collectives, sizes : str
        Columns of the table of formats: what is written, who reads it, and what it supports.

    Raises
    ------
    ScheduleError
        If the name, the extension or an option is invalid.

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
            raise ScheduleError(f"format {self.name}: option {option!r} is not a field of FileOptions")

    def written(self, request: FileRequest) -> Written:
        """Return the files that the format's writer makes."""
        return load_function(self.write)(request)

    def parsed(self, data: bytes, terms: Terms) -> Any:
        """Return one file as the format's reader parses it."""
        return load_function(self.read)(data, terms)

    def interpreted(self, files: Sequence[bytes], terms: Terms) -> Verdict:
        """Return the verdict of the format's verifier on files."""
        return load_function(self.judge)(files, terms)

    def loading(self, request: FileRequest, written: Written, verdict: Verdict) -> Loading:
        """Return the instructions for loading written files."""
        return load_function(self.load)(request, written, verdict)

    def delivery(self, texts: FileSet) -> Delivery:
        """Return what makes a runtime choose from a folder of runtime files."""
        return load_function(self.deliver)(texts)

    def interpreted_set(
        self, texts: Sequence[RangedFile], files: Mapping[str, bytes], dialect: str | None
    ) -> tuple[str, ...]:
        """Return the calls for which the runtime would choose the wrong runtime file."""
        return load_function(self.judge_set)(texts, files, dialect)

    def is_begun_by(self, head: str) -> bool:
        """Whether a string, or its first part, begins like files of this format."""
        return bool(self.begins) and begins_as(self.begins, head)

    @property
    def has_all_protocols(self) -> bool:
        """Whether messages may use each of NCCL's protocols."""
        return "protocol" in self.options and self.protocols == PROTOCOLS

    def check_options(self, options: FileOptions) -> None:
        """Raise ScheduleError for options without effect here, and name the formats that support them."""
        if "protocol" in self.options and options.protocol not in (None, *self.protocols):
            raise ScheduleError(f"--protocol {options.protocol}: {self.name} has {', '.join(self.protocols)}")
        for option in given_options(options):
            if option in self.options:
                continue
            *several, last = [other.name for other in all_formats() if option in other.options] or ["none"]
            supporting = f"{', '.join(several)} and {last}" if several else last
            raise ScheduleError(
                f"{spelt(option)} is for {supporting}; {self.name} has nothing that it could change"
            )


def begins_as(pattern: str, text: str) -> bool:
    """Whether a string, after space and XML comments, begins with a pattern."""
    text = text.lstrip()
    while text.startswith("<!--") and "-->" in text:
        text = text.partition("-->")[2].lstrip()
    return re.match(pattern, text) is not None


def load_function(given: Callable[..., _R] | str) -> Callable[..., _R]:
    """Import a function that is given as ``"module:function"``."""
    if not isinstance(given, str):
        return given
    module, _, name = given.partition(":")
    found: Callable[..., _R] = getattr(import_module(module), name)
    return found


def declared(table: str) -> Iterator[tuple[str, Any]]:
    """Yield (package, record) for all records in a table of the subpackages."""
    for module in pkgutil.iter_modules(treadle.formats.__path__, f"{treadle.formats.__name__}."):
        if module.ispkg:
            for record in getattr(import_module(module.name), table, ()):
                yield module.name, record


_registered: dict[str, Format] = {}


@checked()
def register_format(record: Format) -> Format:
    """Add a format to the table of this process.

    Parameters
    ----------
    record : Format

    Returns
    -------
    Format
        The same record, so that a module can register and name it in one statement.

    Raises
    ------
    ScheduleError
        If another format has the same name.

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
    """Return Treadle's formats by name."""
    found: dict[str, Format] = {}
    for package, record in declared("FORMATS"):
        if record.name in found:
            raise ScheduleError(f"format {record.name}: {package} declares it a second time")
        found[record.name] = record
    return MappingProxyType(found)


@cache
def _plug_ins() -> Mapping[str, tuple[EntryPoint, ...]]:
    """Return the formats of installed plug-ins, not loaded, without those named like a Treadle format."""
    return find_plug_ins(GROUP, taken=_own())


def format_names() -> tuple[str, ...]:
    """Return the names of all formats: Treadle's, registered ones, and plug-ins, loaded or not."""
    return tuple(dict.fromkeys((*_own(), *_registered, *_plug_ins())))


def find_format(name: str) -> Format:
    """Return the record of a format; spelling variants of its name are accepted.

    Raises
    ------
    ScheduleError
        If no format has that name, or its plug-in is broken.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.find_format("msccl-xml").extension
    '.xml'
    """
    meant = known_name("format", name, format_names(), error=ScheduleError)
    if known := _own().get(meant) or _registered.get(meant):
        return known
    entry, *others = _plug_ins()[meant]
    record = load_plug_in(entry, *others)
    if isinstance(record, Unsupported):
        raise ScheduleError(f"format {meant}: {record}")
    if not isinstance(record, Format) or record.name != meant:
        raise ScheduleError(f"format {meant}: its plug-in {entry.value} is not a record of that name")
    return register_format(record)


def _loadable_formats() -> Iterator[Format]:
    """Yield Treadle's formats, then the others; plug-ins are not even searched before those are needed."""
    yield from _own().values()
    for name in format_names()[len(_own()) :]:
        with suppress(ScheduleError):  # The error is raised where that format is used.
            yield find_format(name)


def all_formats() -> tuple[Format, ...]:
    """Return all records that can be loaded, in the order of `format_names`.

    Examples
    --------
    >>> from treadle import planning
    >>> "msccl-xml" in {one.name for one in planning.all_formats()}
    True
    """
    return tuple(_loadable_formats())


def own_formats() -> tuple[Format, ...]:
    """Return the formats that come with Treadle, in the order of their packages.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.name for one in planning.own_formats() if one.extension == ".xml"]
    ['cpu-xml', 'forestcoll-xml', 'msccl-xml', 'nccl-graph', 'routes-xml']
    """
    return tuple(_own().values())


def format_name(head: str) -> Format | None:
    """Return the format that the beginning of a file belongs to; None if it is not recognized.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.format_name("<algo name='ring'>").name
    'msccl-xml'
    """
    return next((record for record in _loadable_formats() if record.is_begun_by(head)), None)
