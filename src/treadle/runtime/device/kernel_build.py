"""Compiles the kernel's source for threads or a GPU when it is first needed; `make gpu` checks all of it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from treadle.errors import MissingDependencyError
from treadle.runtime.mpi_build import OUTPUT, build

GPU_SOURCES = ("lanes.cpp", "gpu_host.cpp", "rank_host.cpp", "cumem_host.cpp")
"""Sources of a library for GPUs; threads need the first alone."""
NCCL_SOURCES = ("nccl_lanes.cpp", "nccl_host.cpp", "rank_host.cpp", "lanes.cpp")
"""Sources of a library over NCCL's windows."""
_HEADERS = (
    *("elements", "group", "host", "lane", "local", "machine", "network", "rank", "rank_host"),
    *("signals", "tables", "user"),
)
SOURCES = (*GPU_SOURCES, *NCCL_SOURCES[:2], *(f"{name}.hpp" for name in _HEADERS))
NCCL_INCLUDE = "TREADLE_NCCL_INCLUDE"
"""Variable: where nccl_device.h is, if not in pip's nvidia-nccl-cu13; the library is in ../lib from there."""
GPU_LIBRARY = "TREADLE_GPU_LIBRARY"
"""Variable: a library that `build_for_gpu` made elsewhere, for a machine without nvcc."""
_FLAGS = ("-std=c++17", "-Og", "-shared", "-fPIC", "-pthread")
"""-O2 takes three times as long to compile, and threads run no faster."""
_GPU_FLAGS = ("-std=c++17", "-O3", "-x", "cu", "-shared", "-Xcompiler", "-fPIC")
_COMPILE_LIMIT_S = 300


def kernel_directory() -> Path:
    """Folder of the sources; `SOURCES` names its files."""
    return Path(__file__).with_name("kernel")


def build_threads(*, directory: Path | None = None, flags: Sequence[str] = ()) -> Path:
    """Return the library that runs thread blocks as threads, compiled on first use.

    Parameters
    ----------
    directory : Path, optional
        Default: that of the compiled MPI runtime.
    flags : sequence of str
        More for the compiler, such as a sanitizer's.

    Returns
    -------
    Path
        A shared library, which appeared whole: other processes may build it at the same time.

    Raises
    ------
    MissingDependencyError
        If a C++ compiler is missing or fails, or the directory cannot be written.
    """
    compiler = os.environ.get("CXX") or "c++"
    found = shutil.which(compiler)
    if found is None:
        raise MissingDependencyError(
            f"runtime device-emulated needs a C++17 compiler, {compiler} is not on the PATH; install g++, "
            f"or set CXX"
        )
    return _build(found, [*_FLAGS, *flags], GPU_SOURCES[:1], directory)


def build_for_gpu(*, directory: Path | None = None, architectures: Sequence[str] = ("native",)) -> Path:
    """Return the library that runs on a GPU: that of `GPU_LIBRARY`, else compiled on first use.

    Parameters
    ----------
    directory : Path, optional
        As for `build_threads`.
    architectures : sequence of str
        Such as sm_90; native: of this machine's GPUs.

    Raises
    ------
    MissingDependencyError
        If nvcc is missing or fails, or the directory cannot be written.
    """
    given = os.environ.get(GPU_LIBRARY)
    if given:
        if not Path(given).is_file():
            raise MissingDependencyError(f"{GPU_LIBRARY}={given[:200]}: there is no such file")
        return Path(given).resolve()
    found = shutil.which("nvcc")
    if found is None:
        raise MissingDependencyError(
            f"runtime device-gpu needs nvcc, which is not on the PATH, or {GPU_LIBRARY}, a library that "
            "was built elsewhere"
        )
    return _build(found, [*_GPU_FLAGS, *_targets(architectures)], GPU_SOURCES, directory)


def nccl_include() -> Path | None:
    """Header folder of NCCL's device API, if present."""
    given = os.environ.get(NCCL_INCLUDE)
    folders = [Path(given)] if given else [Path(one) / "nvidia/nccl/include" for one in sys.path]
    return next((one for one in folders if (one / "nccl_device.h").is_file()), None)


def build_for_nccl(*, directory: Path | None = None, architectures: Sequence[str] = ("native",)) -> Path:
    """Return the library that runs over NCCL's windows, compiled on first use.

    Parameters
    ----------
    directory : Path, optional
        As for `build_threads`.
    architectures : sequence of str
        sm_90 or later; native: of this machine's GPUs.

    Raises
    ------
    MissingDependencyError
        If nvcc or NCCL with its headers is missing or fails, or the directory cannot be written.
    """
    found, include = shutil.which("nvcc"), nccl_include()
    if found is None:
        raise MissingDependencyError(
            "thread-block programs between hosts need nvcc, which is not on the PATH"
        )
    if include is None:
        raise MissingDependencyError(
            "programs between hosts need NCCL 2.29 or later with nccl_device.h: pip's nvidia-nccl-cu13, or "
            "what "
            f"{NCCL_INCLUDE} names"
        )
    library = include.parent / "lib"
    linked = ["-isystem", str(include), f"-L{library}", "-l:libnccl.so.2", "-Xlinker", f"-rpath={library}"]
    return _build(found, [*_GPU_FLAGS, *_targets(architectures), *linked], NCCL_SOURCES, directory)


def _targets(architectures: Sequence[str]) -> list[str]:
    """Architectures as nvcc names them."""
    if tuple(architectures) == ("native",):
        return ["-arch=native"]
    return [f"-gencode=arch={one.replace('sm', 'compute')},code={one}" for one in architectures]


def _build(found: str, words: Sequence[str], sources: Sequence[str], directory: Path | None) -> Path:
    """A library of some sources, compiled unless it is there."""
    files = [kernel_directory() / name for name in SOURCES]
    command = [*words, "-o", OUTPUT, *(str(kernel_directory() / one) for one in sources)]
    what, question = "the lanes' library", "is it a C++17 compiler?"
    return build(Path("lanes.so"), found, command, files, what, question, directory, limit_s=_COMPILE_LIMIT_S)
