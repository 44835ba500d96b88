"""Quantities as the command line reads and prints them; how they are typed is in `treadle.units`."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from treadle.schedules.collective import Collective, busbw_factor
from treadle.spelling import counted as counted
from treadle.units import (
    bandwidth_unit,
    format_bandwidth,
    format_bandwidth_in,
    format_link_bandwidth,
)

_LONGEST = 9999
_LINK_DIGITS = 4


@dataclass(frozen=True)
class Rates:
    """Format of bandwidths.

    Parameters
    ----------
    unit : str
        Such as ``Gbit/s``; "" is bytes/s with the largest prefix that a bandwidth reaches.

    Raises
    ------
    FormatError
        If the unit is none.

    Examples
    --------
    >>> Rates()(25 * 10**9), Rates("Gbit/s")(25 * 10**9), Rates().exact(Fraction(1040 * 10**9, 3))
    ('25 GB/s', '200 Gbit/s', '346.67 GB/s (1040/3)')
    """

    unit: str = ""

    def __post_init__(self) -> None:
        if self.unit:
            bandwidth_unit(self.unit)

    def __call__(self, bytes_per_s: int | Fraction) -> str:
        """A bandwidth in two decimals."""
        if not self.unit:
            return format_bandwidth(bytes_per_s)
        return format_bandwidth_in(bytes_per_s, self.unit)

    def link(self, bytes_per_s: int) -> str:
        """Bandwidth of a link, with all digits, so that it can be typed again."""
        if not self.unit:
            return format_link_bandwidth(bytes_per_s)
        return format_bandwidth_in(bytes_per_s, self.unit, digits=_LINK_DIGITS)

    def exact(self, bytes_per_s: Fraction) -> str:
        """A bandwidth with the exact fraction where that is short: ``346.67 GB/s (1040/3)``."""
        text = self(bytes_per_s)
        scaled = bytes_per_s / bandwidth_unit(text.split()[1])
        if scaled.denominator == 1 or scaled.denominator > _LONGEST or round(scaled, 2) == scaled:
            return text
        return f"{text} ({scaled})"

    def both(self, algbw: Fraction, collective: Collective) -> str:
        """A throughput as size over time, and as nccl-tests scales it to what links carry."""
        return f"{self(algbw)} algbw, {self(busbw(algbw, collective))} busbw"

    def is_exact(self, bytes_per_s: Fraction) -> str:
        """``exact``, or ``exact: 1040/3 GB/s`` for a bandwidth that has more than two decimals."""
        text = self.exact(bytes_per_s)
        return f"exact: {text[:-1].rpartition('(')[2]} {text.split()[1]}" if text.endswith(")") else "exact"

    @property
    def column(self) -> str:
        """The unit of a table's columns."""
        return self.unit or "GB/s"

    def number(self, bytes_per_s: float, digits: int) -> str:
        """A cell of such a column."""
        return f"{bytes_per_s / float(bandwidth_unit(self.column)):.{digits}f}"


AS_THEY_COME = Rates()
"""Each with the prefix that it reaches."""


def microseconds(seconds: float) -> str:
    """A time in microseconds with four digits, never in powers of ten."""
    value = seconds * 1e6
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def busbw(algbw: Fraction, collective: Collective) -> Fraction:
    """Return busbw as in nccl-tests, from size and time."""
    return algbw * busbw_factor(collective.kind, collective.group_size)


def percent(share: float | Fraction | None, *, sign: str = "") -> str | None:
    """A cell of a column of percent, which has the sign in its heading; None for None."""
    return None if share is None else f"{float(share):.1%}"[:-1] + sign
