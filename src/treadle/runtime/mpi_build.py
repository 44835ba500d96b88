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

from treadle.errors import FormatError, MissingDependencyError, TreadleError

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
    """Where the interpreter's C files are; `SOURCES` names them."""
    return Path(__file__).with_name("c")


def find_mpi() -> MpiInstallation:
    """The MPI beside the running interpreter (extra ``mpi``), else the one on the PATH.

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
        "the compiled MPI runtime needs mpicc and mpirun, found neither beside the interpreter nor on the "
        "PATH: pip install 'treadle[mpi]'"
    )


def build_directory() -> Path:
    """Where compiled interpreters are kept: ``bin`` beside the cached plans.

    Raises
    ------
    MissingDependencyError
        If there is neither ``$TREADLE_CACHE_DIR`` nor a home.
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
    mpi : MpiInstallation
    directory : Path, optional
        Default `build_directory()`.

    Returns
    -------
    Path
        An executable, which appeared whole: other processes may build it at the same time.

    Raises
    ------
    MissingDependencyError
        If there is no C compiler, it fails, or the directory cannot be written.
    """
    return _interpreter(mpi.mpicc, SOURCES[0], (), directory)


def build_libfabric_interpreter(*, directory: Path | None = None) -> Path:
    """The same over libfabric's tagged messages; ``libfabric/mpi.h`` has what it needs of MPI.

    Raises
    ------
    MissingDependencyError
        If there is no C compiler or no libfabric with its headers, or the directory cannot be written.
    """
    return _compiled_with_libfabric(SOURCES[0], ("-I", str(source_directory() / "libfabric")), directory)


def build_libfabric_calls() -> Path:
    """A shared library with the messages alone, for `treadle.runtime.libfabric_text`; errors as above."""
    return _compiled_with_libfabric("libfabric/text_calls.c", ("-shared", "-fPIC"), None)


def _compiled_with_libfabric(source: str, flags: Sequence[str], directory: Path | None) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise MissingDependencyError(
            "the libfabric runtime needs a C compiler, found none on the PATH; install one, or set CC"
        )
    try:
        return _interpreter(Path(compiler), source, (*flags, "-lfabric"), directory)
    except MissingDependencyError as error:
        if "rdma/" in str(error) or "lfabric" in str(error):
            raise MissingDependencyError(
                "the libfabric runtime needs libfabric and its headers: Debian's libfabric-dev"
            ) from None
        raise


def _interpreter(compiler: Path, source: str, more_flags: Sequence[str], directory: Path | None) -> Path:
    files = [source_directory() / name for name in (source, *SOURCES)]
    return compiled("interpreter", compiler, files, more_flags, directory=directory)


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
    compiler : Path
    sources : sequence of Path
        The file to compile, then all that it includes.
    more_flags : sequence of str
    directory : Path, optional
        Default `build_directory()`.

    Raises
    ------
    MissingDependencyError
        If the compiler fails.
    FormatError
        If the directory cannot be written, or a disk is full.
    """
    folder = build_directory() if directory is None else directory
    target = folder / f"{name}-{_key(compiler, more_flags, sources)}"
    if os.access(target, os.X_OK):
        return target
    partial = folder / f".{target.name}.{secrets.token_hex(8)}.partial"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            [compiler, *_FLAGS, "-o", partial, sources[0], *more_flags],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMPILE_LIMIT_S,
            check=False,
        )
        if done.returncode or not partial.exists():
            raise compiler_error(compiler, done.stderr, "is a C compiler installed?")
        os.replace(partial, target)
    except OSError as error:
        raise FormatError(f"the C {name} cannot be built: {error.strerror}", source=str(folder)) from None
    except subprocess.TimeoutExpired as error:
        raise MissingDependencyError(f"the C {name} cannot be built in {folder}: {error}") from None
    finally:
        with contextlib.suppress(OSError):  # where not even its folder could be made
            partial.unlink(missing_ok=True)
    return target


def compiler_error(compiler: Path | str, said: str, question: str) -> TreadleError:
    """Return what a compiler's failure means: a full disk, or a compiler that lacks something."""
    line = telling_line(said)
    if os.strerror(errno.ENOSPC) in said:
        return FormatError(f"{line}; free some space, or set TMPDIR to another folder", source=str(compiler))
    return MissingDependencyError(f"{compiler}: {line}; {question}")


def _key(compiler: Path, more_flags: Sequence[str], sources: Sequence[Path]) -> str:
    """Sources, flags and the compiler: a compiled file under this name is never out of date."""
    words = (_FLAGS, *more_flags, str(compiler), os.uname().machine, sources[0].name)
    digest = hashlib.sha256(repr(words).encode())
    status = compiler.resolve().stat()
    digest.update(f"{status.st_size} {status.st_mtime_ns}".encode())
    for source in sources:
        digest.update(source.read_bytes())
    return digest.hexdigest()[:24]


def telling_line(text: str) -> str:
    """The line of a compiler's output that says most."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "error" in line.lower() or "not find" in line or "not found" in line]
    return (telling or lines or ["failed without a word"])[0][:300]
