"""Matrices of nvidia-smi and tables of AMD's tools cell by cell: odd boxes as values, refusals in full."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.topologies.readers.boxes import amd_tables
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile

BUSES = ("0000:b0:00.0", "0000:0a:00.0", "0001:05:00.0")


def amd(
    weights: str, kinds: str, *, titles: tuple[str, str] = ("WEIGHT", "LINK TYPE"), **options: Any
) -> Imported:
    given = {"gpu": "mi300x", **options}
    text = f"{titles[0]} TABLE:\n{weights}\n{titles[1]} TABLE:\n{kinds}\n"
    return amd_tables.read_amd_smi(SourceFile(text, "amd.txt"), ImportOptions(**given))


def cells(rows: list[list[str]], names: tuple[str, ...] = BUSES) -> str:
    lines = ["   ".join(["        ", *names])]
    return "\n".join([*lines, *("  ".join([name, *row]) for name, row in zip(names, rows, strict=True))])


WEIGHTS = cells([["0", "15", "15"], ["15", "0", "15"], ["15", "15", "0"]])
KINDS = cells([["SELF", "XGMI", "XGMI"], ["XGMI", "SELF", "XGMI"], ["XGMI", "XGMI", "SELF"]])


@pytest.mark.parametrize("model", ["mi250", "mi250x", "mi50", "mi60", "pcie"])
def test_models_whose_tables_do_not_tell(model: str) -> None:
    with pytest.raises(FormatError) as refused:
        amd(WEIGHTS, KINDS, gpu=model)
    assert str(refused.value) == (
        f"amd.txt: does not say how many links join two GPUs, which --gpu {model} needs; read RCCL's own "
        f"dump (NCCL_TOPO_DUMP_FILE)"
    )
    with pytest.raises(FormatError, match="says which GPUs xGMI joins, and not how fast; name their model"):
        amd(WEIGHTS, KINDS, gpu=None)
