"""The table of schedulers in the page on algorithms is what the records say."""

from __future__ import annotations

from pathlib import Path

from tools.scheduler_table import with_table


def test_the_table_is_that_of_the_records(repository: Path) -> None:
    page = (repository / "docs" / "algorithms.md").read_text(encoding="utf-8")
    assert with_table(page) == page, "write it anew: python -m tools.scheduler_table"
    assert page.count("| `forestcoll` | trees | all but alltoall; several groups at once |") == 1
