"""Plans: schedules for a fabric, with their claims, the certificate of the optimum, and the provenance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import isfinite
from types import MappingProxyType
from typing import Protocol

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.certificate import Certificate
from treadle.schedules.collective import Collective, check_declared
from treadle.schedules.schedule import Schedule
from treadle.topologies.naming import is_one_line
from treadle.topologies.topology import Topology

Scalar = str | int | float
"""Type of the values of provenance."""

MAX_SLICES = 2**20
"""Most slices of a message; runtimes use fewer."""

MAX_PROTOCOL = 40
"""Most characters of a protocol's name."""

_MAX_ALGBW = 2**100
"""Exclusive upper bound of algbw (bytes/s): beyond any fabric, and within a float."""


@dataclass(frozen=True)
class Pipelining:
    """Number of slices of messages from a size on.

    Parameters
    ----------
    min_bytes : int
        Smallest size: the larger per-rank buffer.
    slices : int
        Equal parts of every message.
    protocol : str
        Fastest protocol of a cost model; "" if the model has no protocols.

    Raises
    ------
    ScheduleError
        If a number is out of range, or the protocol is not one line of at most 40 characters.
    """

    min_bytes: int
    slices: int
    protocol: str = ""

    def __post_init__(self) -> None:
        if self.min_bytes < 0 or not 1 <= self.slices <= MAX_SLICES:
            raise ScheduleError(
                f"plan: {self.slices} slices from {self.min_bytes} bytes on, expected 1 to {MAX_SLICES} from "
                f"0 bytes or more on"
            )
        if len(self.protocol) > MAX_PROTOCOL or not is_one_line(self.protocol):
            raise ScheduleError(
                f"plan: protocol {self.protocol[:MAX_PROTOCOL]!r}, expected a line of at most {MAX_PROTOCOL}"
            )


@brief("min_bytes", "max_bytes", "algorithm", "schedule")
@dataclass(frozen=True)
class PlanEntry:
    """A schedule and the range of sizes that it supports.

    Parameters
    ----------
    min_bytes : int
        Smallest size: the larger per-rank buffer.
    max_bytes : int, optional
        Largest size, inclusive; None: no limit.
    schedule : Schedule
    algorithm : str
        Name of its scheduler; "" for that of the plan.
    options : str
        Options of its scheduler other than the defaults: ``factors=4,4``.
    pipelining : tuple of Pipelining
        By rising size, the first at most `min_bytes`; empty if unknown.
    """

    min_bytes: int
    max_bytes: int | None
    schedule: Schedule
    algorithm: str = ""
    options: str = ""
    pipelining: tuple[Pipelining, ...] = ()

    def __post_init__(self) -> None:
        if self.min_bytes < 0 or (self.max_bytes is not None and self.max_bytes < self.min_bytes):
            raise ScheduleError(
                f"plan: sizes from {self.min_bytes} to {self.max_bytes} bytes; expected 0 <= min <= max"
            )
        for words in (self.algorithm, self.options):
            _check_line("algorithm or options", words)
        starts = [one.min_bytes for one in self.pipelining]
        if starts and (starts != sorted(set(starts)) or starts[0] > self.min_bytes):
            raise ScheduleError(
                f"plan: slices by size have to rise from {self.min_bytes} bytes on, found {starts[:8]}"
            )

    @property
    def title(self) -> str:
        """The algorithm with its options; "" for that of the plan."""
        return f"{self.algorithm} {self.options}".strip()

    def supports(self, size_bytes: int) -> bool:
        """Return whether a size, the larger per-rank buffer, is in the range."""
        return self.min_bytes <= size_bytes and (self.max_bytes is None or size_bytes <= self.max_bytes)

    def pipelining_at(self, size_bytes: int) -> Pipelining | None:
        """Return the slices of messages of a size; None if unknown."""
        fitting = [one for one in self.pipelining if one.min_bytes <= size_bytes]
        return fitting[-1] if fitting else None


@brief("collective", "topology", "algorithm", "algbw", "entries")
@dataclass(frozen=True)
class Plan:
    """Schedules of one collective on one fabric, and claims about them.

    Parameters
    ----------
    topology : Topology
        Fabric of the plan.
    collective : Collective
    entries : tuple of PlanEntry
        At least one, by rising size, with disjoint ranges.
    algorithm : str
        Name of the scheduler.
    algbw : Fraction
        Claimed asymptotic algbw, bytes/s, of the last entry, which is for the largest sizes.
    optimal_algbw : Fraction, optional
        Claimed optimum (a bound that the certificate proves), bytes/s; None: unknown.
    `certificate` : `Certificate`, optional
        Required for a claimed optimum.
    provenance : mapping of str to str, int or float
        Version, options, seconds: for reports only, no claim depends on it.

    Raises
    ------
    ScheduleError
        If the parts do not fit together. `verify_plan` checks whether the claims are true.
    """

    topology: Topology
    collective: Collective
    entries: tuple[PlanEntry, ...]
    algorithm: str
    algbw: Fraction
    optimal_algbw: Fraction | None = None
    certificate: Certificate | None = None
    provenance: Mapping[str, Scalar] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "provenance", MappingProxyType(dict(self.provenance)))
        check_declared(self.topology, self.collective)
        self._check_entries()
        for name, value in (("algbw", self.algbw), ("optimal algbw", self.optimal_algbw)):
            if value is not None and not (isinstance(value, Fraction) and value > 0):
                raise ScheduleError(f"plan: {name} {value!r}, expected a positive fraction")
            if value is not None and value >= _MAX_ALGBW:
                raise ScheduleError(f"plan: {name} is 2**100 bytes/s or more, which no fabric has")
        _check_line("algorithm", self.algorithm)
        if self.optimal_algbw is not None and self.certificate is None:
            raise ScheduleError("plan: an optimum is claimed without a certificate")
        for key, entry in self.provenance.items():
            if not isinstance(entry, Scalar) or (isinstance(entry, float) and not isfinite(entry)):
                raise ScheduleError(
                    f"plan: provenance {key!r} is {entry!r}, expected text or a finite number"
                )
            for text in (key, str(entry)):
                _check_line(f"provenance {key!r} is", text)

    def _check_entries(self) -> None:
        if not self.entries:
            raise ScheduleError("plan: no schedule; expected at least one")
        for entry in self.entries:
            if entry.schedule.kind is not self.collective.kind:
                raise ScheduleError(
                    f"plan: a schedule for {entry.schedule.kind}, expected {self.collective.kind}"
                )
            n_ranks = entry.schedule.n_ranks
            if n_ranks != self.collective.n_ranks:
                raise ScheduleError(
                    f"plan: a schedule for {n_ranks} ranks, the collective has {self.collective.n_ranks}"
                )
        for one, other in pairwise(self.entries):
            if one.max_bytes is None or one.max_bytes >= other.min_bytes:
                raise ScheduleError("plan: size ranges must rise and not overlap")

    def schedule_for(self, size_bytes: int) -> Schedule:
        """Return the schedule for a size; ScheduleError if there is none."""
        ((entry, _),) = serving(self.entries, [size_bytes])
        return entry.schedule


def serving(entries: Sequence[PlanEntry], sizes: Sequence[int]) -> list[tuple[PlanEntry, list[int]]]:
    """Return the entries that support some of the sizes, with the indices of these sizes.

    ScheduleError if no entry supports a size.
    """
    indices: list[list[int]] = [[] for _ in entries]
    for index, size in enumerate(sizes):
        number = next((i for i, entry in enumerate(entries) if entry.supports(size)), None)
        if number is None:
            raise ScheduleError(f"plan: no schedule for {size} bytes")
        indices[number].append(index)
    return [(entry, some) for entry, some in zip(entries, indices, strict=True) if some]


class HasPlan(Protocol):
    """Results that have a plan."""

    @property
    def plan(self) -> Plan:
        """The plan."""


def plan_of(value: object) -> Plan | None:
    """Return a plan itself, or that of a result; None for anything else."""
    found = value if isinstance(value, Plan) else getattr(value, "plan", None)
    return found if isinstance(found, Plan) else None


def _check_line(what: str, text: str) -> None:
    if not is_one_line(text):
        raise ScheduleError(f"plan: {what} {text[:60]!r}, expected one line without control characters")
