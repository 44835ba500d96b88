"""Communication costs of a step: seconds of collectives along axes of a mesh.

The caller provides them. The simulation does not depend on their source: exact bounds, synthesised plans,
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
"""Exact if all inputs are Fractions or ints."""
Traffic: TypeAlias = tuple[CollectiveKind | None, tuple[str, ...]]
"""A kind of collective and the axes of its groups; None: sends from stage to stage along one axis."""


class Costs(Protocol):
    """Seconds of communication on a fabric with a mesh, by one kind of schedule."""

    @property
    def summary(self) -> str:
        """The source, for reports: ``Treadle's plans``, ``ring``, ``the bound``."""
        ...

    @property
    def is_bound(self) -> bool:
        """Whether no schedule takes less, so that a step simulated with these costs is a bound, too."""
        ...

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Seconds:
        """Return the seconds of a collective in all groups along `axes` concurrently.

        The size is a rank's larger buffer: the result of an allgather, the input of a reduce-scatter, the
        buffer of an allreduce or all-to-all.
        """
        ...

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        """Return the seconds until every rank has sent its bytes to the next along `axis`."""
        ...

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """Return the factor, at least 1, by which each is slower while all of these run concurrently.

        They are sorted by `format_traffic`, and may contain the same traffic twice.
        """
        ...


class RememberedCosts:
    """Costs with a cache."""

    def __init__(self, costs: Costs) -> None:
        self._costs, self.summary, self.is_bound = costs, costs.summary, costs.is_bound
        self.time_s, self.send_s = cache(costs.time_s), cache(costs.send_s)
        self.slowdowns = cache(costs.slowdowns)

    def __reduce__(self) -> tuple[type, tuple[Costs]]:
        return RememberedCosts, (self._costs,)  # caches of methods cannot be pickled


@dataclass(frozen=True)
class DerivedCosts:
    """Costs derived from others: a subclass overrides the methods that differ."""

    costs: Costs

    @property
    def summary(self) -> str:
        """See `Costs.summary`."""
        return self.costs.summary

    @property
    def is_bound(self) -> bool:
        """See `Costs.is_bound`."""
        return self.costs.is_bound

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        """See `Costs.send_s`."""
        return self.costs.send_s(axis, size_bytes)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """See `Costs.slowdowns`."""
        return self.costs.slowdowns(running)


@brief("summary", "alpha_s", "rates")
@dataclass(frozen=True)
class AlphaBetaCosts:
    """Latency and rate by kind and axes: ``alpha_s + size / rate``.

    Parameters
    ----------
    alpha_s : number
        Seconds of any communication, however small.
    rates : mapping from Traffic to number
        Bytes/s at large sizes, above 0.
    together : mapping from tuple of Traffic to tuple of numbers
        Slowdowns, at least 1, of concurrent communications, in the order of the key, which is sorted by
        `format_traffic`; 1 for all others.
    summary : str
    is_bound : bool

    Raises
    ------
    ScheduleError
        If a number is out of its range, and in methods for traffic without a rate.

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
        """See `Costs.time_s`."""
        return self._seconds((kind, axes), size_bytes)

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        """See `Costs.send_s`."""
        return self._seconds((None, (axis,)), size_bytes)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """See `Costs.slowdowns`."""
        return self.together.get(running, (1,) * len(running))


def format_traffic(traffic: Traffic) -> str:
    """Format kind and axes: ``allreduce along dp,ep``."""
    kind, axes = traffic
    return f"{'send' if kind is None else kind.value} along {','.join(axes)}"


def exact(value: Seconds) -> Seconds:
    """Return an int as a Fraction, so that divisions stay exact; other numbers are unchanged."""
    return Fraction(value) if isinstance(value, int) else value
