"""Factored forests as members of a plan's archive: one table of columns per component.

The members of a component are in ``factored/<forest>/<component>/``. A column has the values of all
equivalence classes of subproblems, class after class; the ``count`` members have its length for each class.
Offsets are stored as counts, which deflate better.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import Int64Array
from treadle.errors import FormatError
from treadle.schedules.factored import (
    CirculantTrees,
    Crossings,
    FactoredForest,
    Layer,
    PlaneTrees,
    RelayPlanes,
    RelayTrees,
    Subproblem,
    TableTrees,
)
from treadle.schedules.plan_files.members import MemberReader, offsets_from, to_npy, write_member
from treadle.schedules.trees.forest import Direction

MAX_LAYERS = 100
"""Most components of a forest in a file."""

MAX_KINDS = 2**16
"""Most equivalence classes of a component in a file."""

_LAYER_COLUMNS = ("kind", "outer", "children", "links")
_LAYER_COUNTS = {"child_count": "child_offset", "link_count": "link_offset"}
_Shape = tuple[str, ...] | None

_CROSSINGS: dict[str, _Shape] = {
    **dict.fromkeys(("link", "offset", "units", "child", "inner", "path", "root_unit"), ("count",)),
    "count": (),
    "path_count": (),
    "path_length": ("path_count",),
    "path_links": ("path_length",),
}


def _unit_columns(out_width: str) -> dict[str, _Shape]:
    """Return the columns of egress and ingress units."""
    sides = (("out", out_width), ("in", "in_width"))
    found: dict[str, _Shape] = {}
    for key, more in (("links", ""), ("offset", ""), ("first", "+")):
        found |= {f"{side}_{key}": ("children", width + more) for side, width in sides}
    return found


_FORMS: dict[str, dict[str, _Shape]] = {
    "": {
        "capacity": ("capacity_count",),
        "capacity_count": (),
        "native": ("native_count",),
        "native_count": (),
    },
    "entrances": _CROSSINGS,
    "exits": _CROSSINGS,
    "table": {
        **dict.fromkeys(("root", "units"), ("count",)),
        **dict.fromkeys(("parent", "path", "first", "last"), ("count", "children")),
        "path_length": ("path_count",),
        "path_table": ("path_length",),
        "count": (),
        "path_count": (),
    },
    "circulant": {"native_units": None, "block": None, "width": (), "in_width": (), **_unit_columns("width")},
    "exchange": {"block": None, "out_width": (), "in_width": (), **_unit_columns("out_width")},
    "relay": {
        "native_units": ("children",),
        "count": (),
        **dict.fromkeys(("root", "block", "child", "units"), ("count",)),
    },
    "plane": {
        **dict.fromkeys(("places", "planes", "groups", "pair_count", "relay_count"), ()),
        "native_units": ("children",),
        "place": ("places",),
        "group": ("children",),
        "group_units": ("groups", "groups", "planes"),
        **dict.fromkeys(("pair_root", "pair_child"), ("pair_count",)),
        "pair_units": ("pair_count", "planes"),
        **dict.fromkeys(("relay_root", "relay_block", "relay_child", "relay_by"), ("relay_count",)),
    },
    "shared": {
        **dict.fromkeys(("planes", "places", "rows"), ()),
        "plane_units": ("planes", "children"),
        "place": ("places",),
        **dict.fromkeys(
            ("relay_plane", "relay_root", "relay_block", "relay_child", "relay_count"), ("rows",)
        ),
    },
}
"""Columns by the first word of their names.

A column with a shape holds an array of that shape for each class, one after the other. ``()`` marks lengths
that shapes name, one per class, and None other numbers, one per class. ``children`` is the number of
children, ``+`` means one more, and ``path_length`` the links of all paths of a class.
"""
_FIELDS = {"root": "relay_root", "block": "relay_block", "child": "relay_child", "units": "relay_count"}
"""Fields of the columns of ``relay`` with other names."""

_TREES: dict[str, type] = {
    "table": TableTrees,
    "circulant": CirculantTrees,
    "relay": RelayTrees,
    "plane": PlaneTrees,
    "shared": RelayPlanes,
}
"""Trees by their number in ``form``; relay trees and those after them also have columns of ``exchange``."""
_RELAY = 2

_NARROW = {
    *_LAYER_COLUMNS,
    *("form", "link", "child", "path", "path_links", "root", "parent", "path_table", "out_links", "in_links"),
    *("group", "pair_root", "pair_child", "relay_plane", "relay_root", "relay_child", "relay_by"),
}
_COLUMNS = (
    *_LAYER_COLUMNS,
    *_LAYER_COUNTS,
    "form",
    *(f"{word}.{key}".lstrip(".") for word, columns in _FORMS.items() for key in columns),
)
LAYER_MEMBERS = len(_COLUMNS)
"""Number of members of a component."""

_Columns = dict[str, NDArray[Any]]


def factored_members(number: int, n_layers: int) -> set[str]:
    """Return the names of the members of a factored forest."""
    layers = range(n_layers)
    return {
        f"factored/{number}/root_multiplicity.npy",
        *(f"factored/{number}/{layer}/{key}.npy" for layer in layers for key in _COLUMNS),
    }


def write_factored(archive: zipfile.ZipFile, number: int, forest: FactoredForest) -> None:
    """Add the members of a factored forest; FormatError if the format does not support its trees."""
    write_member(archive, f"factored/{number}/root_multiplicity.npy", to_npy(forest.root_multiplicity))
    for place, layer in enumerate(forest.layers):
        columns = _layer_columns(layer)
        for key in _COLUMNS:
            write_member(archive, f"factored/{number}/{place}/{key}.npy", to_npy(columns[key]))


def read_factored(members: MemberReader, number: int, n_layers: int, direction: Direction) -> FactoredForest:
    """Read a factored forest; FormatError if columns do not match, ScheduleError if values do not."""
    folder = f"factored/{number}"
    multiplicity = members.array(f"{folder}/root_multiplicity.npy", np.int64)
    layers = tuple(_read_layer(members, f"{folder}/{layer}") for layer in range(n_layers))
    return FactoredForest(direction, multiplicity, layers)


def _layer_columns(layer: Layer) -> _Columns:
    trees: list[Any] = [piece.trees for piece in layer.pieces]
    types = list(_TREES.values())
    for one in trees:
        if type(one) not in types:
            raise FormatError(f"plan: trees of type {type(one).__name__}, unsupported in files")
    forms = [types.index(type(one)) for one in trees]
    values: dict[str, list[Any]] = {
        "": list(layer.pieces),
        "entrances": [piece.entrances for piece in layer.pieces],
        "exits": [piece.exits for piece in layer.pieces],
        "exchange": [one for one, form in zip(trees, forms, strict=True) if form >= _RELAY],
    }
    values |= {word: [one for one in trees if type(one) is kind] for word, kind in _TREES.items()}
    columns: _Columns = {key: getattr(layer, key) for key in _LAYER_COLUMNS} | {"form": np.array(forms)}
    columns |= {key: np.diff(getattr(layer, offset)) for key, offset in _LAYER_COUNTS.items()}
    for word in _FORMS:
        columns |= _form_columns(word, values[word])
    return columns


def _form_columns(word: str, values: Sequence[Any]) -> _Columns:
    """Return the columns of the values of all classes that have them."""
    found: dict[str, Any] = {}
    sizes: dict[str, list[int]] = {}
    for key, shape in _FORMS[word].items():
        name = _FIELDS.get(key, key) if word == "relay" else key
        if shape is None:
            found[key] = [getattr(one, name) for one in values]
        elif shape:
            arrays = [
                np.diff(one.path_offset) if key == "path_length" else getattr(one, name) for one in values
            ]
            found[key] = np.concatenate([np.zeros(0, dtype=np.int64), *(part.ravel() for part in arrays)])
            sizes |= {size: [part.shape[axis] for part in arrays] for axis, size in enumerate(shape)}
    found |= {key: sizes[key] for key, shape in _FORMS[word].items() if shape == ()}
    return {f"{word}.{key}".lstrip("."): np.array(column, dtype=np.int64) for key, column in found.items()}


def _read_layer(members: MemberReader, folder: str) -> Layer:
    columns = {
        key: members.array(
            f"{folder}/{key}.npy",
            np.int32 if key.rpartition(".")[2] in _NARROW else np.int64,
            most=MAX_KINDS if key == "form" else None,
        )
        for key in _COLUMNS
    }
    arrays: dict[str, Any] = {key: columns[key] for key in _LAYER_COLUMNS}
    arrays |= {
        offset: offsets_from(columns[key], f"{folder}/{key}:") for key, offset in _LAYER_COUNTS.items()
    }
    return Layer(pieces=tuple(_subproblems(folder, columns)), **arrays)


def _subproblems(folder: str, columns: _Columns) -> Iterator[Subproblem]:
    """Yield the equivalence classes of subproblems."""
    form = columns["form"]
    if np.any((form < 0) | (form >= len(_TREES))):
        raise FormatError(
            f"{folder}/form: expected 0 (table), 1 (circulant), 2 (relay), 3 (plane) or 4 (relay planes)"
        )
    values = partial(_form_values, folder, columns)
    children = columns["native_count"]
    pieces, entrances, exits = (values(word, form) for word in ("", "entrances", "exits"))
    exchange = iter(values("exchange", children[form >= _RELAY]))
    trees = [iter(values(word, children[form == number])) for number, word in enumerate(_TREES)]
    kinds = list(_TREES.values())
    for piece, inwards, outwards, number in zip(pieces, entrances, exits, form.tolist(), strict=True):
        fields = next(trees[number]) | (next(exchange) if number >= _RELAY else {})
        yield Subproblem(
            **piece,
            trees=kinds[number](**fields),
            entrances=Crossings(**inwards),
            exits=Crossings(**outwards),
        )


def _form_values(folder: str, columns: _Columns, word: str, children: Int64Array) -> list[dict[str, Any]]:
    """Return the fields of each value of a form; `children` are the numbers of children."""
    found: dict[str, list[Any]] = {"n_children": children.tolist()} if word == "circulant" else {}
    sizes = {"children": children.tolist()}
    shapes = _FORMS[word]
    place = {key: f"{folder}/{word}.{key}" if word else f"{folder}/{key}" for key in shapes}
    values = {key: columns[f"{word}.{key}".lstrip(".")] for key in shapes}
    for key, shape in shapes.items():
        if not shape:
            if len(values[key]) != len(children):
                raise FormatError(f"{place[key]}: {len(values[key])} values, expected {len(children)}")
            _check_counts(values[key], place[key], most=2**62 if shape is None else 2**31)
            (found if shape is None else sizes)[key] = values[key].tolist()
    for key, shape in shapes.items():
        if not shape:
            continue
        dims = [[n + size.count("+") for n in sizes[size.rstrip("+")]] for size in shape]
        parts = _split(values[key], list(zip(*dims, strict=True)), place[key])
        if key == "path_length":
            _check_counts(values[key], place[key])
            found["path_offset"] = [offsets_from(part, f"{folder}/{word}:") for part in parts]
            sizes[key] = [int(offset[-1]) for offset in found["path_offset"]]
        else:
            found[_FIELDS.get(key, key) if word == "relay" else key] = parts
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)]


def _check_counts(values: Int64Array, place: str, most: int = 2**31) -> None:
    if values.size and (values.min() < 0 or values.max() >= most):
        raise FormatError(f"{place}: a value out of range")


def _split(values: NDArray[Any], shapes: Sequence[tuple[int, ...]], place: str) -> list[NDArray[Any]]:
    """Split a column into an array of each shape."""
    ends = [0, *accumulate(map(prod, shapes))]
    if ends[-1] != len(values):
        raise FormatError(f"{place}: {len(values)} values, expected {ends[-1]}")
    return [values[a:b].reshape(shape) for (a, b), shape in zip(pairwise(ends), shapes, strict=True)]
