"""The plain text form of a program, which the C interpreter of ``runtime/c`` reads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.arrays import Int64Array
from treadle.program.group_lists import ProgramGroups
from treadle.program.message_levels import dataflow, requires_copy, stands_alone
from treadle.program.program import Buffer, Program

VERSION = 2
GROUPS_VERSION = 1

_COPIED = 2


def format_program(program: Program) -> str:
    """Write a program as numbers and keywords, one line for each operation.

    Parameters
    ----------
    program : Program
        Its messages may fail to match: nothing is checked here.

    Returns
    -------
    str
        ASCII, ends with a newline. Physical paths, channels and steps are left out: what remains is what
        moves data.

    Notes
    -----
    After a header (``treadle-program 2``, ``collective``, ``ranks``, ``root``, ``chunks``, ``in-place``,
    ``shards`` with their number and offsets) come, for each rank, its buffers as chunk ranges::

        rank 0
        input 1 0 16
        output 1 0 16
        scratch 0
        operations 2
        0 1 0 0 0 4 2 0 0 0
        1 7 3 1 1 8 2 1 0 1 0

    that is ``input``, the number of ranges, then first and past chunk of each; and for each operation kind,
    peer, message, source, target, first chunk, number of chunks, level, mode, number of waits, places of the
    operations of this rank that it waits for. ``message`` and ``level`` are those of
    `treadle.program.message_levels.Dataflow`: the message is a tag that both ends know, so that messages may
    be posted in any order. ``mode`` is 1 where both ends stand alone, 2 for sends that must be complete
    before the receiver takes them, else 0. The last line is ``end``. The size grows with operations and
    waits, not with the data.

    Examples
    --------
    A COPY has peer, message and level -1.
    """
    return "\n".join(_lines(program)) + "\n"


def format_groups(programs: ProgramGroups) -> str:
    """Write the programs of several groups: after a header each with a line of the ranks that run it.

    Parameters
    ----------
    programs : ProgramGroups

    Returns
    -------
    str
        Of one group, the text of its program alone. Else ``treadle-groups 1``, ``groups`` and ``size`` with
        their number and that of the ranks in each; then for each ``group`` with its ranks among all, and the
        text of its program.
    """
    if len(programs.programs) == 1:
        return format_program(programs.programs[0])
    head = [
        f"treadle-groups {GROUPS_VERSION}",
        f"groups {len(programs.groups)}",
        f"size {len(programs.groups[0])}",
    ]
    parts = [
        f"{' '.join(['group', *map(str, ranks)])}\n{format_program(program)}"
        for program, ranks in zip(programs.programs, programs.groups, strict=True)
    ]
    return "\n".join(head) + "\n" + "".join(parts)


def _lines(program: Program) -> Iterator[str]:
    yield f"treadle-program {VERSION}"
    yield f"collective {program.kind.value}"
    yield f"ranks {program.n_ranks}"
    yield f"root {program.root}"
    yield f"chunks {program.n_chunks}"
    yield f"in-place {int(program.in_place)}"
    yield " ".join(["shards", str(len(program.shard_offset) - 1), *map(str, program.shard_offset.tolist())])
    flow = dataflow(program)
    modes = np.where(requires_copy(program, flow), _COPIED, stands_alone(program, flow))
    facts = np.stack([flow.number, flow.level, modes])
    for rank in range(program.n_ranks):
        yield f"rank {rank}"
        for buffer in Buffer:
            exists = buffer is not Buffer.SCRATCH or program.uses_scratch(rank)
            ranges = program.ranges(rank, buffer) if exists else []
            bounds = [str(bound) for span in ranges for bound in span]
            yield " ".join([buffer.name.lower(), str(len(ranges)), *bounds])
        yield from _operation_lines(program, rank, facts)
    yield "end"


def _operation_lines(program: Program, rank: int, facts: Int64Array) -> Iterator[str]:
    span = program.operations(rank)
    part = slice(span.start, span.stop)
    columns = (
        program.operation_kind[part],
        program.peer[part],
        facts[0, part],
        program.source[part],
        program.target[part],
        program.first[part],
        program.count[part],
        *facts[1:, part],
    )
    waits = program.wait_offset[span.start : span.stop + 1].tolist()
    awaited = (program.waits[waits[0] : waits[-1]] - span.start).tolist() if len(span) else []
    yield f"operations {len(span)}"
    for place, fields in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        low, high = waits[place] - waits[0], waits[place + 1] - waits[0]
        yield " ".join(map(str, (*fields, high - low, *awaited[low:high])))
