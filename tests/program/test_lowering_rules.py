"""Small hand-made programs and texts, each for one rule that random cases do not reach."""

from __future__ import annotations

import pytest

from reference.program_check import check_program
from samples.program_cases import random_case
from treadle.errors import ScheduleError
from treadle.formats.msccl.interpreter import interpret_msccl_xml
from treadle.formats.msccl.writer import Profile, emit_msccl_xml
from treadle.program.program import Buffer, Operation, OperationKind, Program, program_from_operations
from treadle.program.trees.forest_program import lower
from treadle.schedules.collective import CollectiveKind

SEND, RECEIVE, COPY = OperationKind.SEND, OperationKind.RECEIVE, OperationKind.COPY


def chunk_paths(program: Program) -> set[tuple[int, ...]]:
    """Rank, peer, chunk, step and links of every chunk sent."""
    return {
        (int(rank), int(program.peer[i]), chunk, int(program.step[i]), *program.links(int(program.path[i])))
        for i, rank in enumerate(program.operation_rank)
        if program.operation_kind[i] == SEND
        for chunk in range(int(program.first[i]), int(program.first[i] + program.count[i]))
    }


def test_merging_keeps_every_chunk_on_its_path() -> None:
    for seed in range(12):
        case = random_case(seed, CollectiveKind.ALLREDUCE)
        assert chunk_paths(lower(*case)) == chunk_paths(lower(*case, merge=False))


def broadcast(ranks: list[list[Operation]], n_chunks: int) -> Program:
    offsets = [0] + [n_chunks] * len(ranks)
    return program_from_operations(
        CollectiveKind.BROADCAST, ranks, n_chunks=n_chunks, shard_offset=offsets, root=0, in_place=True
    )


def test_a_step_waits_for_all_parts_of_a_cut_message() -> None:
    """100 chunks arrive in two steps; the first 60 go on in one that needs both."""
    program = broadcast(
        [
            [Operation(SEND, 0, 100, peer=1)],
            [
                Operation(RECEIVE, 0, 100, peer=0),
                Operation(SEND, 0, 60, peer=2, source=Buffer.OUTPUT, waits=(0,)),
                Operation(SEND, 60, 40, peer=2, source=Buffer.OUTPUT, waits=(0,)),
            ],
            [Operation(RECEIVE, 0, 60, peer=1), Operation(RECEIVE, 60, 40, peer=1)],
        ],
        100,
    )
    assert check_program(program) == ()
    assert interpret_msccl_xml(emit_msccl_xml(program), fifo_depth=0).violations == ()


def test_the_number_of_xml_nodes_is_limited() -> None:
    n = 4500
    program = broadcast(
        [
            [Operation(SEND, i, 1, peer=1) for i in range(n)],
            [Operation(RECEIVE, i, 1, peer=0) for i in range(n)],
        ],
        n,
    )
    with pytest.raises(ScheduleError, match="XML nodes, the limit is 4096"):
        emit_msccl_xml(program, profile=Profile.LEGACY)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (Operation(RECEIVE, 0, 1, peer=1), "operations 0 and 1 race"),
        (Operation(RECEIVE, 1, 1, peer=1, target=Buffer.INPUT), "writes INPUT out of place"),
        (Operation(SEND, 1, 1, peer=1, source=Buffer.OUTPUT), "reads chunk 1, which is not there yet"),
        (Operation(COPY, 0, 1, source=Buffer.SCRATCH, waits=(0,)), "reads chunk 0, which is not there yet"),
    ],
)
def test_check_names_the_rule(second: Operation, message: str) -> None:
    """After a copy of the rank's own shard to OUTPUT."""
    program = program_from_operations(
        CollectiveKind.ALLGATHER,
        [[Operation(COPY, 0, 1), second], [Operation(COPY, 0, 1)]],
        n_chunks=2,
        shard_offset=[0, 1, 2],
    )
    assert any(message in violation for violation in check_program(program))


def test_a_copy_reads_its_source_before_it_is_overwritten() -> None:
    for waits, expected in ((), True), ((0,), False):
        copy = Operation(COPY, 0, 1, source=Buffer.INPUT, target=Buffer.SCRATCH)
        store = Operation(RECEIVE, 0, 1, peer=1, target=Buffer.OUTPUT, waits=waits)
        program = program_from_operations(
            CollectiveKind.ALLREDUCE,
            [[copy, store], [Operation(SEND, 0, 1, peer=0)]],
            n_chunks=1,
            shard_offset=[0, 1, 1],
            in_place=True,
        )
        assert bool(check_program(program)) == expected


def chain_text() -> str:
    program = broadcast(
        [
            [Operation(SEND, 0, 1, peer=1)],
            [
                Operation(RECEIVE, 0, 1, peer=0),
                Operation(SEND, 0, 1, peer=2, source=Buffer.OUTPUT, waits=(0,)),
            ],
            [Operation(RECEIVE, 0, 1, peer=1)],
        ],
        1,
    )
    return emit_msccl_xml(program)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('hasdep="1"', 'hasdep="0"', "is awaited and has hasdep=0"),
        ('o_chunks="1"', 'o_chunks="0"', "of 0 chunks"),
        ('depid="-1" deps="-1" hasdep="0"', 'depid="9" deps="0" hasdep="0"', "there is none"),
    ],
)
def test_interpreter_names_the_rule(old: str, new: str, message: str) -> None:
    text = chain_text()
    assert interpret_msccl_xml(text).violations == ()
    assert any(message in violation for violation in interpret_msccl_xml(text.replace(old, new)).violations)


def test_high_thread_blocks_cannot_be_awaited() -> None:
    nop = '<step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" {} hasdep="1"/>'
    free = "".join(
        f'<tb id="{i}" send="-1" recv="-1" chan="0">' + nop.format('depid="-1" deps="-1"') + "</tb>"
        for i in range(2, 129)
    )
    for awaited, allowed in ((127, True), (128, False)):
        last = (
            '<tb id="129" send="-1" recv="-1" chan="0">' + nop.format(f'depid="{awaited}" deps="0"') + "</tb>"
        )
        head, _, tail = chain_text().rpartition('<gpu id="1"')
        body, _, rest = tail.partition("</gpu>")
        text = f'{head}<gpu id="1"{body}{free}{last}</gpu>{rest}'
        found = [v for v in interpret_msccl_xml(text).violations if "highest that may be awaited" in v]
        assert bool(found) != allowed


def test_a_store_races_with_an_earlier_send_of_the_same_chunk() -> None:
    text = ['<algo proto="Simple" nchannels="2" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="1" ']
    text[0] += 'outofplace="0" minBytes="0" maxBytes="0">'
    for rank, kinds in enumerate(("sr", "rs")):
        text.append(f'<gpu id="{rank}" i_chunks="1" o_chunks="1" s_chunks="0">')
        for block, kind in enumerate(kinds):
            text.append(f'<tb id="{block}" send="{1 - rank}" recv="{1 - rank}" chan="{block}">')
            text.append(
                f'<step s="0" type="{kind}" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" '
                'depid="-1" deps="-1" hasdep="0"/></tb>'
            )
        text.append("</gpu>")
    races = [v for v in interpret_msccl_xml("\n".join([*text, "</algo>"])).violations if v.startswith("race")]
    assert len(races) == 2
    assert any("rank 0" in race for race in races)


def test_awaited_thread_blocks_come_first() -> None:
    """The one stream that 140 others wait for is on the highest channel; ids above 127 cannot be awaited."""
    n = 142
    ranks = [
        [Operation(SEND, 0, 1, peer=1, channel=31)],
        [Operation(RECEIVE, 0, 1, peer=0, channel=31)],
        *([Operation(RECEIVE, 0, 1, peer=1, channel=v % 5)] for v in range(2, n)),
    ]
    for v in range(2, n):
        ranks[1].append(Operation(SEND, 0, 1, peer=v, source=Buffer.OUTPUT, channel=v % 5, waits=(0,)))
    program = broadcast(ranks, 1)
    assert check_program(program) == ()
    assert interpret_msccl_xml(emit_msccl_xml(program)).violations == ()
