"""The table of all tables and figures, in the papers' order, and of what others measured."""

from __future__ import annotations

from treadle.reproduction.article_figures import ALLTOALL, PREPRINT
from treadle.reproduction.dissertation_figures import DISSERTATION
from treadle.reproduction.outside_figures import OUTSIDE
from treadle.reproduction.paper_figure import PaperFigure

EXHIBITS: tuple[PaperFigure, ...] = (*DISSERTATION, *PREPRINT, *ALLTOALL, *OUTSIDE)
