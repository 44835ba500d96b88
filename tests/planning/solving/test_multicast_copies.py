"""Plans of a box whose NVSwitches multicast: copies that a GPU sends, in reports and in MSCCL++ texts."""

from __future__ import annotations

import json

from treadle import planning
from treadle.schedulers.multicast_copies import sent_copies
from treadle.schedules.trees.forest import ForestSchedule

BOX = "dgx_h100(1, nvls=True)"


def operations(text: str, name: str) -> int:
    return sum(
        operation["name"] == name
        for gpu in json.loads(text)["gpus"]
        for block in gpu["threadblocks"]
        for operation in block["ops"]
    )


def test_sizes_choose_multicast_where_it_is_faster() -> None:
    """Small sizes end sooner with one copy, large ones are faster without the copy that comes back."""
    plan = planning.solve_sizes(BOX, "allgather", [2**12, 2**30]).plan
    copies = [
        sent_copies(plan.topology, entry.schedule)
        for entry in plan.entries
        if isinstance(entry.schedule, ForestSchedule)
    ]
    assert copies[0] == (1, 7)
    last = plan.entries[-1].schedule
    assert not isinstance(last, ForestSchedule) or sent_copies(plan.topology, last) == (0, 0)
    small = planning.lower(plan, to="mscclpp-json", size_bytes=2**12)
    assert operations(small.text, "gstore") > 0
    assert operations(small.text, "put") == 0
