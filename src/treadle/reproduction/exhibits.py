"""The table of all tables and figures, in the papers' order, and of what others measured."""

from __future__ import annotations

from treadle.reproduction.dissertation_exhibits import DISSERTATION
from treadle.reproduction.exhibit import Exhibit
from treadle.reproduction.outside_exhibits import OUTSIDE
from treadle.reproduction.paper_exhibits import ALLTOALL, PREPRINT

EXHIBITS: tuple[Exhibit, ...] = (*DISSERTATION, *PREPRINT, *ALLTOALL, *OUTSIDE)
