"""One record per scheduler, and the table of them all.

A scheduler is a function from a fabric and a collective to a schedule, with what is known about it before it
is called. All code that runs, lists or tests schedulers reads the table; no other code contains their names.
A record may name its function instead of holding it: then its module is loaded on the first call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, TypeVar

from treadle.brief import brief
from treadle.context import context
from treadle.errors import FormatError, ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.scheduler_options import COMMON_OPTIONS, OPTIONS_OF, ScheduleForm
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.host_cards import without_cards
from treadle.unsupported import Unsupported

Need = Callable[[Topology, Collective], Unsupported | None]
"""A requirement, named by its demand, e.g. ``no_switches``; returns why it is not met, or None."""

OptionSets = Sequence[Mapping[str, object]]

Trials = OptionSets | Callable[[Topology, Collective], OptionSets]
"""Sets of options of a scheduler, by field, that may be fastest at some size."""

Function = TypeVar("Function", bound=Callable[..., Any])

_TRIALS = "options_at_sizes"

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HOME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Comparing(StrEnum):
    """Conditions under which `compare` runs a scheduler by default."""

    ALWAYS = "always"
    SMALL = "up to 64 ranks"
    SWITCHED = "with switches"
    GROUPS = "of several groups at once"
    ABLE = "with switches that copy or add up as it needs"
    MACHINES = "on machines whose library it is"
    SIZES = "at sizes"
    PRACTICE = "at sizes, as common practice"
    NAMED = "when named"


@brief("name", "form", "collectives", "options", "origin")
@dataclass(frozen=True)
class Scheduler:
    """Record of a scheduler.

    Parameters
    ----------
    name : str
        As on the command line: lower case, digits, single hyphens.
    form : ScheduleForm
        Of its schedules.
    collectives : tuple of CollectiveKind
        Supported collectives.
    function : callable or str
        ``function(topology, collective)``, with given options as keywords; returns a schedule of `form`,
        raises ScheduleError or InfeasibleError if it does not support the problem. A parameter called
        ``watch`` gets the running context (`treadle.context.Context`), one called ``bound`` the bound if it
        is already known. As a string: ``package.module:name``.
    requirements : tuple of callable or str
        Further requirements, as strings like `function`. A function may reject more when it runs.
    options : tuple of str
        Supported fields of its form's options.
    source : str
        Paper and section.
    origin : str
        Module or distribution that provides it; "" for Treadle.
    comparing : Comparing
    is_peer : bool
        Whether it is the algorithm of another project, after its paper and public code, for comparison.
    in_groups : bool
        Whether it supports concurrent groups of ranks; other tree schedulers solve each group alone.

    Raises
    ------
    FormatError
        If the record is malformed: its name, or an option that its form or its function lacks.
    """

    name: str
    form: ScheduleForm
    collectives: tuple[CollectiveKind, ...]
    function: Callable[..., Any] | str
    requirements: tuple[Need | str, ...] = ()
    options: tuple[str, ...] = ()
    source: str = ""
    origin: str = ""
    comparing: Comparing = Comparing.ALWAYS
    is_peer: bool = False
    in_groups: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise FormatError(
                f"scheduler {str(self.name)[:40]!r}: expected lower-case letters, digits and hyphens"
            )
        known = {field.name for field in OPTIONS_OF[self.form].fields()}
        for option in self.options:
            if option not in known:
                raise FormatError(
                    f"scheduler {self.name}: {self.form} have no option {option!r}; expected some of "
                    f"{', '.join(sorted(known))}"
                )
        if not all(
            _is_home(need) or (callable(need) and hasattr(need, "__name__")) for need in self.requirements
        ):
            raise FormatError(f"scheduler {self.name}: expected functions with names for what it needs")
        if not self.collectives:
            raise FormatError(f"scheduler {self.name}: expected at least one supported collective")
        if isinstance(self.function, str):
            if not _is_home(self.function):
                raise FormatError(f"scheduler {self.name}: {self.function!r}: expected package.module:name")
        else:
            _check_keywords(self.name, self.function, self.options)

    @property
    def supported_options(self) -> tuple[str, ...]:
        """Fields of its form's options that it supports, including those handled for every scheduler."""
        return tuple(dict.fromkeys((*self.options, *COMMON_OPTIONS[self.form])))

    @property
    def is_baseline(self) -> bool:
        """Whether it is available without Treadle: from textbooks, a library or another project."""
        home = self.function if isinstance(self.function, str) else self.function.__module__
        return self.is_peer or self.comparing is Comparing.PRACTICE or ".baselines." in home

    @property
    def format_requirements(self) -> tuple[str, ...]:
        """Describe the requirements, a few words each."""
        names = (
            need.partition(":")[2] if isinstance(need, str) else need.__name__ for need in self.requirements
        )
        return tuple(name.strip("_").replace("_", " ") for name in names)

    def unsupported(self, topology: Topology, collective: Collective) -> Unsupported | None:
        """Return why it does not support a problem, as far as that is known without running it."""
        if collective.kind not in self.collectives:
            supported = ", ".join(self.collectives)
            return Unsupported(f"{collective.kind} is not supported; it supports {supported}")
        if collective.groups is not None and not self.in_groups:
            # Trees may be possible for each group alone; that is found when they are made.
            n_groups = len(collective.groups)
            if self.form is not ScheduleForm.TREES:
                return Unsupported(
                    f"supports only one group of ranks, found {n_groups} concurrent groups; leave out "
                    "--algorithm"
                )
            if self.comparing is Comparing.ABLE:
                return Unsupported(
                    "in-network multicast and aggregation are not modelled for concurrent groups"
                )
            return None
        found: Iterator[Unsupported | None] = (
            _load(need)(topology, collective) for need in self.requirements
        )
        return next((refusal for refusal in found if refusal is not None), None)

    def load(self) -> Callable[..., Any]:
        """Return the function."""
        return _load(self.function)

    def trials(self, topology: Topology, collective: Collective) -> tuple[Mapping[str, object], ...]:
        """Return the sets of options to try when selecting at a size; the first is empty."""
        more: Trials = getattr(self.load(), _TRIALS, ())
        return ({}, *(more(topology, collective) if callable(more) else more))

    def make(
        self, topology: Topology, collective: Collective, options: Mapping[str, object], **known: object
    ) -> Any:
        """Call the function and return its schedule or result.

        Parameters
        ----------
        topology, collective
        options : mapping
            Given options, by field.
        **known
            `bound`, passed if the function has a parameter of this name, like the context as `watch`.
        """
        function = self.load()
        wanted = signature(function).parameters
        handed = {"watch": context(), **known}
        return function(
            topology, collective, **options, **{name: handed[name] for name in handed if name in wanted}
        )


def _is_home(value: object) -> bool:
    return isinstance(value, str) and _HOME.fullmatch(value) is not None


def _load(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """Return a function, or the one that ``package.module:name`` names."""
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), name)
    return found


def _check_keywords(name: str, function: Callable[..., Any], options: Iterable[str]) -> None:
    """Raise FormatError unless a function takes its options by keyword."""
    if not callable(function):
        raise FormatError(f"scheduler {name}: {function!r} is not a function")
    taken = signature(function).parameters
    if any(parameter.kind is Parameter.VAR_KEYWORD for parameter in taken.values()):
        return
    for option in options:
        if option not in taken or taken[option].kind is Parameter.POSITIONAL_ONLY:
            raise FormatError(
                f"scheduler {name}: supports {option!r}, so its function must accept it: "
                f"(topology, collective, *, {option}=...)"
            )


class SchedulerTable:
    """Schedulers by name; each name once."""

    def __init__(self) -> None:
        self._records: dict[str, Scheduler] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._records

    def __iter__(self) -> Iterator[Scheduler]:
        return iter(tuple(self._records.values()))

    def __getitem__(self, name: str) -> Scheduler:
        return self._records[name]

    def register(self, record: Scheduler) -> Scheduler:
        """Add a scheduler.

        Raises
        ------
        FormatError
            If its name is taken.
        """
        if (other := self._records.get(record.name)) is not None:
            raise FormatError(
                f"scheduler {record.name!r}: the name is taken by {_home(other)}; give {_home(record)} "
                f"another"
            )
        self._records[record.name] = record
        return record

    def withdraw(self, name: str) -> Scheduler:
        """Remove a scheduler from the table; KeyError if there is none."""
        return self._records.pop(name)


TABLE = SchedulerTable()
"""All schedulers whose modules are loaded; `treadle.schedulers.schedulers` loads them."""


def tried_with(trials: Trials) -> Callable[[Function], Function]:
    """Mark a scheduler with the sets of options, besides none, that may be fastest at some size."""

    def mark(function: Function) -> Function:
        setattr(function, _TRIALS, trials)
        return function

    return mark


def _home(record: Scheduler) -> str:
    """Origin of a scheduler's function, for messages."""
    if isinstance(record.function, str):
        return record.function
    return f"{record.function.__module__}:{getattr(record.function, '__qualname__', 'a function')}"


def unsupported_reason(check: Callable[..., object], *arguments: object) -> Unsupported | None:
    """Turn a check that raises ScheduleError into a requirement's reason."""
    try:
        check(*arguments)
    except ScheduleError as error:
        name, _, reason = str(error).partition(": ")
        return Unsupported(reason if reason and _NAME.fullmatch(name) else str(error))
    return None


def no_switches(topology: Topology, collective: Collective) -> Unsupported | None:
    """Require a fabric without switches, since steps store and forward at compute nodes."""
    if not topology.switches.size:
        return None
    if collective.kind is CollectiveKind.ALLTOALL:
        return Unsupported(
            f"steps store and forward, which the switches of {topology.name} cannot; expected a "
            f"direct-connect fabric, or --algorithm routes"
        )
    return _not_direct(topology, "switches")


def hosts_store(topology: Topology, collective: Collective) -> Unsupported | None:
    """Require `no_switches`, except for switches that are network cards of one host each."""
    refusal = no_switches(topology, collective)
    return None if refusal is None or without_cards(topology) is not None else refusal


def no_forwarders(topology: Topology, collective: Collective) -> Unsupported | None:
    """Require that every compute node is a rank, or absent."""
    if not collective.forwarders:
        return None
    return _not_direct(topology, "compute nodes that only forward")


def equal_shards(_: Topology, collective: Collective) -> Unsupported | None:
    """Require shards of one size."""
    if collective.weights is None:
        return None
    return Unsupported(
        "step schedules have shards of one size; leave out the weights or use --algorithm forestcoll"
    )


def _not_direct(topology: Topology, what: str) -> Unsupported:
    return Unsupported(
        f"step schedules are for direct-connect fabrics, and {topology.name} comes with {what}; use "
        f"--algorithm forestcoll"
    )
