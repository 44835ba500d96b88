"""How the lanes' libraries are compiled: by which compiler with which words, and what is said without one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from treadle.errors import MissingDependencyError
from treadle.runtime.device import kernel_build
from treadle.runtime.device.kernel_build import build_for_gpu, build_for_nccl, build_threads

COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do echo "$1" >> "$WORDS"; shift; done
shift; echo compiled > "$1"; shift
for source; do basename "$source" >> "$SOURCES"; done
"""


@pytest.fixture
def nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that notes what it is told, alone on the PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("nvcc", "c++"):
        (folder / name).write_text(COMPILER, encoding="utf-8")
        (folder / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for name in ("CXX", kernel_build.GPU_LIBRARY, kernel_build.NCCL_INCLUDE):
        monkeypatch.delenv(name, raising=False)
    for name in ("WORDS", "SOURCES"):
        monkeypatch.setenv(name, str(tmp_path / name))
    return tmp_path


def told(folder: Path) -> tuple[list[str], list[str]]:
    """Words and sources of the compiler's runs."""
    words, sources = ((folder / name).read_text(encoding="utf-8").split() for name in ("WORDS", "SOURCES"))
    return words, sources


def test_lanes_over_nccl_are_linked_with_its_library(nvcc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    include = nvcc / "nccl" / "include"
    include.mkdir(parents=True)
    monkeypatch.setenv(kernel_build.NCCL_INCLUDE, str(include))
    with pytest.raises(MissingDependencyError) as missing:
        build_for_nccl(directory=nvcc)
    assert str(missing.value) == (
        "programs between hosts need NCCL 2.29 or later with nccl_device.h: pip's nvidia-nccl-cu13, or what "
        "TREADLE_NCCL_INCLUDE names"
    )
    (include / "nccl_device.h").touch()
    library = build_for_nccl(directory=nvcc, architectures=("sm_90", "sm_100"))
    assert library.read_text(encoding="utf-8") == "compiled\n"
    words, sources = told(nvcc)
    assert sources == ["nccl_lanes.cpp", "nccl_host.cpp", "rank_host.cpp", "lanes.cpp"]
    assert words == [
        *("-std=c++17", "-O3", "-x", "cu", "-shared", "-Xcompiler", "-fPIC"),
        *("-gencode=arch=compute_90,code=sm_90", "-gencode=arch=compute_100,code=sm_100"),
        *("-isystem", str(include), f"-L{nvcc / 'nccl' / 'lib'}", "-l:libnccl.so.2"),
        *("-Xlinker", f"-rpath={nvcc / 'nccl' / 'lib'}"),
    ]


def test_what_lacks_is_named(nvcc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(nvcc))
    for build, words in (
        (build_for_nccl, "thread-block programs between hosts need nvcc, which is not on the PATH"),
        (
            build_for_gpu,
            "runtime device-gpu needs nvcc, which is not on the PATH, or TREADLE_GPU_LIBRARY, a library that "
            "was built elsewhere",
        ),
        (
            build_threads,
            "runtime device-emulated needs a C++17 compiler, c++ is not on the PATH; install g++, or set CXX",
        ),
    ):
        with pytest.raises(MissingDependencyError) as missing:
            build(directory=nvcc)
        assert str(missing.value) == words
    monkeypatch.setenv(kernel_build.GPU_LIBRARY, str(nvcc / "none.so"))
    with pytest.raises(
        MissingDependencyError, match=r"^TREADLE_GPU_LIBRARY=.*none\.so: there is no such file$"
    ):
        build_for_gpu(directory=nvcc)


def test_a_compiler_that_fails_leaves_nothing(nvcc: Path) -> None:
    for name, words in (("nvcc", "echo 'a.cu: error: no such thing' >&2; exit 3"), ("c++", "exit 0")):
        (nvcc / "bin" / name).write_text(f"#!/bin/sh\n{words}\n", encoding="utf-8")
    with pytest.raises(MissingDependencyError, match=r"nvcc: a\.cu: error: no such thing; is it a C\+\+17"):
        build_for_gpu(directory=nvcc)
    with pytest.raises(MissingDependencyError, match=r"is it a C\+\+17 compiler\?$"):
        build_threads(directory=nvcc)
    assert not [path for path in nvcc.iterdir() if path.name.startswith((".lanes", "lanes"))]
