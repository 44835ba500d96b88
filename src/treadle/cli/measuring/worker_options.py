"""Options that say where independent work runs."""

from __future__ import annotations

from typing import Annotated

import typer

ThreadsOption = Annotated[
    int | None,
    typer.Option(
        help="Threads; default: all cores, in compiled code only.",
        metavar="N",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        help="Dask scheduler that shares out the work.",
        metavar="TCP://...",
    ),
]
