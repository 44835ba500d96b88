"""The host's part of lanes on one GPU, on a CUDA runtime that keeps device memory apart and runs threads."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.fake_gpu import live
from samples.matrix_cases import modes, one_of_each_row
from treadle.cli.main import main
from treadle.errors import MissingDependencyError, ScheduleError
from treadle.planning import program_of, run, solve
from treadle.runtime.data import Reduction
from treadle.runtime.device import on_gpu
from treadle.runtime.device.block_lowering import lower_to_blocks
from treadle.runtime.device.block_machine import LaunchJob
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.kernel_build import GPU_LIBRARY, build_for_gpu
from treadle.runtime.device.on_gpu import BlockGpu, measure_on_gpu
from treadle.runtime.device.sized_blocks import at_size
from treadle.runtime.memory import Layout, allocate


@pytest.fixture(autouse=True)
def on_it(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GPU_LIBRARY, str(library))


def test_every_kind_of_schedule_moves_the_right_data(library: Path) -> None:
    for turn, ((row, kind), plan) in enumerate(one_of_each_row().items()):
        in_place = modes(kind)[turn % len(modes(kind))]
        rows = measure_on_gpu(
            program_of(plan, 1024, in_place=in_place),
            [20, 4100],
            device_protocols=tuple(DeviceProtocol),
            lanes=2,
            threads=1 + turn % 2,
            slice_bytes=512,
        )
        assert [one.wrong for one in rows] == [0] * 4, (row, kind, in_place)
        assert all(one.algbw_bytes_per_s > 0 for one in rows if one.size_bytes)
    assert live(library) == 0


def test_the_command(library: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "run",
        "ring:4",
        "allreduce",
        "--runtime",
        "device-gpu",
        "--size",
        "1K",
        "--protocol",
        "LL",
        "--in-place",
    ]
    assert main([*words, "--lanes", "1", "--threads", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["runtime"], [row["wrong"] for row in found["rows"]]) == ("device-gpu", [0])
    assert re.match(r"threads of this host, where a copy of 1KB reads [\d.e+]+ GB/s", found["measured_on"])
    assert live(library) == 0


def test_a_launch_that_does_not_fit_at_once_is_refused(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_CUDA_BLOCKS", "7")
    with pytest.raises(ScheduleError, match=r"8 blocks of 1 threads on the GPU.*too many blocks.*fewer"):
        run(solve("ring:4", "allreduce"), [4096], runtime="device-gpu", lanes=2, threads=1)
    assert live(library) == 0
    with pytest.raises(ScheduleError, match="513 threads of a block on a GPU: expected 1 to 512"):
        run(solve("ring:4", "allreduce"), [4096], runtime="device-gpu", threads=513)


def test_a_wait_that_nobody_ends_is_told_with_its_peer() -> None:
    lanes = lower_to_blocks(program_of(solve("ring:4", "allreduce").plan, 64), DeviceProtocol.LL, lanes=1)
    less = replace(lanes, lanes=(replace(lanes.lanes[0], operations=()), *lanes.lanes[1:]))
    layout = Layout(less.program, 64)
    memories = [allocate(layout, rank, np.dtype(np.float32)) for rank in range(4)]
    with pytest.raises(
        ScheduleError, match=r"allreduce, protocol LL: .* waited 0.05 s for rank .* and gave up"
    ):
        BlockGpu(less, threads=1, limit_s=0.05).run(
            at_size(less, 64, element_bytes=4),
            memories,
            [[np.zeros(64, np.float32)] for _ in memories],
            [[np.zeros(64, np.float32)] for _ in memories],
            element=0,
            reduction=Reduction.SUM,
        )


class Gpu:
    """A GPU's library: copies 2 GB/s, and fails where that is asked for."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.asked = fails, list[Any]()

    def _told(self, words: Any, room: int) -> None:
        assert room == len(words) == 300
        words.value = b"a \xff GPU"

    def treadle_gpu_copy_seconds(self, size: int, words: Any, room: int) -> float:
        self._told(words, room)
        self.asked.append(size)
        return 0.0 if self.fails else size / 2e9

    def treadle_gpu_name(self, words: Any, room: int) -> bool:
        self._told(words, room)
        return self.fails

    def treadle_gpu_open(self, n: int, staging: int, counts: Any, flags: Any, words: Any, room: int) -> int:
        self._told(words, room)
        self.asked.append((n, staging, list(counts), len(flags)))
        return 0 if self.fails else 5

    def treadle_gpu_close(self, ranks: int) -> None:
        self.asked.append(("close", ranks))

    def treadle_gpu_run(self, ranks: int, job: Any, *more: Any) -> float:
        self._told(*more[-2:])
        self.asked.append((ranks, *more[:-2]))
        return -1.0 if self.fails else 2500.0


def test_what_a_gpu_says(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu()
    monkeypatch.setattr(on_gpu, "_loaded", lambda: gpu)
    assert on_gpu.copy_bandwidth(7) == pytest.approx(2e9)
    words = "a \ufffd GPU, where a copy of {} reads 2 GB/s and writes as much"
    assert [on_gpu.describe_gpu(size) for size in (0, 2048)] == [words.format("0B"), words.format("2KB")]
    assert gpu.asked == [7, 1, 2048]
    lanes = lower_to_blocks(program_of(solve("ring:3", "allgather").plan, 64), DeviceProtocol.LL, lanes=1)
    machine, job = BlockGpu(lanes, threads=512), LaunchJob()
    assert (machine.threads, machine.limit_s, machine.staging_of(1)) == (512, 10.0, 0)
    assert machine.launch(job, (1, 2, 3), 77, 4) == 2.5
    sizes = [len(one) for one in machine.flags]
    assert gpu.asked[3:] == [(3, 2**24, sizes, 3), (5, 1, 2, 3, 77, 4, 512)]
    BlockGpu(lanes, threads=1)  # which nobody keeps
    assert gpu.asked[-1] == ("close", 5)
    gpu.fails = True
    with pytest.raises(ScheduleError) as refused:
        machine.launch(job, (1, 2, 3), 77, 4)
    assert str(refused.value) == (
        "3 blocks of 512 threads on the GPU: a \ufffd GPU; all must be there at once: take fewer lanes or "
        "threads"
    )
    for call in (lambda: BlockGpu(lanes, threads=1), on_gpu.gpu_name, lambda: on_gpu.copy_bandwidth(1)):
        with pytest.raises(MissingDependencyError) as missing:
            call()
        tail = "" if call is not on_gpu.gpu_name and gpu.asked[-1] == 1 else "; it needs a GPU and its driver"
        assert str(missing.value) == f"runtime device-gpu: a \ufffd GPU{tail}"
    for threads in (0, 513):
        with pytest.raises(
            ScheduleError, match=f"^{threads} threads of a block on a GPU: expected 1 to 512$"
        ):
            BlockGpu(lanes, threads=threads)


def test_without_a_compiler_or_a_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(GPU_LIBRARY, str(tmp_path / "none.so"))
    with pytest.raises(MissingDependencyError, match="there is no such file"):
        run(solve("ring:4", "allreduce"), [4096], runtime="device-gpu")
    monkeypatch.delenv(GPU_LIBRARY)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"needs nvcc, .* or TREADLE_GPU_LIBRARY"):
        build_for_gpu()
