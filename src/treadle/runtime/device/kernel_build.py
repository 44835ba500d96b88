"""Compiles the lanes' source for threads when it is first needed; `make gpu` compiles it with nvcc."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from treadle.errors import MissingDependencyError
from treadle.runtime.mpi_build import build_directory, telling_line

SOURCES = ("lanes.cpp", "lane.hpp", "elements.hpp", "machine.hpp", "tables.hpp")
_FLAGS = ("-std=c++17", "-Og", "-shared", "-fPIC", "-pthread")
"""-O2 takes three times as long to compile, and threads run no faster."""
_COMPILE_LIMIT_S = 300


def kernel_directory() -> Path:
    """Where the source is; `SOURCES` names its files."""
    return Path(__file__).with_name("kernel")


def build_threads(*, directory: Path | None = None, flags: Sequence[str] = ()) -> Path:
    """The library that runs lanes as threads; compiles it if that was not done before.

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
        If there is no C++ compiler, it fails, or the directory cannot be written.
    """
    compiler = os.environ.get("CXX") or "c++"
    found = shutil.which(compiler)
    if found is None:
        raise MissingDependencyError(
            f"runtime device-emulated needs a C++17 compiler, {compiler} is not on the PATH; install g++, "
            f"or set CXX"
        )
    folder = build_directory() if directory is None else directory
    words = [*_FLAGS, *flags]
    target = folder / f"lanes-{_key(found, words)}.so"
    if target.exists():
        return target
    partial = folder / f".{target.name}.{secrets.token_hex(8)}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [found, *words, "-o", partial, kernel_directory() / SOURCES[0]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMPILE_LIMIT_S,
            check=False,
        )
        if done.returncode or not partial.exists():
            raise MissingDependencyError(f"{found}: {telling_line(done.stderr)}; is it a C++17 compiler?")
        os.replace(partial, target)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingDependencyError(f"the lanes' library cannot be built in {folder}: {error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return target


def _key(compiler: str, words: Sequence[str]) -> str:
    """Sources, flags and the compiler: a library under this name is never out of date."""
    digest = hashlib.sha256(repr((words, compiler, os.uname().machine)).encode())
    status = Path(compiler).resolve().stat()
    digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    for name in SOURCES:
        digest.update((kernel_directory() / name).read_bytes())
    return digest.hexdigest()[:24]
