"""Tables of ``rocm-smi --showtopo`` and ``amd-smi topology``: which GPUs xGMI joins directly.

Hops are 1 for any two GPUs of a hive (open-mpi/hwloc, issue 775); weights distinguish: 15 for each xGMI link
on the way, so 15 is a direct one. Neither tool says how many links two GPUs have, how fast they are, or what
NICs there are: models with one link between two GPUs can be read, and the model has to be named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import product

from treadle.topologies.readers.boxes.box import Box, Gpu
from treadle.topologies.readers.boxes.gpu_models import GPU_MODELS
from treadle.topologies.readers.boxes.networks import fabric_of
from treadle.topologies.readers.boxes.wiring import asks_model, typed_model, wired_box
from treadle.topologies.readers.imported import Imported, ImportOptions, SourceFile

MAX_GPUS = 256
"""Most columns of a table."""
_LONGEST_TITLE = 200
_DIRECT = 15
"""Weight of one xGMI link."""
_ROCM_TITLE = re.compile(r"=+ (.+?) =+")
_AMD_TITLE = re.compile(r"([A-Z][A-Z \-]*) TABLE:")
_ROCM_GPU = re.compile(r"GPU[0-9]{1,3}")
_AMD_GPU = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]")
_SEVERAL = ("mi250", "mi250x", "mi50", "mi60")
"""Models whose pairs of GPUs have unequal numbers of links, or links unknown to tables."""

_Table = Mapping[tuple[str, str], tuple[str, int]]
"""Cells by row and column, each with its line."""


def read_rocm_smi(source: SourceFile, options: ImportOptions) -> Imported:
    """The fabric of boxes as rocm-smi shows one; FormatError if it is malformed or does not say all."""
    tables = _tables(source, _ROCM_TITLE, _ROCM_GPU)
    box = _box(source, options, tables, "Weight between two GPUs", "Link Type between two GPUs")
    return fabric_of(source, box, options, "rocm-smi")


def read_amd_smi(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of boxes as amd-smi shows one; FormatError if it is malformed or does not say all."""
    tables = _tables(source, _AMD_TITLE, _AMD_GPU)
    return fabric_of(source, _box(source, options, tables, "WEIGHT", "LINK TYPE"), options, "amd-smi")


def _tables(source: SourceFile, title: re.Pattern[str], gpu: re.Pattern[str]) -> dict[str, _Table]:
    """Return the square tables of GPUs by their titles."""
    found: dict[str, dict[tuple[str, str], tuple[str, int]]] = {}
    headed: dict[str, list[str]] = {}
    name, columns = "", list[str]()
    for number, line in enumerate(source.text.splitlines(), start=1):
        heading = title.fullmatch(line.strip()) if len(line) < _LONGEST_TITLE else None
        words = line.split()
        if heading is not None:
            name, columns = heading[1], []
            if name in found:
                raise source.error(f"the table {name!r} is there twice", line=number)
            found[name] = {}
        elif name and words and all(map(gpu.fullmatch, words)) and not columns:
            columns = headed[name] = words
            if len(set(columns)) < len(columns) or len(columns) > MAX_GPUS:
                raise source.error(f"expected at most {MAX_GPUS} different GPUs as columns", line=number)
        elif columns and words and gpu.fullmatch(row := words[0]):
            if len(words) != len(columns) + 1 or row not in columns:
                raise source.error(f"row {row}: expected a cell for each of {len(columns)} GPUs", line=number)
            if (row, row) in found[name]:
                raise source.error(f"{row} has a second row", line=number)
            cells = zip(columns, words[1:], strict=True)
            found[name] |= {(row, column): (word, number) for column, word in cells}
    for name, columns in headed.items():
        for column in columns:
            if (column, column) not in found[name]:
                raise source.error(f"the table {name!r} has no row of {column}")
    return dict(found)


def _box(
    source: SourceFile, options: ImportOptions, tables: Mapping[str, _Table], weight: str, kind: str
) -> Box:
    """Return the box of which a table has the weights and one the kinds of links."""
    for name in (weight, kind):
        if not tables.get(name):
            fix = "show all of them (rocm-smi --showtopo, amd-smi topology)"
            raise source.error(f"has no table {name!r}; {fix}")
    model = typed_model(source, options, word="xGMI")
    if not model:
        raise asks_model(source, "says which GPUs xGMI joins, and not how fast", "xGMI")
    if model in _SEVERAL or GPU_MODELS[model].kind is None:
        missing = f"does not say how many links join two GPUs, which --gpu {model} needs"
        raise source.error(f"{missing}; read RCCL's own dump (NCCL_TOPO_DUMP_FILE)")
    names = list(dict.fromkeys(row for row, _ in tables[weight]))
    counts: dict[tuple[int, int | None], int] = {}
    for (one, row), (other, column) in product(enumerate(names), repeat=2):
        if (row, column) not in tables[kind]:
            raise source.error(f"a table has no cell for {row} and {column}")
        cell, line = tables[weight][row, column]
        link, _ = tables[kind][row, column]
        if not re.fullmatch("[0-9]{1,6}", cell, re.ASCII):
            raise source.error(f"weight {cell[:20]!r} of {row} and {column}: expected a number", line=line)
        if one != other and link not in ("XGMI", "PCIE"):
            raise source.error(f"link {link[:20]!r} of {row} and {column}: expected XGMI or PCIE", line=line)
        if one != other and link == "XGMI" and int(cell) == _DIRECT:
            counts[one, other] = 1
    if not counts:
        raise source.error("shows no GPUs that xGMI joins, and does not say how fast PCIe is")
    is_by_bus = all(map(_AMD_GPU.fullmatch, names))
    gpus = [Gpu(name=name, model=model, bus_id=name if is_by_bus else "") for name in names]
    return wired_box(source, gpus, counts, options)
