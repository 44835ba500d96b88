"""The package's modules as syntax trees, for tests of what its sources may say."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import treadle

PACKAGE = Path(treadle.__file__).parent


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a source file's syntax tree; three tests read each file."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(("treadle", *(parts[:-1] if parts[-1] == "__init__" else parts)))
