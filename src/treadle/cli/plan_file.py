"""Plan files as arguments of commands, and how much memory they may take."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from treadle.cli.memory_fence import memory_fence
from treadle.cli.usage import is_collective, is_fabric
from treadle.errors import FormatError
from treadle.input_files import is_file, read_head
from treadle.planning import format_name
from treadle.schedules.plan import Plan
from treadle.schedules.plan_files.archive import load_plan
from treadle.schedules.plan_files.budget import MAX_MEMORY
from treadle.topologies.readers.reader import topology_name


def read_plan(path: str | Path, max_memory: int | None) -> Plan:
    """The plan of a file that takes no more than ``--max-memory`` grants."""
    require_plan_file(path)
    granted = max_memory or MAX_MEMORY
    with memory_fence(granted, str(path)):
        return load_plan(path, max_memory_bytes=granted)


def require_plan_file(path: str | Path, expected: str = "a plan that solve wrote (-o)") -> None:
    """Raise FormatError for a file that is not a plan; it names what the file is and which command reads it.

    Raises
    ------
    FormatError
        For a fabric, a runtime file, a collective's name, a folder, an empty file. Other errors in a plan
        are reported by its reader.
    """
    shown, place = str(path), Path(path)
    if not _exists(place):
        if is_fabric(shown):
            raise FormatError(f"this is a topology, not a plan; {_solved(shown)}", source=shown)
        if is_collective(shown):
            raise FormatError(
                f"this is a collective, not a plan; {_solved('dgx_a100:2', shown)}", source=shown
            )
        raise FormatError(f"there is no such file; expected {expected}", source=shown)
    if place.is_dir():
        raise FormatError(f"this is a folder; expected {expected}", source=shown)
    if not is_file(place):
        return
    head = read_head(place, _HEAD)
    if not head:
        raise FormatError(f"this file is empty; expected {expected}", source=shown)
    if head.startswith(_ZIP):
        return
    text = head.decode("utf-8", "replace")
    if (form := format_name(text)) is not None:
        raise FormatError(
            f"this is a runtime file ({form.name}), not a plan; 'treadle verify' checks it",
            source=shown,
        )
    if (told := topology_name(text)) is not None:
        raise FormatError(f"this is a topology ({told.title}), not a plan; {_solved(shown)}", source=shown)


_HEAD = 2**16
_ZIP = b"PK"


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long, or with a null byte
        return False


def _solved(fabric: str, collective: str = "allreduce") -> str:
    return f"solve it first: treadle solve {quote(fabric)} {collective} -o x.plan"
