"""Prints the lowest versions that pyproject.toml allows, as exact requirements: python tools/lowest.py.

`make lowest` installs just these beside the wheel and runs a smoke suite, so the bounds are no guesses. What
is not declared comes in its newest version. Left out are the tools that only check the source.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LEFT_OUT = {"lxml-stubs", "mypy", "ruff"}

_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)(>=|==)([0-9]+(?:\.[0-9]+)*)(,<=[0-9.]+)?")


def requirements(document: dict[str, Any]) -> Iterator[str]:
    """All that the package, its extras and its tests require."""
    project = document["project"]
    yield from project["dependencies"]
    for extra in project["optional-dependencies"].values():
        yield from extra
    yield from document["dependency-groups"]["test"]


def lowest(requirement: str) -> tuple[str, str]:
    """Name and lowest version; ValueError for a requirement that has no lower bound.

    Examples
    --------
    >>> lowest("numpy>=2.0")
    ('numpy', '2.0')
    """
    match = _REQUIREMENT.fullmatch(requirement)
    if match is None:
        raise ValueError(f"{requirement!r}: expected a name and its lowest version, as in numpy>=2.0")
    return match[1], match[3]


def pins(document: dict[str, Any]) -> list[str]:
    """The exact requirements, each once; ValueError where two bounds of one name differ."""
    found: dict[str, str] = {}
    for name, version in map(lowest, requirements(document)):
        if found.setdefault(name, version) != version:
            raise ValueError(f"{name}: {found[name]} and {version} are declared; expected one lower bound")
    return [f"{name}=={version}" for name, version in found.items() if name not in LEFT_OUT]


def main() -> int:
    """Print the pins on one line, for a shell."""
    path = Path(__file__).resolve().parents[1] / "pyproject.toml"
    try:
        sys.stdout.write(" ".join(pins(tomllib.loads(path.read_text(encoding="utf-8")))) + "\n")
    except ValueError as error:
        sys.stderr.write(f"{path.name}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
