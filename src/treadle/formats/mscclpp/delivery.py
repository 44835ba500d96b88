"""How MSCCL++ chooses from several plans: a Python module that registers them and a selector.

The interface's own selector compares neither the root nor whether the chunks divide a call, and keeps the
in-place flag and the range of whichever plan it asked first or last in static variables (``DslAlgorithm`` of
src/core/algorithm.cc of microsoft/mscclpp): so the plans are registered for 0 ranks, which it never finds,
and the selector here compares all by itself. See `treadle.formats.mscclpp.recipe`.
"""

from __future__ import annotations

from treadle.formats.file_arguments import runtime_name
from treadle.formats.loading import Loading
from treadle.formats.mscclpp.recipe import CALLED, MOST_BYTES
from treadle.formats.selection.file_set import Delivery, FileSet, loader_script
from treadle.formats.selection.supported_sizes import ALIGNMENT
from treadle.formats.verdict import RangedFile

MODULE = "treadle_set"
"""What a process imports."""


def deliver(texts: FileSet) -> Delivery:
    """The module that registers the plans of a folder, and the script that makes it found."""
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
