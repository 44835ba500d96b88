"""What comes of random changes, as kept in tests/golden: `make changed` writes it anew."""

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
"""Folder for new records; without it what is found is compared with the old ones."""
LATE = "takes too long"
"""Kept of what took too long when it was recorded: it is not tried again."""


@cache
def kept(name: str) -> dict[str, list[str]]:
    path = Path(TARGET or GOLDEN, f"{name}.json")
    found: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def compare(name: str, found: dict[str, list[str]]) -> None:
    """Fail where results differ from those kept; in the folder for new ones, keep them."""
    record = kept(name)
    if TARGET:
        record |= found
        text = json.dumps(record, indent=0, ensure_ascii=False, sort_keys=True)
        Path(TARGET, f"{name}.json").write_text(f"{text}\n", encoding="utf-8")
        return
    for key, results in found.items():
        for number, (result, before) in enumerate(zip(results, record[key], strict=True)):
            told = f"change {number} of {key}\nbefore: {before}\nnow:    {result}\n"
            assert result == before, f"{told}If it is meant to be so: make changed"


def in_time(call: Callable[[], str], most_s: float) -> str:
    """The result of a call, which is interrupted if it takes long while records are written."""
    if not TARGET:
        return call()
    signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    started = time.process_time()
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, most_s)
        result = call()
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except KeyboardInterrupt:
        return LATE
    return result if time.process_time() - started < most_s else LATE
