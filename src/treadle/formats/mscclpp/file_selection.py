"""Follows the choice of MSCCL++ among several plans: the table of its selector against the plans themselves.

A plan has to be taken for the first and last sizes of its range and for one between, if its chunks divide
them into whole 16 bytes, and for none outside; and the plan that is taken must not end in an error: its own
range, chunks, ranks and mode have to serve the call. Shares no code with what writes the plans or the
selector.

Source: ``checkMessageSize`` and ``ExecutionPlan::Impl`` of src/core/executor/execution_plan.cc of
microsoft/mscclpp.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from treadle.errors import FormatError
from treadle.formats.verdict import RangedFile

_MOST_BYTES = 2**32 - 1
_SELECTOR = "treadle_set.py"
_NCCL = ("allgather", "reducescatter", "allreduce", "broadcast")
"""What the NCCL interface hands to plans."""


class _Row(NamedTuple):
    """One line of the selector's table."""

    file: str
    name: str
    collective: str
    ranks: int
    first: int
    last: int
    unit: int
    in_place: bool
    root: int


def check_selection(
    texts: Sequence[RangedFile], files: Mapping[str, bytes], _dialect: str | None
) -> tuple[str, ...]:
    """What is wrong with the choices among plans that lie in one folder; empty if nothing is.

    Raises
    ------
    FormatError
        If the selector has no table.
    """
    rows = _rows(files[_SELECTOR].decode())
    plans: dict[str, Any] = {}
    for text in texts:
        try:
            plans[text.file] = json.loads(text.data)
        except ValueError as error:
            raise FormatError(f"no JSON: {error}", source=text.file) from None
    called = [text for text in texts if plans[text.file]["collective"] in _NCCL]
    found = [
        f"{row.file}: the selector knows it, the folder does not" for row in rows if row.file not in plans
    ]
    names = [plan["name"] for plan in plans.values()]
    found += [f"two plans are named {name}" for name in names if names.count(name) > 1]
    for text in called:
        found += _misled(text, plans, [row for row in rows if row.file in plans])
    return tuple(dict.fromkeys(found))


def _misled(text: RangedFile, plans: Mapping[str, Any], rows: Sequence[_Row]) -> Iterator[str]:
    plan = plans[text.file]
    chunks = max(max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in plan["gpus"])
    end = _MOST_BYTES if text.max_bytes is None else min(text.max_bytes, _MOST_BYTES)
    for units, belongs in text.tried(16 * chunks, end):
        size = units * 16 * chunks
        called = (plan["collective"], len(plan["gpus"]), text.in_place, text.root)
        taken = (
            row
            for row in rows
            if row.first <= size <= row.last
            and size % row.unit == 0
            and (row.collective, row.ranks, row.in_place, row.root) == called
        )
        row = next(taken, None)
        file = None if row is None else row.file
        if row is not None and not _serves(plans[row.file], row, size, text):
            yield f"{row.file}: taken for {size} bytes, which it does not serve"
        elif belongs and file != text.file and not (text.fills_in and file is not None):
            yield f"{text.file}: not taken for {size} bytes, but {file or 'none'}"
        elif not belongs and file == text.file:
            yield f"{text.file}: taken for {size} bytes, which is outside its range"


def _serves(plan: Any, row: _Row, size: int, text: RangedFile) -> bool:
    """Whether the executor would run the plan on a buffer of `size` bytes instead of failing."""
    kind, ranks = plan["collective"], len(plan["gpus"])
    part = size // ranks
    given, made = {"allgather": (part, size), "reducescatter": (size, part)}.get(kind, (size, size))
    return (
        (kind, ranks, plan["inplace"], plan["name"])
        == (row.collective, text.n_ranks, text.in_place, row.name)
        and plan["min_message_size"] <= size <= plan["max_message_size"]
        and size <= _MOST_BYTES
        and all(
            count % 16 == 0 and count // 16 % gpu[key] == 0
            for gpu in plan["gpus"]
            for count, key in ((given, "input_chunks"), (made, "output_chunks"))
        )
    )


def _rows(module: str) -> list[_Row]:
    """The table of a selector, which is read and not run."""
    for node in ast.parse(module).body:
        if isinstance(node, ast.Assign) and [ast.unparse(one) for one in node.targets] == ["PLANS"]:
            return [_Row(*row) for row in ast.literal_eval(node.value)]
    raise FormatError("expected the table PLANS", source=_SELECTOR)
