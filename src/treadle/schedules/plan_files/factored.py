"""Factored forests as members of a plan's archive: one table of columns per layer, all kinds of pieces in it.

A layer's members lie in ``factored/<forest>/<layer>/``. Columns of all kinds stand one after the other; their
lengths come from the ``count`` members, a number per kind. Offsets are stored as counts, which deflate
better.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array, offsets_of
from treadle.errors import FormatError
from treadle.schedules.factored import (
    CirculantTrees,
    Crossings,
    FactoredForest,
    FormulaTrees,
    Layer,
    Piece,
    PieceTrees,
    PlaneTrees,
    RelayPlanes,
    RelayTrees,
    TableTrees,
)
from treadle.schedules.plan_files.members import MemberReader, to_npy, write_member
from treadle.schedules.trees.forest import Direction

MAX_LAYERS = 100
"""Most layers of a forest in a file."""

MAX_KINDS = 2**16
"""Most kinds of pieces of a layer in a file."""

_LAYER_COLUMNS = ("kind", "outer", "children", "links")
_LAYER_COUNTS = {"child_count": "child_offset", "link_count": "link_offset"}
_SIDES = ("entrances", "exits")
_SIDE_COLUMNS = ("link", "offset", "units", "child", "inner", "path", "root_unit")
_SIDE_COUNTS = ("count", "path_count")
_SIDE_PATHS = ("path_length", "path_links")
_TABLE_ROWS = ("root", "units")
_TABLE_CELLS = ("parent", "path", "first", "last")
_TABLE_PATHS = ("path_length", "path_table")
_TABLE_COUNTS = ("count", "path_count")
_CIRCULANT_NUMBERS = ("native_units", "block", "width", "in_width")
_CIRCULANT_CELLS = ("out_links", "in_links", "out_offset", "in_offset")
_CIRCULANT_STARTS = ("out_first", "in_first")  # a column more than there are links
_FORMULA_NUMBERS = ("block", "out_width", "in_width")  # cells and starts as of circulant trees
_RELAY_ROWS = {"root": "relay_root", "block": "relay_block", "child": "relay_child", "units": "relay_count"}
_PLANE_NUMBERS = ("places", "planes", "groups", "pair_count", "relay_count")
_PLANE_RELAYS = ("relay_root", "relay_block", "relay_child", "relay_by")
_PLANE_PAIRS = ("pair_root", "pair_child", "pair_units")
_PLANE_ARRAYS = ("native_units", "place", "group", "group_units", *_PLANE_PAIRS, *_PLANE_RELAYS)
_SHARED_COUNTS = ("planes", "places", "rows")
_SHARED_RELAYS = ("relay_plane", *_RELAY_ROWS.values())
_SHARED_ARRAYS = ("plane_units", "place", *_SHARED_RELAYS)
_TABLE, _CIRCULANT, _RELAY, _PLANE, _SHARED = range(5)  # in `form`
_FORMS = (TableTrees, CirculantTrees, RelayTrees, PlaneTrees, RelayPlanes)

_NARROW = {
    *_LAYER_COLUMNS,
    "form",
    *(f"{side}.{key}" for side in _SIDES for key in ("link", "child", "path", "path_links")),
    *(f"table.{key}" for key in ("root", "parent", "path", "path_table")),
    *(f"{form}.{key}" for form in ("circulant", "exchange") for key in ("out_links", "in_links")),
    *("relay.root", "relay.child", "plane.group", "plane.pair_root", "plane.pair_child"),
    *(f"plane.{key}" for key in _PLANE_RELAYS if key != "relay_block"),
    *(f"shared.{key}" for key in ("relay_plane", "relay_root", "relay_child")),
}
_COLUMNS = (
    *_LAYER_COLUMNS,
    *_LAYER_COUNTS,
    *("form", "capacity", "capacity_count", "native", "native_count"),
    *(f"{side}.{key}" for side in _SIDES for key in (*_SIDE_COLUMNS, *_SIDE_COUNTS, *_SIDE_PATHS)),
    *(f"table.{key}" for key in (*_TABLE_ROWS, *_TABLE_CELLS, *_TABLE_PATHS, *_TABLE_COUNTS)),
    *(f"circulant.{key}" for key in (*_CIRCULANT_NUMBERS, *_CIRCULANT_CELLS, *_CIRCULANT_STARTS)),
    *(f"exchange.{key}" for key in (*_FORMULA_NUMBERS, *_CIRCULANT_CELLS, *_CIRCULANT_STARTS)),
    *(f"relay.{key}" for key in ("native_units", "count", *_RELAY_ROWS)),
    *(f"plane.{key}" for key in (*_PLANE_NUMBERS, *_PLANE_ARRAYS)),
    *(f"shared.{key}" for key in (*_SHARED_COUNTS, *_SHARED_ARRAYS)),
)
LAYER_MEMBERS = len(_COLUMNS)
"""Members of a layer."""

_Columns = dict[str, NDArray[Any]]


def factored_members(number: int, n_layers: int) -> set[str]:
    """Names of the members of a factored forest."""
    layers = range(n_layers)
    return {
        f"factored/{number}/root_multiplicity.npy",
        *(f"factored/{number}/{layer}/{key}.npy" for layer in layers for key in _COLUMNS),
    }


def write_factored(archive: zipfile.ZipFile, number: int, forest: FactoredForest) -> None:
    """Add the members of a factored forest.

    Raises
    ------
    FormatError
        If a piece has trees of a kind that the format does not know.
    """
    write_member(archive, f"factored/{number}/root_multiplicity.npy", to_npy(forest.root_multiplicity))
    for place, layer in enumerate(forest.layers):
        columns = _layer_columns(layer)
        for key in _COLUMNS:
            write_member(archive, f"factored/{number}/{place}/{key}.npy", to_npy(columns[key]))


def read_factored(members: MemberReader, number: int, n_layers: int, direction: Direction) -> FactoredForest:
    """A factored forest out of its members.

    Raises
    ------
    FormatError
        If the columns do not fit each other; ScheduleError if the values do not.
    """
    folder = f"factored/{number}"
    multiplicity = members.array(f"{folder}/root_multiplicity.npy", np.int64)
    layers = tuple(_read_layer(members, f"{folder}/{layer}") for layer in range(n_layers))
    return FactoredForest(direction, multiplicity, layers)


def _layer_columns(layer: Layer) -> _Columns:
    pieces = layer.pieces
    columns: _Columns = {key: getattr(layer, key) for key in _LAYER_COLUMNS}
    columns |= {key: np.diff(getattr(layer, offset)) for key, offset in _LAYER_COUNTS.items()}
    for key in ("capacity", "native"):
        columns[key] = _joined(getattr(piece, key) for piece in pieces)
        columns[f"{key}_count"] = _numbers(len(getattr(piece, key)) for piece in pieces)
    for side in _SIDES:
        rows: list[Crossings] = [getattr(piece, side) for piece in pieces]
        found: _Columns = {key: _joined(getattr(row, key) for row in rows) for key in _SIDE_COLUMNS}
        found["count"] = _numbers(len(row.link) for row in rows)
        found |= _path_columns("path_links", [(row.path_offset, row.path_links) for row in rows])
        columns |= {f"{side}.{key}": value for key, value in found.items()}
    forms = [_FORMS.index(type(piece.trees)) if type(piece.trees) in _FORMS else -1 for piece in pieces]
    if -1 in forms:
        raise FormatError(
            f"plan: a piece has trees of type {type(pieces[forms.index(-1)].trees).__name__}, which files "
            "do not know"
        )
    columns["form"] = _numbers(forms)
    trees = [piece.trees for piece in pieces]
    columns |= _table_columns([one for one in trees if isinstance(one, TableTrees)])
    columns |= _circulant_columns([one for one in trees if isinstance(one, CirculantTrees)])
    columns |= _formula_columns([one for one in trees if isinstance(one, FormulaTrees)])
    columns |= _relay_columns([one for one in trees if isinstance(one, RelayTrees)])
    columns |= _shared_columns([one for one in trees if isinstance(one, RelayPlanes)])
    return columns | _plane_columns([one for one in trees if isinstance(one, PlaneTrees)])


def _table_columns(tables: Sequence[TableTrees]) -> _Columns:
    keys = (*_TABLE_ROWS, *_TABLE_CELLS)
    found: _Columns = {key: _joined(getattr(table, key) for table in tables) for key in keys}
    found["count"] = _numbers(len(table.root) for table in tables)
    found |= _path_columns("path_table", [(table.path_offset, table.path_table) for table in tables])
    return {f"table.{key}": value for key, value in found.items()}


def _circulant_columns(formulas: Sequence[CirculantTrees]) -> _Columns:
    keys = (*_CIRCULANT_CELLS, *_CIRCULANT_STARTS)
    found: _Columns = {key: _joined(getattr(one, key) for one in formulas) for key in keys}
    found["native_units"] = _numbers(one.native_units for one in formulas)
    found["block"] = _numbers(one.block for one in formulas)
    found["width"] = _numbers(one.out_links.shape[1] for one in formulas)
    found["in_width"] = _numbers(one.in_links.shape[1] for one in formulas)
    return {f"circulant.{key}": value for key, value in found.items()}


def _formula_columns(formulas: Sequence[FormulaTrees]) -> _Columns:
    keys = (*_CIRCULANT_CELLS, *_CIRCULANT_STARTS)
    found: _Columns = {key: _joined(getattr(one, key) for one in formulas) for key in keys}
    found["block"] = _numbers(
        one.block for one in formulas if isinstance(one, RelayTrees | PlaneTrees | RelayPlanes)
    )
    found["out_width"] = _numbers(one.out_links.shape[1] for one in formulas)
    found["in_width"] = _numbers(one.in_links.shape[1] for one in formulas)
    return {f"exchange.{key}": value for key, value in found.items()}


def _relay_columns(formulas: Sequence[RelayTrees]) -> _Columns:
    found = {key: _joined(getattr(one, name) for one in formulas) for key, name in _RELAY_ROWS.items()}
    found["native_units"] = _joined(one.native_units for one in formulas)
    found["count"] = _numbers(len(one.relay_root) for one in formulas)
    return {f"relay.{key}": value for key, value in found.items()}


def _shared_columns(formulas: Sequence[RelayPlanes]) -> _Columns:
    found = {key: _joined(getattr(one, key) for one in formulas) for key in _SHARED_ARRAYS}
    found["planes"] = _numbers(len(one.plane_units) for one in formulas)
    found["places"] = _numbers(len(one.place) for one in formulas)
    found["rows"] = _numbers(len(one.relay_plane) for one in formulas)
    return {f"shared.{key}": value for key, value in found.items()}


def _plane_columns(formulas: Sequence[PlaneTrees]) -> _Columns:
    found = {key: _joined(getattr(one, key) for one in formulas) for key in _PLANE_ARRAYS}
    found["places"] = _numbers(len(one.place) for one in formulas)
    found["planes"] = _numbers(one.n_planes for one in formulas)
    found["groups"] = _numbers(len(one.group_units) for one in formulas)
    found["pair_count"] = _numbers(len(one.pair_root) for one in formulas)
    found["relay_count"] = _numbers(len(one.relay_root) for one in formulas)
    return {f"plane.{key}": value for key, value in found.items()}


def _path_columns(key: str, paths: Sequence[tuple[Int64Array, NDArray[Any]]]) -> _Columns:
    return {
        "path_count": _numbers(len(offset) - 1 for offset, _ in paths),
        "path_length": _joined(np.diff(offset) for offset, _ in paths),
        key: _joined(links for _, links in paths),
    }


def _joined(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(part.ravel() for part in parts)])


def _numbers(values: Iterable[int]) -> Int64Array:
    return np.array(list(values), dtype=np.int64)


def _read_layer(members: MemberReader, folder: str) -> Layer:
    columns = {
        key: members.array(
            f"{folder}/{key}.npy",
            np.int32 if key in _NARROW else np.int64,
            most=MAX_KINDS if key == "form" else None,
        )
        for key in _COLUMNS
    }
    reader = _LayerReader(folder, columns)
    return Layer(
        pieces=tuple(reader.pieces()),
        **{key: columns[key] for key in _LAYER_COLUMNS},
        child_offset=reader.offsets("child_count"),
        link_offset=reader.offsets("link_count"),
    )


class _LayerReader:
    """Takes a layer's columns apart, kind by kind."""

    def __init__(self, folder: str, columns: _Columns) -> None:
        self._folder = folder
        self._columns = columns
        self._n_kinds = len(columns["form"])

    def offsets(self, key: str) -> Int64Array:
        """Counts of a column summed up."""
        counts = self._columns[key]
        if counts.size and (counts.min() < 0 or counts.max() >= 2**31):
            raise FormatError(f"{self._folder}/{key}: a value out of range")
        offsets = offsets_of(counts)
        offsets.setflags(write=False)
        return offsets

    def pieces(self) -> Iterator[Piece]:
        """The kinds of pieces."""
        form = self._columns["form"]
        if np.any((form < 0) | (form >= len(_FORMS))):
            raise FormatError(
                f"{self._folder}/form: expected {_TABLE} (table), {_CIRCULANT} (circulant), "
                f"{_RELAY} (relay), {_PLANE} (plane) or {_SHARED} (relay planes)"
            )
        native = self._parts("native", "native_count", self._n_kinds)
        capacity = self._parts("capacity", "capacity_count", self._n_kinds)
        sides = [self._crossings(side) for side in _SIDES]
        sizes = self._columns["native_count"]
        trees: list[Iterator[PieceTrees]] = [
            iter(self._tables(sizes[form == _TABLE])),
            iter(self._circulants(sizes[form == _CIRCULANT])),
        ]
        formulas = self._formulas(sizes[form >= _RELAY])
        kinds = form[form >= _RELAY].tolist()
        of = {form: [one for one, k in zip(formulas, kinds, strict=True) if k == form] for form in set(kinds)}
        trees.append(iter(self._relays(of.get(_RELAY, []))))
        trees.append(iter(self._planes(of.get(_PLANE, []))))
        trees.append(iter(self._shared(of.get(_SHARED, []))))
        for kind, number in enumerate(form.tolist()):
            yield Piece(
                capacity=capacity[kind],
                native=native[kind],
                trees=next(trees[number]),
                entrances=sides[0][kind],
                exits=sides[1][kind],
            )

    def _crossings(self, side: str) -> list[Crossings]:
        n = self._n_kinds
        parts = {key: self._parts(f"{side}.{key}", f"{side}.count", n) for key in _SIDE_COLUMNS}
        paths = self._paths(side, "path_links", n)
        return [
            Crossings(
                **{key: parts[key][kind] for key in _SIDE_COLUMNS},
                path_offset=paths[kind][0],
                path_links=paths[kind][1],
            )
            for kind in range(n)
        ]

    def _tables(self, children: Int64Array) -> list[TableTrees]:
        counts = self._counts("table.count", len(children))
        rows = {key: self._parts(f"table.{key}", "table.count", len(children)) for key in _TABLE_ROWS}
        cells = {key: self._cells(f"table.{key}", counts, children) for key in _TABLE_CELLS}
        paths = self._paths("table", "path_table", len(children))
        return [
            TableTrees(
                **{key: rows[key][i] for key in _TABLE_ROWS},
                **{key: cells[key][i] for key in _TABLE_CELLS},
                path_offset=paths[i][0],
                path_table=paths[i][1],
            )
            for i in range(len(children))
        ]

    def _circulants(self, children: Int64Array) -> list[CirculantTrees]:
        n = len(children)
        numbers = {key: self._counts(f"circulant.{key}", n, most=2**62) for key in _CIRCULANT_NUMBERS}
        width = {
            side: self._counts(f"circulant.{key}", n) for side, key in (("out", "width"), ("in", "in_width"))
        }
        cells = {
            key: self._cells(f"circulant.{key}", children, width[key.partition("_")[0]])
            for key in _CIRCULANT_CELLS
        }
        cells |= {
            key: self._cells(f"circulant.{key}", children, width[key.partition("_")[0]] + 1)
            for key in _CIRCULANT_STARTS
        }
        return [
            CirculantTrees(
                n_children=int(children[i]),
                native_units=int(numbers["native_units"][i]),
                block=int(numbers["block"][i]),
                **{key: value[i] for key, value in cells.items()},
            )
            for i in range(n)
        ]

    def _formulas(self, children: Int64Array) -> list[dict[str, Any]]:
        """Columns of exit and entry units, and the block, of each trees by relays and planes."""
        n = len(children)
        block = self._counts("exchange.block", n, most=2**62)
        widths = {side: self._counts(f"exchange.{side}_width", n) for side in ("out", "in")}
        cells = {}
        for side, width in widths.items():
            for key, more in (("links", 0), ("offset", 0), ("first", 1)):
                name = f"{side}_{key}"
                cells[name] = self._cells(f"exchange.{name}", children, width + more)
        return [{"block": int(block[i]), **{key: value[i] for key, value in cells.items()}} for i in range(n)]

    def _relays(self, formulas: list[dict[str, Any]]) -> list[RelayTrees]:
        n = len(formulas)
        sizes = _numbers(len(one["out_links"]) for one in formulas)
        native = self._cut("relay.native_units", sizes)
        rows: dict[str, list[Any]] = {
            name: self._parts(f"relay.{key}", "relay.count", n) for key, name in _RELAY_ROWS.items()
        }
        return [
            RelayTrees(
                **formulas[i], native_units=native[i], **{key: value[i] for key, value in rows.items()}
            )
            for i in range(n)
        ]

    def _planes(self, formulas: list[dict[str, Any]]) -> list[PlaneTrees]:
        n = len(formulas)
        sizes = _numbers(len(one["out_links"]) for one in formulas)
        places, planes, groups = (self._counts(f"plane.{key}", n) for key in ("places", "planes", "groups"))
        rows: dict[str, list[Any]] = {
            key: self._parts(f"plane.{key}", "plane.pair_count", n) for key in ("pair_root", "pair_child")
        }
        rows |= {key: self._parts(f"plane.{key}", "plane.relay_count", n) for key in _PLANE_RELAYS}
        native, place = self._cut("plane.native_units", sizes), self._cut("plane.place", places)
        group, shares = self._cut("plane.group", sizes), self._cells("plane.group_units", groups**2, planes)
        units = self._cells("plane.pair_units", self._counts("plane.pair_count", n), planes)
        return [
            PlaneTrees(
                **formulas[i],
                native_units=native[i],
                place=place[i],
                group=group[i],
                group_units=shares[i].reshape(int(groups[i]), int(groups[i]), int(planes[i])),
                pair_units=units[i],
                **{key: value[i] for key, value in rows.items()},
            )
            for i in range(n)
        ]

    def _shared(self, formulas: list[dict[str, Any]]) -> list[RelayPlanes]:
        n = len(formulas)
        sizes = _numbers(len(one["out_links"]) for one in formulas)
        planes, places = (self._counts(f"shared.{key}", n) for key in ("planes", "places"))
        rows: dict[str, list[Any]] = {
            key: self._parts(f"shared.{key}", "shared.rows", n) for key in _SHARED_RELAYS
        }
        rows |= {
            "plane_units": self._cells("shared.plane_units", planes, sizes),
            "place": self._cut("shared.place", places),
        }
        return [
            RelayPlanes(**formulas[i], **{key: value[i] for key, value in rows.items()}) for i in range(n)
        ]

    def _counts(self, key: str, length: int, most: int = 2**31) -> Int64Array:
        """A column of so many numbers that are not negative."""
        counts: Int64Array = self._columns[key]
        if len(counts) != length:
            raise FormatError(f"{self._folder}/{key}: {len(counts)} values, expected {length}")
        if counts.size and (counts.min() < 0 or counts.max() >= most):
            raise FormatError(f"{self._folder}/{key}: a value out of range")
        return counts

    def _parts(self, key: str, count_key: str, length: int) -> list[NDArray[Any]]:
        """A column cut into one part per kind."""
        return self._cut(key, self._counts(count_key, length))

    def _cut(self, key: str, counts: Int64Array) -> list[NDArray[Any]]:
        values = self._columns[key]
        ends = np.cumsum(counts, dtype=object) if len(counts) else np.zeros(1, dtype=object)
        if ends[-1] != len(values):
            raise FormatError(f"{self._folder}/{key}: {len(values)} values, expected {ends[-1]}")
        return [values[end - count : end] for end, count in zip(ends.tolist(), counts.tolist(), strict=False)]

    def _cells(self, key: str, rows: Int64Array, columns: Int64Array) -> list[NDArray[Any]]:
        """A column cut into one matrix per kind."""
        shapes = list(zip(rows.tolist(), columns.tolist(), strict=True))
        sizes = np.array([height * width for height, width in shapes], dtype=object)
        parts = self._cut(key, sizes)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def _paths(self, place: str, links_key: str, length: int) -> list[tuple[Int64Array, NDArray[Any]]]:
        """Offsets and links of each kind's paths."""
        lengths = self._parts(f"{place}.path_length", f"{place}.path_count", length)
        self._counts(f"{place}.path_length", len(self._columns[f"{place}.path_length"]))
        offsets = [offsets_of(part) for part in lengths]
        for offset in offsets:
            offset.setflags(write=False)
        totals = np.array([int(offset[-1]) for offset in offsets], dtype=object)
        return list(zip(offsets, self._cut(f"{place}.{links_key}", totals), strict=True))
