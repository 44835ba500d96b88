"""Programs run on given data in this process, and what a collective must leave by its definition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from treadle.errors import ScheduleError
from treadle.program.program import Buffer, Program
from treadle.runtime.data import ElementType, Reduction
from treadle.runtime.in_process import Execution, PreparedProgram
from treadle.schedules.collective import CollectiveKind


def execute(
    program: Program, inputs: Sequence[NDArray[Any]], *, reduction: Reduction = Reduction.SUM
) -> list[NDArray[Any] | None]:
    """Run a program on given data.

    Parameters
    ----------
    program : Program
    inputs : N arrays of one dimension and one dtype
        Each rank's INPUT as `Program` defines it; in a broadcast only the root's is read.
    reduction : Reduction

    Returns
    -------
    list of N arrays
        Each rank's OUTPUT, None where it has none.

    Raises
    ------
    ScheduleError
        If the program cannot be executed or an input's length does not fit.

    """
    if len(inputs) != program.n_ranks:
        raise ScheduleError(f"inputs: expected {program.n_ranks} arrays, found {len(inputs)}")
    element = _element_type(inputs)
    run = Execution(PreparedProgram(program), _count(program, inputs), element=element, reduction=reduction)
    for rank, memory in enumerate(run.memories):
        buffer = memory.arrays[Buffer.INPUT]
        if not len(buffer):
            continue
        if inputs[rank].shape != buffer.shape:
            raise ScheduleError(
                f"input of rank {rank}: expected shape {buffer.shape}, found {inputs[rank].shape}"
            )
        buffer[...] = inputs[rank]
    run.run()
    return [
        memory.arrays[Buffer.OUTPUT] if _exists(program, rank, Buffer.OUTPUT) else None
        for rank, memory in enumerate(run.memories)
    ]


def _exists(program: Program, rank: int, buffer: Buffer) -> bool:
    # an empty shard is still a buffer; the absent ones are those of broadcast and reduce
    return bool(program.ranges(rank, buffer)) or not program.kind.is_rooted


def _element_type(inputs: Sequence[NDArray[Any]]) -> ElementType:
    names = sorted({array.dtype.name for array in inputs})
    if len(names) == 1 and names[0] in list(ElementType):
        return ElementType(names[0])
    raise ScheduleError(
        f"inputs: expected one dtype out of {', '.join(ElementType)}, found {', '.join(names)}"
    )


def _count(program: Program, inputs: Sequence[NDArray[Any]]) -> int:
    """Elements of the whole buffer, from the inputs."""
    if program.kind is CollectiveKind.ALLGATHER:
        return sum(len(array) for array in inputs)
    if program.kind is CollectiveKind.ALLTOALL:  # all shards together have more chunks than a buffer
        return -(-sum(len(array) for array in inputs) * program.n_chunks // program.n_addresses)
    return len(inputs[max(program.root, 0)])
