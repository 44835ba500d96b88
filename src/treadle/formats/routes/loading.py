"""Describes the use of route files."""

from __future__ import annotations

from treadle.formats.judgement import Judgement
from treadle.formats.loading import Loading
from treadle.formats.request import TextRequest, Written


def load(request: TextRequest, _written: Written, _judgement: Judgement) -> Loading:
    """Return how a file is used."""
    return Loading(
        runtime="tools that program adapters (none is known to read it)",
        environment=(),
        check=f"links and ports in {request.path} are numbered as in treadle topology export",
        fallback="nothing: a card needs the routes of all pairs that set out there",
    )
