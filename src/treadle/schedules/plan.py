"""A plan: what was synthesised for a fabric, with its claims, their witness and where it came from."""

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
"""What provenance records."""

MAX_SLICES = 2**20
"""More than any runtime cuts a message into."""

MAX_PROTOCOL = 40
"""Characters of a protocol's name."""

_MAX_ALGBW = 2**100
"""Beyond any fabric (bytes/s) and within a float."""


@dataclass(frozen=True)
class Pipelining:
    """How finely messages are cut from a size on.

    Parameters
    ----------
    min_bytes : int
        Smallest size, the larger per-rank buffer.
    slices : int
        Equal parts that every message is cut into.
    protocol : str
        Of a cost model, that carries them fastest; "" where nothing is known of protocols.

    Raises
    ------
    ScheduleError
        If a number is out of range, or the protocol is no line of at most 40 characters.
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
    """A schedule and the sizes that it serves.

    Parameters
    ----------
    min_bytes : int
        Smallest size, as DESIGN defines it: the larger per-rank buffer.
    max_bytes : int, optional
        Largest size, inclusive; None: no limit.
    schedule : Schedule
    algorithm : str
        Name of its scheduler; "" where the plan's name is meant.
    options : str
        What its scheduler was told beyond its defaults, in words: ``factors=4,4``.
    pipelining : tuple of Pipelining
        By rising size, from `min_bytes` at the latest; none where nothing is known of it.
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
                f"plan: sizes from {self.min_bytes} to {self.max_bytes} bytes are no range; "
                f"expected 0 <= min <= max"
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
        """The algorithm with its options; "" where the plan's name is meant."""
        return f"{self.algorithm} {self.options}".strip()

    def supports(self, size_bytes: int) -> bool:
        """Whether a size, the larger per-rank buffer, is in the range."""
        return self.min_bytes <= size_bytes and (self.max_bytes is None or size_bytes <= self.max_bytes)

    def pipelining_at(self, size_bytes: int) -> Pipelining | None:
        """How messages of a size are cut; None where nothing is known of it."""
        return max(
            (one for one in self.pipelining if one.min_bytes <= size_bytes),
            key=lambda one: one.min_bytes,
            default=None,
        )


@brief("collective", "topology", "algorithm", "algbw", "entries")
@dataclass(frozen=True)
class Plan:
    """Schedules of one collective on one fabric, and what is claimed of them.

    Parameters
    ----------
    topology : Topology
        The fabric that the plan was made for.
    collective : Collective
    entries : tuple of PlanEntry
        At least one, by rising size, ranges apart.
    algorithm : str
        Name of the synthesis or baseline.
    algbw : Fraction
        Claimed asymptotic algbw, bytes/s, of the last entry, which serves the largest sizes.
    optimal_algbw : Fraction, optional
        Claimed optimum (a bound that `witness` proves), bytes/s; None: not known.
    witness : Witness, optional
        Needed for a claimed optimum.
    provenance : mapping of str to str, int or float
        Version, options, seconds: for reports only, no claim rests on it.

    Raises
    ------
    ScheduleError
        If the parts do not fit together. Whether the claims are true is for `verify_plan` to say.
    """

    topology: Topology
    collective: Collective
    entries: tuple[PlanEntry, ...]
    algorithm: str
    algbw: Fraction
    optimal_algbw: Fraction | None = None
    witness: Certificate | None = None
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
        _check_line("algorithm", self.algorithm, repr(self.algorithm))
        if self.optimal_algbw is not None and self.witness is None:
            raise ScheduleError("plan: an optimum is claimed without a witness")
        for key, entry in self.provenance.items():
            if not isinstance(entry, Scalar) or (isinstance(entry, float) and not isfinite(entry)):
                raise ScheduleError(
                    f"plan: provenance {key!r} is {entry!r}, expected text or a finite number"
                )
            _check_line(f"provenance {key!r} is", f"{key}{entry}", repr(entry))

    def _check_entries(self) -> None:
        if not self.entries:
            raise ScheduleError("plan: no schedule; expected at least one")
        for entry in self.entries:
            if entry.schedule.kind is not self.collective.kind:
                raise ScheduleError(
                    f"plan: a schedule for {entry.schedule.kind}, expected {self.collective.kind}"
                )
            found = entry.schedule.n_ranks
            if found != self.collective.n_ranks:
                raise ScheduleError(
                    f"plan: a schedule for {found} ranks, the collective has {self.collective.n_ranks}"
                )
        for one, other in pairwise(self.entries):
            if one.max_bytes is None or one.max_bytes >= other.min_bytes:
                raise ScheduleError("plan: size ranges must rise and not overlap")

    def schedule_for(self, size_bytes: int) -> Schedule:
        """The schedule that serves a size; ScheduleError if there is none."""
        for entry in self.entries:
            if entry.supports(size_bytes):
                return entry.schedule
        raise ScheduleError(f"plan: no schedule serves {size_bytes} bytes")


def serving(entries: Sequence[PlanEntry], sizes: Sequence[int]) -> list[tuple[PlanEntry, list[int]]]:
    """Which sizes, by their places in the list, each entry serves; entries that serve none are left out.

    Raises
    ------
    ScheduleError
        If a size is served by none.
    """
    served: list[tuple[PlanEntry, list[int]]] = [(entry, []) for entry in entries]
    for place, size in enumerate(sizes):
        places = next((places for entry, places in served if entry.supports(size)), None)
        if places is None:
            raise ScheduleError(f"plan: no schedule serves {size} bytes")
        places.append(place)
    return [(entry, places) for entry, places in served if places]


class HasPlan(Protocol):
    """Results that have a plan."""

    @property
    def plan(self) -> Plan:
        """The plan."""


def plan_of(value: object) -> Plan | None:
    """A plan itself, or that of a result; None for anything else."""
    found = value if isinstance(value, Plan) else getattr(value, "plan", None)
    return found if isinstance(found, Plan) else None


def _check_line(what: str, text: str, shown: str = "") -> None:
    if not is_one_line(text):
        raise ScheduleError(
            f"plan: {what} {shown or repr(text[:60])}, expected one line without control characters"
        )
