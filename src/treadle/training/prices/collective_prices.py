"""What a collective takes by size, in all groups of a mesh at once: the value, and how it is worked out."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Protocol

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.machines.libraries import achievable_time
from treadle.machines.nccl import LibraryModel
from treadle.schedules.collective import CollectiveKind
from treadle.unsupported import Unsupported

CURVE_SIZES = tuple(2**power for power in (14, 17, 20, 23, 26, 30))
"""At which plans are simulated: 16 KB to 1 GB."""


class TimeModel(StrEnum):
    """How times follow from a schedule or a rate."""

    SIMULATED = "simulated"
    """The verified schedule in the simulator, message by message; beyond 1 GB by its rate."""
    ALPHA_BETA = "alpha-beta"
    """Longest way through the verified schedule, and bytes over its rate, all groups at once."""
    RINGS = "rings"
    """Once round the longest ring, and bytes over the rate of the fullest link; no schedule was made."""
    FARTHEST_RANK = "rate"
    """No schedule was made: alpha to the farthest rank of a group, and bytes over the optimal rate."""
    SPREAD = "shortest paths"
    """Of an all-to-all: alpha to the farthest rank, and the fullest link of even shares on shortest paths."""
    LIBRARY = "library"
    """What NCCL or RCCL predicts for the algorithm that it picks at the size."""
    ACHIEVABLE = "achievable"
    """Fitted on measured times of real machines."""
    BOUND = "bound"
    """No schedule is quicker: the greater of alpha to the farthest rank and bytes over the optimal rate."""


MEANING = {
    TimeModel.SIMULATED: "verified schedules in the simulator, message by message",
    TimeModel.ALPHA_BETA: "longest way through the verified schedule x alpha + bytes / its rate",
    TimeModel.RINGS: "alpha of the longest ring's hops + bytes of the fullest link; no schedule was made",
    TimeModel.FARTHEST_RANK: "alpha to the farthest rank + bytes / optimal rate; no schedule was made",
    TimeModel.SPREAD: "alpha to the farthest rank + bytes of the fullest link, spread over shortest paths",
    TimeModel.LIBRARY: "what the fabric's library predicts for its own choice at each size",
    TimeModel.ACHIEVABLE: "fitted on measured times of such machines",
    TimeModel.BOUND: "no schedule is quicker: max(alpha to the farthest rank, bytes / optimal rate)",
}
"""In words for reports."""


class Price(Protocol):
    """Seconds by size: `CollectivePrice`, `LibraryPrice`, `QuickestPrice`, `BinaryTreePrice`."""

    @property
    def algbw(self) -> Fraction:
        """Bytes/s of large sizes."""
        ...

    @property
    def delay_s(self) -> float:
        """Seconds of no bytes."""
        ...

    @property
    def model(self) -> TimeModel:
        """How the seconds are found."""
        ...

    def time_s(self, size_bytes: float) -> float:
        """Seconds for a size."""
        ...


@brief("model", "algbw", "delay_s")
@dataclass(frozen=True)
class CollectivePrice:
    """What a collective takes in all groups over some axes at once.

    Parameters
    ----------
    algbw : Fraction
        Bytes/s of every group.
    delay_s : float
        What a message of no bytes takes.
    model : TimeModel
    curve : tuple of (int, float)
        Bytes and seconds, rising; of `TimeModel.SIMULATED`.

    Raises
    ------
    ScheduleError
        If the rate is not positive, or there is no curve where there should be one.
    """

    algbw: Fraction
    delay_s: float
    model: TimeModel
    curve: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        if self.algbw <= 0 or self.delay_s < 0:
            raise ScheduleError(f"price: {self.algbw} bytes/s after {self.delay_s} s, expected more than 0")
        if (self.model is TimeModel.SIMULATED) != bool(self.curve):
            raise ScheduleError(f"price: {self.model} with {len(self.curve)} points")

    def time_s(self, size_bytes: float) -> float:
        """Seconds for a size of the larger per-rank buffer; 0 bytes take no time: nothing is sent.

        Examples
        --------
        >>> CollectivePrice(Fraction(10**9), 1e-5, TimeModel.ALPHA_BETA).time_s(10**6)
        0.00101
        """
        if size_bytes <= 0:
            return 0.0
        transfer = size_bytes / float(self.algbw)
        if self.model is TimeModel.BOUND:
            return max(self.delay_s, transfer)
        return self._on_curve(size_bytes) if self.curve else self.delay_s + transfer

    def _on_curve(self, size_bytes: float) -> float:
        """Between two points in proportion, beyond the last by the rate, below the first from the delay."""
        sizes = [size for size, _ in self.curve]
        place = bisect_left(sizes, size_bytes)
        if place == len(sizes):
            last, time = self.curve[-1]
            return time + (size_bytes - last) / float(self.algbw)
        low, before = self.curve[place - 1] if place else (0, self.delay_s)
        high, after = self.curve[place]
        return before + (size_bytes - low) / (high - low) * (after - before)


@brief("model", "algbw", "delay_s")
@dataclass(frozen=True)
class LibraryPrice:
    """Time by the model of the fabric's library, or as it is achieved on real machines.

    Parameters
    ----------
    library : LibraryModel
        Of a group's machine.
    kind : CollectiveKind
    model : TimeModel
        `TimeModel.LIBRARY` or `TimeModel.ACHIEVABLE`.
    """

    library: LibraryModel
    kind: CollectiveKind
    model: TimeModel

    @property
    def algbw(self) -> Fraction:
        """Throughput at 1 GB."""
        return Fraction(CURVE_SIZES[-1]) / Fraction(self.time_s(CURVE_SIZES[-1]))

    @property
    def delay_s(self) -> float:
        """Seconds of one byte."""
        return self.time_s(1)

    def time_s(self, size_bytes: float) -> float:
        """Seconds for a size; 0 bytes take no time."""
        if size_bytes <= 0:
            return 0.0
        if self.model is TimeModel.LIBRARY:
            return self.library.pick(self.kind, ceil(size_bytes)).time_s
        found = achievable_time(self.library.system, self.kind, ceil(size_bytes))
        if isinstance(found, Unsupported):
            raise ScheduleError(f"achievable: {self.kind}: {found}")
        return found.time_s


@brief("model", "algbw", "delay_s")
@dataclass(frozen=True)
class QuickestPrice:
    """Of several protocols, each size by the one that is quickest.

    Parameters
    ----------
    prices : tuple of (float, Price)
        Seconds of a protocol's launch, and what follows; at least one, all of one model.
    """

    prices: tuple[tuple[float, Price], ...]

    @property
    def algbw(self) -> Fraction:
        """Of large sizes."""
        return max(price.algbw for _, price in self.prices)

    @property
    def delay_s(self) -> float:
        """Of no bytes."""
        return min(launch_s + price.delay_s for launch_s, price in self.prices)

    @property
    def model(self) -> TimeModel:
        """That of all."""
        return self.prices[0][1].model

    def time_s(self, size_bytes: float) -> float:
        """Seconds for a size; 0 bytes take no time.

        Examples
        --------
        >>> low = CollectivePrice(Fraction(10**9), 1e-6, TimeModel.ALPHA_BETA)
        >>> simple = CollectivePrice(Fraction(2 * 10**9), 1e-5, TimeModel.ALPHA_BETA)
        >>> both = QuickestPrice(((0.0, low), (0.0, simple)))
        >>> both.time_s(1000), both.time_s(10**6)
        (2e-06, 0.00051)
        """
        if size_bytes <= 0:
            return 0.0
        return min(launch_s + price.time_s(size_bytes) for launch_s, price in self.prices)
