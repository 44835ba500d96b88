"""What a release is held against before anybody gets it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

CHECKSUMS = "SHA256SUMS"


def project(root: Path) -> dict[str, Any]:
    """pyproject.toml: the one place of the version and of what is required."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def named_version(root: Path) -> str:
    """The version that is to be released.

    Raises
    ------
    ValueError
        If the changelog begins with another one.
    """
    version = str(project(root)["project"]["version"])
    headings = re.findall(r"^## (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if not headings or version not in re.split(r"[\s()]+", headings[0]):
        found = headings[0] if headings else "no heading"
        raise ValueError(f"CHANGELOG.md begins with {found!r}, pyproject.toml says {version}: expected one")
    return version


def digest(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checksums(files: Iterable[Path]) -> str:
    """Lines that `sha256sum --check` reads, in the order of names."""
    return "".join(f"{digest(path)}  {path.name}\n" for path in sorted(files, key=lambda path: path.name))


def differences(first: Path, second: Path) -> list[str]:
    """Names of files that two folders do not have in common, byte for byte."""
    names = {path.name for folder in (first, second) for path in folder.iterdir()}
    return sorted(
        name
        for name in names
        if not all((folder / name).is_file() for folder in (first, second))
        or digest(first / name) != digest(second / name)
    )


def check_packages(files: Iterable[Path]) -> None:
    """Twine on all, abi3audit on wheels of the stable ABI; what they say goes to the terminal.

    Raises
    ------
    subprocess.CalledProcessError
        If one finds fault.
    """
    names = sorted(map(str, files))
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *names], check=True)
    stable = [name for name in names if "-abi3-" in name]
    subprocess.run([sys.executable, "-m", "abi3audit", "--strict", "--summary", *stable], check=True)
