"""A limit on the memory that a part of a command may take, held by the operating system."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from treadle.errors import MemoryLimitError
from treadle.units import format_size

try:
    import resource
except ModuleNotFoundError:  # not on Windows
    resource = None  # type: ignore[assignment]

_SLACK = 2**26
"""For modules that are loaded meanwhile, and what an allocator keeps."""


@contextmanager
def memory_fence(granted: int, source: str) -> Iterator[None]:
    """Let what is done inside take `granted` bytes more than there are now, and not much more.

    Parameters
    ----------
    granted : int
    source : str
        What is read, for the message.

    Raises
    ------
    MemoryLimitError
        Where an allocation fails.

    Notes
    -----
    Budgets count what a plan's arrays declare (`treadle.schedules.plan_files.budget`). Memory that values
    within them require, such as the number of units of a tree, is limited here: on Linux the process's
    private data have a limit meanwhile, and a larger allocation fails instead of filling the machine.
    """
    limits = _limits(granted)
    if limits is not None:
        resource.setrlimit(resource.RLIMIT_DATA, limits[0])
    try:
        yield
    except MemoryError as error:
        detail = f" ({' '.join(str(error).split())[:100]})" if str(error) else ""
        raise MemoryLimitError(
            f"{source}: reading and verifying takes more than the {format_size(granted)} of memory that are "
            f"granted{detail}; if that is what you expect of it, grant more (--max-memory)"
        ) from None
    finally:
        if limits is not None:
            resource.setrlimit(resource.RLIMIT_DATA, limits[1])


def _limits(granted: int) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The limits to set and those to set again; None where the kernel does not say how much is in use."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[5])
    except (OSError, ValueError, IndexError):
        return None
    if resource is None:
        return None
    soft, hard = old = resource.getrlimit(resource.RLIMIT_DATA)
    most = pages * resource.getpagesize() + granted + _SLACK
    known = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    return (min([most, *known]), hard), old
