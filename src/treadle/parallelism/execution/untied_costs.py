"""Costs under which no two ways between states are equally cheap: all who choose one choose the same."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

from treadle.schedules.collective import CollectiveKind
from treadle.training.costs import Costs, Seconds, Traffic

_LEAST = 1e-6
"""Share of a collective's seconds by which those of other kinds and axes differ at most."""


@dataclass(frozen=True)
class UntiedCosts:
    """Costs, each kind along each axes a little dearer than they are, by less than a millionth.

    Parameters
    ----------
    costs : Costs
    """

    costs: Costs

    @property
    def words(self) -> str:
        """Of the costs."""
        return self.costs.words

    @property
    def is_bound(self) -> bool:
        """Of the costs."""
        return self.costs.is_bound

    def time_s(self, kind: CollectiveKind, axes: tuple[str, ...], size_bytes: int) -> Seconds:
        """Seconds of a collective."""
        more = _LEAST * crc32(f"{kind.value} {','.join(axes)}".encode()) / 2**32
        return float(self.costs.time_s(kind, axes, size_bytes)) * (1 + more)

    def send_s(self, axis: str, size_bytes: int) -> Seconds:
        """Of the costs."""
        return self.costs.send_s(axis, size_bytes)

    def slowdowns(self, running: tuple[Traffic, ...]) -> tuple[Seconds, ...]:
        """Of the costs."""
        return self.costs.slowdowns(running)
