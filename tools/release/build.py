"""The sdist of a commit, and wheels from it, with nothing of the time or the place of the build in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from .interpreters import Interpreter

CONSTRAINTS = Path(__file__).with_name("build-tools.txt")


def git(root: Path, *words: str) -> str:
    """What git prints in that folder."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def exported(root: Path, commit: str, folder: Path) -> Path:
    """The files of a commit, as they are in git, in a new folder."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    git(root, "archive", "--format=tar", f"--output={archive}", commit)
    _unpack(archive, folder)
    archive.unlink()
    return folder


def build_environment(commit_time: int, folder: Path) -> dict[str, str]:
    """What the build of a release is told: one clock, one set of tools, no paths of this machine.

    Parameters
    ----------
    commit_time : int
        Of the commit, seconds since 1970: the time of every file in wheel and sdist.
    folder : Path
        Where it is built.
    """
    told = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SKBUILD"))}
    for name in ("CFLAGS", "CMAKE_ARGS", "MAKEFLAGS"):
        told.pop(name, None)
    return told | {
        "SOURCE_DATE_EPOCH": str(commit_time),
        "CXXFLAGS": f"-ffile-prefix-map={folder}=.",
        "LDFLAGS": "-Wl,--build-id=none",  # it counts names of folders in, which nothing else holds
        "PIP_CONSTRAINT": str(CONSTRAINTS),
        "PIP_BUILD_CONSTRAINT": str(CONSTRAINTS),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
    }


def build_sdist(tree: Path, target: Path, environment: dict[str, str]) -> Path:
    """The sdist of a tree, in a folder."""
    words = [sys.executable, "-m", "build", "--sdist", "--outdir", str(target), str(tree)]
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
    (sdist,) = target.glob("treadle-*.tar.gz")
    return sdist


def unpacked(sdist: Path, folder: Path) -> Path:
    """The one folder of an sdist, in a new folder."""
    folder.mkdir(parents=True)
    _unpack(sdist, folder)
    (tree,) = folder.iterdir()
    return tree


def build_wheel(tree: Path, interpreter: Interpreter, target: Path, environment: dict[str, str]) -> Path:
    """A wheel of an unpacked sdist, in a folder, named by the oldest glibc on which it works.

    Notes
    -----
    A wheel for `linux_x86_64` would be installed anywhere and fail when imported; auditwheel reads which
    versions of which symbols the core asks for.
    """
    made = tree.parent / "wheel"
    shutil.rmtree(made, ignore_errors=True)
    words = [sys.executable, "-m", "pip", "--python", interpreter.path, "wheel", "--quiet", "--no-deps"]
    subprocess.run([*words, "--wheel-dir", str(made), str(tree)], env=environment, check=True)
    (wheel,) = made.glob("treadle-*.whl")
    words = ["-m", "auditwheel", "show", "--json", "--disable-isa-ext-check", str(wheel)]
    audit = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=True)
    words = ["-m", "wheel", "tags", "--remove", "--platform-tag", json.loads(audit.stdout)["overall_tag"]]
    subprocess.run([sys.executable, *words, str(wheel)], env=environment, check=True, capture_output=True)
    (wheel,) = made.glob("treadle-*.whl")
    return Path(shutil.move(wheel, target / wheel.name))


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as found:
        found.extractall(folder, filter="data")
