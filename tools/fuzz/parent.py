"""Whether a finding is older than the commit: its case is checked by the parent's package."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import treadle

_COMPILED = ("src/core", "CMakeLists.txt", "pyproject.toml")
"""What the compiled core is made of."""

Builder = Callable[[Path, Path], None]
"""Builds the package of a tree into a folder."""


class NoParentError(Exception):
    """There is no parent commit to be had: no repository, no history, or it does not build."""


def parent_package(repository: Path, folder: Path, *, build: Builder | None = None) -> Path:
    """The package of the parent of the commit that is checked out.

    Parameters
    ----------
    repository : Path
        The working tree; changes that are not committed count as the commit's.
    folder : Path
        Where the parent's tree is put.
    build : callable, optional
        What makes a package of a tree where the compiled core is another; default pip.

    Returns
    -------
    Path
        A folder to be imported from.

    Raises
    ------
    NoParentError
    """
    tree = folder / "parent"
    if not tree.exists():
        _export(repository, tree)
    if _git(repository, "diff", "--quiet", "HEAD^", "--", *_COMPILED).returncode == 0:
        for core in Path(treadle.__file__).parent.glob("_core*.so"):
            shutil.copy2(core, tree / "src" / "treadle")
        return tree / "src"
    built = folder / "parent-built"
    if not built.exists():
        (build or _pip_build)(tree, built)
    return built


def _git(repository: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", "-C", str(repository), *words], capture_output=True, check=False)
    except FileNotFoundError:
        raise NoParentError("git is not installed") from None


def _export(repository: Path, tree: Path) -> None:
    made = _git(repository, "archive", "--format=tar", "HEAD^")
    if made.returncode:
        raise NoParentError(made.stderr.decode(errors="replace").strip())
    tree.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(tree)], input=made.stdout, check=True)


def _pip_build(tree: Path, built: Path) -> None:
    wheels = tree / "dist"
    words = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(wheels),
        str(tree),
    ]
    done = subprocess.run(words, capture_output=True, check=False, text=True)
    if done.returncode:
        raise NoParentError(f"the parent does not build: {done.stderr.strip()[-1000:]}")
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(built)
