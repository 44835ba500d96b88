"""Rules of DESIGN's layout that a program can judge, with today's exceptions in tests/house.toml."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path

import pytest
from tools.size import code_lines

from harness.syntax import module_name, modules, nodes_of, statements_of
from places import ROOT, TESTS
from treadle.formats.format import own_formats
from treadle.options.verbs import VERBS
from treadle.reproduction.paper_figures import EXHIBITS
from treadle.schedulers.schedulers import schedulers
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
    tables = set()
    for verb, one in VERBS.items():
        group, _, name = verb.rpartition(" ")
        tables.add((f"treadle.cli.{one.package}.{group or name}", f"{name}_command" if group else "command"))
    own = schedulers(plug_ins=False)
    calls = [call for record in own for call in (record.function, *record.requirements)]
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


EXCEPTIONS = tomllib.loads((TESTS / "house.toml").read_text(encoding="utf-8"))
"""How many places of each package are not as DESIGN's layout asks; the numbers may only fall."""
SLACK = 0.9
"""Below this share of a number it is time to lower it."""
LARGE_MODULE, LONG_FUNCTION = 100, 8
"""Code lines of a module that needs no second importer, lines of a function that needs no second use."""

Files = Mapping[str, Path]
IMPORTS = ast.Import | ast.ImportFrom


def is_lazy(path: Path) -> bool:
    """Whether a package loads what it exports when that is used."""
    return path.name == "__init__.py" and any(
        isinstance(node, ast.ImportFrom) and node.module == "treadle.lazy" for node in statements_of(path)
    )


def imported(path: Path, files: Files) -> set[str]:
    """Modules that a file imports, also within functions and for annotations."""
    found = set[str]()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & files.keys() or {str(node.module)}
    return found & files.keys()


def circles(files: Files) -> list[list[str]]:
    """Sets of modules that import each other, directly or not (strongly connected components)."""
    after = {name: set() if is_lazy(path) else imported(path, files) - {name} for name, path in files.items()}
    before: dict[str, set[str]] = {name: set() for name in files}
    for name, others in after.items():
        for other in others:
            before[other].add(name)

    def reached(start: str, onward: Mapping[str, set[str]], within: set[str]) -> Iterator[str]:
        """Names in the order in which a depth-first search leaves them."""
        stack = [(start, iter(onward[start]))]
        within.discard(start)
        while stack:
            following = next((name for name in stack[-1][1] if name in within), None)
            if following is None:
                yield stack.pop()[0]
            else:
                within.discard(following)
                stack.append((following, iter(onward[following])))

    left, order = set(files), list[str]()
    for name in sorted(files):
        if name in left:
            order += reached(name, after, left)
    left = set(files)
    parts = [sorted(reached(name, before, left)) for name in reversed(order) if name in left]
    return sorted(part for part in parts if len(part) > 1)


def small_modules(files: Files) -> list[str]:
    """Modules of less than 100 code lines with one importer; one that words name is registered or started."""
    importers, registered = Counter[str](), set[str]()
    for path in files.values():
        importers.update(imported(path, files))
        if is_lazy(path):  # what a package exports has users outside
            registered |= imported(path, files)
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                registered.update(re.findall(r"\b(treadle(?:\.\w+)+)(?=:|$)", node.value))
    commands = {f"treadle.cli.{one.package}.{verb.split()[0]}" for verb, one in VERBS.items()}
    commands |= {f"treadle.options.{one.package}" for one in VERBS.values()}
    return [
        name
        for name, path in files.items()
        if importers[name] == 1
        and path.name != "__init__.py"
        and name not in registered | commands
        and code_lines(path) < LARGE_MODULE
    ]


def short_functions(files: Files) -> list[str]:
    """Private functions and methods of less than 8 lines that are used once."""
    found = []
    for name, path in files.items():
        nodes = nodes_of(path)
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in nodes
            if isinstance(node, ast.Name | ast.Attribute)
        )
        for node in nodes:
            if (
                isinstance(node, ast.FunctionDef)
                and re.match("_[^_]", node.name)
                and not node.decorator_list
                and uses[node.name] == 1
            ):
                start = (
                    node.body[1].lineno if ast.get_docstring(node) and len(node.body) > 1 else node.lineno + 1
                )
                if (node.end_lineno or start) - start + 2 < LONG_FUNCTION:
                    found.append(f"{name}:{node.name}")
    return found


def like_classes(files: Files) -> list[str]:
    """Pairs of dataclasses of which one has more than five fields of the other, names and types alike."""
    fields: dict[str, set[str]] = {}
    for name, path in files.items():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef) and "dataclass" in map(_called, node.decorator_list):
                own = {ast.unparse(part.target) for part in node.body if isinstance(part, ast.AnnAssign)}
                fields[f"{name}:{node.name}"] = own
    return [
        f"{one} and {other}" for one, other in combinations(fields, 2) if len(fields[one] & fields[other]) > 5
    ]


def _called(decorator: ast.expr) -> str:
    return ast.unparse(decorator.func if isinstance(decorator, ast.Call) else decorator)


def solvers(files: Files) -> list[str]:
    """Modules that import the LP solver, other than its home."""
    return [
        name
        for name, path in files.items()
        if name != "treadle.math.lp"
        and any("highspy" in ast.unparse(node) for node in nodes_of(path) if isinstance(node, IMPORTS))
    ]


def options_elsewhere(files: Files) -> list[str]:
    """Modules that declare options of commands, other than `options` and what makes click of its table."""
    makers = ("treadle.options.", "treadle.cli.command", "treadle.cli.application")
    found = []
    for name, path in files.items():
        parts = [node for node in nodes_of(path) if not name.startswith(makers)]
        rows = any(
            isinstance(node, ast.ImportFrom) and node.module == "treadle.options.rows" for node in parts
        )
        made = {_called(node) for node in parts if isinstance(node, ast.Call)}
        if made & {"click.Option", "click.Argument"} or (rows and "Row" in made):
            found.append(name)
    return found


def formatted_numbers(files: Files) -> list[str]:
    """Formats within texts (``{seconds:.2f}``) outside `render` and `units`, which alone write for people."""
    return [
        f"{name}:{node.lineno}"
        for name, path in files.items()
        if not name.startswith(("treadle.render.", "treadle.units"))
        for node in nodes_of(path)
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None
    ]


RULES = {
    "small_modules": (small_modules, "merge it into its only importer"),
    "short_functions": (short_functions, "write it where it is used, or give it a second use"),
    "like_classes": (like_classes, "let one hold the other"),
    "solvers": (solvers, "import the LP engine instead of highspy"),
    "options_elsewhere": (options_elsewhere, "declare the option in a table of `options`"),
    "formatted_numbers": (formatted_numbers, "let `render` or `units` write the number"),
}


def wrong_counts(places: Iterable[str], most: Mapping[str, int], advice: str) -> list[str]:
    """Packages with more places than their number, or so many fewer that it has to be lowered."""
    by_package: dict[str, list[str]] = {}
    for place in places:
        parts = place.split(":")[0].split(".")
        by_package.setdefault(parts[1] if len(parts) > 2 else "top", []).append(place)
    said = []
    for package in sorted({*by_package, *most}):
        found, limit = by_package.get(package, []), most.get(package, 0)
        if len(found) > limit:
            said.append(f"{package}: {len(found)}, at most {limit}; {advice}: {', '.join(found)}")
        elif len(found) < SLACK * limit:
            said.append(f"{package} = {limit} in tests/house.toml: lower it to {len(found)}")
    return said


@pytest.mark.parametrize("rule", RULES)
def test_the_layout_comes_nearer_to_the_design(rule: str) -> None:
    find, advice = RULES[rule]
    files = {module_name(path): path for path in modules()}
    assert wrong_counts(find(files), EXCEPTIONS[rule], advice) == []


def test_no_imports_go_in_a_circle() -> None:
    files = {module_name(path): path for path in modules()}
    known = [set(part) for part in EXCEPTIONS["circles"]]
    new = [part for part in circles(files) if not any(set(part) <= one for one in known)]
    assert new == [], "move what the modules share into one that both import"
    gone = [
        part for part in EXCEPTIONS["circles"] if not any(set(one) <= set(part) for one in circles(files))
    ]
    assert gone == [], "remove them from tests/house.toml"


def test_what_is_not_as_the_design_asks_is_found(tmp_path: Path) -> None:
    texts = {
        "treadle.room.a": "import highspy\ndef _one(): ...\ndef _two(): ...\nX = _one(), _two(), _two()",
        "treadle.room.b": "def f():\n    from treadle.room import c\n",
        "treadle.room.c": "if TYPE_CHECKING:\n    from treadle.room.d import X",
        "treadle.room.d": "import treadle.room.b, treadle.room.a\nY = 'treadle.room.c:X', 'treadle.room.b'",
    }
    fields = "\n".join(f"    {name}: int" for name in "abcdef")
    texts["treadle.room.c"] += "\nclick.Option(); X = f'{1.5:.1f} {2}'"
    texts["treadle.room.e"] = f"@dataclass\nclass A:\n{fields}\n@dataclass(frozen=True)\nclass B:\n{fields}"
    files = {name: tmp_path / f"{name}.py" for name in texts}
    for name, path in files.items():
        path.write_text(texts[name])
    assert circles(files) == [["treadle.room.b", "treadle.room.c", "treadle.room.d"]]
    assert small_modules(files) == ["treadle.room.a", "treadle.room.d"]
    assert short_functions(files) == ["treadle.room.a:_one"]
    assert like_classes(files) == ["treadle.room.e:A and treadle.room.e:B"]
    assert solvers(files) == ["treadle.room.a"]
    assert options_elsewhere(files) == ["treadle.room.c"]
    assert formatted_numbers(files) == ["treadle.room.c:3"]
    assert wrong_counts(["treadle.room.a:f", "treadle.b"], {"top": 1, "room": 1}, "") == []
    assert [line[:13] for line in wrong_counts(["treadle.b"] * 2, {"top": 1, "room": 1}, "")] == [
        *("room = 1 in t", "top: 2, at mo"),
    ]


def test_the_list_of_slow_tests_is_current() -> None:
    for line in (ROOT / "tests/slow_tests.txt").read_text().splitlines()[1:]:
        path, _, name = line.partition("::")
        found = list(ROOT.glob(f"{path.rstrip('/')}*"))
        assert found, f"{line}: moved? tests/slow_tests.txt has its old name"
        assert not name or f"def {name}(" in found[0].read_text(), line
