"""The device runtime's source compiled for threads and, where nvcc is, for GPUs, with what ptxas says.

`make gpu`, or `python -m tools.gpu`. Fails on a warning, a spill or more than 128 registers. Nothing is run:
that needs a GPU. The lanes over NCCL's windows are compiled where its headers are: those of pip's
nvidia-nccl-cu13, or in the folder that ``TREADLE_NCCL_INCLUDE`` names. With ``--library PATH`` the library of
the runtime device-gpu for machines without nvcc.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.runtime.device.kernel_build import nccl_include

KERNEL = Path(__file__).resolve().parents[1] / "src" / "treadle" / "runtime" / "device" / "kernel"
SOURCE, HOSTS = KERNEL / "lanes.cpp", tuple(KERNEL / f"{name}_host.cpp" for name in ("gpu", "rank", "cumem"))
NCCL, NCCL_HOST = KERNEL / "nccl_lanes.cpp", KERNEL / "nccl_host.cpp"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
SWITCH_ARCHITECTURES = ("sm_90", "sm_100")
"""With multimem instructions."""
MOST_REGISTERS = 128
NCCL_REGISTERS = 255
"""Of lanes over NCCL, in blocks of 256 threads: its device API takes many."""
_KERNEL = re.compile(r"Compiling entry function '(\w*lanes_kernel\w*)' for '(\w+)'")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


@dataclass(frozen=True)
class KernelFigures:
    """What ptxas says of one kernel; its protocol by the last argument of the template."""

    name: str
    architecture: str
    registers: int
    spilled_bytes: int

    @property
    def protocol(self) -> str:
        """Of messages: LL or Simple."""
        return "LL" if "Lb1E" in self.name else "Simple"


def figures(text: str) -> list[KernelFigures]:
    """Kernels in what ``nvcc -Xptxas -v`` prints.

    Raises
    ------
    ValueError
        If a kernel stands there without its figures.
    """
    found = []
    parts = _KERNEL.split(text)
    for name, architecture, said in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        spills, registers = _SPILLS.search(said), _REGISTERS.search(said)
        if spills is None or registers is None:
            raise ValueError(f"nvcc says nothing of the registers of {name}")
        found.append(KernelFigures(name, architecture, int(registers[1]), int(spills[1]) + int(spills[2])))
    return found


def faults(kernels: Sequence[KernelFigures], most_registers: int = MOST_REGISTERS) -> list[str]:
    """Kernels that spill or take too many registers, in words."""
    return [
        f"{one.name} for {one.architecture}: {one.registers} registers, {one.spilled_bytes} bytes spilled; "
        f"expected at most {most_registers} and 0"
        for one in kernels
        if one.registers > most_registers or one.spilled_bytes
    ]


def main(arguments: Sequence[str] = ()) -> int:
    """Compile, print, and return 1 where something is wrong."""
    if arguments:
        option, path = arguments
        return _library(Path(path)) if option == "--library" else 2
    with tempfile.TemporaryDirectory(prefix="treadle-gpu-") as folder:
        threads = [
            os.environ.get("CXX") or "c++",
            "-std=c++17",
            "-O2",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
        ]
        if _run([*threads, "-shared", "-fPIC", str(SOURCE), "-o", f"{folder}/lanes.so"]) is None:
            return 1
        print("threads: compiled without a warning")
        nvcc = shutil.which("nvcc")
        if nvcc is None:
            print("nvcc is not on the PATH: SKIPPED the kernels for GPUs")
            return 0
        wrong = []
        for architecture in ARCHITECTURES:
            kernels = _compiled(nvcc, architecture, SOURCE, folder)
            if kernels is None:
                return 1
            wrong += faults(kernels) or ([] if kernels else [f"{architecture}: no kernel was compiled"])
            print(f"{architecture}: {_summary(kernels)}; never run")
        include = nccl_include()
        if include is None:
            print(
                "nccl_device.h is not there: SKIPPED the lanes over NCCL's windows (pip's nvidia-nccl-cu13)"
            )
        for architecture in SWITCH_ARCHITECTURES if include else ():
            kernels = _compiled(nvcc, architecture, NCCL, folder, "-isystem", str(include))
            if kernels is None:
                return 1
            wrong += faults(kernels, NCCL_REGISTERS)
            print(f"{architecture}, over NCCL's windows: {_summary(kernels)}; never run")
        host = [
            nvcc,
            "-std=c++17",
            "-Werror",
            "all-warnings",
            "-Xcompiler",
            "-Wall,-Wextra",
            "-x",
            "cu",
            "-c",
        ]
        for source in HOSTS:
            if _run([*host, str(source), "-o", f"{folder}/host.o"]) is None:
                return 1
        if include:
            of_nccl = ["-isystem", str(include), str(NCCL_HOST)]
            quiet = [word.replace(",-Wextra", "") for word in host]  # its initializers leave fields out
            if _run([*quiet, *of_nccl, "-o", f"{folder}/host.o"]) is None:
                return 1
        print("the host's parts: compiled without a warning; never run")
    for one in wrong:
        print(f"gpu: {one}", file=sys.stderr)
    return 1 if wrong else 0


def _compiled(
    nvcc: str, architecture: str, source: Path, folder: str, *flags: str
) -> list[KernelFigures] | None:
    """The kernels of a source, and what they need."""
    words = [nvcc, "-std=c++17", "-O3", f"-arch={architecture}", "-Xptxas", "-v", *flags, "-x", "cu", "-c"]
    text = _run([*words, str(source), "-o", f"{folder}/lanes.o"])
    return None if text is None else figures(text)


def _library(path: Path) -> int:
    """Kernels of all architectures and the host's part."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        print("gpu: nvcc is not on the PATH", file=sys.stderr)
        return 1
    wanted = [f"-gencode=arch={one.replace('sm', 'compute')},code={one}" for one in ARCHITECTURES]
    words = [nvcc, "-std=c++17", "-O3", *wanted, "-x", "cu", "-shared", "-Xcompiler", "-fPIC"]
    return 1 if _run([*words, str(SOURCE), *map(str, HOSTS), "-o", str(path)]) is None else 0


def _summary(kernels: Sequence[KernelFigures]) -> str:
    spilled = sum(one.spilled_bytes for one in kernels)
    parts = [f"{len(kernels)} kernels", f"{spilled} bytes spilled"]
    for protocol in ("Simple", "LL"):
        registers = [one.registers for one in kernels if one.protocol == protocol]
        if registers:
            parts.append(f"{protocol} {min(registers)} to {max(registers)} registers")
    return ", ".join(parts)


def _run(words: Sequence[str]) -> str | None:
    """What a compiler says; None, once that is shown, where it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        print(f"gpu: {words[0]}: {error.strerror}", file=sys.stderr)
        return None
    if done.returncode:
        print(done.stderr, file=sys.stderr)
        return None
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
