"""The text form of programs: what it says, and that both ends of a message agree on its number."""

import numpy as np
import pytest

from runtime_programs import random_program
from treadle.lowering.program import Buffer, Operation, OperationKind, program_from_operations
from treadle.lowering.program_text import message_numbers, program_text
from treadle.runtime.order import match_messages
from treadle.schedules.collective import CollectiveKind

PAIR = """\
treadle-program 1
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
0 1 0 0 0 0 2 0
2 1 0 0 1 0 2 0
rank 1
input 1 0 2
output 1 0 2
scratch 1 0 2
operations 3
3 -1 -1 0 2 0 2 0
0 0 0 2 2 0 2 1 0
2 0 0 0 1 0 2 2 0 1
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
    assert program_text(program) == PAIR


@pytest.mark.parametrize("kind", [CollectiveKind.ALLREDUCE, CollectiveKind.BROADCAST])
def test_both_ends_of_every_message_have_the_same_number(kind: CollectiveKind) -> None:
    for seed in range(5):
        program = random_program(kind, 5, seed=seed, trees_per_root=3)
        numbers, partner = message_numbers(program), match_messages(program)
        sends = np.flatnonzero(program.operation_kind == OperationKind.SEND)
        assert np.array_equal(numbers[sends], numbers[partner[sends]])
        keys = zip(
            program.operation_rank[sends].tolist(),
            program.peer[sends].tolist(),
            numbers[sends].tolist(),
            strict=True,
        )
        assert len(set(keys)) == len(sends)


def test_channels_do_not_disturb_the_numbers() -> None:
    """Two channels whose messages are listed in another order at the receiver."""

    def message(kind: OperationKind, first: int, channel: int) -> Operation:
        peer = 1 if kind is OperationKind.SEND else 0
        return Operation(kind, first, 1, peer=peer, channel=channel)

    program = program_from_operations(
        CollectiveKind.BROADCAST,
        [
            [message(OperationKind.SEND, 0, 1), message(OperationKind.SEND, 1, 0)],
            [message(OperationKind.RECEIVE, 1, 0), message(OperationKind.RECEIVE, 0, 1)],
        ],
        n_chunks=2,
        shard_offset=[0, 2, 2],
        root=0,
    )
    assert message_numbers(program).tolist() == [1, 0, 0, 1]
