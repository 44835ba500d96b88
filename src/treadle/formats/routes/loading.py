"""Describes the use of route files."""

from __future__ import annotations

from treadle.formats.loading import Loading
from treadle.formats.request import FileRequest, Written
from treadle.formats.verdict import Verdict


def load(request: FileRequest, _written: Written, _verdict: Verdict) -> Loading:
    """Return how a file is used."""
    return Loading(
        runtime="tools that program adapters (none is known to read it)",
        environment=(),
        check=f"links and ports in {request.path} are numbered as in treadle topology export",
        fallback="nothing: a card needs the routes of all pairs that set out there",
    )
