"""Describes how MSCCL++ loads a plan, and how it chooses among several.

No variable names plans, so a few lines of Python register them, or a module that registers a folder of plans.
The interface's own selector compares neither the root nor whether the chunks divide a call, and keeps the
in-place flag of the first plan and the range of the last in static variables (``DslAlgorithm`` of
src/core/algorithm.cc of microsoft/mscclpp). So plans are registered for 0 ranks, which it never matches, and
the selectors here compare everything.
"""

from __future__ import annotations

from treadle.formats.file_arguments import runtime_name
from treadle.formats.loading import Loading
from treadle.formats.mscclpp.writer import MOST_BYTES
from treadle.formats.request import FileRequest, Written
from treadle.formats.selection.chunk_counts import facts_of
from treadle.formats.selection.file_set import Delivery, FileSet, loader_script
from treadle.formats.selection.supported_sizes import ALIGNMENT, FileFacts, Selector, supported_sizes
from treadle.formats.verdict import RangedFile, Verdict
from treadle.schedules.collective import CollectiveKind

MODULE = "treadle_set"
"""Module that every process imports for a folder of plans."""
CALLED = frozenset(CollectiveKind) - {CollectiveKind.REDUCE, CollectiveKind.ALLTOALL}
"""Collectives for which the NCCL interface uses plans."""

_SAME_MEMORY = {
    CollectiveKind.ALLGATHER: "call.input_buffer == call.output_buffer + call.rank * call.message_size",
    CollectiveKind.REDUCE_SCATTER: (
        "call.output_buffer == call.input_buffer + call.rank * call.message_size // call.world_size"
    ),
}


def load(request: FileRequest, written: Written, _verdict: Verdict) -> Loading:
    """Return how MSCCL++ loads a plan."""
    program, path, name = written.program, request.path, written.name
    assert program is not None
    facts = facts_of(program, request.entry.min_bytes, request.max_bytes)
    if facts.kind not in CALLED:
        return Loading(
            runtime=f"MSCCL++ (its executor: the NCCL interface hands no {facts.kind} to plans)",
            environment=(("MSCCLPP_LOG_LEVEL", "INFO"),),
            check=f"the log says 'Starting execution with plan: {name}'",
            fallback=f"nothing: all but {supported_sizes(facts, Selector.MSCCLPP).rule} is an error",
            code=direct_recipe(path),
        )
    return Loading(
        runtime="MSCCL++ (as NCCL; in every process, before init_process_group('nccl'))",
        environment=(
            ("LD_PRELOAD", "libmscclpp_nccl.so"),
            ("MSCCLPP_NCCL_LIB_PATH", "libnccl.so.2"),
            ("MSCCLPP_LOG_LEVEL", "INFO"),
        ),
        check=f"every call that it serves logs 'Starting execution with plan: {name}'",
        fallback="what `select` leaves aside goes to MSCCL++'s own algorithms in a box, else to NCCL; "
        "without `select` a size that the chunks do not divide into whole 16 bytes throws, not falls back",
        code=recipe(path, name, facts, root=program.root, in_place=program.in_place),
    )


def recipe(path: str, name: str, facts: FileFacts, *, root: int, in_place: bool) -> tuple[str, ...]:
    """Return lines of Python that register a plan, and a selector that chooses it for the calls it supports.

    The collective is in `CALLED`; `root` is that of a broadcast, else -1. The plan is registered for 0 ranks,
    which the interface's own selector never matches: that one compares neither root nor alignment nor element
    type, and an unaligned call fails instead of being left to NCCL. The selector here compares all of them.
    ``Algorithm``, ``AlgorithmCollectionBuilder``, ``CollectiveRequest``: python/mscclpp/_core/algorithm.py,
    python/mscclpp/ext, python/csrc/algorithm.cpp of microsoft/mscclpp.
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
    """Return lines that execute a plan without the NCCL interface (python/csrc/executor_py.cpp)."""
    return (
        f'plan = mscclpp.ExecutionPlan({path!r}, int(os.environ["RANK"]))',
        "executor = mscclpp.Executor(communicator)",
        "executor.execute(rank, send, receive, send_bytes, receive_bytes, data_type, plan, stream)",
    )


def deliver(texts: FileSet) -> Delivery:
    """Return a module that registers the plans of a folder, and a script that adds it to Python's path."""
    called = [text for text in texts.texts if text.collective in CALLED]
    variables = [
        ("LD_PRELOAD", "libmscclpp_nccl.so"),
        ("MSCCLPP_NCCL_LIB_PATH", "${MSCCLPP_NCCL_LIB_PATH:-libnccl.so.2}"),
        ("PYTHONPATH", "$here${PYTHONPATH:+:$PYTHONPATH}"),
    ]
    return Delivery(
        (
            (f"{MODULE}.py", _module(called).encode()),
            ("load.sh", loader_script("Plans for MSCCL++, chosen by size.", variables)),
        ),
        Loading(
            runtime="MSCCL++ (as NCCL)",
            environment=(
                ("LD_PRELOAD", "libmscclpp_nccl.so"),
                ("MSCCLPP_NCCL_LIB_PATH", "libnccl.so.2"),
                ("PYTHONPATH", texts.folder),
            ),
            check="with MSCCLPP_LOG_LEVEL=INFO every call that a plan serves logs 'Starting "
            "execution with plan: '",
            fallback="calls that no plan serves go to MSCCL++'s own algorithms in a box, else to NCCL",
            code=(f"import {MODULE}  # in every process, before init_process_group('nccl')",),
        ),
    )


def _module(texts: list[RangedFile]) -> str:
    rows = ""
    for text in texts:
        unit = ALIGNMENT * text.n_chunks
        heading = (text.file, text.name, runtime_name(text.collective), text.n_ranks)
        sizes = (max(text.min_bytes, unit), min(text.max_bytes or MOST_BYTES, MOST_BYTES), unit)
        rows += f"    {(*heading, *sizes, text.in_place, text.root)!r},\n"
    return f'''"""Plans for MSCCL++, chosen by size: import this before init_process_group("nccl")."""

import os

import mscclpp
import mscclpp.ext

HERE = os.path.dirname(os.path.abspath(__file__))
# file, name, collective, ranks, first size, last size, bytes that must divide it, in place, root or -1; sizes
# are those of the larger per-rank buffer, both ends belong to the range, the first row that serves is taken
PLANS = [
{rows}]
TYPES = [
    mscclpp.DataType.float16,
    mscclpp.DataType.bfloat16,
    mscclpp.DataType.float32,
    mscclpp.DataType.int32,
    mscclpp.DataType.uint32,
]


def is_in_place(call):
    if call.collective == "allgather":
        return call.input_buffer == call.output_buffer + call.rank * call.message_size
    if call.collective == "reducescatter":
        return call.output_buffer == call.input_buffer + call.rank * call.message_size // call.world_size
    return call.input_buffer == call.output_buffer


def choose(call):
    """The name of the plan that serves a call, or None."""
    size = call.message_size
    if call.collective == "allgather":
        size *= call.world_size
    for _, name, collective, ranks, first, last, unit, in_place, root in PLANS:
        if (
            (collective, ranks) == (call.collective, call.world_size)
            and first <= size <= last
            and size % unit == 0
            and in_place == is_in_place(call)
            and (root < 0 or call.hints["root"] == [root])
            and call.dtype in TYPES
        ):
            return name
    return None


def select(algorithms, call):
    name = choose(call)
    return None if name is None else algorithms[call.collective][name]


def register(rank):
    builder = mscclpp.ext.AlgorithmCollectionBuilder()
    for file, name, *_ in PLANS:
        plan = mscclpp.ExecutionPlan(os.path.join(HERE, file), rank)
        constraint = mscclpp.Algorithm.Constraint(0, 0)
        builder.add_algorithm_builder(mscclpp.Algorithm(name, plan, constraint=constraint))
    builder.set_algorithm_selector(select)


register(int(os.environ["RANK"]))
'''
