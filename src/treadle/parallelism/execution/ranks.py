"""Ranks as processes of this machine: one process is started, which loads PyTorch once and forks the ranks.

None outlives the call: they end with the process that started them, and all together when one fails.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from types import MappingProxyType
from typing import Any, TypeVar

from treadle.errors import TreadleError

Result = TypeVar("Result")
_PDEATHSIG = 1  # of prctl


def apart(function: Callable[..., Result], *arguments: object, timeout_s: float) -> Result:
    """Call a function in its own process, which may fork: here threads may run already.

    Raises
    ------
    TreadleError
        With the message of what it raised, or if it took too long.
    """
    # plans and costs hold such tables
    ForkingPickler.register(MappingProxyType, lambda table: (_frozen, (dict(table),)))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, os.getpid(), function, arguments), daemon=False)
    process.start()
    theirs.close()
    try:
        found: Result = _received(ours, timeout_s)
        return found
    finally:
        if process.pid is not None and process.is_alive():
            process.join(1)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        process.join()


def _frozen(table: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(table)


def _received(pipe: Connection, timeout_s: float) -> Any:
    if not pipe.poll(timeout_s):
        raise TreadleError(f"execution: no answer within {timeout_s:g} s")
    try:
        is_right, value = pipe.recv()
    except EOFError as error:
        raise TreadleError("execution: a process ended without an answer") from error
    if not is_right:
        raise TreadleError(value)
    return value


def _answer(
    pipe: Connection,
    parent: int,
    function: Callable[..., object],
    arguments: Sequence[object],
    *,
    is_rank: bool = False,
) -> None:
    if not is_rank:
        os.setsid()
    # be killed when the parent dies (Linux; elsewhere nothing)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    outcome: tuple[bool, object]
    try:
        outcome = True, function(*arguments)
    except TreadleError as error:
        outcome = False, str(error)
    except Exception:
        outcome = False, f"execution: {traceback.format_exc(limit=-3)}"
    pipe.send(outcome)
    pipe.close()
    if is_rank:
        os._exit(0)  # nothing of the parent's is cleaned up here


def fork_ranks(
    n_ranks: int, backend: str, work: Callable[[int], Result], *, timeout_s: float
) -> list[Result]:
    """Return the results of a torch.distributed job's ranks; called in a process without threads.

    Parameters
    ----------
    n_ranks : int
    backend : str
        ``gloo``, ``treadle``.
    work : function of the rank
        Called with the process group there.
    timeout_s : float
        Of all together.
    """
    if backend == "treadle":
        import_module("treadle.torch")  # registers it, as PyTorch does by itself where Treadle is installed
    context = multiprocessing.get_context("fork")
    gc.freeze()  # what is collected is written to, and so copied, in every rank
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(n_ranks):
            ours, theirs = context.Pipe(duplex=False)
            arguments = (theirs, os.getpid(), _one_rank, (rank, n_ranks, backend, f"{folder}/store", work))
            work_of_rank = partial(_answer, is_rank=True)
            processes.append(context.Process(target=work_of_rank, args=arguments, daemon=True))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
        try:
            return _gathered(pipes, time.monotonic() + timeout_s)
        finally:
            for process in processes:
                process.kill()
                process.join()


def _gathered(pipes: Sequence[Connection], deadline: float) -> list[Any]:
    found: dict[int, Any] = {}
    while len(found) < len(pipes):
        waiting = [pipe for rank, pipe in enumerate(pipes) if rank not in found]
        ready = wait(waiting, max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TreadleError("execution: ranks did not finish in time")
        for pipe in ready:
            assert isinstance(pipe, Connection)
            found[pipes.index(pipe)] = _received(pipe, 0)
    return [found[rank] for rank in range(len(pipes))]


def _one_rank(rank: int, n_ranks: int, backend: str, store: str, work: Callable[[int], object]) -> object:
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=n_ranks)
    try:
        found = work(rank)
        dist.barrier()
        return found
    finally:
        with contextlib.suppress(Exception):
            dist.destroy_process_group()
