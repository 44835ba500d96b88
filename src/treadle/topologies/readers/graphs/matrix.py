"""CSV matrices: row i, column j is the link from i to j.

A cell is empty, 0, ``X`` or ``-`` (no link), a bandwidth with its unit, or a bare number, which is a multiple
of --bandwidth. Commas, semicolons or tabs part cells; a first row and a first column may hold names. What
is on the diagonal is a node's link to itself and is left out.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator

from treadle.topologies.readers.checked_values import format_value
from treadle.topologies.readers.graphs.attributed import AttributedGraph, GraphEdge
from treadle.topologies.readers.graphs.edge_list import is_with_commas
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile

_NUMBER = re.compile(r"[0-9.]+(?:[eE][+-]?[0-9]+)?")
_SPEED = re.compile(r"[0-9.]+\s*[kKMGTP]?i?(?:B/s|bit/s|bps|b/s)")
_NONE = {"", "0", "0.0", "0.", "x", "-"}
MAX_COLUMNS = 512
_MAX_CELL = 200


def is_matrix(head: str) -> bool:
    """Whether a file begins with two rows of equal length, and the second's cells are those of a matrix."""
    lines = [line for line in head.splitlines() if line.strip()]
    separator = _separator(lines[0]) if lines else ""
    if len(lines) < 2 or not separator:
        return False
    first, second = (line.split(separator) for line in lines[:2])
    cells = [cell.strip().strip('"') for cell in second]
    marks = sum(_is_cell(cell) for cell in cells)
    return (
        len(first) == len(second)
        and marks >= len(cells) - 1
        and marks > 0
        and head.lstrip()[:1] not in "{[<#"
        and not is_with_commas(head)
    )


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of a matrix; FormatError if it is malformed or its numbers have no unit."""
    names, cells = _names(source, _rows(source))
    graph = AttributedGraph(source.error, options.bandwidth, "--bandwidth")
    for name in names:
        graph.add_node(name, {})
    edges = list(_edges(source, names, cells))
    if not edges:
        raise source.error("has no link")
    topology = graph.fabric(source.stem, edges)
    own = sum(row[k].strip().lower() not in _NONE for k, (_, row) in enumerate(cells))
    warnings = (Finding(f"{own} cells of the diagonal, which are no links"),) if own else ()
    filled = (Finding(f"{graph.filled_in} cells are multiples of --bandwidth"),) if graph.filled_in else ()
    found = {"nodes": f"{len(names)} compute", "links": f"{topology.n_links} directed", "rank order": "rows"}
    return Imported(topology, "csv-matrix", found, filled, warnings)


def _separator(line: str) -> str:
    mark = max(",;\t", key=line.count)
    return mark if mark in line else ""


def _is_cell(text: str) -> bool:
    text = text.strip()
    return text.lower() in _NONE or bool(_NUMBER.fullmatch(text) or _SPEED.fullmatch(text))


def _rows(source: SourceFile) -> list[tuple[int, list[str]]]:
    """Return the line and cells of each row that holds anything."""
    first = next((line for line in io.StringIO(source.text) if line.strip()), "")
    if not _separator(first):
        raise source.error("expected rows of cells with commas, semicolons or tabs between")
    if first.count(_separator(first)) > MAX_COLUMNS:
        raise source.error(f"more than {MAX_COLUMNS} columns, the most that are read")
    if "\0" in source.text:
        raise source.error("a null character is not text")
    found = []
    reader = csv.reader(io.StringIO(source.text), delimiter=_separator(first))
    try:
        for row in reader:
            if any(cell.strip() for cell in row) or (row and len(row) > 1):
                found.append((reader.line_num, row))
            if len(found) > MAX_COLUMNS + 1 or len(row) > MAX_COLUMNS + 1:
                raise source.error(f"more than {MAX_COLUMNS} rows or columns", reader.line_num)
    except csv.Error as error:
        raise source.error(f"malformed CSV: {error}", reader.line_num) from None
    return found


def _names(
    source: SourceFile, rows: list[tuple[int, list[str]]]
) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the names of the nodes, and the matrix itself."""
    first, columns = rows[0][1], len(rows[-1][1])
    words = [any(not _is_cell(cell) for cell in first[1:]), any(not _is_cell(row[0]) for _, row in rows[1:])]
    # a square of cells has names on both sides or on none; otherwise it is one row or one column too long
    header = len(rows) == columns + 1 or (len(rows) == columns and all(words))
    named = (header and len(rows) == columns) or (len(rows) + 1 == columns and words[1])
    body = rows[1:] if header else rows
    names = [cell.strip() for cell in first[-len(body) :]] if header else []
    if named:
        own = [row[0].strip() for _, row in body]
        if names and names != own:
            at = next((k for k, pair in enumerate(zip(names, own, strict=False)) if pair[0] != pair[1]), 0)
            name = format_value(own[at])
            raise source.error(f"row {name} and its column have other names", line=body[at][0])
        names, body = own, [(line, row[1:]) for line, row in body]
    names = names or [f"node{k}" for k in range(len(body))]
    for line, row in body:
        if len(row) != len(body) or len(names) != len(body):
            found = f"{len(row)} cells in a matrix of {len(body)} rows"
            raise source.error(f"{found}; expected as many", line=line)
    return names, body


def _edges(source: SourceFile, names: list[str], cells: list[tuple[int, list[str]]]) -> Iterator[GraphEdge]:
    known: dict[str, dict[str, str]] = {}
    """Attributes by the content of a cell, since most contents are frequent."""
    for k, (line, row) in enumerate(cells):
        for j, text in enumerate(row):
            if text not in known:
                cell = text.strip()
                if len(cell) > _MAX_CELL or not _is_cell(cell):
                    expected = f"expected a number or a bandwidth, found {format_value(cell)}"
                    raise source.error(f"column {j + 1}: {expected}", line)
                key = "weight" if _NUMBER.fullmatch(cell) else "bandwidth"
                known[text] = {} if cell.lower() in _NONE else {key: cell}
            if k != j and known[text]:
                yield GraphEdge(names[k], names[j], known[text], False, line)
