"""Docstrings with examples, found in the files of the package without importing them."""

from __future__ import annotations

import ast
import doctest
from importlib import import_module
from pathlib import Path

import treadle

PACKAGE = Path(treadle.__file__).parent


def documented() -> list[str]:
    """Functions, classes and methods whose docstring has an example, as "treadle.math.sums:total"."""
    found: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if ">>> " in text:
            module = ".".join(("treadle", *path.relative_to(PACKAGE).with_suffix("").parts))
            found += [f"{module.removesuffix('.__init__')}:{name}" for name in _named(ast.parse(text), "")]
    return found


def _named(node: ast.AST, inside: str) -> list[str]:
    found: list[str] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{inside}{child.name}"
            found += [name] * (">>> " in (ast.get_docstring(child) or ""))
            found += _named(child, f"{name}.") if isinstance(child, ast.ClassDef) else []
    return found


def examples_of(name: str) -> doctest.DocTest:
    """The examples of a docstring, which see what its module sees."""
    place, _, inner = name.partition(":")
    module = value = import_module(place)
    for part in inner.split("."):
        value = vars(value)[part]
    text = getattr(value, "__func__", value).__doc__ or ""  # of a class or static method
    scope = {**vars(module), "__name__": "__main__"}
    return doctest.DocTestParser().get_doctest(text, scope, name, str(module.__file__), 0)
