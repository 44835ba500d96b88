"""Parts of the backend by themselves, in one process: calls on flat tensors, jobs, options and reductions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from treadle.schedules.collective import CollectiveKind

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

import torch
from torch import Tensor
from torch.distributed import DistBackendError, ReduceOp

from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.rank_script import Action, ActionKind, Script, Span
from treadle.torch import Options, collectives, transport
from treadle.torch.collectives import reductions_of
from treadle.torch.gpu.gpu_settings import GpuMemory, GpuSettings, gpu_settings
from treadle.torch.group_engine import TensorCall
from treadle.torch.peer_tensors import empty
from treadle.torch.reductions import TensorReduction
from treadle.torch.settings import settings_of
from treadle.torch.transport import TransportError
from treadle.torch.work import JobQueue

LIMIT = timedelta(seconds=7)
SUM = TensorReduction("SUM", lambda own, arrived, target: torch.add(own, arrived, out=target))


class Told:
    """Stands for the engine: keeps calls, and does something to their target."""

    def __init__(self, result: Callable[[TensorCall], Tensor]) -> None:
        self.result = result
        self.calls: list[TensorCall] = []

    def run(self, call: TensorCall) -> None:
        """As `Engine.run`."""
        self.calls.append(call)
        call.target.copy_(self.result(call))

    def said(self) -> tuple[Any, ...]:
        """Kind, count, in place, root, reduction and timeout of the last call."""
        call = self.calls[-1]
        return call.kind, call.count, call.in_place, call.root, call.reduction, call.timeout


def strided(*rows: list[int]) -> Tensor:
    """A tensor that lies in memory column by column."""
    return torch.tensor(rows).t().contiguous().t()


def test_allgather_begins_with_its_own_part() -> None:
    """Rank 1 of three; its part may lie in the output already."""
    told = Told(lambda call: call.target + 1)
    output = torch.zeros(6, dtype=torch.int64)
    collectives.allgather(told, output, torch.tensor([[7], [8]]), 1, LIMIT)
    assert output.tolist() == [1, 1, 8, 9, 1, 1]
    assert told.said() == (CollectiveKind.ALLGATHER, 6, True, -1, None, LIMIT)
    assert told.calls[0].source.data_ptr() == output[2:].data_ptr()
    collectives.allgather(told, output, output[2:4], 1, None)
    assert output.tolist() == [2, 2, 9, 10, 2, 2]
    wide = strided([0, 0, 0], [0, 0, 0])
    collectives.allgather(told, wide, torch.tensor([5, 6]), 2, None)
    assert wide.tolist() == [[1, 1, 1], [1, 6, 7]]
    parts = [torch.zeros(2, 1, dtype=torch.int64) for _ in range(3)]
    told = Told(lambda call: torch.tensor([1, 2, 3, 4, 5, 6]))
    collectives.allgather_list(told, parts, torch.tensor([7, 8]), 1, LIMIT)
    assert [part.flatten().tolist() for part in parts] == [[1, 2], [3, 4], [5, 6]]


def test_reduce_scatter_leaves_the_whole_as_it_is() -> None:
    told = Told(lambda call: call.source[2:4] * 10)
    whole = torch.tensor([1, 2, 3, 4, 5, 6])
    output = torch.zeros(2, 1, dtype=torch.int64)
    collectives.reduce_scatter(told, output, whole, SUM, LIMIT)
    assert output.tolist() == [[30], [40]]
    assert told.said() == (CollectiveKind.REDUCE_SCATTER, 6, False, -1, SUM, LIMIT)
    assert told.calls[-1].target.data_ptr() == output.data_ptr()
    # where output and input overlap, the result is made elsewhere first
    for low, apart in ((0, True), (5, True), (6, False), (8, False)):
        room = torch.arange(14)
        collectives.reduce_scatter(told, room[low : low + 2], room[0:6], SUM, None)
        assert (told.calls[-1].target.data_ptr() != room[low:].data_ptr()) is apart
        assert room[low : low + 2].tolist() == [20, 30]


def test_alltoall_and_reduce() -> None:
    told = Told(lambda call: call.source.flip(0))
    output = torch.zeros(2, 2, dtype=torch.int64)
    collectives.alltoall(told, output, torch.tensor([[1, 2], [3, 4]]), LIMIT)
    assert output.tolist() == [[4, 3], [2, 1]]
    assert told.said() == (CollectiveKind.ALLTOALL, 4, False, -1, None, LIMIT)
    outputs = [torch.zeros(1, 2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64)]
    collectives.alltoall_list(told, outputs, [torch.tensor([1, 2]), torch.tensor([3, 4])], None)
    assert [one.flatten().tolist() for one in outputs] == [[4, 3], [2, 1]]
    for is_root in (True, False):
        tensor = torch.tensor([1, 2, 3])
        told = Told(
            lambda call: call.source * 10 if call.target.data_ptr() != call.source.data_ptr() else call.target
        )
        collectives.reduce(told, tensor, 1, int(is_root), SUM, LIMIT)
        assert told.said() == (CollectiveKind.REDUCE, 3, False, 1, SUM, LIMIT)
        assert tensor.tolist() == ([10, 20, 30] if is_root else [1, 2, 3])


def test_averages_are_finished_and_sums_are_not() -> None:
    for dtype, values in ((torch.int32, [-4, 3]), (torch.float32, [-3.5, 3.5])):
        sums = torch.tensor([-7, 7]).to(dtype)
        TensorReduction("SUM", SUM.combine).finish(sums, 2)
        assert sums.tolist() == [-7, 7]
        TensorReduction("SUM", SUM.combine, is_average=True).finish(sums, 2)
        assert sums.tolist() == values
    tensors = [torch.zeros(2), torch.zeros(2, dtype=torch.int32)]
    assert len(reductions_of(ReduceOp.SUM, tensors)) == 2
    assert reductions_of(ReduceOp.BAND, tensors) == []
    assert reductions_of(ReduceOp.SUM, [tensors[0].to_sparse()]) == []


def test_jobs_run_in_their_order_and_tell_how_they_end() -> None:
    queue, gate, order = JobQueue(), threading.Event(), list[str]()

    def job(name: str, *, waits: bool = False) -> Callable[[], list[Tensor]]:
        def run() -> list[Tensor]:
            if waits:
                assert gate.wait(20)
            order.append(f"{name} {threading.current_thread() is threading.main_thread()}")
            return [torch.tensor(len(order))]

        return run

    first = queue.run(job("a"), "one", is_awaited=True)
    slow = queue.run(job("b", waits=True), "two", is_awaited=False)
    behind = queue.run(job("c"), "three", is_awaited=True)
    assert (first.is_completed(), first.is_success(), first.exception()) == (True, True, None)
    assert (slow.is_completed(), slow.is_success(), slow.exception()) == (False, False, None)
    with pytest.raises(DistBackendError, match=r"treadle: two has not ended within 0\.01 s"):
        slow.wait(timedelta(seconds=0.01))
    future = slow.get_future()
    gate.set()
    assert behind.wait()
    assert slow.wait(timedelta(0))
    assert [one.item() for one in future.wait()] == [2]
    assert behind.result()[0].item() == 3
    assert order == ["a True", "b False", "c False"]

    def fails() -> list[Tensor]:
        raise DistBackendError("no")

    failed = queue.run(fails, "four", is_awaited=False)
    with pytest.raises(DistBackendError, match="no"):
        failed.synchronize()
    assert (failed.is_completed(), failed.is_success()) == (True, False)
    assert isinstance(failed.exception(), DistBackendError)
    queue.run(job("d"), "five", is_awaited=True)
    assert order[-1] == "d True"
    queue.close()


class Messages:
    """A group whose messages note who they are of, and fail where that is asked for."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        self.failing = ""

    def start(self, name: str, data: list[Tensor], peer: int, tag: int) -> Any:
        self.said.append((name, data[0].tolist(), peer, tag, data[0].data_ptr()))
        if self.failing == name:
            raise RuntimeError("[x] Broken pipe")
        return SimpleNamespace(wait=lambda left: self.wait(name, left))

    def wait(self, name: str, left: timedelta) -> None:
        self.said.append((f"{name} done", left / timedelta(seconds=1)))
        if self.failing == f"{name} done":
            raise RuntimeError("[x] Timed out waiting 5ms")

    def send(self, data: list[Tensor], peer: int, tag: int) -> Any:
        return self.start("send", data, peer, tag)

    def recv(self, data: list[Tensor], peer: int, tag: int) -> Any:
        return self.start("receive", data, peer, tag)


@pytest.mark.parametrize("failing", ["", "send", "receive", "send done", "receive done"])
def test_actions_are_carried_out_in_their_order(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "monotonic", lambda: 100.0)
    messages, moved = Messages(), transport.Transport.__new__(transport.Transport)
    moved._group, messages.failing = cast(Any, messages), failing
    areas = [torch.arange(10 * area, 10 * area + 8) for area in range(5)]
    kind, part = ActionKind, Span(2, 3, 5)
    script = Script(
        (
            Action(kind.RECEIVE, 1, 7, 30, target=part),
            Action(kind.SEND, 0, 8, 40, source=Span(0, 1, 3)),
            Action(kind.COPY, source=Span(1, 0, 2), target=Span(0, 1, 3)),
            Action(kind.SEND_COPY, 2, 9, 50, source=Span(0, 1, 3)),
            Action(kind.WAIT, 1, 7),
            Action(kind.REDUCE, source=Span(3, 0, 2), arrived=part, target=Span(4, 6, 8)),
            Action(kind.WAIT, 0, 8),
        ),
        *(3, 0, 0, 0),
    )
    told: list[Any] = []

    def combine(own: Tensor, arrived: Tensor, target: Tensor) -> None:
        told.extend((own.tolist(), arrived.tolist(), target.tolist()))

    def run(deadline: float) -> None:
        moved.run(script, areas, combine, deadline)

    if failing:
        with pytest.raises(TransportError) as caught:
            run(102.5)
        reason = "no message within the group's timeout"
        if "done" not in failing:
            reason = "its process has ended or has given up (connection closed)"
        assert str(caught.value) == f"rank {7 if failing.startswith('receive') else 8}: {reason}"
        return
    run(102.5)
    received, sent, copied, *waited = messages.said
    assert received == ("receive", [23, 24], 7, 30, areas[2][3:].data_ptr())
    assert sent == ("send", [1, 2], 8, 40, areas[0][1:].data_ptr())
    assert copied[:4] == ("send", [10, 11], 9, 50)
    assert copied[4] != areas[0][1:].data_ptr()
    assert waited == [("receive done", 2.5), ("send done", 2.5)]
    assert told == [[30, 31], [23, 24], [46, 47]]
    run(99.0)
    assert messages.said[-1] == ("send done", 0.001)


def test_tensors_of_the_host_are_ordinary() -> None:
    for tensor in (empty(2, 3), empty((2, 3), device="cpu"), empty([2, 3], device=torch.device("cpu"))):  # type: ignore[arg-type]
        assert (tuple(tensor.shape), tensor.dtype, tensor.device.type) == ((2, 3), torch.float32, "cpu")
    assert tuple(empty(4, dtype=torch.int8).shape) == (4,)
    assert empty(4, dtype=torch.int8).dtype is torch.int8
    for device in (0, "cuda:0"):
        with pytest.raises(TypeError, match="expected a group of the backend treadle, found "):
            empty(4, device=device)


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, GpuSettings()),
        ({"TREADLE_GPU": "", "TREADLE_GPU_LANES": ""}, GpuSettings()),
        ({"TREADLE_GPU_MEMORY": "CUMEM"}, GpuSettings(memory=GpuMemory.CUMEM)),
        ({"TREADLE_GPU_PROTOCOL": "Auto"}, GpuSettings()),
        ({"TREADLE_GPU_PROTOCOL": "ll"}, GpuSettings(protocol=DeviceProtocol.LL)),
        ({"TREADLE_GPU_LANES": "64", "TREADLE_GPU_THREADS": "512"}, GpuSettings(lanes=64, threads=512)),
        ({"TREADLE_GPU_LANES": "1", "TREADLE_GPU_SLICE": "1K"}, GpuSettings(lanes=1, slice_bytes=1024)),
        ({"TREADLE_GPU_WINDOW": "0B"}, GpuSettings(window_bytes=0)),
        ({"TREADLE_GPU_COST_MODEL": "reference"}, GpuSettings(cost_model="reference")),
    ],
)
def test_settings_of_gpus_at_their_limits(environment: dict[str, str], settings: GpuSettings) -> None:
    assert gpu_settings(environment) == settings
    assert GpuSettings().window_bytes == 33554432
    assert settings_of(Options(gpu=settings), {"TREADLE_GPU_LANES": "9"}).gpu == settings
