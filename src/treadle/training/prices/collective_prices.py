"""Time of a collective by size, in all groups of a mesh concurrently: values, and the models behind them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
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
"""Sizes at which plans are simulated: 16 KB to 1 GB."""


class TimeModel(StrEnum):
    """Model by which times follow from a schedule or a rate."""

    SIMULATED = "simulated"
    """The verified schedule in the simulator, message by message; beyond 1 GB by its rate."""
    ALPHA_BETA = "alpha-beta"
    """Longest path through the verified schedule, and bytes over its rate, with all groups concurrently."""
    RINGS = "rings"
    """Latency of the longest ring, and bytes over the rate of the fullest link; without a schedule."""
    FARTHEST_RANK = "rate"
    """Alpha to the farthest rank of a group, and bytes over the optimal rate; without a schedule."""
    SPREAD = "shortest paths"
    """For an all-to-all: alpha to the farthest rank, and the fullest link with even shortest paths."""
    LIBRARY = "library"
    """Prediction of NCCL or RCCL for the algorithm that it picks at the size."""
    ACHIEVABLE = "achievable"
    """Fitted on measured times of real machines."""
    BOUND = "bound"
    """Lower bound: the greater of alpha to the farthest rank and bytes over the optimal rate."""


MEANING = {
    TimeModel.SIMULATED: "verified schedules in the simulator, message by message",
    TimeModel.ALPHA_BETA: "longest path through the verified schedule x alpha + bytes / its rate",
    TimeModel.RINGS: "alpha of the longest ring's hops + bytes of the fullest link; without a schedule",
    TimeModel.FARTHEST_RANK: "alpha to the farthest rank + bytes / optimal rate; without a schedule",
    TimeModel.SPREAD: "alpha to the farthest rank + bytes of the fullest link, spread over shortest paths",
    TimeModel.LIBRARY: "the prediction of the fabric's library for its own choice at each size",
    TimeModel.ACHIEVABLE: "fitted on measured times of such machines",
    TimeModel.BOUND: "at least max(alpha to the farthest rank, bytes / optimal rate)",
}
"""Descriptions in reports."""


class Price(Protocol):
    """Seconds by size: `CollectivePrice`, `LibraryPrice`, `QuickestPrice`, `BinaryTreePrice`."""

    @property
    def algbw(self) -> Fraction:
        """Algbw at large sizes, bytes/s."""
        ...

    @property
    def delay_s(self) -> float:
        """Latency at the smallest size, seconds."""
        ...

    @property
    def model(self) -> TimeModel:
        """Model of the times."""
        ...

    def time_s(self, size_bytes: float) -> float:
        """Return the seconds for a size."""
        ...


def interpolate(curve: Sequence[tuple[int, float]], size_bytes: float) -> float:
    """Return the seconds at a size between two points of an ascending curve, in proportion."""
    place = max(1, bisect_left(curve, size_bytes, key=lambda point: point[0]))
    (low, before), (high, after) = curve[place - 1], curve[place]
    return before + (size_bytes - low) / (high - low) * (after - before)


@brief("model", "algbw", "delay_s")
@dataclass(frozen=True)
class CollectivePrice:
    """Time of a collective in all groups over some axes concurrently.

    Parameters
    ----------
    algbw : Fraction
        Bytes/s of every group.
    delay_s : float
        Time without bytes.
    model : TimeModel
    curve : tuple of (int, float)
        Bytes and seconds, ascending, for `TimeModel.SIMULATED` only.

    Raises
    ------
    ScheduleError
        If the rate is not positive, or the curve does not match the model.
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
        """Return the seconds for a size of the larger per-rank buffer; 0 bytes are not sent and take no time.

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
        if not self.curve:
            return self.delay_s + transfer
        last, time = self.curve[-1]
        if size_bytes > last:
            return time + (size_bytes - last) / float(self.algbw)
        return interpolate(((0, self.delay_s), *self.curve), size_bytes)


@brief("model", "algbw", "delay_s")
@dataclass(frozen=True)
class LibraryPrice:
    """Time by the model of the fabric's library, or achieved on real machines.

    Parameters
    ----------
    library : LibraryModel
        Library on a group's machine.
    kind : CollectiveKind
    model : TimeModel
        `TimeModel.LIBRARY` or `TimeModel.ACHIEVABLE`.
    """

    library: LibraryModel
    kind: CollectiveKind
    model: TimeModel

    @property
    def algbw(self) -> Fraction:
        """Algbw at 1 GB."""
        return Fraction(CURVE_SIZES[-1]) / Fraction(self.time_s(CURVE_SIZES[-1]))

    @property
    def delay_s(self) -> float:
        """Seconds for one byte."""
        return self.time_s(1)

    def time_s(self, size_bytes: float) -> float:
        """Return the seconds for a size; 0 bytes take no time."""
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
    """Time of the fastest protocol at each size.

    Parameters
    ----------
    prices : tuple of (float, Price)
        Seconds of a protocol's launch, and its price; at least one, all with the same model.
    """

    prices: tuple[tuple[float, Price], ...]

    @property
    def algbw(self) -> Fraction:
        """Algbw at large sizes, bytes/s."""
        return max(price.algbw for _, price in self.prices)

    @property
    def delay_s(self) -> float:
        """Latency at the smallest size, seconds."""
        return min(launch_s + price.delay_s for launch_s, price in self.prices)

    @property
    def model(self) -> TimeModel:
        """Model of all protocols' times."""
        return self.prices[0][1].model

    def time_s(self, size_bytes: float) -> float:
        """Return the seconds for a size; 0 bytes take no time.

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
