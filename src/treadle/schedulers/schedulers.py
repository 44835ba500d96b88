"""The table of schedulers, filled: ours when it is first asked, those of plug-ins when they may matter.

Treadle's own are in `scheduler_records`: their modules are loaded when they are called. Plug-ins are the
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
from treadle.synthesis.scheduler import scheduler as own_scheduler
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
    needs: Iterable[Need] = (),
    options: Iterable[str] = (),
    source: str = "",
    comparing: Comparing = Comparing.ALWAYS,
    is_peer: bool = False,
    in_groups: bool = False,
) -> Callable[[Function], Function]:
    """Make the function below a scheduler that `solve` and `compare` know by its name.

    Parameters
    ----------
    name : str
        Lower-case letters, digits and hyphens; not taken.
    form : ScheduleForm or str
        What the function returns: ``trees`` (`ForestSchedule`), ``steps`` (`StepSchedule`),
        ``alltoall-steps`` (`ExchangeSchedule`) or ``routes`` (`RouteSchedule`).
    collectives : iterable of CollectiveKind or str
        Which it serves.
    needs, options, source, comparing, is_peer, in_groups
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
    _read_ours()  # names that are taken are found here, not when ours are read
    return own_scheduler(
        name,
        form=form,
        collectives=collectives,
        needs=needs,
        options=options,
        source=source,
        comparing=comparing,
        is_peer=is_peer,
        in_groups=in_groups,
    )


LIBRARIES = MappingProxyType(
    {
        "mpi": "ring, recursive-doubling, halving-doubling and bruck",
    }
)
"""Libraries that people name as algorithms, and what they run."""


def find_scheduler(name: str) -> Scheduler:
    """The scheduler of that name, however it is spelt.

    Plug-ins are loaded only if it is none of those that are known already.

    Raises
    ------
    FormatError
        If there is none; names the plug-ins that cannot be loaded.
    """
    _read_ours()
    if name in TABLE:
        return TABLE[name]
    faults = plug_in_faults()
    found = similarly_spelt(name, algorithm_names())
    if found is not None:
        return TABLE[found]
    broken = "".join(f"; {fault}" for fault in faults)
    remedy = "'treadle algorithms' lists them all"
    if folded(name) in LIBRARIES:
        raise FormatError(
            f"algorithm {name!r}: this is a library, whose algorithms are {LIBRARIES[folded(name)]}; {remedy}"
        )
    raise FormatError(unknown("algorithm", name, algorithm_names(), remedy=remedy) + broken)


def is_scheduler(name: str) -> bool:
    """Whether there is a scheduler of that name; see `find_scheduler`."""
    try:
        find_scheduler(name)
    except FormatError:
        return False
    return True


def schedulers(*, plug_ins: bool = True) -> tuple[Scheduler, ...]:
    """All schedulers, by form: the general ones, the baselines, those of others.

    Parameters
    ----------
    plug_ins : bool
        Load those of plug-ins too.

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
    """Every value of `algorithm`; see `schedulers`.

    Examples
    --------
    >>> from treadle import planning
    >>> "forestcoll" in planning.algorithm_names()
    True
    """
    return tuple(record.name for record in schedulers(plug_ins=plug_ins))


def default_algorithm(problem: Problem) -> str:
    """What `solve` uses where nothing is asked for: an all-to-all through switches needs routes."""
    if problem.collective.kind is not CollectiveKind.ALLTOALL:
        return FORESTCOLL
    return ROUTES if problem.topology.switches.size else PIPELINED


_FILLING = RLock()
"""One thread fills the table; others that come meanwhile wait."""


def _read_ours() -> None:
    """Put Treadle's own schedulers into the table, once."""
    with _FILLING:
        _register_ours()


@cache
def _register_ours() -> None:
    for record in OWN:
        TABLE.register(record)


def plug_in_faults() -> tuple[str, ...]:
    """Load the plug-ins; a line for each that cannot be, naming its distribution.

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
    """Register what an entry point names; what is wrong with it, or ""."""
    origin = "unknown" if entry.dist is None else f"{entry.dist.name} {entry.dist.version}"
    before = {record.name for record in TABLE}
    fault = ""
    try:
        found = entry.load()
        if isinstance(found, Scheduler):
            TABLE.register(found)
    except (Exception, SystemExit) as error:  # whatever a stranger's module does when it is loaded
        what = " ".join(str(error).split())[:200]
        fault = f"plug-in {origin}: {entry.name} cannot be loaded ({type(error).__name__}: {what})"
    for record in [record for record in TABLE if record.name not in before]:
        TABLE.withdraw(record.name)
        if not fault:
            TABLE.register(replace(record, origin=origin))
    return fault
