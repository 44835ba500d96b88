"""The table of schedulers: Treadle's are added on first use, those of plug-ins when names need them.

Treadle's own are in `scheduler_records`; their modules are loaded when they are called. Plug-ins are the
entry points ``treadle.schedulers`` of installed distributions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING

from treadle.checking import checked
from treadle.errors import FormatError
from treadle.inputs.problem import Problem
from treadle.plug_ins import find_plug_ins
from treadle.schedulers.scheduler_records import FORESTCOLL, OWN, PIPELINED, ROUTES
from treadle.schedules.collective import CollectiveKind
from treadle.spelling import folded, similarly_spelt, unknown
from treadle.synthesis.scheduler import (
    TABLE,
    Comparing,
    Function,
    Need,
    Scheduler,
)
from treadle.synthesis.scheduler_options import ScheduleForm

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "treadle.schedulers"
"""Group of the entry points that plug-ins declare: a module, a decorated function or a `Scheduler`."""


@checked()
def scheduler(
    name: str,
    *,
    form: ScheduleForm | str,
    collectives: Iterable[CollectiveKind | str],
    requirements: Iterable[Need] = (),
    options: Iterable[str] = (),
    source: str = "",
    comparing: Comparing = Comparing.ALWAYS,
    is_peer: bool = False,
    in_groups: bool = False,
) -> Callable[[Function], Function]:
    """Register the function below as a scheduler that `solve` and `compare` accept by its name.

    Parameters
    ----------
    name : str
        Lower-case characters a to z, digits and hyphens; unused.
    form : ScheduleForm or str
        Form of its schedules: ``trees`` (`ForestSchedule`), ``steps`` (`StepSchedule`),
        ``alltoall-steps`` (`ExchangeSchedule`) or ``routes`` (`RouteSchedule`).
    collectives : iterable of CollectiveKind or str
        Supported collectives.
    `needs`, options, source, comparing, is_peer, in_groups
        See `synthesis.scheduler.Scheduler`.

    Raises
    ------
    FormatError
        If a value is malformed, or the name is taken.

    Examples
    --------
    >>> import treadle
    >>> from treadle.synthesis.trees.baselines.ring import ring
    >>> @treadle.scheduler("mine", form="trees", collectives=["allgather"], source="this page")
    ... def mine(topology, collective):
    ...     return ring(topology, collective)
    >>> treadle.solve("ring:4", "allgather", algorithm="mine").plan.algorithm
    'mine'
    """
    _read_ours()  # reports here, not later, that a name is taken
    try:
        shape, kinds = ScheduleForm(form), tuple(CollectiveKind(kind) for kind in collectives)
    except ValueError as error:
        expected = f"{', '.join(ScheduleForm)}; {', '.join(CollectiveKind)}"
        raise FormatError(f"scheduler {name}: {error}; expected form and collectives of {expected}") from None

    def register(function: Function) -> Function:
        module = getattr(function, "__module__", "") or ""
        origin = "" if module == "treadle" or module.startswith("treadle.") else module
        settings = tuple(requirements), tuple(options), source, origin, comparing, is_peer, in_groups
        TABLE.register(Scheduler(name, shape, kinds, function, *settings))
        return function

    return register


LIBRARIES = MappingProxyType(
    {
        "mpi": "ring, recursive-doubling, halving-doubling and bruck",
    }
)
"""Libraries that are often given as algorithms, and the algorithms that they run."""


def find_scheduler(name: str) -> Scheduler:
    """Return the scheduler of that name, also if it is misspelt.

    Plug-ins are loaded only for names that are not known already.

    Raises
    ------
    FormatError
        If there is none; lists the plug-ins that cannot be loaded.
    """
    _read_ours()
    if name in TABLE:
        return TABLE[name]
    faults = plug_in_faults()
    found = similarly_spelt(name, algorithm_names())
    if found is not None:
        return TABLE[found]
    broken = "".join(f"; {fault}" for fault in faults)
    fix = "'treadle algorithms' lists them all"
    if folded(name) in LIBRARIES:
        raise FormatError(
            f"algorithm {name!r}: this is a library, whose algorithms are {LIBRARIES[folded(name)]}; {fix}"
        )
    raise FormatError(unknown("algorithm", name, algorithm_names(), fix=fix) + broken)


def is_scheduler(name: str) -> bool:
    """Whether there is a scheduler of that name; see `find_scheduler`."""
    try:
        find_scheduler(name)
    except FormatError:
        return False
    return True


def schedulers(*, plug_ins: bool = True) -> tuple[Scheduler, ...]:
    """Return all schedulers by form: general ones, baselines, then those of plug-ins.

    Parameters
    ----------
    plug_ins : bool
        Whether to load those of plug-ins.

    Examples
    --------
    >>> from treadle import planning
    >>> [one.name for one in planning.schedulers() if one.form == "routes"][:3]
    ['routes', 'hierarchical-routes', 'dor']
    """
    _read_ours()
    if plug_ins:
        plug_in_faults()
    forms = list(ScheduleForm)
    first = {record.name: sort_key for sort_key, record in enumerate(OWN)}

    def sort_key(record: Scheduler) -> tuple[int, int, str, str]:
        return forms.index(record.form), first.get(record.name, len(first)), record.origin, record.name

    return tuple(sorted(TABLE, key=sort_key))


def algorithm_names(*, plug_ins: bool = True) -> tuple[str, ...]:
    """Return all values of `algorithm`; see `schedulers`.

    Examples
    --------
    >>> from treadle import planning
    >>> "forestcoll" in planning.algorithm_names()
    True
    """
    return tuple(record.name for record in schedulers(plug_ins=plug_ins))


def default_algorithm(problem: Problem) -> str:
    """Return the default of `solve`; an all-to-all through switches needs routes."""
    if problem.collective.kind is not CollectiveKind.ALLTOALL:
        return FORESTCOLL
    return ROUTES if problem.topology.switches.size else PIPELINED


_FILLING = RLock()
"""Held by the thread that fills the table, so that others wait."""


def _read_ours() -> None:
    """Put Treadle's own schedulers into the table, once."""
    with _FILLING:
        _register_ours()


@cache
def _register_ours() -> None:
    for record in OWN:
        TABLE.register(record)


def plug_in_faults() -> tuple[str, ...]:
    """Load the plug-ins; return a line for each that cannot be loaded, with its distribution.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.plug_in_faults()
    ()
    """
    with _FILLING:
        return _faults()


@cache
def _faults() -> tuple[str, ...]:
    _register_ours()
    entries = [entry for same in find_plug_ins(ENTRY_POINTS).values() for entry in same]
    return tuple(fault for entry in entries if (fault := _loaded(entry)))


def _loaded(entry: EntryPoint) -> str:
    """Register the schedulers of an entry point; return its fault, or ""."""
    origin = "unknown" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    before = {record.name for record in TABLE}
    fault = ""
    try:
        found = entry.load()
        if isinstance(found, Scheduler):
            TABLE.register(found)
    except (Exception, SystemExit) as error:  # third-party modules may raise anything
        what = " ".join(str(error).split())[:200]
        fault = f"plug-in {origin}: {entry.name} cannot be loaded ({type(error).__name__}: {what})"
    for record in [record for record in TABLE if record.name not in before]:
        TABLE.withdraw(record.name)
        if not fault:
            TABLE.register(replace(record, origin=origin))
    return fault
