"""Workload files: what is read, and how everything else is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.finder.workload import (
    load_workload,
)


def _call(**fields: str) -> str:
    given = {"kind": '"allreduce"', "size": '"1MB"', **fields}
    return "[[collectives]]\n" + "".join(f"{key} = {value}\n" for key, value in given.items())


def test_files_at_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "two.words.toml"
    text = _call()
    path.write_text(text + "\n" * (2**20 - len(text)))
    assert load_workload(path).name == "two.words"
    path.write_text(text + "\n" * (2**20 - len(text) + 1))
    with pytest.raises(FormatError, match="larger than 1048576 bytes, the most"):
        load_workload(path)
