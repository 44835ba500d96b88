"""The list of tests that run the compiled core, which sanitizers and mutants start."""

from __future__ import annotations

from pathlib import Path

from tools.core_tests import CORE_TESTS


def test_all_tests_of_the_core_are_there(repository: Path) -> None:
    assert [one for one in CORE_TESTS if not (repository / one.partition("::")[0]).exists()] == []
    assert len(set(CORE_TESTS)) == len(CORE_TESTS)
