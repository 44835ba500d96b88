"""Tables of rocm-smi and amd-smi: what weights tell, and what has to be asked."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from samples.box_files import amd_smi_tables, rocm_smi_tables
from treadle import planning
from treadle.errors import FormatError
from treadle.topologies import mi300x
from treadle.topologies.readers.imported import Imported

GB = 10**9
ALL = [[0 if i == j else 15 for j in range(8)] for i in range(8)]
SQUARE = [[0, 15, 30, 15], [15, 0, 15, 30], [30, 15, 0, 15], [15, 30, 15, 0]]
PCIE = [[0, 40], [40, 0]]


def imported(tmp_path: Path, text: str, **options: Any) -> Imported:
    path = tmp_path / "tables.txt"
    path.write_text(text)
    return planning.import_topology(path, **options)


@pytest.mark.parametrize(("tables", "name"), [(rocm_smi_tables, "rocm-smi"), (amd_smi_tables, "amd-smi")])
def test_direct_pairs_are_links(tmp_path: Path, tables: Callable[[list[list[int]]], str], name: str) -> None:
    found = imported(tmp_path, tables(ALL), gpu="mi300x")
    assert (found.topology, found.format) == (mi300x(1), name)


@pytest.mark.parametrize("tables", [rocm_smi_tables, amd_smi_tables])
def test_two_hops_are_no_link(tmp_path: Path, tables: Callable[[list[list[int]]], str]) -> None:
    """A ring of four: 2 x 46 GB/s into each GPU, although a hop is what the tools call all pairs."""
    found = imported(tmp_path, tables(SQUARE), gpu="mi100")
    assert found.topology.n_links == 8
    assert Fraction(planning.bound(found.topology, "allgather").bound.algbw) == Fraction(4 * 92, 3) * GB


def test_gpus_of_amd_smi_are_ordered_by_bus_id(tmp_path: Path) -> None:
    found = imported(tmp_path, amd_smi_tables(SQUARE), gpu="mi100")
    assert found.recognised["rank order"].startswith("by bus id: gpu0 = 0000:10:00.0, gpu1 = 0000:20:00.0")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (rocm_smi_tables(ALL), {}, "not how fast; name their model by --gpu: mi50"),
        (
            rocm_smi_tables(ALL),
            {"gpu": "h100"},
            "--gpu h100: has NVLink links, the GPUs of such a file have xGMI",
        ),
        (rocm_smi_tables(ALL), {"gpu": "mi250x"}, "how many links join two GPUs, which --gpu mi250x needs"),
        (rocm_smi_tables(ALL), {"gpu": "mi100"}, "GPU0 has 7 xGMI links, mi100 have 3"),
        (amd_smi_tables(PCIE), {"gpu": "mi300x"}, "shows no GPUs that xGMI joins"),
        (
            rocm_smi_tables(ALL, title="Of something"),
            {"gpu": "mi300x"},
            "has no table 'Weight between two GPUs'",
        ),
        (
            rocm_smi_tables(ALL),
            {"gpu": "mi300x", "boxes": 2, "network": "rail"},
            "has no NICs, and so nothing joins several boxes",
        ),
        (rocm_smi_tables(ALL).replace("15 ", "x5 ", 1), {"gpu": "mi300x"}, "weight 'x5' of GPU0 and GPU1"),
        (
            rocm_smi_tables(ALL).replace("15 ", "30 ", 1),
            {"gpu": "mi300x"},
            "GPU1 has 1 links to GPU0, which has 0",
        ),
        (rocm_smi_tables(ALL).replace("XGMI", "QPI ", 1), {"gpu": "mi300x"}, "link 'QPI' of GPU0 and GPU1"),
        (
            amd_smi_tables(ALL).replace("WEIGHT T", "ACCESS T"),
            {"gpu": "mi300x"},
            "the table 'ACCESS' is there twice",
        ),
        (rocm_smi_tables(ALL).replace("GPU7   15", "GPU6   15"), {"gpu": "mi300x"}, "GPU6 has a second row"),
        (
            rocm_smi_tables(ALL).replace("GPU7   15", "XPU7   15"),
            {"gpu": "mi300x"},
            "the table 'Weight between two GPUs' has no row of GPU7",
        ),
        (
            rocm_smi_tables(ALL).replace("GPU7   15", "GPU9   15"),
            {"gpu": "mi300x"},
            "row GPU9: expected a cell",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, text: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(FormatError, match=re.escape(says)):
        imported(tmp_path, text, **options)
