"""Emitted MSCCL XML: executed by the independent interpreter, mutated, compared with a golden file."""

from __future__ import annotations

from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import Profile, emit_msccl_xml
from treadle.program.program import Operation, OperationKind, program_from_operations
from treadle.schedules.collective import CollectiveKind


def test_sends_and_receives_share_thread_blocks_where_they_must() -> None:
    """An alltoall-like allgather of 40 ranks needs 78 streams a rank; RCCL has 64 thread blocks."""
    n = 40
    ranks = []
    for v in range(n):
        others = [u for u in range(n) if u != v]
        ranks.append(
            [Operation(OperationKind.SEND, v, 1, peer=u) for u in others]
            + [Operation(OperationKind.RECEIVE, u, 1, peer=u) for u in others]
        )
    program = program_from_operations(
        CollectiveKind.ALLGATHER, ranks, n_chunks=n, shard_offset=range(n + 1), in_place=True
    )
    text = emit_msccl_xml(program, profile=Profile.RCCL)
    assert interpret_msccl_xml(text, profile="rccl").violations == ()
