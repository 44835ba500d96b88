"""Which way calls with tensors of GPUs go, with stand-ins for lanes and for steps over NCCL."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from treadle.schedules.collective import CollectiveKind
from treadle.topologies import parse

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch
from torch.distributed import DistBackendError, HashStore

from treadle.torch import Options
from treadle.torch.gpu.gpu_calls import GpuCalls
from treadle.torch.gpu.gpu_settings import GpuMethod, GpuSettings
from treadle.torch.group_engine import NoPlanError, TensorCall
from treadle.torch.plans import Membership
from treadle.torch.settings import settings_of

FLAT = torch.zeros(8)
CALL = TensorCall(CollectiveKind.ALLGATHER, 8, FLAT[:4], FLAT, True)


class Lanes:
    """Take a call, or say why not."""

    def __init__(self, reason: str, *, is_between_hosts: bool) -> None:
        self.reason, self.is_between_hosts = reason, is_between_hosts
        self.said: list[Any] = []

    def run(self, call: TensorCall) -> None:
        """As `GpuEngine.run`."""
        if self.reason:
            raise NoPlanError(self.reason)
        self.said.append(call)

    def check(self) -> None:
        """As `GpuEngine.check`."""
        self.said.append("check")

    def close(self) -> None:
        """As `GpuEngine.close`."""
        self.said.append("close")

    def empty(self, size: int, device: int) -> Any:
        """As `GpuEngine.empty`."""
        return size, device


def calls_of(
    way: GpuMethod, *, reason: str = "", between: bool = False, nccl: bool = True, rank: int = 0
) -> tuple[Any, Lanes, list[Any]]:
    """Calls of rank 0 of two, their lanes, and what goes by steps."""
    fabric = parse("ring:2")
    group = Membership("g", rank, (0, 1), fabric, timedelta(seconds=5))
    settings = settings_of(Options(fabric=fabric, gpu=GpuSettings(way=way)), {})
    calls: Any = GpuCalls(HashStore(), group, settings, None)
    lanes, stepped = Lanes(reason, is_between_hosts=between), list[Any]()
    assert calls._run_steps is None
    calls._lanes = lanes
    if nccl:
        calls._run_steps = lambda steps, call: stepped.append((steps, call))
    return calls, lanes, stepped


def test_lanes_take_what_they_can() -> None:
    for way in GpuMethod:
        calls, lanes, stepped = calls_of(way)
        calls.run(CALL)
        assert (lanes.said, stepped) == ([CALL], [])
        assert calls.empty(3, 1) == (3, 1)
        calls.check()
        calls.close()
        assert lanes.said[1:] == ["check", "close"]


@pytest.mark.parametrize(
    ("way", "between", "nccl", "is_stepped"),
    [
        (GpuMethod.AUTO, False, True, False),
        (GpuMethod.AUTO, True, True, True),
        (GpuMethod.AUTO, True, False, False),
        (GpuMethod.STEPS, False, True, True),
        (GpuMethod.STEPS, True, False, False),
        *(
            (way, True, True, False)
            for way in GpuMethod
            if way not in (GpuMethod.AUTO, GpuMethod.STEPS, GpuMethod.LANES)
        ),
    ],
)
def test_what_lanes_cannot_goes_by_steps_where_it_may(
    way: GpuMethod, between: bool, nccl: bool, is_stepped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    calls, _, stepped = calls_of(way, reason="no lanes", between=between, nccl=nccl)
    if not is_stepped:
        with pytest.raises(NoPlanError, match=r"^no lanes$"):
            calls.run(CALL)
        assert stepped == []
        return
    with caplog.at_level("INFO", "treadle.torch"):
        for _ in range(2):
            calls.run(CALL)
    assert [call for _, call in stepped] == [CALL, CALL]
    assert stepped[0][0] is stepped[1][0]
    told = [one.getMessage() for one in caplog.records if "in groups" in one.getMessage()]
    assert told == [
        "group g: allgather on GPUs by sends and receives in groups, a launch and more for each step: "
        "no lanes"
    ]


def test_lanes_that_are_asked_for_and_cannot_be_are_an_error() -> None:
    calls, _, stepped = calls_of(GpuMethod.LANES, reason="no room", between=True)
    with pytest.raises(DistBackendError) as caught:
        calls.run(CALL)
    assert str(caught.value) == (
        "treadle: allgather in group g cannot run as a thread-block program, which TREADLE_GPU requires: no "
        "room"
    )
    assert stepped == []
