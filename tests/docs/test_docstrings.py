"""Examples of docstrings run; those of public names in an empty namespace, so they import what they use.

Notebooks show their values as recorded. Then their arguments are changed at random, and each change gives its
recorded value or error.
"""

from __future__ import annotations

import ast
import copy
import doctest
import hashlib
import pickle
import random
import re
import time
import traceback
import warnings
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import treadle
from harness.changes import LATE, TARGET, compare, in_time, kept
from places import ROOT
from samples.docstrings import PACKAGE, documented, examples_of
from samples.table import table_restored
from treadle import Collective, Mesh, Topology, planning
from treadle.arrays import FrozenArrays
from treadle.errors import MissingDependencyError
from treadle.schedules.plan import Plan

ELSEWHERE = {"treadle.api.execute_plan:execute_plan": ROOT / "tests/planning/parallelising/test_executing.py"}
"""Examples that need PyTorch and processes: they run in a test that has both anyway."""
EQUAL_BY_CONTENT = (FrozenArrays, Topology, Plan, Collective, Mesh)
N_CHANGES, MOST_S = 12, 0.5
"""Changes per docstring; recording stops early after this many CPU seconds."""
SECONDS = re.compile(r"[\d.e-]+ (CPU )?s\b")
"""Measured times among what notebooks show."""
VARYING = re.compile(r"0x[0-9a-f]+|\d+\.\d{9,}(e-?\d+)?|[^ '\"]*pytest-of-[^ '\"]*")


@pytest.mark.parametrize("name", documented())
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if name in ELSEWHERE:
        assert f"getdoc(planning.{name.partition(':')[2]})" in ELSEWHERE[name].read_text(encoding="utf-8")
        return
    found = examples_of(name)
    assert not any(doctest.SKIP in example.options for example in found.examples)
    if name.rpartition(":")[2] in {*treadle.__all__, *planning.__all__}:
        found.globs = {"__name__": "__main__"}
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    with table_restored():
        result = runner.run(found, out=lines.append, clear_globs=False)
    told = "".join(lines)
    if MissingDependencyError.__name__ in told:
        pytest.skip(told.strip().splitlines()[-1])
    assert result.failed == 0, told
    values = [value for value in found.globs.values() if is_value(value)]
    for value in values:
        for copied in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
            assert VARYING.sub("", repr(copied)) == VARYING.sub("", repr(value))
            assert not isinstance(value, EQUAL_BY_CONTENT) or copied == value
    shown = [
        digest(SECONDS.sub("", value._repr_html_() + value.__rich__()))
        for value in values
        if hasattr(value, "_repr_html_")
    ]
    if shown and (TARGET or name in kept("shown_values")):
        compare("shown_values", {name: shown})


def digest(text: str) -> str:
    """Return a hash of a text without what differs from run to run."""
    return hashlib.sha256(VARYING.sub("", text).encode()).hexdigest()[:12]


def is_value(value: object) -> bool:
    """Whether an example made it: a value of Treadle, none of its functions, classes and exceptions."""
    home = type(value).__module__
    return home.startswith("treadle") and not isinstance(value, BaseException)


@pytest.mark.parametrize("name", documented() if TARGET else kept("changed_examples"))
def test_changed_arguments_give_what_they_gave(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draw, sources = random.Random(name), [example.source for example in examples_of(name).examples]
    if TARGET:  # an interrupted first import would leave modules half-loaded
        (tmp_path / "first").mkdir()
        with chdir(tmp_path / "first"):
            outcome(sources, name)
    found, started = list[str](), time.process_time()
    while len(found) < (N_CHANGES if TARGET else len(kept("changed_examples")[name])):
        at = draw.randrange(len(sources))
        source = changed(sources[at], draw)
        others = [*sources[:at], source, *sources[at + 1 :]]
        result = in_time(partial(outcome, others, name), MOST_S) if source else ""
        if result != LATE:
            found.append(f"{source}: {result}")
        if result == LATE or (TARGET and time.process_time() - started > MOST_S):
            break
    if MissingDependencyError.__name__ in str(found):
        pytest.skip("something is not installed")
    compare("changed_examples", {name: found} if found else {})


def changed(source: str, draw: random.Random) -> str:
    """Return a statement with an argument changed or dropped; empty if it has none."""
    tree = ast.parse(source)
    places = [
        node for node in ast.walk(tree) if isinstance(node, ast.Constant | ast.Tuple | ast.List | ast.Call)
    ]
    if not places or isinstance(tree.body[0], ast.Import | ast.ImportFrom):
        return ""
    node = draw.choice(places)
    match node:
        case ast.Constant(value=str(text)):
            at = draw.randrange(len(text) + 1)
            node.value = draw.choice(["", text[:at] + text[at + 1 :], f"{text[:at]}0{text[at:]}", "x", 1])
        case ast.Constant(value=int(number) | float(number)):
            node.value = draw.choice([0, -1, number + 1, number - 1, 1.5, "x", None])
        case ast.Constant():
            node.value = 0
        case ast.Call(keywords=[*_, _]):
            node.keywords.pop(draw.randrange(len(node.keywords)))
        case ast.Call():
            node.args[-1:] = []
        case ast.Tuple() | ast.List():
            node.elts[:1] = draw.choice([[], node.elts[:1] * 2])
    try:
        return ast.unparse(tree)
    except ValueError:  # a piece of an f-string
        return ""


def outcome(sources: list[str], name: str) -> str:
    """Return a hash of what statements print, or their error, with the message of our own ones."""
    scope: dict[str, Any] = examples_of(name).globs
    values: list[object] = []
    with table_restored(), warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr("sys.displayhook", values.append)
        try:
            for source in sources:
                exec(compile(source, name, "single"), scope)
            return digest(repr(values))
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1].filename
            own = Path(last).is_relative_to(PACKAGE)
            return type(error).__name__ + (f": {VARYING.sub('', str(error))}" if own else "")
