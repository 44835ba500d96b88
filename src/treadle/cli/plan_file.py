"""Plan files as arguments of commands, and how much memory they may take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from treadle.cli.memory_fence import memory_fence
from treadle.cli.usage import is_collective, is_fabric
from treadle.errors import FormatError
from treadle.input_files import exists, is_file, is_plan_file, read_head
from treadle.planning import format_name
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan
from treadle.schedules.plan_files.budget import MAX_MEMORY
from treadle.topologies.readers.reader import topology_name

_HEAD = 2**16
"""Bytes read of a file to recognise what it is."""


def read_plan(path: str | Path, max_memory: int | None) -> Plan:
    """Read a plan file within the memory that ``--max-memory`` grants."""
    with plan_memory(path, max_memory) as granted:
        return load_plan(path, max_memory_bytes=granted)


@contextmanager
def plan_memory(
    path: str | Path, max_memory: int | None, expected: str = "a plan that solve wrote (-o)"
) -> Iterator[int]:
    """Limit the memory of the block, which reads a plan, and give the limit; FormatError for other files."""
    _require_plan_file(path, expected)
    granted = max_memory or MAX_MEMORY
    with memory_fence(granted, str(path)):
        yield granted


def _require_plan_file(path: str | Path, expected: str) -> None:
    """Raise FormatError for a file that is not a plan, with what it is and which command reads it.

    Errors in a plan are reported by its reader.
    """
    shown, place = str(path), Path(path)
    if not exists(place):
        if is_fabric(shown):
            raise FormatError(f"this is a topology, not a plan; {_solve_first(shown)}", source=shown)
        if is_collective(shown):
            raise FormatError(
                f"this is a collective, not a plan; {_solve_first('dgx_a100:2', shown)}", source=shown
            )
        raise FormatError(f"there is no such file; expected {expected}", source=shown)
    if place.is_dir():
        raise FormatError(f"this is a folder; expected {expected}", source=shown)
    if not is_file(place):
        return
    if not (head := read_head(place, _HEAD)):
        raise FormatError(f"this file is empty; expected {expected}", source=shown)
    if is_plan_file(place):
        return
    text = head.decode("utf-8", "replace")
    if (form := format_name(text)) is not None:
        raise FormatError(
            f"this is a runtime file ({form.name}), not a plan; 'treadle verify' checks it", source=shown
        )
    if (known := topology_name(text)) is not None:
        raise FormatError(
            f"this is a topology ({known.title}), not a plan; {_solve_first(shown)}", source=shown
        )


def _solve_first(fabric: str, collective: str = "allreduce") -> str:
    return f"solve it first: treadle solve {quote(fabric)} {collective} -o x.plan"
