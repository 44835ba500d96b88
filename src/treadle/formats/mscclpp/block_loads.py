"""Bytes that thread blocks of an MSCCL++ plan move."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any


def busiest_load(text: str) -> Fraction:
    """Return the part of the collective's larger per-rank buffer that the busiest thread block moves.

    An operation moves what it reads, or stores if that is more; proxies move what goes through ports.
    """
    gpus = json.loads(text)["gpus"]
    n_chunks = max(max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in gpus)
    moved = [_moved(block["ops"]) for gpu in gpus for block in gpu["threadblocks"]]
    return Fraction(max(moved, default=0), n_chunks)


def _moved(operations: list[dict[str, Any]]) -> int:
    """Chunks that a list of operations moves."""
    total = 0
    for operation in operations:
        if operation.get("channel_type") != "port":
            ends = (operation.get("src_buff", ()), operation.get("dst_buff", ()))
            total += max(sum(part["size"] for part in buffers) for buffers in ends)
        total += _moved(operation.get("ops", []))
    return total
