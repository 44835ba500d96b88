"""Options that say where independent work runs."""

from __future__ import annotations

from typing import Annotated

import typer

JobsOption = Annotated[
    int | None,
    typer.Option(
        help="Threads; results do not depend on them. Default: all cores in compiled code, one elsewhere.",
        metavar="N",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="Hand independent work to a dask scheduler's workers, such as tcp://127.0.0.1:8786 "
        "(extra: cluster).",
        metavar="ADDRESS",
    ),
]
