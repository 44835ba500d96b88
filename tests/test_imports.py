"""Imports point one way: each package builds on those before it in `LAYERS`."""

from __future__ import annotations

import ast
import pkgutil
import re
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import treadle.formats
import treadle.topologies.readers
from harness.syntax import PACKAGE, module_name, modules, nodes_of
from treadle.formats.format import Format, own_formats
from treadle.options.verbs import VERBS
from treadle.reproduction.paper_figures import EXHIBITS
from treadle.schedulers.schedulers import schedulers
from treadle.topologies.readers.reader import topology_formats

INTERPRETERS = ("interpreter", "file_selection", "reader")
BASE = {
    "treadle.errors",
    "treadle.brief",
    "treadle.notebook",
    "treadle.checking",
    "treadle.arrays",
    "treadle.lazy",
    "treadle.unsupported",
    "treadle.spelling",
    "treadle.plug_ins",
    "treadle.protobuf_messages",
    "treadle.context",
    "treadle.units",
    "treadle.atomic",
    "treadle.input_files",
    "treadle.typed_files",
    "treadle.engine",
    "treadle.tabular",
    "treadle.workers",
    "treadle._version",
}
LAYERS = (
    *(
        "math",
        "topologies",
        "schedules",
        "machines",
        "verification",
        "synthesis",
        "program",
        "formats",
        "traces",
        "runtime",
    ),
    *("viz", "options", "inputs", "simulation", "schedulers", "lowering", "finder", "diagnosis", "training"),
    *(
        "parallelism",
        "testbed",
        "drawing",
        "api",
        "planning",
        "reproduction",
        "render",
        "mscclpp",
        "torch",
        "cli",
    ),
)
"""Packages in the order in which they build on each other: each imports itself and earlier ones only."""
NARROW = {
    "topologies": {"math"},
    "schedules": {"math", "topologies", "_core"},
    "machines": {"topologies", "schedules"},
    "verification": {"topologies", "schedules"},
    "synthesis": {"math", "topologies", "schedules", "verification", "_core"},
    "program": {"math", "topologies", "schedules"},
    "formats": {"topologies", "schedules", "program"},
    "traces": set(),
    "runtime": {"topologies", "schedules", "program", "formats"},
    "viz": {"math", "topologies"},
    "options": set(),
    "mscclpp": {"formats"},
}
"""Packages of which more is asked than the order."""
ALLOWED = {name: NARROW.get(name, {*LAYERS[:place]}) | {name} for place, name in enumerate(LAYERS)}
VALUES = ("treadle.topologies.topology", "treadle.schedules")
"""What the verifier may import: types and what they are made of. No module of these writes or reads files."""
NO_VALUES = ("treadle.schedules.plan_files",)
THIRD_PARTY = {
    "numpy": set(ALLOWED),
    "distributed": {""},
    "highspy": {"math"},
    "joblib": {"synthesis", ""},
    "lxml": {"topologies", "formats"},
    "msgspec": {
        "finder",
        "parallelism",
        "schedulers",
        "schedules",
        "simulation",
        "topologies",
        "training",
        "",
    },
    "networkx": {"topologies"},
    "pandas": {""},
    "yaml": {"topologies"},
    "ortools": {"synthesis"},
    "matplotlib": {"viz"},
    "ml_dtypes": {"runtime"},
    "mpi4py": {"runtime"},
    "torch": {"torch", "parallelism"},
    "rich": {"cli"},
    "click": {"cli"},
}


@cache
def imports_of(path: Path) -> tuple[tuple[str, int], ...]:
    """Absolute names of the modules that a source file imports, with line numbers."""
    found: list[tuple[str, int]] = []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            found.append((node.module or "", node.lineno))
            found += [(f"{node.module}.{alias.name}", node.lineno) for alias in node.names]
    return tuple(found)


def layer(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else ""


def packages() -> list[str]:
    """First parts of the modules' paths; the empty name is that of the package itself."""
    return sorted({layer(path) for path in modules()})


def of_package(name: str) -> list[Path]:
    return [path for path in modules() if layer(path) == name]


@pytest.mark.parametrize("where", [name for name in packages() if name])
def test_imports_point_one_way(where: str) -> None:
    for path in of_package(where):
        for name, line in imports_of(path):
            if not name.startswith("treadle.") or any(name == b or name.startswith(f"{b}.") for b in BASE):
                continue
            target = name.split(".")[1]
            if target == "__version__":
                continue
            assert target in ALLOWED[where], f"{path}:{line}: {where} must not import {name}"


@pytest.mark.parametrize("where", packages())
def test_third_party_imports_stay_in_their_layer(where: str) -> None:
    for path in of_package(where):
        for name, line in imports_of(path):
            top = name.split(".")[0]
            if top == "treadle" or top in sys.stdlib_module_names:
                continue
            assert top in THIRD_PARTY, f"{path}:{line}: {top} is no declared dependency"
            assert not where or where in THIRD_PARTY[top], f"{path}:{line}: {where} must not import {top}"


def is_below(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def test_verifier_imports_value_types_only() -> None:
    paths = of_package("verification")
    assert paths
    for path in paths:
        for name, line in imports_of(path):
            if name.startswith("treadle.") and not is_below(name, BASE | {"treadle.verification"}):
                allowed = is_below(name, VALUES) and not is_below(name, NO_VALUES)
                assert allowed, f"{path}:{line}: the verifier must not import {name}"


def test_evaluation_shares_nothing_with_the_search() -> None:
    """Neither code nor tables of costs: an error of one is no error of the other.

    What checks a bound is given the search's tables and its certificate, and takes them as values.
    """
    states = ("transitions", "moves", "strategies")
    theirs = ("problem", "search", *(f"state.{one}" for one in states))
    given = {"bound_check": ("search.bound_certificate", "search.factor_graph")}
    left = [path for path in of_package("parallelism") if path.parent.name == "evaluation"]
    assert len(left) > 8
    by_name = {module_name(path): path for path in of_package("parallelism")}
    seen = set(left)
    while left:
        path = left.pop()
        for name, line in imports_of(path):
            if is_below(name, [f"treadle.parallelism.{one}" for one in given.get(path.stem, ())]):
                continue
            wrong = is_below(name, [f"treadle.parallelism.{one}" for one in theirs])
            assert not wrong, f"{path}:{line}: what evaluation uses must not import {name}"
            used = by_name.get(name)
            if used is not None and used not in seen:
                seen.add(used)
                left.append(used)


def test_judges_share_no_code_with_writers() -> None:
    """A format's reader and judges import readers and judges of its own only, and what all judges answer."""
    judges = [path for path in of_package("formats") if path.stem.startswith(INTERPRETERS)]
    assert len(judges) > 3
    for path in judges:
        for name, line in imports_of(path):
            own = is_below(name, [f"treadle.formats.{path.parent.name}"])
            module = name.removeprefix(f"treadle.formats.{path.parent.name}.").split(".")[0]
            is_reading = own and module.startswith((*INTERPRETERS, "schema"))
            is_reading |= is_below(name, ["treadle.formats.verdict", "treadle.formats.xml_elements"])
            assert not name.startswith(("treadle.formats", "treadle.program")) or is_reading, (
                f"{path}:{line}: imports {name}"
            )


def reached(module: str) -> set[str]:
    """Modules of formats that a module imports, directly or not."""
    found, following = {module}, [module]
    while following:
        path = PACKAGE.joinpath(*following.pop().split(".")[1:])
        for name, _ in imports_of(path.with_suffix(".py") if not path.is_dir() else path / "__init__.py"):
            place = PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
            if name.startswith("treadle.formats.") and place.is_file() and name not in found:
                found.add(name)
                following.append(name)
    return found


@pytest.mark.parametrize("record", own_formats(), ids=lambda record: record.name)
def test_writer_and_judge_of_a_format_never_meet(record: Format) -> None:
    """Neither reaches a module of formats that the other does, but for the schema of a third party."""
    written, judged, read = (
        reached(str(function).partition(":")[0]) for function in (record.write, record.judge, record.read)
    )
    assert written & (judged | read) <= {"treadle.formats.chakra.schema"}
    assert len(judged) > 1


@pytest.mark.parametrize("where", [name for name in packages() if name != "cli"])
def test_only_the_command_line_prints_and_exits(where: str) -> None:
    for path in of_package(where):
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("print", "exit", "quit", "input"), f"{path}:{node.lineno}"


def lazy_packages() -> list[str]:
    return [
        ".".join(("treadle", *path.parent.relative_to(PACKAGE).parts))
        for path in modules()
        if path.name == "__init__.py" and "treadle.lazy" in (name for name, _ in imports_of(path))
    ]


@pytest.mark.parametrize("where", lazy_packages())
def test_lazy_packages_load_what_type_checkers_see(where: str) -> None:
    package = import_module(where)
    path = Path(package.__file__ or "")
    seen = {
        alias.asname: node.module
        for node in nodes_of(path)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    assert package.__all__ == sorted(seen)
    assert {*seen, "__name__"} <= set(dir(package)), "completion"
    assert not set(seen) & {module.name for module in pkgutil.iter_modules(package.__path__)}, "hidden"
    for name, home in seen.items():
        assert getattr(package, name) is getattr(import_module(str(home)), name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


ENTRANCES = (
    *("treadle", "treadle.__main__", "treadle.torch", "treadle.mscclpp", "treadle.planning"),
    "treadle.training",
)


def loaded_by_name() -> set[str]:
    """Modules that tables name: those of commands, schedulers, formats and readers."""
    functions = [record.function for record in schedulers(plug_ins=False)]
    functions += [call for record in own_formats() for call in (record.write, record.read, record.judge)]
    functions += [record.read for record in topology_formats()]
    functions += [exhibit.function for exhibit in EXHIBITS if exhibit.function]
    tables = {
        call.partition(":")[0] if isinstance(call, str) else call.__module__
        for call in functions
        if call is not None
    }
    commands = {f"treadle.cli.{one.package}.{name.split()[0]}" for name, one in VERBS.items()}
    commands |= {f"treadle.options.{one.package}" for one in VERBS.values()}
    records = {
        f"{place.__name__}.{module.name}"
        for place in (treadle.formats, treadle.topologies.readers)
        for module in pkgutil.iter_modules(place.__path__)
    }
    return tables | commands | records


def leads_to(path: Path) -> set[str]:
    """What a module imports, and what its words name: homes of lazy names, processes, ``python -m``.

    What only docstrings mention does not count.
    """
    found = {name for name, _ in imports_of(path)}
    said = {node.value for node in nodes_of(path) if isinstance(node, ast.Expr)}
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in said:
            found.update(re.findall(r"\btreadle(?:\.\w+)+", node.value))
    return found


def unreached(files: Mapping[str, Path], entrances: Iterable[str]) -> list[str]:
    """Modules to which nothing leads; a package counts with any module in it."""
    found: set[str] = set()
    following = [name for name in entrances if name in files]
    while following:
        name = following.pop()
        if name not in found:
            found.add(name)
            following += [other for other in leads_to(files[name]) if other in files]
    return sorted(name for name in files if not any(is_below(one, [name]) for one in found))


def test_every_module_is_reached() -> None:
    """From ``import treadle``, the command line or ``treadle.torch``: the rest belongs to tests or tools."""
    files = {module_name(path): path for path in modules()}
    assert unreached(files, {*ENTRANCES, *loaded_by_name()}) == []


def test_modules_that_only_others_of_their_kind_import_are_found(tmp_path: Path) -> None:
    """Two modules that import each other, and nobody else them."""
    texts = {"": "import treadle.a", "b": "import treadle.c", "c": "from treadle import b"}
    texts["a"] = '"""Mentions treadle.b only."""'
    files = {}
    for name, text in texts.items():
        files[f"treadle.{name}".rstrip(".")] = tmp_path / f"{name or '__init__'}.py"
        (tmp_path / f"{name or '__init__'}.py").write_text(text)
    assert unreached(files, ["treadle"]) == ["treadle.b", "treadle.c"]
