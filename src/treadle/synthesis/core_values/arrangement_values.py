"""Arguments of the placement search (`src/core/bindings/arrangement.cpp`). Arrays are contiguous."""

from __future__ import annotations

from typing import NamedTuple

from treadle.arrays import Int32Array


class ArrangeProblem(NamedTuple):
    """Items on positions, one on each; a position has a class (a rack) and a kind (for nodes).

    Parameters
    ----------
    n_kinds : int
        Items change places with others of their kind only.
    tail, head : arrays of int32, shape (m,)
        Items that edges join.
    place_class : array of int32, shape (n,)
    place_kind : array of int32, shape (n,)
        From 0 to n_kinds - 1.
    price : array of int32, shape (classes, classes)
        Of an edge, by the classes of its tail and its head.
    pair_price : int
        Of each pair of classes that edges join, in whichever direction.
    """

    n_kinds: int
    tail: Int32Array
    head: Int32Array
    place_class: Int32Array
    place_kind: Int32Array
    price: Int32Array
    pair_price: int
