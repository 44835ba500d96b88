"""Describes how simulators load Chakra traces."""

from __future__ import annotations

from pathlib import PurePath

from treadle.formats.loading import Loading
from treadle.formats.request import FileRequest, Written
from treadle.formats.verdict import Verdict


def load(request: FileRequest, _written: Written, _verdict: Verdict) -> Loading:
    """Return how a simulator such as ASTRA-sim loads the traces."""
    prefix = str(PurePath(request.path).with_suffix(""))
    return Loading(
        runtime="simulators that read Chakra execution traces (ASTRA-sim)",
        environment=(),
        check=f"--workload-configuration={prefix} (files {prefix}.RANK.et); every rank reports its end",
        fallback="nothing: a trace that cannot be read is an error",
    )
