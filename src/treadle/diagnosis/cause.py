"""Causes of a low bandwidth, each with the log lines that prove it and a fix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from treadle.brief import brief
from treadle.diagnosis.log import Log, ResultTable
from treadle.diagnosis.log_lines import LogLine

MOST_LINES = 4
"""Largest number of lines that a cause has as evidence."""


class Fact(Protocol):
    """Something that a line of the log says."""

    @property
    def line(self) -> LogLine:
        """The line."""


@brief("name", "text", "lines")
@dataclass(frozen=True)
class Cause:
    """Something that makes, or may make, a collective slow.

    Parameters
    ----------
    name : str
        Of the rule that found it.
    text : str
        What it is, one line.
    lines : tuple of LogLine
        That prove it; at least one.
    fix : str
        What to do, one line.
    """

    name: str
    text: str
    lines: tuple[LogLine, ...]
    fix: str

    def __post_init__(self) -> None:
        if not self.lines:
            raise ValueError(f"cause {self.name}: expected a line of the log that proves it")


def make_cause(name: str, text: str, fix: str, *evidence: LogLine | Fact | None) -> list[Cause]:
    """Return the cause with at most `MOST_LINES` lines of evidence; nothing without evidence."""
    lines = [one if isinstance(one, LogLine) else one.line for one in evidence if one is not None]
    return [Cause(name, text, tuple(lines[:MOST_LINES]), fix)] if lines else []


@dataclass(frozen=True, kw_only=True)
class PcieLimit:
    """PCIe of GPUs that binds: its bandwidth, and that of the network cards behind it, bytes/s."""

    bandwidth: int
    nics: int
    n_nics: int


@dataclass(frozen=True, kw_only=True)
class Case:
    """A log and what its fabric can do.

    Parameters
    ----------
    log : Log
    table : ResultTable, optional
        The table to explain; None if the log has no usable one.
    share : float, optional
        Measured over what rings carry (an all-to-all: over the optimum); None if that is not known.
    is_low : bool
        Whether there is something to explain: less than a healthy system reaches, or nothing to compare with.
    n_hosts : int
        0 if not known.
    gpus_per_host : int
        0 if not known.
    fabric_nics, used_nics : int
        Links that leave a box of the fabric, and network cards that NCCL uses of it; 0 if not known.
    has_fast_links : bool
        GPUs of a box are joined by NVLink or the like, by the fabric or the log.
    is_one_switch : bool
        The fabric was given, and one switch joins all boxes: no way through the network is a detour.
    pcie : PcieLimit, optional
    """

    log: Log
    table: ResultTable | None = None
    share: float | None = None
    is_low: bool = True
    n_hosts: int = 0
    gpus_per_host: int = 0
    fabric_nics: int = 0
    used_nics: int = 0
    has_fast_links: bool = False
    is_one_switch: bool = False
    pcie: PcieLimit | None = None

    @property
    def spans_hosts(self) -> bool:
        """Whether data has to pass the network."""
        return self.n_hosts > 1

    @property
    def is_one_box(self) -> bool:
        """Whether it is known that no data passes a network."""
        return self.n_hosts == 1


@dataclass(frozen=True)
class Rule:
    """One entry of the catalogue.

    Parameters
    ----------
    name : str
    find : callable
        find(case, found): causes, given those of earlier rules.
    looks_for : str
        Description of the cause.
    evidence : str
        Which lines prove it.
    is_always : bool
        Applies even if the measurement is normal.
    """

    name: str
    find: Callable[[Case, tuple[Cause, ...]], list[Cause]]
    looks_for: str
    evidence: str
    is_always: bool = False
