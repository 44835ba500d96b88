"""Registers plans in MSCCL++: each call of NCCL's interface uses the first plan that supports it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from treadle.errors import MissingDependencyError, ScheduleError
from treadle.mscclpp.plan_rows import SUMS, CollectiveCall, PlanRow, read_row

TYPES = ("float16", "bfloat16", "float32", "int32", "uint32")
"""Supported element types: MSCCL++ silently launches nothing for fp8 on NVIDIA GPUs, and rejects others."""


def register(
    plans: Iterable[str | os.PathLike[str]],
    *,
    root: int | None = None,
    accept_any_reduction: bool = False,
    rank: int | None = None,
) -> tuple[PlanRow, ...]:
    """Register execution plans, and a selector that chooses them for the calls that they support.

    Call it in every process before ``init_process_group("nccl")``, under ``LD_PRELOAD=libmscclpp_nccl.so``.

    Parameters
    ----------
    plans : iterable of paths
        Files of ``treadle lower --to mscclpp-json``; if several support a call, the first is used.
    root : int, optional
        Root of all calls of the plans, if they are broadcasts; only those have a root.
    accept_any_reduction : bool
        Required for plans that reduce: MSCCL++ does not pass the reduction of a call to selectors, and its
        executor always sums, so the caller must know that all calls are sums.
    rank : int, optional
        Rank of this process; default: the environment's RANK.

    Returns
    -------
    tuple of PlanRow
        The calls that each plan supports, in order.

    Raises
    ------
    MissingDependencyError
        If MSCCL++'s Python module is not installed.
    FormatError, ScheduleError
        If a file is not a plan, or MSCCL++ cannot execute it correctly.

    Notes
    -----
    The constraint of every algorithm is 0 ranks, which the interface's own selector never matches. That
    selector compares only ranks, collective and sizes, and keeps the in-place flag of the first plan for all
    (a static variable of ``DslAlgorithm::bufferMode``): a call that the chunks do not divide would throw
    instead of falling back. Calls that the selector here rejects use MSCCL++'s own algorithms within a node,
    else NCCL.

    A second call replaces the selector of the first one, but not its plans: register all plans in one call.
    """
    rows = tuple(read_row(Path(path), root) for path in plans)
    for row in rows:
        if row.collective in SUMS and not accept_any_reduction:
            raise ScheduleError(
                f"{row.path}: MSCCL++ always sums, and selectors do not see the reduction of a call; if all "
                f"{row.collective} calls are sums, use accept_any_reduction=True"
            )
    twice = [name for name, count in Counter(row.name for row in rows).items() if count > 1]
    if twice:
        raise ScheduleError(f"two plans are named {twice[0]}; names must differ, lower one with --name")
    runtime = _runtime()
    builder, found = runtime.ext.AlgorithmCollectionBuilder(), os.environ.get("RANK", "")
    if rank is None and not found.isdecimal():
        raise ScheduleError("no RANK in the environment; start by torchrun, or use rank=")
    number = int(found) if rank is None else rank
    for row in rows:
        algorithm = runtime.Algorithm(
            id=row.name,
            execution_plan=runtime.ExecutionPlan(row.path, number),
            constraint=runtime.Algorithm.Constraint(0, 0),
        )
        builder.add_algorithm_builder(algorithm)
    builder.set_algorithm_selector(selector(rows, [getattr(runtime.DataType, name) for name in TYPES]))
    return rows


def selector(
    rows: tuple[PlanRow, ...], types: list[Any]
) -> Callable[[Mapping[str, Mapping[str, Any]], CollectiveCall], Any]:
    """Return the function that chooses an algorithm, or None, for each call of MSCCL++."""

    def select(algorithms: Mapping[str, Mapping[str, Any]], call: CollectiveCall) -> Any:
        if call.dtype not in types:
            return None
        row = next((row for row in rows if row.supports(call)), None)
        return None if row is None else algorithms[row.collective][row.name]

    return select


def _runtime() -> Any:
    try:
        runtime = import_module("mscclpp")
        import_module("mscclpp.ext")
    except ImportError as error:
        raise MissingDependencyError(
            f"MSCCL++'s Python module cannot be imported ({error}): build it from the sources of "
            "microsoft/mscclpp"
        ) from None
    return runtime
