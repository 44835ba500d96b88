"""Recorded results of random changes, in tests/golden; `make changed` records them again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from places import GOLDEN

TARGET = os.environ.get("WRITE_CHANGED")
"""Folder for new records; without it, results are compared with those recorded."""
LATE = "takes too long"
"""Recorded for what took too long; it is not run again."""


@cache
def kept(name: str) -> dict[str, list[str]]:
    path = Path(TARGET or GOLDEN, f"{name}.json")
    found: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def compare(name: str, found: dict[str, list[str]]) -> None:
    """Fail where results differ from those recorded, or record them if asked."""
    record = kept(name)
    if TARGET:
        record |= found
        text = json.dumps(record, indent=0, ensure_ascii=False, sort_keys=True)
        Path(TARGET, f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        return
    for key, results in found.items():
        for number, (result, before) in enumerate(zip(results, record[key], strict=True)):
            told = f"change {number} of {key}\nbefore: {before}\nnow:    {result}\n"
            assert result == before, f"{told}If this is intended: make changed"


def in_time(call: Callable[[], str], most_s: float) -> str:
    """Return the result of a call; while recording, interrupt what takes too long."""
    if not TARGET:
        return call()
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    started = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, most_s)
        result = call()
    except KeyboardInterrupt:
        return LATE
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return result if time.process_time() - started < most_s else LATE
