"""Code lines, words of documentation and banned words stay within `budget.toml`, which only goes down."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tools.check_words import SURFACES, hits
from tools.size import code_lines, package_sizes, sizes

from places import ROOT

BUDGET = tomllib.loads((ROOT / "budget.toml").read_text(encoding="utf-8"))
SLACK = 0.97
"""Below this share of a budget it is time to lower it."""


def wrong(found: dict[str, int], budget: dict[str, int]) -> dict[str, str]:
    """What is above its budget, has none, or is so far below that the budget has to be lowered."""
    said = {name: f"{lines} lines, no budget" for name, lines in found.items() if name not in budget}
    said |= {name: "no such package" for name in budget if name not in found}
    for name in found.keys() & budget.keys():
        if found[name] > budget[name]:
            said[name] = f"{found[name]}, the budget is {budget[name]}: make something smaller"
        elif found[name] < SLACK * budget[name]:
            said[name] = f"{found[name]}, the budget is {budget[name]}: lower it"
    return said


def test_packages_keep_their_budgets() -> None:
    assert wrong(dict(package_sizes(ROOT)), BUDGET["packages"]) == {}


def test_totals_keep_their_budgets() -> None:
    terms = tomllib.loads((ROOT / "tools" / "terms.toml").read_text(encoding="utf-8"))
    banned = sum(1 for _ in hits(ROOT, terms, SURFACES, []))
    assert wrong({**sizes(ROOT), "banned_words": banned}, BUDGET["totals"]) == {}


@pytest.mark.parametrize(("lines", "is_wrong"), [(100, False), (101, True), (97, False), (96, True)])
def test_budgets_hold_from_both_sides(lines: int, is_wrong: bool) -> None:
    assert bool(wrong({"a": lines}, {"a": 100})) is is_wrong
    assert wrong({"a": 1}, {"b": 1}).keys() == {"a", "b"}


def test_docstrings_imports_and_comments_are_no_code(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    lines = (
        *('"""Top."""', "", "import os", "", "# why", "X = 1", '"""About X."""', "", "", "def f():"),
        *('    """Do."""', "    return (", "        X", "    )", ""),
    )
    path.write_text("\n".join(lines))
    assert code_lines(path) == 5
