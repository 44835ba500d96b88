"""Describes how NCCL loads a tuner table."""

from __future__ import annotations

from treadle.formats.loading import Loading
from treadle.formats.request import FileRequest, Written
from treadle.formats.verdict import Verdict


def load(request: FileRequest, _written: Written, verdict: Verdict) -> Loading:
    """Return how NCCL loads a table; the plugin must be built from NCCL's sources, where it is an example."""
    rows = dict(verdict.counts)["row"]
    return Loading(
        runtime="NCCL (with its example tuner plugin)",
        environment=(
            ("NCCL_TUNER_PLUGIN", "libnccl-tuner-example.so"),
            ("NCCL_TUNER_CONFIG_FILE", request.path),
            ("NCCL_DEBUG", "INFO"),
            ("NCCL_DEBUG_SUBSYS", "TUNING"),
        ),
        check=f"every rank logs 'TUNER/ExamplePlugin: Loaded {rows} tuning configurations from "
        f"{request.path}'",
        fallback="calls that no row matches, and algorithms that NCCL finds impossible on the fabric: "
        "NCCL chooses. Tables of several collectives are joined by cat",
        prepare=("make -C nccl/plugins/tuner/example",),
    )
