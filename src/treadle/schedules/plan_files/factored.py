"""Factored forests as members of a plan's archive: one table of columns per layer, all kinds of pieces in it.

A layer's members lie in ``factored/<forest>/<layer>/``. Columns of all kinds stand one after the other; their
lengths come from the ``count`` members, a number per kind. Offsets are stored as counts, which deflate
better.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
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
from treadle.schedules.plan_files.members import MemberReader, offsets_from, to_npy, write_member
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

_COLUMN_FIELDS = {key: key for key in (*_CIRCULANT_CELLS, *_CIRCULANT_STARTS)}
_WRITTEN: tuple[tuple[str, type, dict[str, str], dict[str, Callable[[Any], int]]], ...] = (
    (
        "table",
        TableTrees,
        {key: key for key in (*_TABLE_ROWS, *_TABLE_CELLS)},
        {"count": lambda one: len(one.root)},
    ),
    (
        "circulant",
        CirculantTrees,
        _COLUMN_FIELDS,
        {
            "native_units": lambda one: one.native_units,
            "block": lambda one: one.block,
            "width": lambda one: one.out_links.shape[1],
            "in_width": lambda one: one.in_links.shape[1],
        },
    ),
    (
        "exchange",
        FormulaTrees,
        _COLUMN_FIELDS,
        {
            "block": lambda one: one.block,
            "out_width": lambda one: one.out_links.shape[1],
            "in_width": lambda one: one.in_links.shape[1],
        },
    ),
    (
        "relay",
        RelayTrees,
        {**_RELAY_ROWS, "native_units": "native_units"},
        {"count": lambda one: len(one.relay_root)},
    ),
    (
        "shared",
        RelayPlanes,
        {key: key for key in _SHARED_ARRAYS},
        {
            "planes": lambda one: len(one.plane_units),
            "places": lambda one: len(one.place),
            "rows": lambda one: len(one.relay_plane),
        },
    ),
    (
        "plane",
        PlaneTrees,
        {key: key for key in _PLANE_ARRAYS},
        {
            "places": lambda one: len(one.place),
            "planes": lambda one: one.n_planes,
            "groups": lambda one: len(one.group_units),
            "pair_count": lambda one: len(one.pair_root),
            "relay_count": lambda one: len(one.relay_root),
        },
    ),
)
"""By the first word of its columns: type of trees, columns by field, and numbers of each piece."""


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
    for form, kind, arrays, numbers in _WRITTEN:
        trees: list[Any] = [piece.trees for piece in pieces if isinstance(piece.trees, kind)]
        for key, name in arrays.items():
            columns[f"{form}.{key}"] = _joined(getattr(one, name) for one in trees)
        for key, number in numbers.items():
            columns[f"{form}.{key}"] = _numbers(map(number, trees))
    tables = [piece.trees for piece in pieces if isinstance(piece.trees, TableTrees)]
    found = _path_columns("path_table", [(table.path_offset, table.path_table) for table in tables])
    return columns | {f"table.{key}": value for key, value in found.items()}


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

    def offsets(self, key: str) -> Int64Array:
        """Counts of a column summed up."""
        return offsets_from(self._columns[key], f"{self._folder}/{key}:")

    def pieces(self) -> Iterator[Piece]:
        """The kinds of pieces."""
        form = self._columns["form"]
        if np.any((form < 0) | (form >= len(_FORMS))):
            raise FormatError(
                f"{self._folder}/form: expected {_TABLE} (table), {_CIRCULANT} (circulant), "
                f"{_RELAY} (relay), {_PLANE} (plane) or {_SHARED} (relay planes)"
            )
        n = len(form)
        native = self._parts("native", "native_count", n)
        capacity = self._parts("capacity", "capacity_count", n)
        entrances, exits = map(self._crossings, _SIDES)
        sizes = self._columns["native_count"]
        tables, circulants = (sizes[form == one] for one in (_TABLE, _CIRCULANT))
        formulas = self._formulas(sizes[form >= _RELAY])
        kinds = form[form >= _RELAY].tolist()
        relays, planes, shared = (
            [one for one, kind in zip(formulas, kinds, strict=True) if kind == wanted]
            for wanted in (_RELAY, _PLANE, _SHARED)
        )
        trees: list[Iterator[PieceTrees]] = [
            iter(self._tables(tables)),
            iter(self._circulants(circulants)),
            iter(self._relays(relays)),
            iter(self._planes(planes)),
            iter(self._shared(shared)),
        ]
        for kind, number in enumerate(form.tolist()):
            yield Piece(
                capacity=capacity[kind],
                native=native[kind],
                trees=next(trees[number]),
                entrances=entrances[kind],
                exits=exits[kind],
            )

    def _crossings(self, side: str) -> list[Crossings]:
        n = len(self._columns["form"])
        parts = {key: self._parts(f"{side}.{key}", f"{side}.count", n) for key in _SIDE_COLUMNS}
        return [Crossings(**row) for row in _rows(n, parts | self._paths(side, "path_links", n))]

    def _tables(self, children: Int64Array) -> list[TableTrees]:
        n, counts = len(children), self._counts("table.count", len(children))
        parts = {key: self._cut(f"table.{key}", counts) for key in _TABLE_ROWS}
        parts |= {key: self._cells(f"table.{key}", counts, children) for key in _TABLE_CELLS}
        return [TableTrees(**row) for row in _rows(n, parts | self._paths("table", "path_table", n))]

    def _circulants(self, children: Int64Array) -> list[CirculantTrees]:
        n = len(children)
        numbers = {key: self._counts(f"circulant.{key}", n, most=2**62) for key in ("native_units", "block")}
        parts = self._unit_columns("circulant", children, "width", "in_width")
        parts |= {key: values.tolist() for key, values in numbers.items()}
        parts["n_children"] = children.tolist()
        return [CirculantTrees(**row) for row in _rows(n, parts)]

    def _formulas(self, children: Int64Array) -> list[dict[str, Any]]:
        """Columns of exit and entry units, and the block, of each trees by relays and planes."""
        block = self._counts("exchange.block", len(children), most=2**62)
        parts = self._unit_columns("exchange", children, "out_width", "in_width")
        return _rows(len(children), parts | {"block": block.tolist()})

    def _unit_columns(self, form: str, children: Int64Array, *width_keys: str) -> dict[str, list[Any]]:
        """Columns of exit and entry units of each trees."""
        found = {}
        for side, width_key in zip(("out", "in"), width_keys, strict=True):
            width = self._counts(f"{form}.{width_key}", len(children))
            for key, more in (("links", 0), ("offset", 0), ("first", 1)):
                name = f"{side}_{key}"
                found[name] = self._cells(f"{form}.{name}", children, width + more)
        return found

    def _relays(self, formulas: list[dict[str, Any]]) -> list[RelayTrees]:
        n = len(formulas)
        parts = {name: self._parts(f"relay.{key}", "relay.count", n) for key, name in _RELAY_ROWS.items()}
        parts["native_units"] = self._cut("relay.native_units", _child_counts(formulas))
        return [RelayTrees(**one, **row) for one, row in zip(formulas, _rows(n, parts), strict=True)]

    def _planes(self, formulas: list[dict[str, Any]]) -> list[PlaneTrees]:
        n, sizes = len(formulas), _child_counts(formulas)
        places, planes, groups = (self._counts(f"plane.{key}", n) for key in ("places", "planes", "groups"))
        parts = {
            key: self._parts(f"plane.{key}", "plane.pair_count", n) for key in ("pair_root", "pair_child")
        }
        parts |= {key: self._parts(f"plane.{key}", "plane.relay_count", n) for key in _PLANE_RELAYS}
        parts["native_units"] = self._cut("plane.native_units", sizes)
        parts["place"] = self._cut("plane.place", places)
        parts["group"] = self._cut("plane.group", sizes)
        shares = self._cells("plane.group_units", groups**2, planes)
        parts["group_units"] = [
            share.reshape(count, count, width)
            for share, count, width in zip(shares, groups.tolist(), planes.tolist(), strict=True)
        ]
        pair_counts = self._counts("plane.pair_count", n)
        parts["pair_units"] = self._cells("plane.pair_units", pair_counts, planes)
        return [PlaneTrees(**one, **row) for one, row in zip(formulas, _rows(n, parts), strict=True)]

    def _shared(self, formulas: list[dict[str, Any]]) -> list[RelayPlanes]:
        n = len(formulas)
        planes, places = (self._counts(f"shared.{key}", n) for key in ("planes", "places"))
        parts = {key: self._parts(f"shared.{key}", "shared.rows", n) for key in _SHARED_RELAYS}
        parts["plane_units"] = self._cells("shared.plane_units", planes, _child_counts(formulas))
        parts["place"] = self._cut("shared.place", places)
        return [RelayPlanes(**one, **row) for one, row in zip(formulas, _rows(n, parts), strict=True)]

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

    def _paths(self, place: str, links_key: str, length: int) -> dict[str, list[Any]]:
        """Offsets and links of each kind's paths."""
        lengths = self._parts(f"{place}.path_length", f"{place}.path_count", length)
        self._counts(f"{place}.path_length", len(self._columns[f"{place}.path_length"]))
        offsets = [offsets_from(part, f"{self._folder}/{place}:") for part in lengths]
        totals = np.array([int(offset[-1]) for offset in offsets], dtype=object)
        return {"path_offset": offsets, links_key: self._cut(f"{place}.{links_key}", totals)}


def _rows(n: int, columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """The fields of each of `n` values."""
    return [{key: column[i] for key, column in columns.items()} for i in range(n)]


def _child_counts(formulas: Sequence[Mapping[str, Any]]) -> Int64Array:
    return _numbers(len(one["out_links"]) for one in formulas)
