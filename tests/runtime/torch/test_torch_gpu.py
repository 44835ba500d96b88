"""The backend's way with tensors of GPUs: host memory stands for a GPU's, threads for its blocks."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from child_processes import search_path
from harness.fake_gpu import build_fake
from harness.forked_ranks import forked_ranks
from treadle.errors import FormatError
from treadle.runtime.device.block_program import DeviceProtocol
from treadle.runtime.device.kernel_build import GPU_LIBRARY

pytest.importorskip("torch", reason="torch: not installed; pip install 'treadle[torch]'")

from treadle.torch.gpu.gpu_settings import GpuMemory, GpuMethod, GpuSettings, gpu_settings

N_RANKS = 4
WORKER = Path(__file__).with_name("torch_gpu_worker.py")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What each rank found."""
    folder = tmp_path_factory.mktemp("torch-gpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TREADLE_CACHE_DIR", str(folder / "cache"))
        library = build_fake(folder / "lanes.so")
    environment = {
        **os.environ,
        "PYTHONPATH": search_path(),
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "FAKE_CUDA_ANY_MEMORY": "1",
        GPU_LIBRARY: str(library),
    }
    done = forked_ranks(WORKER, [[rank, N_RANKS, folder] for rank in range(N_RANKS)], environment)
    for process in done:
        assert process.returncode == 0, process.stderr[-3000:]
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(N_RANKS)]


@pytest.mark.parametrize("way", ["lanes", "switches", "no switches", "steps", "refused", "unlike"])
def test_every_way_gives_the_bits_of_gloo(found: list[dict[str, Any]], way: str) -> None:
    for rank, results in enumerate(found):
        assert [key for key, well in results[way].items() if not well] == [], f"rank {rank}"
    assert ("replayed" in found[0][way]) == (way in ("lanes", "switches", "no switches"))


def test_the_log_says_which_way_and_why(found: list[dict[str, Any]]) -> None:
    lanes, steps = "\n".join(found[0]["lanes log"]), "\n".join(found[0]["steps log"])
    assert "INFO: group 0: memory of peers by CUDA IPC" in lanes
    for protocol in DeviceProtocol:
        assert f"on GPUs by lanes: protocol {protocol}, at most " in lanes
    assert "WARNING: group 0: allreduce is left to gloo" in lanes
    assert "no kernel combines torch.float64 this way" in lanes
    assert "allreduce on GPUs by sends and receives in groups" in steps
    assert "its ranks are on 2 hosts; TREADLE_GPU_MEMORY=nccl selects kernels that cross them" in steps
    assert "left to" not in steps
    assert "a GPU has room for no block of the kernel" in found[0]["refused log"][-1]
    assert "ranks have other options or TREADLE_GPU variables than others" in found[0]["unlike log"][-1]
    assert lanes.count("allreduce of 16B on GPUs") == 1
    assert found[1]["lanes log"] == []


def test_switches_are_asked_where_one_address_reaches_all(found: list[dict[str, Any]]) -> None:
    asked, not_asked = "\n".join(found[0]["switches log"]), "\n".join(found[0]["no switches log"])
    # greatest of bfloat16 only: switches have none of float32
    for kind, size in (("allreduce", "16B"), ("allgather", "64B"), ("reduce-scatter", "32B")):
        way = "on GPUs goes from rank to rank, where its plan asks switches: "
        words = f"{kind} of {size} on GPUs by lanes that ask switches for copies: protocol Simple, at most 2"
        assert words in asked
        assert any(
            f"{kind} of " in line and way in line and "do not fit" in line for line in asked.splitlines()
        )
        assert (f"{kind} of {size} {way}" in not_asked) == (kind != "reduce-scatter")
    assert "do not fit into a window of 128KB" in asked
    assert "a GPU more in a multicast object: invalid argument" in not_asked
    assert "that ask switches" not in not_asked


def test_tensors_that_peers_reach_need_no_staging(found: list[dict[str, Any]]) -> None:
    asked = "\n".join(found[0]["switches, placed, log"])
    plain = "\n".join(found[0]["no switches, placed, log"])
    for kind in ("allreduce", "allgather", "reduce-scatter"):
        assert f"{kind} of " in asked
        assert "on GPUs by lanes that put into tensors: protocol Simple" in plain
    assert "on GPUs by lanes that ask switches: protocol Simple" in asked
    assert "for copies" not in asked
    for rank, results in enumerate(found):
        assert (
            f"DistBackendError: treadle: group 0: allreduce, protocol Simple: rank {rank}"
            in results["elsewhere"]
        )
        assert results["untouched"], rank
    # rank 3 calls with a tensor at another place; who hears of that first stops the others
    unlike = "call unlike: another collective, size, type or"
    said = [results["elsewhere"] for results in found]
    assert any(unlike in words for words in said)
    assert all(unlike in words or " had given up" in words for words in said)


def test_failures_name_collective_rank_and_peer(found: list[dict[str, Any]]) -> None:
    for rank, results in enumerate(found):
        assert "call the collective before" in results["first in a graph"]
        assert (
            "cannot run as a thread-block program, which TREADLE_GPU requires: a GPU has room"
            in results["asked"]
        )
        assert results["live"] == 0
        if rank != 3:
            assert "DistBackendError: treadle: group 0: allreduce, protocol LL: rank " in results["late"]
            assert "waited 2 s for rank " in results["late"] or " had given up" in results["late"]
            assert results["after"] == results["late"]
    assert any("waited 2 s for rank " in results["late"] for results in found[:3])


def test_environment() -> None:
    assert gpu_settings({}) == GpuSettings()
    said = {"": "Steps", "_MEMORY": "nccl", "_PROTOCOL": "simple", "_LANES": "3", "_THREADS": "64"}
    said |= {"_SLICE": "64K", "_COST_MODEL": "nccl-ampere"}
    found = gpu_settings({f"TREADLE_GPU{name}": value for name, value in said.items()})
    assert found == GpuSettings(
        GpuMethod.STEPS, GpuMemory.NCCL, "nccl-ampere", DeviceProtocol.SIMPLE, 3, 64, 65536
    )
    assert gpu_settings({"TREADLE_GPU": "auto", "TREADLE_GPU_PROTOCOL": "AUTO"}) == GpuSettings()
    wrong = {
        "": "fast",
        "_LANES": "0",
        "_THREADS": "513",
        "_PROTOCOL": "LL128",
        "_COST_MODEL": "x",
        "_SLICE": "1B",
    }
    for name, value in wrong.items():
        with pytest.raises(FormatError):
            gpu_settings({f"TREADLE_GPU{name}": value})
