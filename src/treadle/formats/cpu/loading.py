"""Describes how interpreters read CPU XML."""

from __future__ import annotations

from treadle.formats.loading import Loading
from treadle.formats.request import FileRequest, Written
from treadle.formats.verdict import Verdict


def load(request: FileRequest, _written: Written, verdict: Verdict) -> Loading:
    """Return how interpreters over MPI read a file, or the part of one rank; Treadle's is the reference."""
    path, n = request.path, verdict.n_ranks
    details, check = "each rank its own part", f"treadle verify {path} plays it alone"
    if request.options.rank is None:
        details = "send, recv, reduce, copy and sync"
        check = (
            f"mpirun -n {n} python -m mpi4py -m treadle.runtime.mpi_run {path} checks every "
            f"element; so does python -m treadle.runtime.libfabric_run --ranks {n} {path} without MPI"
        )
    return Loading(
        runtime=f"CPU interpreters over MPI or UCX ({details})",
        environment=(),
        check=check,
        fallback="nothing: all element counts and sizes are supported",
    )
