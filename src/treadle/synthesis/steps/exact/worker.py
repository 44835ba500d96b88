"""The solver's process: one JSON request a line on stdin, one JSON answer a line on stdout.

    python -m treadle.synthesis.steps.exact.worker

It ends when its stdin does, even in the middle of a search, so that it never outlives its parent.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any, BinaryIO

MAX_REQUEST_BYTES = 2**28
"""Longest request line."""


def _read(stream: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    """Queue the request lines; end the process when there are no more."""
    while line := stream.readline(MAX_REQUEST_BYTES):
        requests.put(line)
    os._exit(0)  # the parent is gone or has done with us; a search cannot be stopped from here otherwise


def answer(line: bytes) -> dict[str, Any]:
    """Solve one request; the answer carries its own wall and CPU seconds, or an error message."""
    try:
        from treadle.synthesis.steps.exact.model import solve
    except Exception as error:  # a damaged package can fail in any way
        return {"status": "unusable", "message": f"{type(error).__name__}: {error}"}
    started, started_cpu = time.perf_counter(), time.process_time()
    try:
        problem = json.loads(line)
        result = solve(problem, time_limit_s=float(problem["time_limit_s"]))
    except Exception as error:  # whatever it is, the parent reports it in one line
        result = {"status": "error", "message": f"{type(error).__name__}: {error}"}
    result["wall_s"] = time.perf_counter() - started
    result["cpu_s"] = time.process_time() - started_cpu
    return result


def main() -> None:
    """Answer requests until stdin ends."""
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    reader = threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True)
    reader.start()
    while True:
        line = json.dumps(answer(requests.get()), separators=(",", ":"))
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
