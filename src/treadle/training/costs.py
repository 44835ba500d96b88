"""What communication costs a step: seconds of collectives along axes of a mesh.

A value that others provide: the engine never asks whether they come from exact bounds, synthesised plans,
baselines or measured curves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Protocol, TypeAlias

from treadle.brief import brief
from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind

Seconds: TypeAlias = float | Fraction
"""Exact where everything that goes in is a Fraction or an int."""
Traffic: TypeAlias = tuple[CollectiveKind | None, tuple[str, ...]]
"""A kind of collective and the axes whose groups do it; None: sends from stage to stage along one axis."""


class Costs(Protocol):
    """Seconds of communication on one fabric with one mesh, by one way of scheduling."""

    @property
    def summary(self) -> str:
        """Where the seconds come from, for reports: ``Treadle's plans``, ``ring``, ``the bound``."""
        ...

    @property
    def is_bound(self) -> bool:
        """No schedule takes less: what is simulated with these is a bound as well."""
        ...

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Seconds:
        """Seconds of a collective that all groups along `axes` do at once.

        The size is a rank's larger buffer: what it has received after an allgather, what it gives to a
        reduce-scatter, the buffer of an allreduce or all-to-all.
        """
        ...

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        """Seconds until every rank has sent so many bytes to the next along `axis`."""
        ...

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """How many times longer each takes, at least 1, while all of these run at once.

        They come sorted by `format_traffic`; the same traffic may stand there twice.
        """
        ...


class RememberedCosts:
    """Costs that are asked once for the same."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self.summary, self.is_bound = costs, costs.summary, costs.is_bound
        self.time_s, self.send_s = cache(costs.time_s), cache(costs.send_s)
        self.slowdowns = cache(costs.slowdowns)

    def __reduce__(self) -> tuple[type, tuple[Costs]]:
        return RememberedCosts, (self._costs,)  # caches of methods cannot be pickled


@dataclass(frozen=True)
class DerivedCosts:
    """Costs that are made of others, and as those but for what a class says of its own.

    Parameters
    ----------
    costs : Costs
        The others.
    """

    costs: Costs

    @property
    def summary(self) -> str:
        """As `Costs.summary`."""
        return self.costs.summary

    @property
    def is_bound(self) -> bool:
        """As `Costs.is_bound`."""
        return self.costs.is_bound

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        """As `Costs.send_s`."""
        return self.costs.send_s(axis, size_bytes)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """As `Costs.slowdowns`."""
        return self.costs.slowdowns(running)


@brief("summary", "alpha_s", "rates")
@dataclass(frozen=True)
class AlphaBetaCosts:
    """Latency and rate by kind and axes: ``alpha_s + size / rate``.

    Parameters
    ----------
    alpha_s : number
        Seconds of any communication however small.
    rates : mapping from Traffic to number
        Bytes/s, above 0: size over time of large sizes.
    together : mapping from tuple of Traffic to tuple of numbers
        Slowdowns, at least 1, of those that run at once, in the order of the key, which is sorted by
        `format_traffic`; of others 1.
    summary : str
    is_bound : bool

    Raises
    ------
    ScheduleError
        If a number is out of its range; by its methods, for traffic without a rate.

    Examples
    --------
    >>> costs = AlphaBetaCosts(0, {(CollectiveKind.ALLREDUCE, ("dp",)): 4})
    >>> costs.time_s(CollectiveKind.ALLREDUCE, ("dp",), 10)
    Fraction(5, 2)
    """

    alpha_s: Seconds
    rates: Mapping[Traffic, Seconds]
    together: Mapping[tuple[Traffic, ...], tuple[Seconds, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    summary: str = "alpha and rate"
    is_bound: bool = False

    def __post_init__(self) -> None:
        if not self.alpha_s >= 0:
            raise ScheduleError(f"costs: alpha of {self.alpha_s} s; expected 0 or more")
        for traffic, rate in self.rates.items():
            if not rate > 0:
                raise ScheduleError(
                    f"costs: {format_traffic(traffic)} at {rate} bytes/s; expected more than 0"
                )
        for running, factors in self.together.items():
            if len(running) != len(factors) or not all(factor >= 1 for factor in factors):
                raise ScheduleError(
                    f"costs: slowdowns of {', '.join(map(format_traffic, running))}: expected a number of at "
                    "least 1 for each"
                )

    def _seconds(self, traffic: Traffic, size_bytes: int) -> Seconds:
        rate = self.rates.get(traffic)
        if rate is None:
            known = ", ".join(map(format_traffic, self.rates))
            raise ScheduleError(f"costs: no rate of {format_traffic(traffic)}; there are {known}")
        return self.alpha_s + Fraction(size_bytes) / exact(rate)

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Seconds:
        """As `Costs.time_s`."""
        return self._seconds((kind, axes), size_bytes)

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        """As `Costs.send_s`."""
        return self._seconds((None, (axis,)), size_bytes)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """As `Costs.slowdowns`."""
        return self.together.get(running, (1,) * len(running))


def format_traffic(traffic: Traffic) -> str:
    """Kind and axes in words: ``allreduce along dp,ep``."""
    kind, axes = traffic
    return f"{'send' if kind is None else kind.value} along {','.join(axes)}"


def exact(value: Seconds) -> Seconds:
    """An int as a Fraction, so that dividing it stays exact; other numbers as they are."""
    return Fraction(value) if isinstance(value, int) else value
