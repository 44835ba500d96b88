"""The house keeps its measure: folders that can be looked over, files that can be read in one go."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from places import ROOT
from treadle.cli.application import _ROOM

MOST_FILES = 22
"""In a folder."""
MOST_LINES = 450
"""In a file."""
MOST_PARAMETERS = 10
"""Of a function outside the command line, whose parameters are options of commands."""
RECURRING = {
    "writer": "each format's room has its writer, reader, judges and loading notes",
    "reader": "as writer; and of topologies, the record of what reads a fabric",
    "judge": "as writer",
    "judge_text": "as writer: of formats that are judged file by file, the part that opens them",
    "loading": "as writer; and of formats, the value that they answer with",
    "traffic": "as writer: the messages of files that hold schedules; and of programs, their value",
}
"""Names of modules that say which part of a contract stands there, so that they recur; and why."""
SUFFIXES = {".py", ".pyi", ".cpp", ".hpp", ".c", ".h"}


def sources() -> list[Path]:
    return [
        path
        for room in ("src", "tests")
        for path in sorted((ROOT / room).rglob("*"))
        if path.suffix in SUFFIXES and path.is_file()
    ]


def test_folders_can_be_looked_over() -> None:
    found = Counter(path.parent for path in sources())
    assert len(found) > 50
    assert not {str(folder): count for folder, count in found.items() if count > MOST_FILES}


def test_files_can_be_read_in_one_go() -> None:
    lines = {str(path): len(path.read_text(encoding="utf-8").splitlines()) for path in sources()}
    assert not {path: count for path, count in lines.items() if count > MOST_LINES}


def test_each_class_has_a_name_of_its_own() -> None:
    """Public classes of the package: in formats, whose runtimes share words, with the format's name."""
    found = Counter(
        node.name
        for path in sorted((ROOT / "src" / "treadle").rglob("*.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert len(found) > 200
    assert not {name for name, count in found.items() if count > 1}


def test_each_module_has_a_name_of_its_own() -> None:
    """A command's module has the name that users type, which may be that of what does its work."""
    package = ROOT / "src" / "treadle"
    commands = {package / "cli" / room / f"{name.replace('-', '_')}.py" for name, room in _ROOM.items()}
    found = Counter(path.stem for path in package.rglob("*.py") if path not in commands)
    assert len(found) > 300
    assert {name for name, count in found.items() if count > 1} - {"__init__"} == set(RECURRING)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """What a caller may have to think of; ``**options`` are one."""
    given = function.args
    named = [*given.posonlyargs, *given.args]
    own = bool(named) and named[0].arg in ("self", "cls")
    return len(named) + len(given.kwonlyargs) + bool(given.vararg) + bool(given.kwarg) - own


def test_functions_ask_for_few_things() -> None:
    found = {
        f"{path}:{node.lineno} {node.name}": parameters(node)
        for path in sorted((ROOT / "src" / "treadle").rglob("*.py"))
        if "cli" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(found) > 2000
    assert not {name: count for name, count in found.items() if count > MOST_PARAMETERS}
