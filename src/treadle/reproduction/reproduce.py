"""Compute a table or figure and compare it with the printed one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from time import process_time

from treadle.errors import FormatError
from treadle.reproduction.paper_figure import PaperFigure, ReproducedValue
from treadle.reproduction.paper_figures import EXHIBITS
from treadle.reproduction.printed import PrintedFigure, PublishedFigure, published_figures, rounded


@dataclass(frozen=True)
class ReproducedRow:
    """A reproduced value and the printed one.

    Parameters
    ----------
    ours : ReproducedValue
    printed : PrintedFigure, optional
        None where the paper prints none: curves have no numbers.
    """

    ours: ReproducedValue
    printed: PrintedFigure | None

    @property
    def ratio(self) -> float | None:
        """Ratio of the reproduced to the printed value, if both are numbers."""
        theirs = None if self.printed is None else self.printed.value
        if not theirs or self.ours.value is None or isinstance(self.ours.value, str):
            return None
        return float(self.ours.value) / float(theirs)

    @property
    def agrees(self) -> bool | None:
        """Whether they are the same to the digits that are printed; None without both."""
        if self.printed is None or self.ours.value is None:
            return None
        return self.printed.agrees(self.ours.value)

    @property
    def why(self) -> str:
        """Reason why they differ, and remarks on this row."""
        theirs = "" if self.printed is None else self.printed.reason(self.ours.value)
        return "; ".join(filter(None, (theirs, self.ours.note)))

    @property
    def difference(self) -> str:
        """Verdict with its tolerance, or the ratio; "" where there is nothing to compare."""
        if self.printed is None or self.agrees is None:
            return ""
        if self.agrees:
            return self.printed.agreement
        return "other" if self.ratio is None else f"x {rounded(self.ratio, 3)}"


@dataclass(frozen=True)
class Reproduced:
    """A table or figure, computed.

    Parameters
    ----------
    exhibit : PaperFigure
    printed : PublishedFigure
    rows : tuple of ReproducedRow
    is_full : bool
        Nothing is left out.
    seconds : float
        CPU time.
    """

    exhibit: PaperFigure
    printed: PublishedFigure
    rows: tuple[ReproducedRow, ...]
    is_full: bool
    seconds: float


def find_figure(name: str) -> PaperFigure:
    """Return the table or figure of that name.

    Raises
    ------
    FormatError
        If it is unknown; the message names similar ones.
    """
    wanted = re.sub(r"fig(\.-|-)", "figure-", re.sub("[ _]", "-", name.lower()))
    known = {exhibit.name.lower(): exhibit for exhibit in EXHIBITS}
    if wanted in known:
        return known[wanted]
    alike = get_close_matches(wanted, known, n=3)
    near = [exhibit.name for key, exhibit in known.items() if key in alike]
    hint = f"did you mean {', '.join(near)}?" if near else "`treadle reproduce` lists them all"
    raise FormatError(f"no table or figure {name[:40]!r}; {hint}")


def reproduce(name: str, *, full: bool = False) -> Reproduced:
    """Compute a table or figure of the papers and compare it with the printed one.

    Parameters
    ----------
    name : str
        ``table-4.1``, ``figure-A.7``, ``alltoall-figure-8``, ...
    full : bool
        Also what takes minutes.

    Raises
    ------
    FormatError
        If there is no such table or figure, or nothing to compute; then it says why.

    Examples
    --------
    >>> reproduce("table-4.1").rows[0].agrees
    True
    """
    exhibit = find_figure(name)
    if not exhibit.is_here:
        raise FormatError(f"{exhibit.name} ({exhibit.what}): {exhibit.basis}: {exhibit.reason}")
    start = process_time()
    is_full = full or not exhibit.left_out
    ours = [ReproducedValue(*row) for row in exhibit.load()(is_full)]
    seconds = process_time() - start
    printed = published_figures()[exhibit.same_as or exhibit.name]
    rows = tuple(ReproducedRow(one, printed.figures.get(one.label)) for one in ours)
    return Reproduced(exhibit, printed, rows, is_full, seconds)
