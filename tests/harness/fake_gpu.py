"""The host's parts of the GPU runtime as a library, on a CUDA runtime of threads in place of CUDA's."""

from __future__ import annotations

import ctypes
import gc
import subprocess
from pathlib import Path

import places
from treadle.runtime.device.kernel_build import GPU_SOURCES, build_threads, kernel_directory

FAKE = places.TESTS / "fake_cuda"


def build_fake(path: Path, *flags: str) -> Path:
    """Compile it; a second or two. With -DFAKE_NETWORK also lanes whose ranks are in several boxes."""
    kernel, threads = kernel_directory(), build_threads()
    sources = [*(kernel / name for name in GPU_SOURCES[1:]), FAKE / "fake_launch.cpp", threads]
    words = ["c++", "-std=c++17", "-O0", "-shared", "-fPIC", f"-I{FAKE}", f"-I{kernel}"]
    words += [*map(str, sources), f"-Wl,-rpath,{threads.parent}", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*words, *flags, "-o", str(path)], check=True)
    return path


def live(library: Path) -> int:
    """Allocations of the fake GPU that nobody has freed."""
    gc.collect()
    return int(ctypes.CDLL(str(library)).fake_cuda_live())
