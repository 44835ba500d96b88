"""MSCCL++ plans made by hand, as objects of JSON."""

from __future__ import annotations

from typing import Any


def gpu(rank: int, sizes: tuple[int, int, int], **more: Any) -> dict[str, Any]:
    """A rank's entry with so many chunks of input, output and scratch."""
    chunks = dict(zip(("input_chunks", "output_chunks", "scratch_chunks"), sizes, strict=True))
    return {"id": rank, **chunks, "channels": [], "remote_buffers": [], "threadblocks": [], **more}


def plan_of_three() -> dict[str, Any]:
    """Three ranks of unlike sizes; rank 0 has channels of all types, the others none."""
    first = gpu(
        0,
        (3, 5, 7),
        channels=[
            {"channel_type": "memory", "connected_to": [2, 1]},
            {"channel_type": "memory", "connected_to": [1]},
            {"channel_type": "port", "connected_to": [2]},
            {
                "channel_type": "switch",
                "buffer_type": "o",
                "rank_groups": [{"ranks": [2, 0], "size": 2}, {"ranks": [0, 1, 2], "size": 3}],
            },
        ],
        remote_buffers=[
            {"rank": 1, "type": "o", "access_channel_types": ["memory"]},
            {"rank": 2, "type": "s", "access_channel_types": ["memory", "port"]},
            {"rank": 2, "type": "i", "access_channel_types": ["port"]},
        ],
        semaphores=[{"init_value": 0}, {"init_value": 2**31}],
        threadblocks=[
            {
                "id": 0,
                "channels": [
                    {"channel_type": "memory", "channel_ids": [2, 0]},
                    {"channel_type": "port", "channel_ids": [0]},
                    {"channel_type": "switch", "channel_ids": [1, 0]},
                ],
                "remote_buffer_refs": [
                    {"access_channel_type": "memory", "remote_buffer_ids": [1, 0]},
                    {"access_channel_type": "port", "remote_buffer_ids": [2]},
                ],
                "ops": [
                    {
                        "name": "put",
                        "channel_type": "memory",
                        "channel_ids": [1, 0],
                        "src_buff": [{"type": "i", "index": 1, "size": 2}],
                        "dst_buff": [{"buffer_id": 1, "index": 3, "size": 2}],
                    },
                    {
                        "name": "gstore",
                        "channel_type": "switch",
                        "channel_ids": [0],
                        "src_buff": [{"type": "s", "index": 6, "size": 1}],
                        "dst_buff": [{"switch_channel_id": 1, "index": 2, "size": 2}],
                    },
                    {
                        "name": "pipeline",
                        "iter_context": {"unit_size": 48, "num_chunks": 4},
                        "ops": [
                            {"name": "signal", "channel_type": "port", "channel_ids": [0]},
                            {"name": "nop"},
                        ],
                    },
                    {"name": "barrier", "barrier_id": 6, "num_threadblocks": 3},
                    {"name": "sem_acquire", "semaphore_ids": [1, 0]},
                    {"name": "sem_release", "semaphore_ids": [0]},
                ],
            },
            {"id": 1, "channels": [], "ops": [{"name": "nop"}]},
        ],
    )
    return {
        "name": "odd",
        "collective": "allgather",
        "inplace": True,
        "protocol": "Simple",
        "min_message_size": 3,
        "max_message_size": 9,
        "buffer_alignment": 16,
        "gpus": [first, gpu(1, (1, 5, 2)), gpu(2, (2, 4, 5))],
    }
