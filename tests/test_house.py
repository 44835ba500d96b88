"""The house keeps its measure: folders that can be looked over, files that can be read in one go."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.syntax import module_name, modules, nodes_of, statements_of
from places import ROOT
from treadle.cli.application import _ROOM
from treadle.formats.format import own_formats
from treadle.planning.solving.schedulers import schedulers
from treadle.reproduction.exhibits import EXHIBITS
from treadle.topologies.readers.reader import topology_formats

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
    "delivery": "as writer: of formats of which a runtime chooses among several texts",
    "judge_choice": "as delivery: the part that follows that choice",
    "loading": "as writer; and of formats, the value that they answer with",
    "traffic": "as writer: the messages of files that hold schedules; and of programs, their value",
}
"""Names of modules that say which part of a contract stands there, so that they recur; and why."""
BY_HAND = {"program_from_operations", "routes_from_paths"}
"""How schedules and programs are written by hand: for schedulers and formats of others."""
FACADES = tuple(
    f"treadle{name}"
    for name in (
        *("", ".planning", ".torch", ".mscclpp", ".topologies", ".topologies.catalogue"),
        ".training",
    )
)
"""Packages whose names are for users; what another exports counts where somebody imports it from there."""
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
        for node in statements_of(path)
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
        for node in nodes_of(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert len(found) > 2000
    assert not {name: count for name, count in found.items() if count > MOST_PARAMETERS}


def used_names(files: Mapping[str, Path]) -> set[tuple[str, str]]:
    """(module, name) of all that other modules import, or name in tables; what a package exports leads on."""
    used: set[tuple[str, str]] = set()
    exported: dict[tuple[str, str], tuple[str, str]] = {}
    for name, path in files.items():
        modules_here: dict[str, str] = {}
        said = {node.id for node in nodes_of(path) if isinstance(node, ast.Name)}
        for node in nodes_of(path):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    home, own = (str(node.module), alias.name), alias.asname or alias.name
                    if ".".join(home) in files:
                        modules_here[own] = ".".join(home)
                    elif path.name == "__init__.py" and own not in said:
                        exported[name, own] = home
                    else:
                        used.add(home)
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.add((modules_here.get(node.value.id, ""), node.attr))
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                used.update(re.findall(r"\b(treadle(?:\.\w+)+):(\w+)", node.value))
    used |= {home for (package, _), home in exported.items() if package in FACADES}
    following = list(used)
    while following:
        if (home := exported.get(following.pop())) is not None and home not in used:
            used.add(home)
            following.append(home)
    return used


def idle_functions(files: Mapping[str, Path], tables: Iterable[tuple[str, str]]) -> list[str]:
    """Public functions of modules that nothing calls by name, in the module or elsewhere.

    What has a decorator is in a table, or is called by what decorated it.
    """
    used = used_names(files) | set(tables)
    idle = []
    for name, path in files.items():
        body = statements_of(path)
        asked = [
            function
            for function in body
            if isinstance(function, ast.FunctionDef)
            and not function.name.startswith("_")
            and not function.decorator_list
            and (name, function.name) not in used
        ]
        for function in asked:
            others = (node for part in body if part is not function for node in ast.walk(part))
            if not any(isinstance(node, ast.Name) and node.id == function.name for node in others):
                idle.append(f"{name}:{function.name}")
    return idle


def test_every_public_function_is_used() -> None:
    files = {module_name(path): path for path in modules()}
    tables = {(f"treadle.cli.{room}.{name}", "command") for name, room in _ROOM.items()}
    calls = [record.function for record in schedulers(plug_ins=False)]
    calls += [call for record in own_formats() for call in (record.write, record.read, record.judge)]
    calls += [record.read for record in topology_formats()]
    calls += [exhibit.function for exhibit in EXHIBITS]
    tables |= set(re.findall(r'"(treadle[\w.]*):(\w+)"', (ROOT / "pyproject.toml").read_text("utf-8")))
    for call in calls:
        if isinstance(call, str):
            home, _, function = call.partition(":")
            tables.add((home, function))
    idle = idle_functions(files, tables)
    assert {name.partition(":")[2] for name in idle} <= BY_HAND, idle


def test_functions_that_nobody_calls_are_found(tmp_path: Path) -> None:
    """One that calls itself, and one that a package exports and nobody imports."""
    texts = {
        "__init__": "from treadle.room.a import spare as spare, served as served",
        "a": "def spare(): ...\ndef served(): ...\ndef loop():\n    loop()\ndef own(): ...\nX = own()",
        "b": "from treadle.room import served",
    }
    files = {}
    for name, text in texts.items():
        files["treadle.room" if name == "__init__" else f"treadle.room.{name}"] = tmp_path / f"{name}.py"
        (tmp_path / f"{name}.py").write_text(text)
    assert idle_functions(files, ()) == ["treadle.room.a:spare", "treadle.room.a:loop"]
