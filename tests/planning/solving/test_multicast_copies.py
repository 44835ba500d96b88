"""Plans of a box whose NVSwitches multicast: copies that a GPU sends, in reports and in MSCCL++ texts."""

from __future__ import annotations

import json

import pytest

from treadle import planning
from treadle.schedulers.multicast_copies import sent_copies
from treadle.schedules.trees.forest import ForestSchedule

BOX = "dgx_h100(1, nvls=True)"
ONE = "switches multicast: a rank sends 1 copy of its data instead of 7"


def operations(text: str, name: str) -> int:
    return sum(
        operation["name"] == name
        for gpu in json.loads(text)["gpus"]
        for block in gpu["threadblocks"]
        for operation in block["ops"]
    )


@pytest.mark.parametrize(
    ("collective", "options"),
    [("allgather", {"algorithm": "nvls"}), ("broadcast", {"multicast": True}), ("allreduce", {})],
)
def test_a_gpu_sends_one_copy_instead_of_seven(collective: str, options: dict[str, object]) -> None:
    found = planning.solve(BOX, collective, **options)
    assert ONE in found.notes
    more = {"accept_any_root": True} if collective == "broadcast" else {}
    for instances in (1, 2, 8, None):  # several parts in a block, too
        made = planning.lower(found.plan, to="mscclpp-json", instances=instances, **more)
        assert made.faults == ()
        assert made.shortfall is None
        assert operations(made.text, "put") == 0
        assert operations(made.text, "gstore") + operations(made.text, "glres") > 0


def test_an_allgather_without_multicast_says_what_it_would_send() -> None:
    """Its own copy comes back to a GPU that multicasts: 450 of 514 GB/s, so that only a size decides."""
    found = planning.solve(BOX, "allgather", multicast=True)
    assert found.plan.algbw == found.plan.optimal_algbw
    assert found.notes[-1] == (
        "with multicast a rank would send 1 copy of its data instead of 7, at 450 GB/s algbw: "
        "--algorithm nvls does, --size takes it where it is faster"
    )
    assert not any("copy" in note for note in planning.solve(BOX, "allgather").notes)
    assert not any("copy" in note for note in planning.solve("dgx_h100(1)", "allgather").notes)


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
