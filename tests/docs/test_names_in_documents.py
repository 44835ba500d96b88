"""Modules, files and classes that documents name exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from places import ROOT

PACKAGE = ROOT / "src" / "treadle"
DOCUMENTS = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "README.md", "docs/contributing.md")),
    *sorted((ROOT / "docs/how-it-works").glob("*.md")),
    *sorted((ROOT / "docs/proofs").glob("*.md")),
]
CODE = re.compile(r"`([\w./-]+)`")
EXAMPLE = "src/treadle/synthesis/trees/baselines/chain.py"
"""A module that readers are told to write."""
FOLDERS = ("src/", "tests/", "tools/", "docs/", "benchmarks/", "examples/")


@cache
def paths() -> frozenset[str]:
    """Files and folders of the package and its modules without suffix, each with a slash before it."""
    found = [
        path.relative_to(root)
        for root in (PACKAGE, ROOT / "src" / "core")
        for path in root.rglob("*")
        if path.is_dir() or path.suffix in (".py", ".pyi", ".toml", ".cpp", ".hpp")
    ]
    return frozenset(f"/{path}" for one in found for path in (one, one.with_suffix("")))


@cache
def rooms() -> frozenset[str]:
    return frozenset(path.name for path in PACKAGE.rglob("*") if path.is_dir())


@cache
def definitions(module: Path) -> frozenset[str]:
    """Names that a module defines or imports at its top."""
    if module.is_dir():
        return definitions(module / "__init__.py")
    if not module.is_file():
        return frozenset()
    tree = ast.parse(module.read_text(encoding="utf-8"))
    names = {getattr(node, "name", "") for node in tree.body}
    names |= {one.asname or "" for one in ast.walk(tree) if isinstance(one, ast.alias)}
    text = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return frozenset(names | {one for one in text if isinstance(one, str) and one.isidentifier()})


def is_there(name: str) -> bool:
    """Whether a path or a dotted name exists; true for any other text."""
    if name == EXAMPLE or name.startswith("factored/F/"):  # the latter are members of plan files
        return True
    if "/" in name:
        first = name.partition("/")[0]
        if name.startswith(FOLDERS):
            return (ROOT / name).exists()
        return first not in rooms() or any(path.endswith(f"/{name.rstrip('/')}") for path in paths())
    parts = name.removeprefix("treadle.").split(".")
    if len(parts) < 2 or parts[0] not in rooms() or parts[0] == "torch" or parts[-1] == "py":
        return True
    whole, last = "/".join(parts), parts[-1]
    if any(path.endswith(f"/{whole}") for path in paths()):
        return True
    home = "/".join(parts[:-1])
    modules = [PACKAGE / path[1:] for path in paths() if path.endswith(f"/{home}")]
    return any(last in definitions(one) or last in definitions(one.with_suffix(".py")) for one in modules)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_names_exist(document: Path) -> None:
    text = re.sub(r"^```.*?^```", "", document.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert [name for name in CODE.findall(text) if not is_there(name)] == []


def test_names_that_do_not_exist_are_found() -> None:
    wrong = [
        "synthesis.trees.optimums",
        "cli/nothing.py",
        "tests/none.py",
        "inputs.problem.make_problems",
        "treadle.cli.none",
    ]
    right = [
        "schedules.trees.forest",
        "inputs.problem.make_problem",
        "cli/application.py",
        "tests/places.py",
        "gpu0.x",
    ]
    assert [name for name in wrong + right if not is_there(name)] == wrong
