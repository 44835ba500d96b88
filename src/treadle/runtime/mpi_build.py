"""Compiles the C interpreter of programs when it is first needed, and finds what it sends messages by."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import FormatError, MissingDependencyError

SOURCES = (
    *("interpreter.c", "engine.h", "state.h", "bundles.h"),
    *("reference.h", "rounds.h", "memory.h", "reader.h", "libfabric/mpi.h"),
    *("libfabric/processes.h", "libfabric/text_calls.c"),
)
_FLAGS = ("-O3", "-std=c11", "-D_DEFAULT_SOURCE")
_COMPILE_LIMIT_S = 120


@dataclass(frozen=True)
class MpiInstallation:
    """Compiler wrapper and launcher of one MPI, both absolute paths."""

    mpicc: Path
    mpirun: Path


def source_directory() -> Path:
    """Folder of the interpreter's C files; `SOURCES` names them."""
    return Path(__file__).with_name("c")


def find_mpi() -> MpiInstallation:
    """Return the MPI next to the running interpreter (extra ``mpi``), else the one on the PATH.

    Raises
    ------
    MissingDependencyError
        If there is none with both mpicc and mpirun.
    """
    beside = Path(sys.executable).parent
    on_path = shutil.which("mpicc")
    for folder in (beside, *([Path(on_path).parent] if on_path else [])):
        if all(os.access(folder / name, os.X_OK) for name in ("mpicc", "mpirun")):
            return MpiInstallation((folder / "mpicc").absolute(), (folder / "mpirun").absolute())
    raise MissingDependencyError(
        "the compiled MPI runtime needs mpicc and mpirun, found neither next to the interpreter nor on the "
        "PATH: pip install 'treadle[mpi]'"
    )


def build_directory() -> Path:
    """Folder of compiled interpreters: ``bin`` next to the cached plans.

    Raises
    ------
    MissingDependencyError
        Without ``$TREADLE_CACHE_DIR`` and home directory.
    """
    chosen, base = os.environ.get("TREADLE_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    if chosen:
        return Path(chosen) / "bin"
    try:
        return (Path(base) if base else Path.home() / ".cache") / "treadle" / "bin"
    except RuntimeError:
        raise MissingDependencyError(
            "the compiled MPI runtime needs a folder to compile into; set TREADLE_CACHE_DIR"
        ) from None


def build_interpreter(mpi: MpiInstallation, *, directory: Path | None = None) -> Path:
    """The compiled interpreter for an MPI; compiles it if that was not done before.

    Parameters
    ----------
    directory : Path, optional
        Default `build_directory()`.

    Returns
    -------
    Path
        An executable, which appeared whole: other processes may build it at the same time.

    Raises
    ------
    MissingDependencyError
        If a C compiler is missing or fails, or the directory cannot be written.
    """
    return compiled("interpreter", mpi.mpicc, _sources(SOURCES[0]), directory=directory)


def build_libfabric_interpreter(*, directory: Path | None = None) -> Path:
    """The same over libfabric's tagged messages; ``libfabric/mpi.h`` has what it needs of MPI.

    Raises
    ------
    MissingDependencyError
        If a C compiler or libfabric with its headers is missing, or the directory cannot be written.
    """
    return _compiled_with_libfabric(SOURCES[0], ("-I", str(source_directory() / "libfabric")), directory)


def build_libfabric_calls() -> Path:
    """A shared library with the messages alone, for `treadle.runtime.libfabric_run`; errors as above."""
    return _compiled_with_libfabric("libfabric/text_calls.c", ("-shared", "-fPIC"), None)


def _compiled_with_libfabric(source: str, flags: Sequence[str], directory: Path | None) -> Path:
    compiler, flags = c_compiler("the libfabric runtime needs"), (*flags, "-lfabric")
    try:
        return compiled("interpreter", compiler, _sources(source), flags, directory=directory)
    except MissingDependencyError as error:
        if "rdma/" in str(error) or "lfabric" in str(error):
            raise MissingDependencyError(
                "the libfabric runtime needs libfabric and its headers: Debian's libfabric-dev"
            ) from None
        raise


def _sources(compiled_file: str) -> list[Path]:
    return [source_directory() / name for name in (compiled_file, *SOURCES)]


def c_compiler(purpose: str) -> Path:
    """Return the C compiler of the environment; `purpose` begins the error: "the runtime needs"."""
    found = shutil.which(os.environ.get("CC", "cc"))
    if found is None:
        raise MissingDependencyError(
            f"{purpose} a C compiler, found none on the PATH; install one, or set CC"
        )
    return Path(found)


def compiled(
    name: str,
    compiler: Path,
    sources: Sequence[Path],
    more_flags: Sequence[str] = (),
    *,
    directory: Path | None = None,
) -> Path:
    """A program of the first of some C files; compiles it if that was not done before.

    Parameters
    ----------
    name : str
        Begins the file's name.
    sources : sequence of Path
        The file to compile, then all that it includes.
    directory : Path, optional
        Default `build_directory()`.

    Raises
    ------
    MissingDependencyError
        If the compiler fails.
    FormatError
        If the directory cannot be written, or a disk is full.
    """
    words = (*_FLAGS, "-o", OUTPUT, str(sources[0]), *more_flags)
    return build(
        Path(name), str(compiler), words, sources, f"the C {name}", "is a C compiler installed?", directory
    )


OUTPUT = "{output}"
"""Placeholder of the output file in a compiler's arguments."""


def build(
    name: Path,
    compiler: str,
    words: Sequence[str],
    files: Sequence[Path],
    what: str,
    question: str,
    directory: Path | None,
    *,
    limit_s: float = _COMPILE_LIMIT_S,
) -> Path:
    """Return the compiled program of some files, compiled on first use; errors as of `compiled`.

    Parameters
    ----------
    name : Path
        Stem and suffix of the file; files, words and the compiler are put between, so that it is never out
        of date.
    words : sequence of str
        After the compiler, with `OUTPUT`.
    files : sequence of Path
        All that are read.
    what, question : str
        For errors: what is made, and what may be wrong.
    """
    folder = build_directory() if directory is None else directory
    named = [Path(word).name if Path(word) in files else word for word in words]
    digest = hashlib.sha256(repr((named, compiler, os.uname().machine)).encode())
    status = Path(compiler).resolve().stat()
    digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    for file in files:
        digest.update(file.read_bytes())
    target = folder / f"{name.stem}-{digest.hexdigest()[:24]}{name.suffix}"
    if target.exists():
        return target
    partial = folder / f".{target.name}.{secrets.token_hex(8)}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [compiler, *(str(partial) if word == OUTPUT else word for word in words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
        if done.returncode or not partial.exists():
            line = telling_line(done.stderr)
            if os.strerror(errno.ENOSPC) in done.stderr:
                advice = "free some space, or set TMPDIR to another folder"
                raise FormatError(f"{line}; {advice}", source=compiler)
            raise MissingDependencyError(f"{compiler}: {line}; {question}")
        os.replace(partial, target)
    except OSError as error:
        raise FormatError(f"{what} cannot be built: {error.strerror}", source=str(folder)) from None
    except subprocess.TimeoutExpired as error:
        raise MissingDependencyError(f"{what} cannot be built in {folder}: {error}") from None
    finally:
        with contextlib.suppress(OSError):  # where not even its folder could be made
            partial.unlink(missing_ok=True)
    return target


def telling_line(text: str) -> str:
    """The line of a compiler's output that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "not find" in line or "not found" in line]
    return (telling or lines or ["failed without a word"])[0][:300]
