"""One record per table and figure of the papers, and what comes of computing it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import partial
from importlib import import_module
from typing import NamedTuple

from treadle.errors import FormatError


class FigureBasis(StrEnum):
    """Origin of Treadle's side of a table or figure."""

    COMPUTED = "computed"
    """Exact, or certified from both sides, or CPU time of this machine."""
    SIMULATED = "simulated"
    """Computed by a model, which the record names; the paper's was measured on real machines."""
    FITTED = "fitted"
    """Fitted on measured rows, next to such rows and limits of its errors."""
    NO_FIGURES = "no figures"
    """An illustration, a notation or a comparison in words."""


Value = Fraction | float | str | None
Row = tuple[str, Value] | tuple[str, Value, str] | tuple[str, Value, str, str]
"""The fields of a `ReproducedValue`, as far as they differ from the defaults."""
Rows = Iterator[Row]


class ReproducedValue(NamedTuple):
    """One reproduced value.

    Parameters
    ----------
    label : str
        By which the printed value is found.
    value : Fraction, int, float or str, optional
        None: unknown; `note` says why.
    unit : str
        Of both sides.
    note : str
        A remark on this value alone.
    """

    label: str
    value: Value
    unit: str = ""
    note: str = ""


def yes_or_no(holds: bool) -> str:
    """Return a value that is yes or no."""
    return "yes" if holds else "no"


_TITLES = {"preprint": "ForestColl preprint", "alltoall": "all-to-all paper"}
"""Papers by the beginning of a name; others belong to the dissertation."""
Making = Callable[[bool], Rows]
"""Computes the figures; True: all of them, False: those that take seconds."""


@dataclass(frozen=True)
class PaperFigure:
    """A table or figure of a paper.

    Parameters
    ----------
    name : str
        As typed: ``table-4.1``; those of the other papers have the paper's name before.
    what : str
        A few words.
    function : str
        ``package.module:name`` of a `Making`; "" where there is nothing to compute.
    command : str
        An ordinary command that gives one of the figures.
    basis : FigureBasis
    model : str
        Of simulated and fitted figures: the model. Of measured times: what is timed.
    quick_s : float
        CPU seconds, about, of a 2-core virtual machine.
    full : tuple of float and str
        Where the quick form leaves something out: CPU seconds of the full form, and what is left out.
    reason : str
        Why there is nothing to compute, or where else it is.
    same_as : str
        The one whose printed figures these are, where another paper or a drawing repeats it.
    place : str
        Paper and place, where the name does not say them.
    Raises
    ------
    FormatError
        If a record has a function without need, or needs one and has none.
    """

    name: str
    what: str
    function: str = ""
    command: str = ""
    basis: FigureBasis = field(kw_only=True)
    model: str = ""
    quick_s: float = 0
    full: tuple[float, str] = (0, "")
    reason: str = ""
    same_as: str = ""
    place: str = ""

    def __post_init__(self) -> None:
        if bool(self.function) != self.is_here:
            having = "without" if self.is_here else "with"
            raise FormatError(f"{self.name}: {self.basis}, {having} a function")
        if self.basis in (FigureBasis.SIMULATED, FigureBasis.FITTED) and not self.model:
            raise FormatError(f"{self.name}: {self.basis}, and the model is not named")
        if not self.is_here and not self.reason:
            raise FormatError(f"{self.name}: {self.basis}, and no reason is given")

    @property
    def full_s(self) -> float:
        """CPU seconds of the full form, about; 0 without one."""
        return self.full[0]

    @property
    def left_out(self) -> str:
        """The part that only the full form has; "" without one."""
        return self.full[1]

    @property
    def source(self) -> str:
        """Paper and place."""
        paper, _, place = self.name.partition("-")
        title = _TITLES.get(paper, "dissertation")
        return self.place or f"{title}, {(place if paper in _TITLES else self.name).replace('-', ' ')}"

    @property
    def is_here(self) -> bool:
        """Whether Treadle has figures of its own for it."""
        return self.basis is not FigureBasis.NO_FIGURES

    def load(self) -> Making:
        """Return the function that computes it."""
        module, _, name = self.function.partition(":")
        making: Making = getattr(import_module(module), name)
        return making


computed = partial(PaperFigure, basis=FigureBasis.COMPUTED, quick_s=0.1)
simulated = partial(PaperFigure, basis=FigureBasis.SIMULATED)
no_figures = partial(PaperFigure, basis=FigureBasis.NO_FIGURES)
