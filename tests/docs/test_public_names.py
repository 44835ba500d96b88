"""Every public name is documented, with an example that a reader can copy and that runs."""

from __future__ import annotations

import copy
import doctest
import inspect
import pickle
from pathlib import Path

import pytest

import treadle
from places import ROOT
from samples.table import table_restored
from treadle import Collective, Mesh, Topology, planning
from treadle.arrays import FrozenArrays
from treadle.errors import MissingDependencyError
from treadle.schedules.plan import Plan

ELSEWHERE = {"treadle.planning.execute_plan": ROOT / "tests/planning/parallelising/test_executing.py"}
"""Examples that need PyTorch and processes: they run in a test that has both anyway."""
EQUAL_BY_CONTENT = (FrozenArrays, Topology, Plan, Collective, Mesh)


def public_names() -> dict[str, object]:
    """Functions and classes of `treadle`, and those of `treadle.planning` that are not there."""
    found = {f"treadle.{name}": getattr(treadle, name) for name in treadle.__all__}
    for name in set(planning.__all__) - set(treadle.__all__):
        found[f"treadle.planning.{name}"] = getattr(planning, name)
    return {name: value for name, value in sorted(found.items()) if callable(value)}


def test_every_name_says_what_it_is() -> None:
    assert len(public_names()) > 200
    for name, value in public_names().items():
        text = inspect.getdoc(value) or ""
        assert text, name
        own = name.rsplit(".", 1)[1]
        assert not text.startswith(f"{own}("), name  # what dataclass writes where nobody does
        if inspect.isclass(value):
            assert "__doc__" in vars(value), name


@pytest.mark.parametrize("name", public_names())
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an empty namespace: what it uses it imports."""
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(public_names()[name]) or ""
    found = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, None, 0)
    assert found.examples
    assert not any(doctest.SKIP in example.options for example in found.examples)
    if name in ELSEWHERE:
        assert f"inspect.getdoc({name.removeprefix('treadle.')})" in ELSEWHERE[name].read_text(
            encoding="utf-8"
        )
        return
    lines: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    with table_restored():
        result = runner.run(found, out=lines.append, clear_globs=False)
    told = "".join(lines)
    if MissingDependencyError.__name__ in told:
        pytest.skip(told.strip().splitlines()[-1])
    assert result.failed == 0, told
    for value in [value for value in found.globs.values() if is_value(value)]:
        for copied in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
            assert repr(copied) == repr(value)
            assert not isinstance(value, EQUAL_BY_CONTENT) or copied == value


def is_value(value: object) -> bool:
    """Whether an example made it: a value of Treadle, none of its functions, classes and exceptions."""
    home = type(value).__module__
    return home.startswith("treadle") and not isinstance(value, BaseException)
