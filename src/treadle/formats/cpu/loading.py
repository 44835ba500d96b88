"""How CPU XML is read."""

from __future__ import annotations

from treadle.formats.judgement import Judgement
from treadle.formats.loading import Loading
from treadle.formats.request import TextRequest, Written


def load(request: TextRequest, _written: Written, judgement: Judgement) -> Loading:
    """Of a text that was written, or of the part of one rank."""
    if request.options.rank is not None:
        return cpu_part_loading(request.path)
    return cpu_loading(request.path, judgement.n_ranks)


def cpu_loading(path: str, n_ranks: int) -> Loading:
    """How an interpreter over MPI reads a CPU XML; ours is the reference.

    Examples
    --------
    >>> cpu_loading("two.xml", 2).environment
    ()
    """
    return Loading(
        runtime="CPU interpreters over MPI or UCX (send, recv, reduce, copy and sync)",
        environment=(),
        check=f"mpirun -n {n_ranks} python -m mpi4py -m treadle.runtime.mpi_text {path} checks every "
        f"element; so does python -m treadle.runtime.libfabric_text --ranks {n_ranks} {path} without MPI",
        fallback="nothing: any number of elements and every size is served",
    )


def cpu_part_loading(path: str) -> Loading:
    """How the part of one rank is read.

    Examples
    --------
    >>> cpu_part_loading("part.xml").check
    'treadle verify part.xml plays it alone'
    """
    return Loading(
        runtime="CPU interpreters over MPI or UCX (each rank its own part)",
        environment=(),
        check=f"treadle verify {path} plays it alone",
        fallback="nothing: any number of elements and every size is served",
    )
