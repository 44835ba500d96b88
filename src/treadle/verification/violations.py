"""Results of a verification: violations with their locations, and the report that lists them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray


class ViolationKind(StrEnum):
    """The part of the definition that a schedule violates."""

    MEMBERSHIP = "membership"
    """Ranks and forwarders are not the compute nodes of the fabric."""
    SHAPE = "shape"
    """The schedule is for another collective or number of ranks, or a tree has inconsistent arrays."""
    SHARES = "shares"
    """Trees per root do not add up, or are not proportional to the shards."""
    SPAN = "span"
    """A tree does not reach every rank from its root."""
    UNITS = "units"
    """The paths of an edge do not carry the multiplicity of the tree."""
    PATH = "path"
    """A path is not a walk through switches and forwarders."""
    ENDS = "ends"
    """A path does not join the ranks of its edge."""
    SUPPLY = "supply"
    """A path begins (ends) at an in-network switch that no other edge of its unit tree feeds (drains)."""
    CAPACITY = "capacity"
    """Trees of a subproblem use a capacity unit twice, or one that its link does not have."""
    GLUE = "glue"
    """Subproblems do not fit together: data cross a boundary but do not continue, or have no source."""
    LINK = "link"
    """A send uses an unknown link, a self-loop, a link to a switch, or an operation that a switch lacks."""
    HELD = "held"
    """A send carries chunks that its tail does not hold at the beginning of the step."""
    DELIVERY = "delivery"
    """A chunk never reaches a rank, or a rank's contribution never reaches the sum."""
    DOUBLE = "double"
    """A contribution would be added twice."""
    DEADLOCK = "deadlock"
    """The links of a virtual channel form a dependency cycle."""
    LIMIT = "limit"
    """The number of routes to a destination, or of layers, exceeds the limit."""
    LOAD = "load"
    """A link or host carries more than its bandwidth allows at the claimed algbw."""
    CLAIM = "claim"
    """The claimed algbw differs from the one that follows from the loads."""
    TEXT = "text"
    """A third-party file is wrong by the rules of its format, or does not fit the fabric."""
    BOUND = "bound"
    """The claimed optimum is not the bound that the certificate proves, or lies below the schedule."""


@dataclass(frozen=True)
class Violation:
    """One violation, with its location, in one line."""

    kind: ViolationKind
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Report:
    """Result of `verify`.

    Parameters
    ----------
    violations : tuple of Violation
        The first violations, up to the limit.
    n_violations : int
        Number of all violations.
    algbw : Fraction, optional
        Bytes/s by the exact loads, for steps that wait for each other; None if the schedule is malformed.
    bound : Fraction, optional
        Upper bound that the certificate proves, bytes/s; None without a valid certificate.
    height_max : int, optional
        Largest tree height; None if the schedule is malformed or has no trees.
    n_steps : int, optional
        Number of steps of a step schedule, or rounds of timed routes; None if malformed, and for trees.
    n_layers : int, optional
        Number of layers of routes; None if they are malformed, and for other schedules.
    height_is_exact : bool
        False if `height_max` is only an upper bound, as for some factored forests.
    pipelined_algbw : Fraction, optional
        Limit of the algbw of steps as messages are cut into more slices, bytes/s; None for other schedules.
    """

    violations: tuple[Violation, ...]
    n_violations: int
    algbw: Fraction | None = None
    bound: Fraction | None = None
    height_max: int | None = None
    n_steps: int | None = None
    n_layers: int | None = None
    height_is_exact: bool = True
    pipelined_algbw: Fraction | None = None

    @property
    def rate(self) -> Fraction | None:
        """Asymptotic algbw allowed by the busiest link, bytes/s; None if the schedule is malformed."""
        return self.pipelined_algbw or self.algbw

    @property
    def is_ok(self) -> bool:
        """Whether no violation was found."""
        return self.n_violations == 0

    @property
    def is_optimal(self) -> bool:
        """Whether no violation was found and the schedule attains the bound of the certificate."""
        return self.is_ok and self.bound is not None and self.rate == self.bound


@dataclass
class Findings:
    """Collector of violations: describes the first `limit`, counts all."""

    limit: int
    total: int = 0
    kept: list[Violation] = field(default_factory=list)

    def add(self, kind: ViolationKind, message: str) -> None:
        """Add one violation."""
        self.add_all(kind, [message], str)

    def add_all(
        self, kind: ViolationKind, wrong: Sequence[Any] | NDArray[Any], describe: Callable[[Any], str]
    ) -> None:
        """Add a violation for each item; `describe` is called only for those that are kept."""
        self.kept += [Violation(kind, describe(item)) for item in wrong[: self._n_left()]]
        self.total += len(wrong)

    def adopt(self, place: str, other: Findings) -> None:
        """Add the violations of one part of the schedule, each with the name of that part."""
        self.kept += [
            replace(violation, message=f"{place}: {violation.message}")
            for violation in other.kept[: self._n_left()]
        ]
        self.total += other.total

    def _n_left(self) -> int:
        return max(0, self.limit - len(self.kept))

    def report(self, **facts: Any) -> Report:
        """Return the report of all violations, with further fields of `Report`."""
        return Report(tuple(self.kept), self.total, **facts)
