"""The compiled core of a copy of the tree, built anew with a fault in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from .tree import Tree

_LIMIT_S = 1200


class CoreBuilder:
    """Builds the core of copies.

    Raises
    ------
    FileNotFoundError
        If there is no cmake on the PATH, or nanobind neither here nor in the Python beside cmake.
    """

    def __init__(self) -> None:
        cmake = shutil.which("cmake")
        if cmake is None:
            raise FileNotFoundError("no cmake on the PATH; pip install cmake ninja nanobind")
        self._cmake = cmake
        for python in filter(shutil.which, (sys.executable, str(Path(cmake).parent / "python"))):
            words = [python, "-m", "nanobind", "--cmake_dir"]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                self._nanobind = done.stdout.strip()
                return
        raise FileNotFoundError("nanobind is not installed; pip install cmake ninja nanobind")

    def __call__(self, tree: Tree) -> str:
        """Build; the compiler's last words if that fails, else an empty text."""
        build = tree.folder / "build"
        words = [self._cmake, "-S", str(tree.folder), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release"]
        words += [f"-DPython_EXECUTABLE={sys.executable}", f"-Dnanobind_DIR={self._nanobind}"]
        words += ["-DSKBUILD_SABI_COMPONENT=Development.SABIModule"]
        if shutil.which("ninja"):
            words += ["-G", "Ninja"]
        for command in (words, [self._cmake, "--build", str(build)]):
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
            if done.returncode:
                return (done.stdout + done.stderr)[-500:]
        for core in build.glob("_core*.so"):
            shutil.copy2(core, tree.folder / "src/treadle")
        return ""
