"""What a verifier says: violations with their places, and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray


class ViolationKind(StrEnum):
    """What is wrong, by the part of the definition that is broken."""

    MEMBERSHIP = "membership"
    """Ranks and forwarders are not the fabric's compute nodes."""
    SHAPE = "shape"
    """The schedule is for another collective or number of ranks, or a tree's arrays do not fit together."""
    SHARES = "shares"
    """Trees per root do not add up, or are not in proportion to the shards."""
    SPAN = "span"
    """A tree does not reach every rank from its root."""
    UNITS = "units"
    """An edge's paths do not carry the tree's multiplicity."""
    PATH = "path"
    """A path is no walk through switches and forwarders."""
    ENDS = "ends"
    """A path does not join the ranks of its edge."""
    SUPPLY = "supply"
    """A path begins (ends) at a capable switch that no other edge of its unit tree feeds (drains)."""
    CAPACITY = "capacity"
    """Trees of a piece take a capacity unit twice, or one that its link does not have."""
    GLUE = "glue"
    """Pieces do not fit together: what crosses a border goes on nowhere, or comes from nowhere."""
    LINK = "link"
    """A send uses no link of the fabric, a self-loop, or a link that ends at a switch; or a switch that does
    not copy or add up."""
    HELD = "held"
    """A send carries what its tail does not hold at the beginning of the step."""
    DELIVERY = "delivery"
    """A chunk never reaches a rank, or a rank's contribution never reaches the sum."""
    DOUBLE = "double"
    """A contribution would be added twice."""
    DEADLOCK = "deadlock"
    """The links of a layer wait for each other in a circle."""
    LIMIT = "limit"
    """More routes to a destination, or more layers, than are allowed."""
    LOAD = "load"
    """A link or host carries more than the claimed algbw leaves room for."""
    CLAIM = "claim"
    """The claimed algbw is not the one that the loads give."""
    TEXT = "text"
    """Of somebody else's file: its own judge found it, or it cannot be put on the fabric."""
    BOUND = "bound"
    """The claimed optimum is not what the witness proves, or lies below the schedule."""


@dataclass(frozen=True)
class Violation:
    """One thing that is wrong, and where, in one line."""

    kind: ViolationKind
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Report:
    """What `verify` found.

    Parameters
    ----------
    violations : tuple of Violation
        The first ones, up to the limit asked for.
    n_violations : int
        How many there are in all.
    algbw : Fraction, optional
        Bytes/s from the exact loads, of steps as one waits for the other; None if the schedule is malformed.
    bound : Fraction, optional
        Bytes/s that the witness proves to be the most possible; None without a witness that proves one.
    height_max : int, optional
        Greatest number of logical hops from a root; None if the schedule is malformed, or made of steps.
    n_steps : int, optional
        Communication steps of a step schedule, rounds of routes; None if it is malformed, and for forests.
    n_layers : int, optional
        Layers of routes; None if they are malformed, and for other schedules.
    height_is_exact : bool
        False where `height_max` is a bound that no tree exceeds, of some factored forests.
    pipelined_algbw : Fraction, optional
        Of steps, bytes/s: what messages cut into ever more slices reach; None for other schedules.
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
        """Asymptotic algbw, bytes/s: what the busiest link allows; None if the schedule is malformed."""
        return self.pipelined_algbw or self.algbw

    @property
    def is_ok(self) -> bool:
        """Nothing is wrong."""
        return self.n_violations == 0

    @property
    def is_optimal(self) -> bool:
        """Nothing is wrong, and the schedule attains the bound that the witness proves."""
        return self.is_ok and self.bound is not None and self.rate == self.bound


@dataclass
class Findings:
    """Collects violations; describes the first `limit`, counts all."""

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
        room = max(0, self.limit - len(self.kept))
        self.kept.extend(Violation(kind, describe(item)) for item in wrong[:room])
        self.total += len(wrong)

    def adopt(self, place: str, other: Findings) -> None:
        """Add what was found at one place, each with its name."""
        room = max(0, self.limit - len(self.kept))
        self.kept.extend(Violation(one.kind, f"{place}: {one.message}") for one in other.kept[:room])
        self.total += other.total

    def report(self, **facts: Any) -> Report:
        """What was found, and what was measured on the way: `facts` are of `Report`."""
        return Report(tuple(self.kept), self.total, **facts)
