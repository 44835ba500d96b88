"""The text form of programs says what its documentation says."""

from treadle.program.program import Buffer, Operation, OperationKind, program_from_operations
from treadle.program.program_format import format_program
from treadle.schedules.collective import CollectiveKind

PAIR = """\
treadle-program 2
collective allreduce
ranks 2
root -1
chunks 2
in-place 0
shards 2 0 1 2
rank 0
input 1 0 2
output 1 0 2
scratch 0
operations 2
0 1 0 0 0 0 2 0 0 0
2 1 0 0 1 0 2 0 0 0
rank 1
input 1 0 2
output 1 0 2
scratch 1 0 2
operations 3
3 -1 -1 0 2 0 2 -1 0 0
0 0 0 2 2 0 2 0 2 1 0
2 0 0 0 1 0 2 0 0 2 0 1
end
"""


def test_a_small_program_is_written_as_documented() -> None:
    send = Operation(OperationKind.SEND, 0, 2, peer=1, source=Buffer.INPUT, target=Buffer.INPUT)
    receive = Operation(OperationKind.RECEIVE_REDUCE, 0, 2, peer=1)
    other = [
        Operation(OperationKind.COPY, 0, 2, target=Buffer.SCRATCH),
        Operation(OperationKind.SEND, 0, 2, peer=0, source=Buffer.SCRATCH, target=Buffer.SCRATCH, waits=(0,)),
        Operation(OperationKind.RECEIVE_REDUCE, 0, 2, peer=0, waits=(0, 1)),
    ]
    program = program_from_operations(
        CollectiveKind.ALLREDUCE, [[send, receive], other], n_chunks=2, shard_offset=[0, 1, 2]
    )
    assert format_program(program) == PAIR
