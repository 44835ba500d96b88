"""The records of tables and figures."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.reproduction.paper_figure import FigureBasis, PaperFigure
from treadle.reproduction.paper_figures import EXHIBITS
from treadle.reproduction.printed import published_figures

PAPERS = {
    # chapters 3, 4, 5, A and B: as the lists of figures and tables of the dissertation number them
    "": {"figure": {"3": 11, "4": 14, "5": 2, "A": 9, "B": 3}, "table": {"3": 6, "4": 1, "A": 3, "B": 2}},
    "preprint-": {"figure": 13, "table": 3},
    "alltoall-": {"figure": 10, "table": 1},
}

OUTSIDE = {"torchtitan-2024-12", "llama-3-table-4", "deepseek-v3", "measured"}
"""What others measured."""


def expected_names() -> set[str]:
    names = set()
    for paper, kinds in PAPERS.items():
        for kind, counts in kinds.items():
            chapters = counts if isinstance(counts, dict) else {"": counts}
            for chapter, count in chapters.items():
                place = f"{chapter}." if chapter else ""
                names |= {f"{paper}{kind}-{place}{number}" for number in range(1, count + 1)}
    return names


def test_every_table_and_figure_of_the_papers_has_a_record() -> None:
    names = [exhibit.name for exhibit in EXHIBITS]
    assert len(names) == len(set(names))
    assert set(names) == expected_names() | OUTSIDE


def test_what_is_printed_belongs_to_what_is_computed() -> None:
    mine = {exhibit.same_as or exhibit.name for exhibit in EXHIBITS if exhibit.is_here}
    assert set(published_figures()) == mine


@pytest.mark.parametrize("exhibit", [one for one in EXHIBITS if one.is_here], ids=lambda one: one.name)
def test_commands_are_commands(exhibit: PaperFigure) -> None:
    assert not exhibit.command or re.match(
        r"treadle (solve|bound|compare|design|topology show|train) |python examples/", exhibit.command
    )
    assert exhibit.quick_s > 0
    assert not exhibit.full_s or exhibit.full_s > exhibit.quick_s


def test_functions_do_not_see_what_is_printed() -> None:
    """So that ours cannot be theirs."""
    modules = {exhibit.function.partition(":")[0] for exhibit in EXHIBITS if exhibit.function}
    assert len(modules) > 5
    for module in modules:
        spec = find_spec(module)
        assert spec is not None
        text = Path(str(spec.origin)).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                assert node.module not in ("treadle.reproduction.printed", "treadle.reproduction.reproduce")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"function": ""}, "computed, without a function"),
        ({"basis": FigureBasis.SIMULATED, "model": ""}, "simulated, and the model is not named"),
        ({"basis": FigureBasis.FITTED, "model": ""}, "fitted, and the model is not named"),
        ({"basis": FigureBasis.NO_FIGURES, "function": ""}, "no reason is given"),
    ],
)
def test_records_that_contradict_themselves_are_refused(change: dict[str, object], message: str) -> None:
    whole = next(one for one in EXHIBITS if one.name == "figure-3.4")
    with pytest.raises(FormatError, match=message):
        replace(whole, **change)  # type: ignore[arg-type]
