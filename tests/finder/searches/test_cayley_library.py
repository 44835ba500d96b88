"""The library of Cayley digraphs: every sampled claim recomputed, built and verified in both directions."""

import json

import pytest
from tools.finder import cayley_library as maker
from tools.finder.library_texts import cayley_text

from treadle.finder.searches.cayley_library import (
    check_entry,
    load_library,
    pareto_entries,
    read_entries,
)
from treadle.finder.searches.cayley_search import search_cayley

LIBRARY = load_library()


def test_the_file_is_in_normal_form() -> None:
    assert pareto_entries(LIBRARY) == LIBRARY
    assert {entry.degree for entry in LIBRARY} == {2, 3, 4, 6, 8}
    assert all(entry.command.startswith("python -m tools.finder.cayley_library ") for entry in LIBRARY)
    assert len(cayley_text(LIBRARY)) < 300_000
    assert read_entries(cayley_text(LIBRARY)) == LIBRARY


def test_the_search_depends_on_its_arguments_only() -> None:
    one = search_cayley(24, 3, trials=3000, seed=5).entries
    assert one == search_cayley(24, 3, trials=3000, seed=5).entries
    assert one
    for entry in one:
        check_entry(entry)
    steps = [entry.t_l for entry in one]
    assert steps == sorted(set(steps))


def test_bidirectional_search_keeps_inverses() -> None:
    for degree in (3, 4):
        found = search_cayley(20, degree, trials=2000, bidirectional=True).entries
        assert found
        for entry in found:
            assert entry.bidirectional
            check_entry(entry)


def test_the_stated_command_reproduces_entries(capsys: pytest.CaptureFixture[str]) -> None:
    assert maker.main(["--degree", "2", "--sizes", "3-6,8", "--trials", "500", "--seed", "3"]) == 0
    text = capsys.readouterr().out
    found = read_entries(text)
    assert {entry.nodes for entry in found} == {3, 4, 5, 6, 8}
    assert found[0].command == (
        "python -m tools.finder.cayley_library --degree 2 --sizes 3-6,8 --trials 500 --seed 3"
    )
    assert json.loads(text)["columns"][0] == "degree"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--degree", "9", "--sizes", "32"],
        ["--degree", "4", "--sizes", "1"],
        ["--degree", "4", "--sizes", "5000"],
        ["--degree", "4", "--sizes", "a"],
        ["--degree", "4", "--sizes", "8,"],
        ["--degree", "4", "--sizes", "8", "--trials", "0"],
        ["--merge", f"{__file__}/absent.json"],
    ],
)
def test_bad_arguments(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert maker.main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
