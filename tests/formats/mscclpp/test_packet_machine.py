"""Small plans of packets and pipelines at work, and what one change makes of them."""

from __future__ import annotations

import json
from collections import deque
from typing import Any

import pytest

from samples.readers.mscclpp_plans import gpu
from treadle.errors import FormatError
from treadle.formats.mscclpp.interpreter import PlanInterpretation, interpret_mscclpp_json
from treadle.formats.mscclpp.interpreter_blocks import BlockAtWork, News
from treadle.formats.mscclpp.interpreter_machine import Machine
from treadle.formats.mscclpp.interpreter_packets import PacketMachine
from treadle.formats.mscclpp.reader import BufferChunks, ExecutionPlan, MscclppOperation
from treadle.formats.mscclpp.traffic import traffic
from treadle.formats.verdict import Terms

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
    plan = ExecutionPlan(kind, False, is_low_latency=True, has_double_scratch=double)
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
    # without the nop it is the same thread that stores and sends
    assert ring(informed=False) == [late.format("rppkt", 2)]


def pipelined(*inner: MscclppOperation, unit: int = 1) -> list[str]:
    """One rank of two chunks, which go from input to output by scratch in a pipeline of one chunk a turn."""
    plan = ExecutionPlan("allreduce", False)
    plan.sizes, plan.peers, plan.semaphores = [{"i": 2, "o": 2, "s": 2}], [{}], [[]]
    plan.blocks = [[[MscclppOperation("pipeline", "p", numbers=(unit, 16), inner=inner)]]]
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
    full, empty = deque([News({1: 1}, {1})]), deque[News]()
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


def text_of(kind: str, sizes: tuple[int, int, int], ranks: list[list[Text]], **more: object) -> str:
    """A plan of two ranks in place: of each rank its blocks' operations; memory channel i is of block i."""
    gpus, most = [], max(map(len, ranks))
    for rank, blocks in enumerate(ranks):
        shared = {
            "channels": [
                {"channel_type": "memory", "connected_to": [1 - rank] * most},
                {"channel_type": "port", "connected_to": [1 - rank]},
            ],
            "remote_buffers": [
                {"rank": 1 - rank, "type": letter, "access_channel_types": ["memory", "port"]}
                for letter in "os"
            ],
        }
        kinds = ("memory", "port")
        made = [
            {
                "id": number,
                "channels": [
                    {"channel_type": "memory", "channel_ids": [number]},
                    {"channel_type": "port", "channel_ids": [0]},
                ],
                "remote_buffer_refs": [
                    {"access_channel_type": one, "remote_buffer_ids": [0, 1]} for one in kinds
                ],
                "ops": block,
            }
            for number, block in enumerate(blocks)
        ]
        gpus.append(gpu(rank, sizes, **shared, threadblocks=made))
    head = {"name": "n", "collective": kind, "inplace": True, "protocol": "LL", **more}
    return json.dumps({**head, "gpus": gpus})


Text = dict[str, object]
OUT, SCRATCH = 0, 1
"""Of the peer, by number of the remote buffer."""


def step(
    name: str, *places: tuple[str | int, int], group: tuple[int, int] = (0, 1), port: bool = False
) -> Text:
    """An operation: places are sources, then targets, each a letter or a remote buffer, and a chunk."""
    sides: list[list[Text]] = [[], []]
    for where, index in places:
        end = {"type": where} if isinstance(where, str) else {"buffer_id": where}
        sides[name in TAKES and len(sides[0]) == TAKES[name]].append({**end, "index": index, "size": 1})
    sized = {key: side for key, side in zip(("src_buff", "dst_buff"), sides, strict=True) if side}
    channel = {"channel_type": "port" if port else "memory", "channel_ids": [0]}
    part = {"tbg_info": {"tb_id": group[0], "tbg_size": group[1]}} if group[1] > 1 else {}
    return {"name": name, **({} if name in ("nop", "upkt", "cpkt") else channel), **sized, **part}


TAKES = {
    **{"put": 1, "ppkt": 1, "rppkt": 1, "upkt": 1, "cpkt": 1, "copy": 1},
    **{"respkt": 2, "repkt": 2, "recpkt": 2, "recspkt": 2},
}


def gathering_group(rank: int, number: int, of: int, *, group: bool = True) -> list[Text]:
    """Of an allgather of two in place: a block of a group that puts the rank's chunk."""
    part = (number, of) if group else (0, 1)
    meet = [step("signal"), step("wait"), step("nop")]
    return [*meet, step("put", ("o", rank), (OUT, rank), group=part), *[step("nop"), *meet[:2]]]


def test_blocks_of_a_group_put_a_part_each() -> None:
    """Three blocks share a chunk; two of them alone, or all without groups, do not do it."""
    for blocks, groups, words in ((3, True, ""), (2, True, "output chunks wrong"), (3, False, "races on")):
        ranks = [
            [gathering_group(rank, number, 3, group=groups) for number in range(blocks)] for rank in (0, 1)
        ]
        text = text_of("allgather", (1, 2, 0), ranks, protocol="Simple")
        found = interpret_mscclpp_json(text).violations
        assert (words in found[0]) if words else found == ()
    assert traffic(text_of("allgather", (1, 2, 0), ranks).encode(), Terms()).program.n_chunks == 2
    ranks = [[gathering_group(rank, number, 3) for number in range(3)] for rank in (0, 1)]
    program = traffic(text_of("allgather", (1, 2, 0), ranks).encode(), Terms()).program
    assert (program.n_chunks, program.n_operations) == (6, 12)


def test_parts_of_ranges_of_other_lengths_meet_only_where_chunks_divide() -> None:
    """Block 0's half of two chunks is chunk 0; both blocks share chunk 1 alone."""
    for meeting in (step("nop"), {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}):
        blocks = [
            [
                {
                    **step("copy", group=(part, 2)),
                    "src_buff": [{"type": "i", "index": 0, "size": 2}],
                    "dst_buff": [{"type": "s", "index": 0, "size": 2}],
                },
                meeting,
                step("copy", ("s", 1), ("i", 1), group=(part, 2)),
            ]
            for part in (0, 1)
        ]
        text = text_of("allreduce", (2, 2, 2), [blocks, blocks], protocol="Simple")
        first = interpret_mscclpp_json(text).violations[0]
        # the sum is not made here
        assert ("reads chunk 1 of gpu 0 undefined" in first) == (meeting["name"] == "nop"), first


def in_place(rank: int) -> list[Text]:
    """Of an allreduce of two by packets: send the other's chunk, sum and send one's own, store."""
    return [
        step("ppkt", ("i", 1 - rank), (SCRATCH, 0)),
        step("respkt", ("i", rank), ("s", 0), ("i", rank), (SCRATCH, 1)),
        step("upkt", ("s", 1), ("i", 1 - rank)),
    ]


DOUBLE = {"use_double_scratch_buffer": True, "max_message_size": 2**20}


def test_a_store_comes_after_the_reads_that_its_packet_came_from() -> None:
    """The chunk that is stored was sent first: its sum cannot come before, element by element."""
    assert interpret_mscclpp_json(
        text_of("allreduce", (2, 2, 2), [[in_place(0)], [in_place(1)]], **DOUBLE)
    ) == (PlanInterpretation("allreduce", 2, 6, 2, ()))
    # each operation in a block of its own: the same
    spread = [[[one] for one in in_place(rank)] for rank in (0, 1)]
    assert interpret_mscclpp_json(text_of("allreduce", (2, 2, 2), spread, **DOUBLE)).violations == ()
    # a read that no packet comes from: its block may be late
    late = [[[one] for one in in_place(rank)] for rank in (0, 1)]
    late[0].append([step("copy", ("i", 1), ("s", 7))])
    (race,) = interpret_mscclpp_json(text_of("allreduce", (2, 2, 8), late, **DOUBLE)).violations
    assert race == "gpu 0 threadblock 2 op 0: races on chunk 1 of buffer i of gpu 0"


def test_packets_have_no_fence_for_other_data() -> None:
    """A block stores a sum and sends it; another that waits for the packet may not read what was stored."""
    ranks = [
        [
            [step("ppkt", ("i", 0), (SCRATCH, 0)), step("repkt", ("i", 0), ("s", 0), ("i", 0))],
            [step("upkt", ("s", 1), ("s", 7)), step("nop"), step("copy", ("i", 0), ("s", 6))],
        ],
        [
            [
                step("ppkt", ("i", 0), (SCRATCH, 0)),
                step("respkt", ("i", 0), ("s", 0), ("i", 0), (SCRATCH, 1)),
            ]
        ],
    ]
    text = text_of("allreduce", (1, 1, 8), ranks, **DOUBLE)
    assert "races on chunk 0 of buffer i of gpu 0" in interpret_mscclpp_json(text).violations[0]
    # a sum and its copy to packets, which another block stores over the sum: the older store may come last
    ranks[0] = [
        [
            step("ppkt", ("i", 0), (SCRATCH, 0)),
            step("recpkt", ("i", 0), ("s", 0), ("i", 0), ("s", 1)),
        ],
        [step("upkt", ("s", 1), ("i", 0))],
    ]
    ranks[1] = [[step("ppkt", ("i", 0), (SCRATCH, 0)), step("repkt", ("i", 0), ("s", 0), ("i", 0))]]
    text = text_of("allreduce", (1, 1, 8), ranks, **DOUBLE)
    assert interpret_mscclpp_json(text).violations == (
        "gpu 0 threadblock 1 op 0: races on chunk 0 of buffer i of gpu 0",
    )
    ranks[0] = [[*ranks[0][0], *ranks[0][1]]]  # in one block it is the same thread
    assert interpret_mscclpp_json(text_of("allreduce", (1, 1, 8), ranks, **DOUBLE)).violations == ()


def through_port(rank: int, *, nop: bool = True, sent: str = "ppkt") -> list[Text]:
    """Of an allgather of two: copy to packets, send them by a proxy, and store what comes."""
    return [
        step("cpkt", ("o", rank), ("s", rank)),
        *([step("nop")] if nop else []),
        step(sent, ("s", rank), (SCRATCH, rank), port=True),
        step("upkt", ("s", 1 - rank), ("o", 1 - rank)),
    ]


@pytest.mark.parametrize(
    ("options", "more", "words"),
    [
        ({}, DOUBLE, ""),
        ({"nop": False}, DOUBLE, "a proxy sends packets of chunk 0 of gpu 0 that may not be written"),
        ({"nop": False, "sent": "rppkt"}, DOUBLE, ""),  # it waits for each packet
        ({}, {"max_message_size": 2**20}, "may still read packets of the launch before"),
    ],
)
def test_proxies_send_packets(options: dict[str, Any], more: dict[str, object], words: str) -> None:
    ranks = [[through_port(rank, **options)] for rank in (0, 1)]
    found = interpret_mscclpp_json(text_of("allgather", (1, 2, 2), ranks, **more)).violations
    assert (words in found[0]) if words else found == ()
    missing = [[through_port(0)], [through_port(1)[2:]]]
    late = interpret_mscclpp_json(text_of("allgather", (1, 2, 2), missing, **DOUBLE)).violations
    assert late[0].endswith("a proxy sends packets that are not written")


def test_a_proxy_may_send_what_the_next_launch_goes_over() -> None:
    """Nobody tells rank 0 that rank 1 is there: its proxy's source may be written again."""
    ranks = [[through_port(0)[:3]], [[step("cpkt", ("o", 1), ("s", 1)), through_port(1)[3]]]]
    found = interpret_mscclpp_json(text_of("allgather", (1, 2, 2), ranks, **DOUBLE)).violations
    assert any("a proxy may still send packets of chunk 0 to gpu 1" in one for one in found)


def pipeline_by_scratch(free: int | None) -> str:
    """Two blocks of one rank that pass a chunk through scratch of 64 MB by slices of 32 MB."""

    def turn(*inner: Text) -> Text:
        return {
            "name": "pipeline",
            "iter_context": {"unit_size": 2**25, "num_chunks": 1},
            "ops": [*inner, step("nop")],
        }

    def semaphore(name: str, number: int) -> Text:
        return {"name": f"sem_{name}", "semaphore_ids": [number]}

    copy = [step("copy", ("i", 0), ("s", 0)), step("copy", ("s", 0), ("o", 0))]
    back = (
        [[semaphore("acquire", 1), step("nop")], [semaphore("release", 1)]] if free is not None else [[], []]
    )
    first = turn(*back[0], copy[0], step("nop"), semaphore("release", 0))
    second = turn(semaphore("acquire", 0), step("nop"), copy[1], step("nop"), *back[1])
    for one in (copy[0], copy[1]):
        del one["channel_type"], one["channel_ids"]
    blocks = [{"id": number, "channels": [], "ops": [one]} for number, one in enumerate((first, second))]
    lone = gpu(0, (1, 1, 1), threadblocks=blocks, semaphores=[{"init_value": 0}, {"init_value": free or 0}])
    head = {"name": "n", "collective": "allreduce", "inplace": False, "protocol": "Simple"}
    return json.dumps({**head, "reuse_resources": True, "gpus": [lone]})


@pytest.mark.parametrize(("free", "is_limited"), [(None, True), (3, True), (2, False), (1, False)])
def test_scratch_is_used_again_as_far_as_blocks_wait(free: int | None, is_limited: bool) -> None:
    """There are two slices of scratch: the first block may be two ahead, and no further."""
    found = interpret_mscclpp_json(pipeline_by_scratch(free))
    assert found.violations == ()
    limit = (
        f"verified up to {2**26} bytes: beyond, chunks are larger than the {2**26} bytes of scratch that "
        "each has with reuse_resources",
    )
    assert found.notes == (limit if is_limited else ())
    capped = json.loads(pipeline_by_scratch(free)) | {"max_message_size": 2**26}
    assert interpret_mscclpp_json(json.dumps(capped)).notes == ()
