"""Plans registered in MSCCL++ for calls of NCCL's interface: each goes to the first plan that serves it."""

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
"""Of elements: of fp8 nothing is launched on NVIDIA's cards and nothing is said, others are an error."""


def register(
    plans: Iterable[str | os.PathLike[str]],
    *,
    root: int | None = None,
    accept_any_reduction: bool = False,
    rank: int | None = None,
) -> tuple[PlanRow, ...]:
    """Register execution plans, and the selector that hands them the calls that they serve.

    Call it in every process before ``init_process_group("nccl")``, under ``LD_PRELOAD=libmscclpp_nccl.so``.

    Parameters
    ----------
    plans : iterable of paths
        Texts of ``treadle lower --to mscclpp-json``; of several that serve a call the first is taken.
    root : int, optional
        Of all calls of the plans, if they are broadcasts; others have none.
    accept_any_reduction : bool
        Plans that reduce are refused without: MSCCL++ does not tell a selector which reduction a call asks
        for, and its executor sums, so that the caller has to know that all calls are sums.
    rank : int, optional
        Of this process; default: the environment's RANK.

    Returns
    -------
    tuple of PlanRow
        What each plan serves, in order.

    Raises
    ------
    MissingDependencyError
        If MSCCL++'s Python module is not there.
    FormatError, ScheduleError
        If a file is no plan, or none that MSCCL++ can serve rightly.

    Notes
    -----
    The constraint of every algorithm is 0 ranks, which the interface's own selector never finds. That one
    takes a plan by ranks, collective and sizes alone, and keeps the in-place flag of the first plan for all
    (a static of ``DslAlgorithm::bufferMode``): a call that the chunks do not divide would throw, not fall
    back. What the selector here leaves aside goes to MSCCL++'s own algorithms within a node, else to NCCL.

    A second call takes the place of the first one's selector, not of its plans: register all at once.
    """
    rows = tuple(read_row(Path(path), root) for path in plans)
    for row in rows:
        if row.collective in SUMS and not accept_any_reduction:
            raise ScheduleError(
                f"{row.path}: MSCCL++ sums whatever a call asks for, and tells no selector: if all "
                f"{row.collective} calls are sums, say accept_any_reduction=True"
            )
    twice = [name for name, count in Counter(row.name for row in rows).items() if count > 1]
    if twice:
        raise ScheduleError(f"two plans are named {twice[0]}, as MSCCL++ knows them: lower one with --name")
    runtime = _runtime()
    builder, found = runtime.ext.AlgorithmCollectionBuilder(), os.environ.get("RANK", "")
    if rank is None and not found.isdecimal():
        raise ScheduleError("no RANK in the environment: start by torchrun, or say rank=")
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
    """The function that MSCCL++ asks for each call: an algorithm, or None."""

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
