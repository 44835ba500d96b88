"""The package's modules as syntax trees, for tests of what its sources may say."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

import treadle

PACKAGE = Path(treadle.__file__).parent


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a source file's syntax tree; many tests read each file."""
    gc.disable()  # it would look through all trees again and again
    try:
        return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    finally:
        gc.enable()


def statements_of(path: Path) -> list[ast.stmt]:
    """What stands at the outermost level of a source file."""
    module = nodes_of(path)[0]
    assert isinstance(module, ast.Module)
    return module.body


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(("treadle", *(parts[:-1] if parts[-1] == "__init__" else parts)))
