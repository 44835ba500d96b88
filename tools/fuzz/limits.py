"""How long a case may take and how much memory, measured on the process that checks it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

CPU_S = 20.0
"""CPU seconds of a case, however busy the machine is."""

WALL_S = 300.0
"""Seconds after which a case that uses no CPU, and so waits for something, is ended."""

MEMORY_BYTES = 3 * 2**29
"""Most that a case may take: plan files are promised to take a GB, and what prices them needs some."""

HARD_MEMORY_BYTES = 3 * 2**30
"""A process beyond this is ended, for the sake of the machine."""


def restart_peak() -> None:
    """Let the highest memory use be measured from here on, where the system can (Linux)."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """Highest memory use since `restart_peak`; 0 where the system does not say."""
    return _status_bytes("self", "VmHWM")


def resident_bytes(process: int) -> int:
    """Memory that a process holds now; 0 where the system does not say."""
    return _status_bytes(str(process), "VmRSS")


def _status_bytes(process: str, key: str) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{key}:")), 0)


def cpu_seconds(process: int) -> float:
    """CPU time that a process and its ended children have used; 0 where the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    ticks: int = sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")
