"""The table of schedulers, filled: ours when it is first asked, those of plug-ins when they may matter.

Ours are the records below, whose modules take long to load and are loaded when they are called, and those
that stand beside their functions in the rooms of baselines: every module there is read, so that a new one
needs no line elsewhere. Plug-ins are the entry points ``treadle.schedulers`` of installed distributions.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from importlib import import_module
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from treadle.checking import checked
from treadle.errors import FormatError
from treadle.planning.problem import Problem
from treadle.plug_ins import find_plug_ins
from treadle.schedules.collective import SPANNING_KINDS, CollectiveKind
from treadle.spelling import folded, spelt_alike, unknown
from treadle.synthesis.scheduler import (
    TABLE,
    Comparing,
    Function,
    Need,
    Scheduler,
    equal_shards,
    hosts_store,
    no_forwarders,
    no_switches,
)
from treadle.synthesis.scheduler import scheduler as own_scheduler
from treadle.synthesis.scheduler_options import ScheduleForm, flag_of

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "treadle.schedulers"
"""Group of the entry points that plug-ins declare: a module, a decorated function or a `Scheduler`."""

FORESTCOLL, PIPELINED, ROUTES = "forestcoll", "pipelined", "routes"
"""What `solve` uses where nothing is asked for."""

_ROOMS = (
    "treadle.synthesis.trees.baselines",
    "treadle.synthesis.steps.baselines",
    "treadle.synthesis.alltoall.baselines",
    "treadle.synthesis.peers",
    "treadle.synthesis.sizes",
)
"""Packages whose modules hold records beside their functions."""

_HERE = "treadle.planning.solving"
_TREES = ("trees", "max_trees", "exact", "packer", "form", "trim")
_ALLTOALL = (CollectiveKind.ALLTOALL,)

_OURS = (
    Scheduler(
        FORESTCOLL,
        ScheduleForm.TREES,
        SPANNING_KINDS,
        f"{_HERE}.forestcoll:forestcoll",
        options=_TREES,
        source="ForestColl: dissertation, chapter 4 and appendix B",
        in_groups=True,
    ),
    Scheduler(
        "rs-ag",
        ScheduleForm.TREES,
        (CollectiveKind.ALLREDUCE,),
        f"{_HERE}.forestcoll:rs_ag",
        options=_TREES,
        source="ForestColl's reduce-scatter, then its allgather: dissertation, chapter 4",
        in_groups=True,
    ),
    Scheduler(
        "few-trees",
        ScheduleForm.TREES,
        (CollectiveKind.ALLGATHER, CollectiveKind.REDUCE_SCATTER, CollectiveKind.ALLREDUCE),
        "treadle.synthesis.trees.few.few_trees:few_trees",
        options=("trees", "height"),
        source="ForestColl (dissertation, chapter 4) of few trees; within a height by column generation: own",
        comparing=Comparing.SIZES,
    ),
    Scheduler(
        "isolated",
        ScheduleForm.TREES,
        SPANNING_KINDS,
        f"{_HERE}.groups:isolated",
        source="ForestColl's trees of each group as if the others were idle",
        comparing=Comparing.GROUPS,
        in_groups=True,
    ),
    Scheduler(
        "bfb",
        ScheduleForm.STEPS,
        SPANNING_KINDS,
        f"{_HERE}.step_candidates:breadth_first",
        needs=(no_switches, no_forwarders, equal_shards),
        options=("chunks", "size"),
        source="breadth-first broadcast: dissertation, 3.6 and A.5",
    ),
    Scheduler(
        "exact",
        ScheduleForm.STEPS,
        SPANNING_KINDS,
        f"{_HERE}.step_candidates:exact",
        needs=(no_switches, no_forwarders, equal_shards),
        options=("chunks", "rounds", "steps", "symmetric", "seed"),
        source="Cai et al., SCCL (PPoPP 2021); dissertation, 3.8.5",
        comparing=Comparing.NAMED,  # it may take hours
    ),
    Scheduler(
        "te-ccl",
        ScheduleForm.STEPS,
        (CollectiveKind.ALLGATHER,),
        f"{_HERE}.step_candidates:te_ccl",
        needs=(no_switches, no_forwarders, equal_shards),
        options=("chunks", "seed"),
        source="Liu et al., TE-CCL (SIGCOMM 2024): its integer program, on HiGHS",
        comparing=Comparing.NAMED,  # it takes a minute where nothing is asked for
        is_peer=True,
    ),
    Scheduler(
        "tsmcf",
        ScheduleForm.ALLTOALL_STEPS,
        _ALLTOALL,
        f"{_HERE}.alltoall_candidates:time_stepped",
        needs=(hosts_store,),
        options=("chunks", "steps"),
        source="time-stepped multi-commodity flow: the all-to-all paper, (15)-(20)",
        comparing=Comparing.SMALL,
    ),
    Scheduler(
        PIPELINED,
        ScheduleForm.ALLTOALL_STEPS,
        _ALLTOALL,
        f"{_HERE}.alltoall_candidates:pipelined_flow",
        needs=(hosts_store,),
        options=("chunks", "rounds", "max_steps", "size"),
        source="routes of an optimal flow (the all-to-all paper, (1)-(14)) or of a search, in steps",
    ),
    Scheduler(
        "shortest-paths",
        ScheduleForm.ALLTOALL_STEPS,
        _ALLTOALL,
        f"{_HERE}.alltoall_candidates:shortest_paths",
        needs=(no_switches,),
        options=("chunks", "rounds", "size"),
        source="common practice; balanced, in rounds of our own",
    ),
    Scheduler(
        ROUTES,
        ScheduleForm.ROUTES,
        _ALLTOALL,
        f"{_HERE}.route_candidates:best_routes",
        options=("chunks", "max_layers", "layer_changes", "max_routes", "max_hops", "max_flows", "seed"),
        source="column generation (the all-to-all paper, (21)-(24)) or local search; layers of our own",
        comparing=Comparing.SMALL,
    ),
    Scheduler(
        "hierarchical-routes",
        ScheduleForm.ROUTES,
        _ALLTOALL,
        f"{_HERE}.route_candidates:hierarchical_routes",
        options=("chunks",),
        source='boxes and switches: "ongoing work" of the all-to-all paper',
        comparing=Comparing.SWITCHED,
    ),
)


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
        "nccl": "ring, double-binary-tree, nvls and pat",
        "rccl": "ring and double-binary-tree",
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
    found = spelt_alike(name, algorithm_names())
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
    first = {record.name: place for place, record in enumerate(_OURS)}

    def place(record: Scheduler) -> tuple[int, int, str, str]:
        return forms.index(record.form), first.get(record.name, len(first)), record.origin, record.name

    return tuple(sorted(TABLE, key=place))


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


def schedulers_summary() -> dict[str, list[dict[str, Any]]]:
    """What ``algorithms --json`` prints: the table of schedulers."""
    return {
        "schedulers": [
            {
                "name": one.name,
                "form": one.form.value,
                "collectives": [kind.value for kind in one.collectives],
                "needs": list(one.needs_in_words),
                "options": list(one.heeded),
                "flags": [flag_of(option) for option in one.heeded],
                "comparing": one.comparing.value,
                "peer": one.is_peer,
                "groups": one.in_groups,
                "source": one.source,
                "origin": one.origin,
            }
            for one in schedulers()
        ]
    }


_FILLING = RLock()
"""One thread fills the table; others that come meanwhile wait."""


def _read_ours() -> None:
    """Put Treadle's own schedulers into the table, once."""
    with _FILLING:
        _register_ours()


@cache
def _register_ours() -> None:
    for record in _OURS:
        TABLE.register(record)
    for room in _ROOMS:
        for module in pkgutil.iter_modules(import_module(room).__path__):
            import_module(f"{room}.{module.name}")


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
