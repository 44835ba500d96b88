"""Memory that a plan file takes, computed from the sizes that it declares before any memory is allocated.

A file may be a thousandth of the size of its plan, so its own length says nothing. Counted is the most memory
that reading and verifying need at one time, in bytes for each value of each column: the array itself, and the
arrays that the constructors and the verifier add. `tests/schedules/plan_files/test_plan_memory.py` measures
that they never need more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import prod

from treadle.errors import MemoryLimitError
from treadle.units import format_size

MAX_MEMORY = 2**32
"""Bytes that reading and verifying a plan may take by default."""

Shapes = Mapping[str, tuple[int, ...]]
"""Shape of the array in each member."""

_FEW_CHUNKS = 64
"""Chunks of a shard that the verifier of steps follows in one mask."""

_FIXED = 2**25
"""Memory that any plan needs: the parts of tables that are processed together."""

_STEP_STATE = 2**28
"""Masks of the shards of steps that are followed together."""

_EXCHANGE_ROWS = 2**27
"""Hops of an exchange that are followed together."""

_COUNT = 32
"""Bytes for each value of a column of counts: the column, its sums, and their differences when checked."""

_BYTES = {
    "forests": {
        "root_multiplicity": 250,
        "tree_root": 60,
        "tree_multiplicity": 60,
        "parent": 10,
        "entry_path": 20,
        "entry_units": 120,  # all entries may be of one tree
        "path_links": 90,
        "entry_count": _COUNT,
        "path_length": 150,
    },
    # there may be many groups, with a forest of a few ranks each
    "groups": {"tree_count": 4000, "path_count": _COUNT},
    "steps": {"homes": 60, "shard": 8, "link": 12, "low": 6, "high": 6, "step_count": 400, "targets": 60}
    | {"way_links": 90, "way_length": 150, "way_kinds": 60, "twins": 60, "fresh": 12},
    "routes": {"source": 24, "target": 24, "units": 50, "layer": 24, "path_links": 60, "path_length": 50}
    | {"hop_layer": 60},
    "rounds": {"path": 60, "round_count": 500},
}
_BYTES["groups"] |= _BYTES["forests"]
"""Bytes for each value of a column that reading and verifying take; `_more` adds to it."""

_FACTORED = 60
_FACTORED_LONG = {"kind": 700, "outer": 300}
"""Bytes for each value of factored forests; a subproblem is a value of `kind` and one of `outer`."""

_DEMAND = 110
"""Bytes for each pair of ranks of an all-to-all: tables of demands and of delivered data."""

_RATIO, _SLACK = 1040, 2**12
"""No deflated member is larger than 1032 times its compressed size."""

_COLUMN = re.compile(r"(forests|groups|steps|routes|rounds)/\d+/(\w+)\.npy")


class MemoryBudget:
    """Sum of the memory that a plan needs; MemoryLimitError as soon as it exceeds the limit.

    Parameters
    ----------
    granted : int
        Limit, bytes.
    """

    def __init__(self, granted: int) -> None:
        self._granted = granted
        self._needed = _FIXED

    def charge(self, n_bytes: int) -> None:
        """Add bytes; MemoryLimitError if the sum exceeds the limit."""
        self._needed += n_bytes
        if self._needed > self._granted:
            wanted = -(-self._needed // 2**30)
            raise MemoryLimitError(
                f"may take {format_size(self._needed)} of memory or more to be read and verified, "
                f"{format_size(self._granted)} are granted; if that is what you expect of it, grant more "
                f"(--max-memory {wanted}GB; in Python max_memory_bytes={wanted} * 2**30)"
            )


def declares_too_much(declared: int, compressed: int) -> bool:
    """Whether a deflated member of that compressed size cannot hold what it declares."""
    return declared > _RATIO * compressed + _SLACK


def json_bytes(text: str) -> int:
    """Return the most memory that JSON text and its parsed value take.

    An object takes 232 bytes or more, and about 100 for each of its keys while it is read, a list 88, any
    other value 70 with its reference. Characters are counted within strings as well.
    """
    objects, keys, lists, others = (text.count(sign) for sign in "{:[,")
    return 4 * text.__sizeof__() + 270 * objects + 110 * keys + 90 * lists + 70 * others


def array_bytes(shapes: Shapes, n_chunks: Iterable[int], *, has_demands: bool) -> int:
    """Return the most memory that reading and verifying the arrays of a plan takes.

    Parameters
    ----------
    shapes : mapping
        Shapes of all arrays of the archive.
    n_chunks : iterable of int
        Chunks per shard of each of the steps, in their order.
    has_demands : bool
        Whether the plan is of an all-to-all with given demands.
    """
    total = sum(prod(shape) * _bytes_of(name) for name, shape in shapes.items())
    parts = [_more(shapes, number, chunks, has_demands) for number, chunks in enumerate(n_chunks)]
    return total + sum(parts)


def pair_bytes(n_ranks: int) -> int:
    """Return the memory of the tables of all pairs of an all-to-all."""
    return _DEMAND * n_ranks**2


def state_bytes(n_nodes: int, n_shards: int, n_chunks: int, n_sends: int) -> int:
    """Return the memory for following shards over the nodes: if they are many, some at a time."""
    mask = next((bits // 8 for bits in (8, 16, 32) if n_chunks <= bits), 8)
    state = 2 * mask * n_nodes * n_shards
    return state if state <= _STEP_STATE else _STEP_STATE + 24 * n_sends


def _bytes_of(name: str) -> int:
    if match := _COLUMN.fullmatch(name):
        return _BYTES[match[1]][match[2]]
    return _FACTORED_LONG.get(name.rpartition("/")[2].removesuffix(".npy"), _FACTORED)


def _more(shapes: Shapes, number: int, n_chunks: int, has_demands: bool) -> int:
    """Return the additional memory of some steps: for the ends of their sends' chunks, or for an exchange."""
    n_sends = prod(shapes[f"steps/{number}/shard.npy"])
    places = 20 * min(n_chunks, 2**24)
    if f"steps/{number}/targets.npy" in shapes:
        n_shards = prod(shapes[f"steps/{number}/targets.npy"])
        return _EXCHANGE_ROWS + (300 if has_demands else 170) * n_sends + 120 * n_shards
    return places + (0 if n_chunks <= _FEW_CHUNKS else 90 * n_sends)
