"""Describes the use of ForestColl's XML."""

from __future__ import annotations

from treadle.formats.loading import Loading
from treadle.formats.request import FileRequest, Written
from treadle.formats.verdict import Verdict


def load(request: FileRequest, _written: Written, _verdict: Verdict) -> Loading:
    """Return how a file is used."""
    return Loading(
        runtime="compilers of ForestColl's schedules (no runtime reads it)",
        environment=(),
        check=f"the compiler's program has the trees of {request.path}",
        fallback="nothing: it is a description of trees",
    )
