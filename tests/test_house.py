"""Every public function is used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.syntax import module_name, modules, nodes_of, statements_of
from places import ROOT
from treadle.cli.application import _ROOM
from treadle.formats.format import own_formats
from treadle.planning.solving.schedulers import schedulers
from treadle.reproduction.exhibits import EXHIBITS
from treadle.topologies.readers.reader import topology_formats

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
