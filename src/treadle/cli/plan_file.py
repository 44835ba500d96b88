"""Plan files as arguments of commands, and how much memory they may take."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli.memory_fence import memory_fence
from treadle.errors import FormatError
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan
from treadle.schedules.plan_files.budget import MAX_MEMORY
from treadle.units import parse_size

PlanArgument = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan that solve wrote.")]
MaxMemoryOption = Annotated[
    str | None,
    typer.Option(
        help="Refuse a plan that may take more memory to be read and verified; default 1GB.", metavar="SIZE"
    ),
]


def granted_bytes(max_memory: str | None) -> int:
    """What ``--max-memory`` grants."""
    if max_memory is None:
        return MAX_MEMORY
    granted = parse_size(max_memory)
    if granted < 1:
        raise FormatError(f"--max-memory {max_memory}: expected at least 1 byte")
    return granted


def read_plan(path: str | Path, max_memory: str | None) -> Plan:
    """The plan of a file that takes no more than ``--max-memory`` grants."""
    granted = granted_bytes(max_memory)
    with memory_fence(granted, str(path)):
        return load_plan(path, max_memory_bytes=granted)
