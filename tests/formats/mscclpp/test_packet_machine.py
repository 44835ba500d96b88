"""Small plans of packets and pipelines at work, and what one change makes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from samples.readers.mscclpp_plans import gpu
from treadle.formats.mscclpp.interpreter import interpret_mscclpp_json


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
    whole = interpret_mscclpp_json(text_of("allreduce", (2, 2, 2), [[in_place(0)], [in_place(1)]], **DOUBLE))
    assert ([count for _, count in whole.counts], whole.violations, whole.notes) == ([6, 2], (), ())
    # each operation in a block of its own: the same
    spread = [[[one] for one in in_place(rank)] for rank in (0, 1)]
    assert interpret_mscclpp_json(text_of("allreduce", (2, 2, 2), spread, **DOUBLE)).violations == ()
    # a read that no packet comes from: its block may be late
    late = [[[one] for one in in_place(rank)] for rank in (0, 1)]
    late[0].append([step("copy", ("i", 1), ("s", 7))])
    (race,) = interpret_mscclpp_json(text_of("allreduce", (2, 2, 8), late, **DOUBLE)).violations
    assert race == "gpu 0 threadblock 2 op 0: races on chunk 1 of buffer i of gpu 0"


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
        ({}, {"max_message_size": 2**20}, "may still read packets of the last launch"),
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
