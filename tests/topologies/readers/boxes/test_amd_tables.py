"""Tables of rocm-smi and amd-smi: what weights tell, and what has to be asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import amd_smi_tables, rocm_smi_tables
from treadle import planning
from treadle.topologies import mi300x
from treadle.topologies.readers.imported import Imported

ALL = [[0 if i == j else 15 for j in range(8)] for i in range(8)]


def imported(tmp_path: Path, text: str, **options: Any) -> Imported:
    path = tmp_path / "tables.txt"
    path.write_text(text)
    return planning.import_topology(path, **options)


@pytest.mark.parametrize(("tables", "name"), [(rocm_smi_tables, "rocm-smi"), (amd_smi_tables, "amd-smi")])
def test_direct_pairs_are_links(tmp_path: Path, tables: Callable[[list[list[int]]], str], name: str) -> None:
    found = imported(tmp_path, tables(ALL), gpu="mi300x")
    assert (found.topology, found.format) == (mi300x(1), name)
