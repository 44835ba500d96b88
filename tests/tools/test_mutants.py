"""Planted faults: what can be planted, which tests are run for it, and what is said of it."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
import types
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tools.mutants.blocks import COUNTER, Block, block_of, instrument
from tools.mutants.choose import TestMap, mirrored, read_map, write_blocks
from tools.mutants.core_operators import core_mutants
from tools.mutants.mutant import Mutant
from tools.mutants.operators import python_mutants
from tools.mutants.sample import all_mutants, drawn, shares, source_files
from tools.mutants.tree import ROOT, Tree
from tools.mutants.trial import Fate, Outcome, TestServer, run_tests
from tools.mutants.type_check import left_to_types

SOURCE = '''"""A docstring with 3 + 4."""

from __future__ import annotations

LIMIT = 7


def f(a: int, b: int = 2) -> int:
    """Not 1."""
    assert a < 100, "less"
    if a < b and not b == (  # a comment
        a + 1
    ):
        raise ValueError(f"{a - 1} is wrong" + "no")
    total = max(a, b) * LIMIT
    total += 1
    for i in range(a):
        if i in (b,):
            continue
        note(i, a)
    return total if a is None else [x for x in (a, b) if x >= 0]
'''


def changes(source: str, mutants: list[Mutant]) -> set[tuple[int, str]]:
    """Every line that some fault makes, with its number."""
    return {(one.line, one.applied(source).splitlines()[one.line - 1].strip()) for one in mutants}


def test_faults_of_every_kind_are_found_in_their_places() -> None:
    assert changes(SOURCE, python_mutants("f.py", SOURCE)) == {
        (5, "LIMIT = 8"),
        (5, "LIMIT = 6"),
        (8, "def f(a: int, b: int = 3) -> int:"),
        (8, "def f(a: int, b: int = 1) -> int:"),
        (11, "if (not (a < b and not b == (  # a comment"),
        (11, "if a <= b and not b == (  # a comment"),
        (11, "if a >= b and not b == (  # a comment"),
        (11, "if a < b or not b == (  # a comment"),
        (11, "if a < b and not b != (  # a comment"),
        (11, "if a < b and (b == (  # a comment"),
        (12, "a - 1"),
        (12, "a + 2"),
        (12, "a + 0"),
        (14, "pass"),
        (15, "total = max(a, b) + LIMIT"),
        (15, "total = max(a, b) // LIMIT"),
        (15, "total = min(a, b) * LIMIT"),
        (16, "total -= 1"),
        (16, "total = 1"),
        (16, "total += 2"),
        (16, "total += 0"),
        (16, "pass"),
        (18, "if (not (i in (b,))):"),
        (18, "if i not in (b,):"),
        (19, "break"),
        (20, "pass"),
        (20, "note(a, i)"),
        (21, "return ([x for x in (a, b) if x >= 0] if a is None else total)"),
        (21, "return total if a is not None else [x for x in (a, b) if x >= 0]"),
        (21, "return total if a is None else [x for x in (a, b) if (not (x >= 0))]"),
        (21, "return total if a is None else [x for x in (a, b) if x > 0]"),
        (21, "return total if a is None else [x for x in (a, b) if x < 0]"),
        (21, "return total if a is None else [x for x in (a, b) if x >= 1]"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "units.py",
        "arrays.py",
        "topologies/isomorphism.py",
        "lazy.py",
    ],
)
def test_every_fault_of_real_files_is_a_program_and_another_one(name: str) -> None:
    source = (ROOT / "src/treadle" / name).read_text(encoding="utf-8")
    plain = ast.dump(ast.parse(source))
    for mutant in python_mutants(name, source):
        assert ast.dump(ast.parse(mutant.applied(source))) != plain, mutant


def test_places_behind_letters_of_several_bytes() -> None:
    source = 'x = "µμ" if a < b else "é"; y = c < d\n'
    made = {mutant.applied(source) for mutant in python_mutants("f.py", source)}
    assert 'x = "µμ" if a < b else "é"; y = c <= d\n' in made
    assert 'x = "µμ" if a <= b else "é"; y = c < d\n' in made


CORE = """#include <a+b>
// i < 3
/* x + 1 */
std::vector<int> f(std::int64_t* a, int n) {  // "no"
    const char* text = "1 + 2";
    for (int i = 0; i < n; i++) a[i] = std::min(a[i] + 1, a[i]->b);
    return done && !ready ? true : 0x10;
}
"""


def test_faults_of_the_core_leave_types_comments_and_texts_alone() -> None:
    made = {
        (mutant.line, mutant.applied(CORE).splitlines()[mutant.line - 1].strip())
        for mutant in core_mutants("a.cpp", CORE)
    }
    loop = "for (int i = 0; i < n; i++) a[i] = std::min(a[i] + 1, a[i]->b);"
    assert made == {
        (6, loop.replace("= 0", "= 1")),
        (6, loop.replace("<", "<=")),
        (6, loop.replace("<", ">=")),
        (6, loop.replace("++", "--")),
        (6, loop.replace("min", "max")),
        (6, loop.replace("+ 1", "- 1")),
        (6, loop.replace("+ 1", "+ 2")),
        (6, loop.replace("+ 1", "+ 0")),
        (7, "return done || !ready ? true : 0x10;"),
        (7, "return done && !ready ? false : 0x10;"),
    }


def test_faults_are_dealt_out_by_size_and_drawn_by_seed() -> None:
    assert shares({"a": 500, "b": 300, "c": 200}, 10) == {"a": 5, "b": 3, "c": 2}
    assert sum(shares({"a": 7, "b": 11, "c": 1}, 100).values()) == 100
    files = {key: names for key, names in source_files(ROOT).items() if key.endswith(("core", "schedules"))}
    one = drawn(ROOT, files, 30, 5)
    assert one == drawn(ROOT, files, 30, 5)
    assert one != drawn(ROOT, files, 30, 6)
    assert len(set(one)) == 30
    assert {mutant.path.split("/")[1] for mutant in one} == {"core", "treadle"}


def test_the_fault_that_once_survived_is_among_them() -> None:
    path = "src/treadle/synthesis/trees/allreduce/allreduce_forests.py"
    source = (ROOT / path).read_text(encoding="utf-8")
    assert any("free.rate + network.unit" in mutant.applied(source) for mutant in all_mutants(path, source))


MODULE = '''"""Text."""

from __future__ import annotations


def outer(x):
    """Text."""
    if x > 1:
        y = 1
    else:
        y = 2
    for _ in range(x):

        def inner():
            return y

        inner()
    return y
'''


def test_blocks_that_run_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.py").write_text(MODULE, encoding="utf-8")
    blocks = instrument(["m.py"], tmp_path, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    # where these tests make a map themselves, theirs comes back in the end
    monkeypatch.setitem(sys.modules, COUNTER, types.ModuleType(COUNTER))
    del sys.modules[COUNTER]
    spec = importlib.util.spec_from_file_location("instrumented", tmp_path / "m.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    counter = sys.modules[COUNTER]
    monkeypatch.setattr(counter.atexit, "register", None)

    def lines_run(x: int) -> set[int]:
        counter.take()
        assert module.outer(x) == (1 if x > 1 else 2)
        return {blocks[number].first for number in counter.take()}

    assert lines_run(0) == {7, 11}
    assert lines_run(1) == {7, 11, 14, 15}
    assert lines_run(2) == {7, 9, 14, 15}
    assert [blocks[block_of(blocks, "m.py", line) or 0].first for line in (8, 9, 11, 15, 17, 18)] == [
        7, 9, 11, 15, 14, 7,
    ]  # fmt: skip
    assert block_of(blocks, "m.py", 3) is None
    assert block_of(blocks, "other.py", 8) is None


def test_forked_processes_leave_what_they_ran(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(MODULE, encoding="utf-8")
    blocks = instrument(["m.py"], tmp_path, tmp_path)
    (tmp_path / "notes").mkdir()
    words = "import os, m\nif not os.fork():\n    m.outer(2)\n    os._exit(0)\nos.wait()\nm.outer(0)\n"
    environment = {**os.environ, "MUTANT_HITS": str(tmp_path / "notes")}
    subprocess.run([sys.executable, "-c", words], cwd=tmp_path, env=environment, check=True)
    notes = [path.read_text(encoding="utf-8") for path in (tmp_path / "notes").iterdir()]
    run = [{blocks[int(number)].first for number in note.split()} for note in notes]
    assert sorted(run, key=len) == [{7, 11}, {7, 9, 14, 15}]


def test_tests_that_run_a_block_come_first_and_keep_the_budget(tmp_path: Path) -> None:
    path = "src/treadle/lowering/a.py"
    write_blocks([Block(path, 1, 9), Block(path, 4, 5), Block("src/treadle/b.py", 1, 2)], tmp_path)
    notes = [
        ("tests/cli/x.py::slow", 5.0, [0, 1], True),
        ("tests/cli/x.py::quick", 1.0, [0, 1], True),
        ("tests/cli/x.py::kin", 0.5, [2], True),
        ("tests/lowering/y.py::own", 1.5, [1], True),
        ("tests/lowering/y.py::failing", 0.1, [1], False),
        ("tests/cli/z.py::outer", 0.1, [0], True),
        ("tests/cli/w.py::else", 0.1, [2], True),
    ]
    rows = [
        json.dumps(dict(zip(("test", "seconds", "blocks", "passed"), note, strict=True))) for note in notes
    ]
    (tmp_path / "notes-1.jsonl").write_text("\n".join(rows), encoding="utf-8")
    tests = read_map(tmp_path)
    own, quick, slow, kin = (
        f"tests/{name}"
        for name in ("lowering/y.py::own", "cli/x.py::quick", "cli/x.py::slow", "cli/x.py::kin")
    )
    assert tests.chosen(path, 4, 100.0) == [own, quick, kin, slow]
    assert tests.chosen(path, 4, 3.5) == [own, quick, kin]
    assert tests.chosen(path, 2, 100.0) == ["tests/cli/z.py::outer", quick, kin, slow]
    assert set(tests.chosen(path, 20, 100.0)) == {own, quick, slow, kin, "tests/cli/z.py::outer"}
    assert tests.chosen("src/treadle/c.py", 1, 100.0) == []
    assert isinstance(tests, TestMap)


def test_mirrored_folders() -> None:
    assert mirrored("src/treadle/synthesis/trees/allreduce/allreduce_forests.py") == "tests/synthesis/"
    assert mirrored("src/treadle/units.py") == "tests/"


class SmallTree(Tree):
    """A tree of one module and its tests instead of a copy of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "src").mkdir()
        (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")  # no settings of folders above

    def begin_anew(self) -> None:
        self.write("src/small.py", "import time\n\n\ndef f(n):\n    time.sleep(0 * 300)\n    return n + 1\n")
        self.write("test_small.py", "from small import f\n\n\ndef test_f():\n    assert f(2) == 3\n")
        self.write("test_other.py", "def test_other():\n    pass\n")


def fault(tree: Tree, old: str, new: str) -> Mutant:
    source = tree.read("src/small.py")
    start = source.index(old)
    return Mutant("src/small.py", source.count("\n", 0, start) + 1, start, start + len(old), new, "by hand")


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestServer]:
    with TestServer(SmallTree(tmp_path_factory.mktemp("tree"))) as server:
        yield server


@pytest.fixture
def server(started: TestServer) -> TestServer:
    assert isinstance(started.tree, SmallTree)
    started.tree.begin_anew()
    return started


def test_fates(server: TestServer) -> None:
    tree = server.tree
    sound = tree.read("src/small.py")
    wrong, slow = fault(tree, "n + 1", "n - 1"), fault(tree, "0 * 300", "300")
    tests = ["test_other.py::test_other", "test_small.py::test_f"]
    killed = run_tests(server, tests, 60.0, mutant=wrong)
    assert killed.fate is Fate.KILLED
    assert "test_small.py::test_f" in killed.word
    assert run_tests(server, tests[:1], 60.0, mutant=wrong).fate is Fate.SURVIVED
    assert run_tests(server, tests, 5.0, mutant=slow).fate is Fate.TIMEOUT
    assert run_tests(server, [], 60.0, mutant=wrong).fate is Fate.UNTESTED
    crash = fault(tree, "return n + 1", "import os; os.abort()")
    assert run_tests(server, tests, 60.0, mutant=crash).fate is Fate.KILLED
    for ending in ("os.kill(os.getpid(), 9)", "os._exit(3)"):
        ended = fault(tree, "return n + 1", f"import os; {ending}")
        assert run_tests(server, tests, 60.0, mutant=ended).fate is Fate.ENDED
    built: list[str] = []

    def build(_: Tree) -> str:
        built.append(tree.read("src/small.py"))
        return "" if len(built) == 2 else "expected ;"

    assert run_tests(server, tests, 60.0, mutant=wrong, build=build).fate is Fate.INVALID
    assert built == [wrong.applied(sound), sound]
    assert tree.read("src/small.py") == sound
    assert wrong.difference(sound) == "@@ -6 +6 @@\n-    return n + 1\n+    return n - 1"


def test_a_module_that_cannot_be_read_any_more_has_noticed(server: TestServer) -> None:
    tree = server.tree
    tests, wrong = ["test_small.py::test_f"], fault(tree, "n + 1", "n - 1")
    tree.write("test_small.py", "from small import f\n\nassert f(2) == 3\n\n\ndef test_f():\n    pass\n")
    outcome = run_tests(server, tests, 60.0, mutant=wrong)
    assert (outcome.fate, outcome.word) == (Fate.KILLED, "ERROR test_small.py - AssertionError")
    for gone in (["test_other.py::test_gone"], ["test_other.py", "test_other.py::test_gone"], ["gone.py"]):
        outcome = run_tests(server, gone, 60.0, mutant=wrong)
        assert outcome.fate is Fate.ENDED
        assert outcome.word.startswith("the map is out of date: not found: ")


def test_a_test_that_goes_with_the_fault_notices_nothing(server: TestServer) -> None:
    """The map is not out of date for it; what is left of the tests decides."""
    tree = server.tree
    tree.write(
        "test_small.py",
        "import pytest\nfrom small import f\n\n\n@pytest.mark.parametrize('n', [1, f(2)])\n"
        "def test_n(n):\n    assert n > 0\n",
    )
    tests, less = ["test_small.py::test_n[1]", "test_small.py::test_n[3]"], fault(tree, "n + 1", "n + 2")
    assert run_tests(server, tests, 60.0, mutant=less).fate is Fate.SURVIVED
    none = fault(tree, "n + 1", "0")
    assert run_tests(server, tests[1:], 60.0, mutant=none).fate is Fate.ENDED
    outcome = run_tests(server, [*tests, "test_small.py::test_n[4]"], 60.0, mutant=none)
    assert (outcome.fate, outcome.word.partition(": ")[0]) == (Fate.ENDED, "the map is out of date")


def test_tests_are_run_in_the_order_in_which_they_are_asked_for(server: TestServer) -> None:
    tree = server.tree
    tree.write(
        "test_other.py",
        "import pytest\n\n\n@pytest.mark.parametrize('n', [1, 2])\ndef test_n(n):\n    assert n == 3\n\n\n"
        "def test_zero():\n    assert 0\n",
    )
    other = "test_other.py::test_n"
    for asked, first in (
        (["test_other.py"], f"{other}[1]"),
        ([f"{other}[2]", "test_other.py"], f"{other}[2]"),
        (["test_other.py::test_zero", other], "test_other.py::test_zero"),
        (["test_small.py", other], f"{other}[1]"),
    ):
        status, word = server.run(asked, 60.0)
        assert status == 1
        assert word.startswith(f"FAILED {first}")


def test_types_notice_what_tests_do_not(server: TestServer) -> None:
    tree = server.tree
    tree.write(
        "src/small.py",
        "def f(n: int, text: str) -> str:\n    return text * n\n\n\nX = f(2, 'a') + f(3, 'b')\n",
    )
    sound = tree.read("src/small.py")
    wrong = fault(tree, "f(2, 'a')", "f('a', 2)")
    left = Outcome(wrong, Fate.SURVIVED, 3)
    found = left_to_types(tree, left)
    assert (found.fate, found.n_tests) == (Fate.KILLED, 3)
    assert found.word.startswith('mypy: src/small.py:5: error: Argument 1 to "f" has incompatible type')
    assert left_to_types(tree, replace(left, fate=Fate.UNTESTED)).fate is Fate.KILLED
    assert tree.read("src/small.py") == sound
    for unseen in (fault(tree, "f(2,", "f(3,"), fault(tree, "'b'", "'c'")):
        same = Outcome(unseen, Fate.SURVIVED, 3)
        assert left_to_types(tree, same) is same
    timeout = replace(left, fate=Fate.TIMEOUT)
    assert left_to_types(tree, timeout) is timeout
    tree.write("src/small.py", sound + "Y: int = 'no'\n")
    assert left_to_types(tree, left) is left, "the sound file does not pass either"
    tree.write("src/small.py", sound)
