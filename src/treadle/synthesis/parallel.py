"""Independent tasks - sources, pairs, algorithms - on the workers that joblib is configured for.

Without a configuration everything runs in the caller's thread. `joblib.parallel_config(n_jobs=4)` gives
threads, `parallel_config("loky", n_jobs=4)` processes, `parallel_config("dask", client=...)` a cluster.
Results are the same on all of them: how the work is cut never matters, and they come in order.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from treadle.context import UNLIMITED, TimeLimitError, context, under

Result = TypeVar("Result")

_PIECES = 3
"""Tasks for each worker: the last ones to finish keep the others waiting for less."""


def runs_apart() -> bool:
    """Whether tasks go to other processes: only there does Python code run at the same time."""
    return _jobs() > 1 and not _shares_memory()


def core_threads(most: int) -> int:
    """Threads for one call of the compiled core.

    As many as there are jobs; without a configuration all cores that this process may use; one inside a task
    of `map_blocks`, where other tasks have the cores, and under ``parallel_config("sequential")``.

    Parameters
    ----------
    most : int
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    wanted = cores
    if _is_configurable():
        from joblib.parallel import SequentialBackend, get_active_backend

        backend, jobs = get_active_backend(prefer="threads")
        if isinstance(backend, SequentialBackend):
            return 1
        if _shares_memory() and jobs not in (None, 1):
            wanted = _jobs()
    return max(1, min(cores, wanted, most))


def spans(count: int, *, least: int, native: bool = True) -> list[slice]:
    """Split `count` items into consecutive tasks that keep all workers busy.

    Parameters
    ----------
    count : int
    least : int
        Items of a task below which handing them over costs more than it saves.
    native : bool
        Whether most of the work releases the interpreter's lock. If not, threads would only get into each
        other's way, and one task is made unless workers are processes.

    Examples
    --------
    >>> spans(10, least=2)
    [slice(0, 10, None)]
    >>> from joblib import parallel_config
    >>> with parallel_config("threading", n_jobs=2):
    ...     spans(10, least=3)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    jobs = _jobs() if native or runs_apart() else 1
    pieces = 1 if jobs == 1 else max(1, min(_PIECES * jobs, count // least))
    edges = [count * place // pieces for place in range(pieces + 1)]
    return [slice(first, last) for first, last in pairwise(edges)]


def map_blocks(
    stage: str, function: Callable[..., Result], blocks: Sequence[tuple[Any, ...]]
) -> list[Result]:
    """function(*block) for every block, in order, on joblib's workers.

    Parameters
    ----------
    stage : str
        Name for progress reports.
    function : callable
        Of a module (workers import it), pure. On the same arguments it must give the same result anywhere.
    blocks : sequence of tuples
        Its arguments: values only. Large arrays should be arguments of their own, not parts of other values:
        a cluster then gets each but once.

    Raises
    ------
    TimeLimitError
        When the deadline passes. Blocks that wait are dropped; those that run in threads are waited for, so
        that no thread outlives the call; processes are stopped, and a cluster forgets them.

    Notes
    -----
    Tasks run under no limits, in the caller's thread too, since threads, processes and clusters do not see
    them: a function that has to know of the deadline is given the seconds that are left.

    Within a task all further work is serial: the outermost loop has the workers.

    Examples
    --------
    >>> map_blocks("powers", pow, [(2, 3), (3, 2)])
    [8, 9]
    """
    running = context()
    if len(blocks) < 2 or _jobs() == 1:
        results = []
        for done, block in enumerate(blocks):
            running.report(stage, done, len(blocks))
            with under(UNLIMITED):
                results.append(function(*block))
        return results
    from joblib import Parallel, delayed

    gate = _Gate() if _shares_memory() else None
    left = None if running.deadline is None else running.deadline - time.monotonic()
    if left is not None and left <= 0:
        raise TimeLimitError(stage)
    run = _alone if gate is None else gate.run
    parallel = Parallel(prefer="threads", return_as="generator", batch_size=1, timeout=left)
    found = parallel(delayed(run)(function, *block) for block in blocks)
    try:
        return _collected(stage, found, len(blocks))
    except multiprocessing.TimeoutError:  # joblib's own, no relation of the one below
        raise TimeLimitError(stage) from None
    except TimeoutError:
        if running.deadline is None or time.monotonic() < running.deadline:
            raise
        raise TimeLimitError(stage) from None
    finally:
        if gate is not None:
            gate.shut()
        with warnings.catch_warnings():
            # joblib warns of results that nobody fetched: after an error or Ctrl-C they are not wanted
            warnings.simplefilter("ignore")
            found.close()


def _collected(stage: str, found: Generator[Result, None, None], total: int) -> list[Result]:
    results = []
    running = context()
    running.report(stage, 0, total)
    for done, result in enumerate(found, 1):
        running.report(stage, done, total)
        results.append(result)
    return results


def _is_configurable() -> bool:
    """Whether joblib can have been configured: it takes a quarter of a second to load, so we load it late."""
    return "joblib" in sys.modules


def _jobs() -> int:
    """Workers that joblib is configured for."""
    if not _is_configurable():
        return 1
    from joblib import effective_n_jobs

    return int(effective_n_jobs(None))


def _shares_memory() -> bool:
    """Whether tasks run in this process."""
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(prefer="threads")
    return bool(getattr(backend, "supports_sharedmem", False))


def _alone(function: Callable[..., Result], *block: Any) -> Result:
    """Run a task, whose calls must not use workers again."""
    from joblib import parallel_config

    with parallel_config(backend="sequential"), under(UNLIMITED):
        return function(*block)


class _Gate:
    """Lets tasks of this process in until it is shut, and knows when the last one has left.

    An interpreter that ends while a thread is inside a native solver may abort.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._is_shut = False

    def run(self, function: Callable[..., Result], *block: Any) -> Result:
        """Run the task; TimeLimitError, which is discarded, if it starts too late."""
        with self._changed:
            if self._is_shut:
                raise TimeLimitError("too late")
            self._running += 1
        try:
            return _alone(function, *block)
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def shut(self) -> None:
        """Start no more tasks and wait for the running ones, through any further Ctrl-C."""
        with self._changed:
            self._is_shut = True
            while self._running:
                with contextlib.suppress(KeyboardInterrupt):
                    self._changed.wait()
