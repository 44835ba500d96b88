"""Searches for better graphs on demand: repeatable, within their time, never worse than the library."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from treadle.finder.searches import fresh
from treadle.finder.searches.fresh import SearchLimit, search_now


def test_all_that_is_found_is_checked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    for name in ("check_cayley", "check_line_graph", "check_neighbour"):
        monkeypatch.setattr(fresh, name, lambda _, name=name: checked.append(name))
    nothing = SimpleNamespace(sets=lambda *_, **__: ())
    monkeypatch.setattr(fresh, "shipped_abelian_table", lambda: nothing)
    checks = {
        "abelian Cayley digraphs": "check_cayley",
        "Cayley digraphs": "check_cayley",
        "line graphs of Cayley digraphs": "check_line_graph",
        "neighbours": "check_neighbour",
        "multicirculants": "check_neighbour",
    }
    found = dict.fromkeys(checks.values(), 0)
    for nodes in (50, 66):
        for effort in search_now(nodes, 3, SearchLimit(sets=2000), seed=1):
            found[checks[effort.kind]] += len(effort.found)
    assert all(0 < count <= checked.count(name) for name, count in found.items())
    assert found["check_cayley"] == checked.count("check_cayley") > 2, "abelian ones too"
    assert found["check_line_graph"] == checked.count("check_line_graph")


def test_sizes_that_no_search_has_are_told() -> None:
    assert search_now(5000, 4, SearchLimit(sets=1)) == ()
    assert [effort.kind for effort in search_now(7, 9, SearchLimit(sets=1))] == []
