"""Every public name is documented, and its example runs; names without one are listed, and become fewer."""

from __future__ import annotations

import doctest
import inspect
import sys
from pathlib import Path

import pytest

import treadle
from treadle import planning

LISTED = Path(__file__).with_name("names_without_example.txt")


def public_names() -> dict[str, object]:
    """Functions and classes of `treadle`, and those of `treadle.planning` that are not there."""
    found = {f"treadle.{name}": getattr(treadle, name) for name in treadle.__all__}
    for name in set(planning.__all__) - set(treadle.__all__):
        found[f"treadle.planning.{name}"] = getattr(planning, name)
    return {name: value for name, value in sorted(found.items()) if callable(value)}


def examples(value: object) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(value) or "")


WITH_EXAMPLE = [name for name, value in public_names().items() if examples(value)]


def test_every_name_says_what_it_is() -> None:
    assert len(public_names()) > 200
    for name, value in public_names().items():
        text = inspect.getdoc(value) or ""
        assert text, name
        own = name.rsplit(".", 1)[1]
        assert not text.startswith(f"{own}("), name  # what dataclass writes where nobody does
        if inspect.isclass(value):
            assert "__doc__" in vars(value), name


def test_names_without_example_become_fewer() -> None:
    """A new name comes with an example; who adds one to an old name takes that off the list."""
    listed = LISTED.read_text(encoding="utf-8").split()
    assert listed == sorted(set(public_names()) - set(WITH_EXAMPLE))


@pytest.mark.parametrize("name", WITH_EXAMPLE)
def test_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(public_names()[name]) or ""
    names = dict(vars(sys.modules[public_names()[name].__module__]))  # as doctest does for a module
    found = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    lines: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS).run(
        found, out=lines.append
    )
    assert result.failed == 0, "".join(lines)
