"""A dask cluster of own processes, as a user starts it; nothing of it lives in the tests' process."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from distributed import Client

from child_processes import search_path, started, wait_until

_START_S = 90.0
"""Seconds in which a scheduler and its workers have to start, on a busy machine."""


@contextlib.contextmanager
def dask_cluster(folder: Path, *, n_workers: int) -> Iterator[str]:
    """Address of a scheduler on this host with so many workers of one thread each."""
    where = folder / "scheduler.json"
    log = folder / "log"
    environment = {**os.environ, "PYTHONPATH": search_path()}
    dask = [sys.executable, "-m", "dask"]
    common = ["--scheduler-file", where, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"]
    with contextlib.ExitStack() as stack:
        output = stack.enter_context(log.open("wb"))

        def start(*words: object) -> None:
            stack.enter_context(
                started([*dask, *words, *common], env=environment, cwd=folder, stdout=output, stderr=output)
            )

        start("scheduler", "--port", "0")
        wait_until(lambda: _address(where) is not None, limit_s=_START_S, what=f"a scheduler, see {log}")
        for number in range(n_workers):
            start("worker", "--no-nanny", "--nthreads", "1", "--name", number, "--local-directory", folder)
        address = _address(where)
        assert address is not None
        if n_workers:
            with Client(address, set_as_default=False, timeout=_START_S) as client:
                client.wait_for_workers(n_workers, timeout=_START_S)
        yield address


def _address(where: Path) -> str | None:
    """What a scheduler has written; None as long as it is not all there."""
    try:
        return str(json.loads(where.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError):
        return None
