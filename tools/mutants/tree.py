"""Copies of the tree in which faults are planted: the working tree itself is never touched."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import treadle

ROOT = Path(__file__).resolve().parents[2]
_NEEDED = (
    *("src", "tests", "tools", "examples", "benchmarks", "docs", ".ci"),
    *("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "LICENSE"),
    *("pyproject.toml", "Makefile", "CMakeLists.txt"),
)


class Tree:
    """A copy of the files that tests need, with the compiled core of the package that is imported here.

    Parameters
    ----------
    folder : Path
        Made anew.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        ignore = shutil.ignore_patterns("__pycache__", "*.so", ".*_cache", ".hypothesis")
        for name in _NEEDED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=ignore)
            elif source.exists():
                shutil.copy2(source, folder / name)
        for core in Path(treadle.__file__).parent.glob("_core*.so"):
            shutil.copy2(core, folder / "src/treadle")
        compiled = [sys.executable, "-m", "compileall", "-q", str(folder / "src"), str(folder / "tests")]
        subprocess.run(compiled, check=False, stdout=subprocess.DEVNULL)

    def read(self, path: str) -> str:
        """A file's text."""
        return (self.folder / path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        """Replace a file's text, and forget what was compiled of it: its time and size may be the same."""
        target = self.folder / path
        for old in (target.parent / "__pycache__").glob(f"{target.stem}.*.pyc"):
            old.unlink()
        target.write_text(text, encoding="utf-8")

    def environment(self, **others: str) -> Mapping[str, str]:
        """Of processes that import from the copy, and leave no compiled files of what is planted."""
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(self.folder / "src"), str(self.folder)]),
            "PYTHONDONTWRITEBYTECODE": "1",
            **others,
        }
