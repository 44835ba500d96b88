"""Small plans of packets and pipelines at work, and what one change makes of them."""

from __future__ import annotations

import json
from collections import deque

import pytest

from samples.readers.mscclpp_plans import gpu
from treadle.errors import FormatError
from treadle.formats.mscclpp.judge import interpret_mscclpp_json
from treadle.formats.mscclpp.judge_blocks import BlockAtWork
from treadle.formats.mscclpp.judge_machine import Machine
from treadle.formats.mscclpp.judge_packets import PacketMachine
from treadle.formats.mscclpp.reader import BufferChunks, ExecutionPlan, MscclppOperation

Ops = list[MscclppOperation]
MEMORY = ("memory", 0)


def own(rank: int, letter: str, index: int = 0, size: int = 1) -> BufferChunks:
    """Chunks of a rank's own buffer."""
    return BufferChunks((rank,), letter, index, size, "local")


def far(rank: int, letter: str, index: int = 0, size: int = 1) -> BufferChunks:
    """Chunks of another rank's buffer."""
    return BufferChunks((rank,), letter, index, size, "remote")


def op(name: str, sources: list[BufferChunks] | None = None, *targets: BufferChunks) -> MscclppOperation:
    """An operation, without data one on the first channel of memory."""
    channels = (MEMORY,) if sources is None and name != "nop" else ()
    return MscclppOperation(name, name, channels, tuple(sources or ()), targets)


def faults(kind: str, sides: list[Ops], *, double: bool = False) -> list[str]:
    """What is wrong with a block for each rank; every rank has a channel to each other."""
    n = len(sides)
    plan = ExecutionPlan(kind, False, has_packets=True, has_double_scratch=double)
    plan.sizes = [{"i": 1, "o": 1, "s": 8} for _ in sides]
    plan.peers = [{"memory": [peer for peer in range(n) if peer != rank]} for rank in range(n)]
    plan.blocks = [[side] for side in sides]
    plan.semaphores = [[] for _ in sides]
    return PacketMachine(plan, 0).run()


def summing(rank: int, *extra: MscclppOperation, greets: bool = True) -> Ops:
    """Half of an allreduce of two: greet, send what is one's own, and add what comes."""
    greeting = [op("rlxsignal"), op("rlxwait"), op("nop")] if greets else []
    put = op("ppkt", [own(rank, "i")], far(1 - rank, "s"))
    add = op("repkt", [own(rank, "i"), own(rank, "s")], own(rank, "o"))
    return [*greeting, put, add, *extra]


AGAIN = "ppkt: gpu {} may still read packets of the launch before, which these go over"
OVER = "gpu 0: packets of chunk 0 lie where other data do"


@pytest.mark.parametrize(
    ("sides", "found"),
    [
        ([summing(0), summing(1)], []),
        ([summing(0, greets=False), summing(1, greets=False)], [AGAIN.format(1), AGAIN.format(0)]),
        ([[op("rlxsignal"), op("rlxwait"), *summing(0, greets=False)], summing(1)], [AGAIN.format(1)]),
        (
            [summing(0)[:-1], summing(1)],
            ["ppkt: nobody reads the packets of chunk 0 of gpu 0", "gpu 0: 1 output chunks wrong, first 0"],
        ),
        ([summing(0, summing(0)[3]), summing(1)], ["ppkt: packets of chunk 0 of gpu 1 a second time"]),
        ([summing(0, op("copy", [own(0, "i")], own(0, "s", 1))), summing(1)], [OVER]),
        ([summing(0, op("copy", [own(0, "i")], own(0, "s", 2))), summing(1)], []),
        ([summing(0, op("copy", [own(0, "i")], own(0, "s", 0))), summing(1)], [OVER]),
        ([summing(0, op("copy", [own(0, "s", 4)], own(0, "s", 5))), summing(1)], ["reads"]),
        ([[*summing(0)[:3], summing(0)[4]], summing(1)], ["waits"]),
        ([summing(0), [*summing(1)[:3], op("ppkt", [own(1, "i"), own(1, "i")], far(0, "s"))]], ["takes"]),
    ],
)
def test_an_allreduce_of_two_by_packets(sides: list[Ops], found: list[str]) -> None:
    made = faults("allreduce", sides)
    words = {
        "reads": ["copy: reads chunk 4 of gpu 0 undefined"],
        "waits": ["repkt: repkt waits for ever"],
        "takes": [
            "ppkt: ppkt does not take these sources and targets",
            "repkt: repkt waits for ever",
        ],
    }
    assert made == (words[found[0]] if found and found[0] in words else found)


def test_several_packets_of_one_operation() -> None:
    """Rank 1 copies two chunks to scratch and sends both; packets 2 and 3 are read one by one."""
    first = [
        op("rlxsignal"),
        op("rlxwait"),
        op("nop"),
        op("upkt", [own(0, "s", 3)], own(0, "o")),
        op("upkt", [own(0, "s", 2)], own(0, "s", 0)),
    ]
    second = [
        op("rlxsignal"),
        op("rlxwait"),
        op("nop"),
        op("copy", [own(1, "i")], own(1, "s", 6)),
        op("nop"),
        op("ppkt", [own(1, "s", 6), own(1, "s", 6)], far(0, "s", 2), far(0, "s", 3)),
        op("copy", [own(1, "i")], own(1, "o")),
    ]
    # neither output has the sum
    assert faults("allreduce", [first, second]) == [
        f"gpu {rank}: 1 output chunks wrong, first 0" for rank in (0, 1)
    ]
    assert (
        faults("allreduce", [first[:-1], second])[0] == "ppkt: nobody reads the packets of chunk 2 of gpu 0"
    )
    wide = [*second[:5], op("ppkt", [own(1, "s", 6, 2)], far(0, "s", 2, 2)), second[6]]
    assert faults("allreduce", [first, wide])[0] == "ppkt: reads chunk 7 of gpu 1 undefined"


def ring(*, informed: bool) -> list[str]:
    """A broadcast that goes round three ranks; the last has all its threads know, or not."""
    word = [op("nop")] if informed else []
    sides = [
        [op("ppkt", [own(0, "i")], far(1, "s")), op("upkt", [own(0, "s")], own(0, "o"))],
        [op("rppkt", [own(1, "s")], far(2, "s")), op("upkt", [own(1, "s")], own(1, "o"))],
        [op("upkt", [own(2, "s")], own(2, "o")), *word, op("ppkt", [own(2, "o")], far(0, "s"))],
    ]
    return faults("broadcast", sides, double=True)


def test_packets_bring_word_of_who_is_there() -> None:
    """Rank 1 hears of rank 0 alone; rank 0 of rank 1 if rank 2 has passed it on."""
    late = "{}: two launches on, gpu {} may still read packets that these go over"
    assert ring(informed=True) == [late.format("rppkt", 2)]
    # without the nop rank 2's threads race for what one of them has stored
    assert ring(informed=False) == ["ppkt: races on chunk 0 of buffer o of gpu 2"]


def pipelined(*inner: MscclppOperation, unit: int = 1) -> list[str]:
    """One rank of two chunks, which go from input to output by scratch in a pipeline of one chunk a turn."""
    plan = ExecutionPlan("allreduce", False)
    plan.sizes, plan.peers, plan.semaphores = [{"i": 2, "o": 2, "s": 2}], [{}], [[]]
    plan.blocks = [[[MscclppOperation("pipeline", "p", numbers=(unit,), inner=inner)]]]
    return Machine(plan, 0).run()


def test_pipelines_go_slice_by_slice() -> None:
    """Four halves of chunks in two turns, each of as many as the pipeline has chunks."""
    move = [
        op("copy", [own(0, "i", 0, 2)], own(0, "s", 0, 2)),
        op("nop"),
        op("copy", [own(0, "s", 0, 2)], own(0, "o", 0, 2)),
    ]
    assert pipelined(*move, unit=2) == []
    assert pipelined(*move, unit=1) == ["gpu 0: 2 output chunks wrong, first 1"]
    assert pipelined(move[0], move[2], unit=2) == [
        f"copy: races on chunk {chunk} of buffer s of gpu 0" for chunk in (0, 0, 1, 1)
    ]
    assert pipelined(*move, unit=4) == ["copy: a slice lies past the end of the chunks"] * 2


@pytest.mark.parametrize(
    ("kind", "sizes", "wanted", "cells", "held"),
    [
        (
            "allgather",
            (1, 2),
            [(0, 0), (0, 1), (1, 2), (1, 3)],
            (2, 0),
            {1: None, 2: (1, 2), 3: (1, 3), 4: None},
        ),
        ("alltoall", (2, 2), [(0, 2), (0, 3), (1, 2), (1, 3)], (0, 0), {0: (1, 0), 3: (1, 3), 4: None}),
        ("broadcast", (2, 2), [(0, 0), (0, 1), (0, 2), (0, 3)], (0, 0), {0: None}),
        ("reducescatter", (2, 1), [(0, 2), (0, 3)], (0, 2), {0: (1, 0), 3: (1, 3), 4: None}),
    ],
)
def test_slices_count_in_what_is_held_and_wanted(
    kind: str,
    sizes: tuple[int, int],
    wanted: list[tuple[int, int]],
    cells: tuple[int, int],
    held: dict[int, tuple[int, int] | None],
) -> None:
    """Of rank 1 of two, in place and in halves of chunks; sums have rank 1's terms too."""
    plan = ExecutionPlan(kind, True)
    plan.sizes = [{"i": sizes[0], "o": sizes[1], "s": 0}] * 2
    plan.peers, plan.blocks, plan.semaphores = [{}, {}], [[], []], [[], []]
    machine = Machine(plan, 0)
    assert machine.slices == 1
    machine.slices = 2
    found = [machine._expected(1, place) for place in range(2 * sizes[1])]
    both = kind == "reducescatter"
    assert found == [{one: 1} | ({(1, one[1]): 1} if both else {}) for one in wanted]
    assert machine._expected(1, 0) is not None
    assert tuple(machine._cell(1, letter, 0)[2] for letter in "io") == cells
    for place, what in held.items():
        assert machine._held((1, "i", place)) == (None if what is None else {what: 1})


def test_all_queues_have_enough_or_none_is_taken() -> None:
    block = BlockAtWork(0, 0, iter(()))
    full, empty = deque([({1: 1}, {1})]), deque([({1: 1}, {1})][:0])
    assert not block.hear_all([full, empty])
    assert len(full) == 1
    assert block.hear_all([full])


def test_texts_are_judged_with_their_root() -> None:
    """A broadcast of two ranks without blocks: nothing is at its output."""
    head = {"name": "n", "collective": "broadcast", "inplace": False, "protocol": "Simple"}
    text = json.dumps({**head, "gpus": [gpu(rank, (1, 1, 0)) for rank in range(2)]})
    found = interpret_mscclpp_json(text)
    assert (found.collective, found.n_ranks, found.n_operations, found.n_thread_blocks) == (
        "broadcast",
        2,
        0,
        0,
    )
    assert found.violations == (
        "gpu 0: 1 output chunks wrong, first 0",
        "gpu 1: 1 output chunks wrong, first 0",
    )
    for root in (-1, 2):
        with pytest.raises(FormatError, match=f"file: root {root}: expected a rank from 0 to 1"):
            interpret_mscclpp_json(text, root=root, source="file")
    with pytest.raises(FormatError, match=r"^MSCCL\+\+ plan"):
        interpret_mscclpp_json("{")
    copy = {"name": "copy"} | {
        key: [{"type": letter, "index": 0, "size": 1}]
        for key, letter in (("src_buff", "i"), ("dst_buff", "o"))
    }
    block = {"id": 0, "channels": [], "ops": [copy]}
    lone = {**head, "gpus": [gpu(0, (1, 1, 0), threadblocks=[block])]}
    found = interpret_mscclpp_json(json.dumps(lone))
    assert (found.n_operations, found.n_thread_blocks, found.violations) == (1, 1, ())
    in_place = interpret_mscclpp_json(json.dumps({**head, "inplace": True, "gpus": [gpu(0, (1, 1, 0))]}))
    assert in_place.violations == ()
    both = interpret_mscclpp_json(
        json.dumps({**head, "inplace": True, "gpus": [gpu(rank, (1, 1, 0)) for rank in (0, 1)]})
    )
    assert both.violations == ("gpu 1: 1 output chunks wrong, first 0",)
