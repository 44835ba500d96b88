"""Share of modelled rates that is reached: one factor, or curves of nccl-tests by kind of collective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from treadle.brief import brief
from treadle.checking import unexpected
from treadle.errors import FormatError, ScheduleError
from treadle.inputs.problem import resolve_kind
from treadle.schedules.collective import CollectiveKind
from treadle.simulation.calibration.measurements import read_measurements
from treadle.training.prices.collective_prices import interpolate


@brief("words")
@dataclass(frozen=True)
class NetworkEfficiency:
    """The share of modelled rates that is reached, equal for all schedules.

    Parameters
    ----------
    share : float
        More than 0, at most 1.
    measured : mapping from CollectiveKind to ((bytes, seconds), ...)
        Measured times by kind, for every schedule.
    words : str

    Raises
    ------
    ScheduleError
        If the share is out of its range.
    """

    share: float = 1.0
    measured: Mapping[CollectiveKind, tuple[tuple[int, float], ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    words: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ScheduleError(f"network efficiency {self.share}: expected more than 0 and at most 1")

    def time_s(
        self, kind: CollectiveKind | None, size_bytes: float, modelled_s: float, *, is_bound: bool
    ) -> float:
        """Return the seconds for a size: measured if there is a curve, else scaled; bounds are unchanged."""
        if is_bound or size_bytes <= 0:
            return modelled_s
        curve = self.measured.get(kind) if kind is not None else None
        if curve is None:
            return modelled_s / self.share
        (first, first_s), (last, last_s) = curve[0], curve[-1]
        if size_bytes > last:
            return last_s * size_bytes / last
        return first_s if size_bytes <= first else interpolate(curve, size_bytes)


UNCHANGED = NetworkEfficiency()
"""Modelled rates."""


def read_network_efficiency(arguments: Sequence[str]) -> NetworkEfficiency:
    """Parse ``--network-efficiency``: a share such as ``0.85``, or ``KIND=FILE`` with measured times.

    Parameters
    ----------
    arguments : sequence of str
        At most one share; files are those of nccl-tests and ``treadle run --json``.

    Raises
    ------
    FormatError
        For any other argument, or a second one for a kind.

    Examples
    --------
    >>> read_network_efficiency(["0.85"]).share
    0.85
    """
    share: float | None = None
    measured: dict[CollectiveKind, tuple[tuple[int, float], ...]] = {}
    for text in arguments:
        name, equals, path = text.partition("=")
        if equals:
            kind = resolve_kind(name.strip())
            if kind in measured:
                raise FormatError(f"network efficiency: {kind} is given twice; give one file for each kind")
            rows = {row.size_bytes: row.time_s for row in read_measurements(Path(path), collective=kind)}
            measured[kind] = tuple(sorted(rows.items()))
            continue
        if share is not None:
            raise FormatError(f"network efficiency: {text[:40]!r} is a second share; expected one")
        try:
            share = float(text)
        except ValueError:
            raise FormatError(
                f"network efficiency {text[:60]!r}: expected a share such as 0.85, or KIND=FILE "
                f"with measured times"
            ) from None
        if not 0 < share <= 1:
            raise FormatError(f"network efficiency {text[:40]}: expected more than 0 and at most 1")
    parts = [] if share is None else [f"{share:g} of modelled rates"]
    parts += [f"{kind} as measured" for kind in measured]
    return NetworkEfficiency(1.0 if share is None else share, MappingProxyType(measured), ", ".join(parts))


def as_network_efficiency(value: object) -> NetworkEfficiency:
    """Return the value, or that of a share or of command-line arguments; TreadleError for anything else."""
    if value is None:
        return UNCHANGED
    if isinstance(value, NetworkEfficiency):
        return value
    if isinstance(value, str):
        return read_network_efficiency([value])
    if isinstance(value, list | tuple) and all(isinstance(text, str) for text in value):
        return read_network_efficiency(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return read_network_efficiency([str(value)])
    raise unexpected("network efficiency", "a share, KIND=FILE, or several of these", value)
