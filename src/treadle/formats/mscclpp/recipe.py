"""How an execution plan gets into MSCCL++: a few lines of Python, since no variable names it."""

from __future__ import annotations

from treadle.formats.file_arguments import runtime_name
from treadle.formats.selection.supported_sizes import ALIGNMENT, FileFacts
from treadle.schedules.collective import CollectiveKind

CALLED = frozenset(CollectiveKind) - {CollectiveKind.REDUCE, CollectiveKind.ALLTOALL}
"""Collectives that its NCCL interface hands to plans."""

_SAME_MEMORY = {
    CollectiveKind.ALLGATHER: "call.input_buffer == call.output_buffer + call.rank * call.message_size",
    CollectiveKind.REDUCE_SCATTER: (
        "call.output_buffer == call.input_buffer + call.rank * call.message_size // call.world_size"
    ),
}


def recipe(path: str, name: str, facts: FileFacts, *, root: int, in_place: bool) -> tuple[str, ...]:
    """Lines of Python that register a plan and a selector that gives it the calls that it serves.

    Parameters
    ----------
    path : str
        Of the plan.
    name : str
        The plan's.
    facts : FileFacts
        Of a collective in `CALLED`.
    root : int
        Of a broadcast, else -1.
    in_place : bool
        Which calls the plan serves.

    Returns
    -------
    tuple of str

    Notes
    -----
    The plan is registered for 0 ranks, which the interface's own selector never finds: it compares neither
    root nor alignment nor element type, and an unaligned call fails instead of being left to NCCL. The
    selector here compares all of them. ``Algorithm``, ``AlgorithmCollectionBuilder``, ``CollectiveRequest``:
    python/mscclpp/_core/algorithm.py, python/mscclpp/ext, python/csrc/algorithm.cpp of microsoft/mscclpp.
    """
    kind, unit = runtime_name(facts.kind), ALIGNMENT * facts.n_chunks
    size = "call.message_size" + " * call.world_size" * (facts.kind is CollectiveKind.ALLGATHER)
    same = _SAME_MEMORY.get(facts.kind, "call.input_buffer == call.output_buffer")
    conditions = [
        f"call.world_size == {facts.n_ranks}",
        "call.dtype in types",
        f"size % {unit} == 0",
        f"{max(facts.min_bytes, unit)} <= size <= {min(facts.max_bytes or MOST_BYTES, MOST_BYTES)}",
        f"({same}) is {in_place}",
    ]
    if root >= 0:
        conditions.append(f'call.hints["root"] == [{root}]')
    return (
        "import os, mscclpp, mscclpp.ext",
        f'plan = mscclpp.ExecutionPlan({path!r}, int(os.environ["RANK"]))',
        f"text = mscclpp.Algorithm({name!r}, plan, constraint=mscclpp.Algorithm.Constraint(0, 0))",
        "types = [mscclpp.DataType.float16, mscclpp.DataType.bfloat16, mscclpp.DataType.float32,",
        "         mscclpp.DataType.int32, mscclpp.DataType.uint32]",
        "def select(algorithms, call):",
        f"    size = {size}",
        f'    served = (call.collective == "{kind}"',
        *(f"              and {condition}" for condition in conditions[:-1]),
        f"              and {conditions[-1]})",
        f'    return algorithms["{kind}"][{name!r}] if served else None',
        "builder = mscclpp.ext.AlgorithmCollectionBuilder()",
        "builder.add_algorithm_builder(text)",
        "builder.set_algorithm_selector(select)",
    )


def direct_recipe(path: str) -> tuple[str, ...]:
    """Lines that execute a plan which the NCCL interface hands no call to (python/csrc/executor_py.cpp)."""
    return (
        f'plan = mscclpp.ExecutionPlan({path!r}, int(os.environ["RANK"]))',
        "executor = mscclpp.Executor(communicator)",
        "executor.execute(rank, send, receive, send_bytes, receive_bytes, data_type, plan, stream)",
    )


MOST_BYTES = 2**32 - 1
"""Largest buffer: the executor's offsets have 32 bits."""
