"""Every kind of schedule on every runtime and in every format; the record matrix has what came."""

from __future__ import annotations

from pathlib import Path

import pytest

import matrix_table
from engines import missing_engines
from matrix_columns import JOBS, Job
from samples.matrix_cases import one_of_each_row, plans


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.columns[0])
def test_the_table_says_what_was_run(job: Job, tmp_path: Path) -> None:
    missing = missing_engines()
    for engine in job.engines:
        if engine in missing:
            pytest.skip(f"{engine}: {missing[engine]}")
    documented = matrix_table.documented()
    chosen = one_of_each_row() if job.is_dear else plans()
    for column, outcomes in zip(job.columns, job.run(tmp_path, chosen), strict=True):
        assert set(outcomes) == set(chosen)
        found = {key: matrix_table.general(reason) for key, reason in outcomes.items()}
        said = {key: reason for key, reason in documented[column].items() if key in found}
        assert said == found, "run: python tests/matrix_table.py"


def test_one_of_each_row_has_all_rows_and_collectives() -> None:
    chosen, everything = zip(*one_of_each_row(), strict=True), zip(*plans(), strict=True)
    assert list(map(set, chosen)) == list(map(set, everything))
