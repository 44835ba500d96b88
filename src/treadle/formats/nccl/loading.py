"""Describes how NCCL loads a graph file."""

from __future__ import annotations

from treadle.formats.loading import Loading
from treadle.formats.request import FileRequest, Written
from treadle.formats.verdict import Verdict


def load(request: FileRequest, written: Written, verdict: Verdict) -> Loading:
    """Return how NCCL loads the files."""
    return nccl_graph_loading(request.path, dict(verdict.counts)["channel"], len(written.files))


def nccl_graph_loading(path: str, channels: int, n_files: int) -> Loading:
    """Return how NCCL loads a graph file.

    Examples
    --------
    >>> nccl_graph_loading("ring.xml", 2, 1).environment[0]
    ('NCCL_GRAPH_FILE', 'ring.xml')
    """
    here = path if n_files == 1 else f"{path} with .boxN before its ending, N the number of the host"
    return Loading(
        runtime="NCCL",
        environment=(
            ("NCCL_GRAPH_FILE", here),
            ("NCCL_ALGO", "Ring"),
            ("NCCL_CROSS_NIC", "1"),
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", "INIT,ENV,GRAPH"),
        ),
        check=f"every rank logs 'Search 0 : {channels} channels loaded from XML graph'; device and card "
        "numbers are those of the host",
        fallback="tree, CollNet and NVLS algorithms, whose graphs the file does not hold (so NCCL_ALGO=Ring)",
    )
