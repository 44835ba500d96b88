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


class Tree:
    """A copy of the files that git knows, with the compiled core of the package that is imported here.

    Samples of others that lie beside the checkout lie beside the copy, too.

    Parameters
    ----------
    folder : Path
        Made anew.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in _files():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
        beside, samples = folder.parent / "shared", ROOT.parent / "shared"
        if samples.exists() and not beside.exists():
            beside.symlink_to(samples)
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


def _files() -> list[str]:
    """All of the tree that is not ignored, committed or not."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(name for name in listed.split("\0") if name and (ROOT / name).is_file())
