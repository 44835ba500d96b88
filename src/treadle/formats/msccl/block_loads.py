"""Bytes that thread blocks of an MSCCL XML move."""

from __future__ import annotations

import re
from fractions import Fraction

_CHUNKS = re.compile(r'nchunksperloop="(\d+)"')
_COUNT = re.compile(r'cnt="(\d+)"')


def busiest_load(text: str) -> Fraction:
    """Return the part of the collective's larger per-rank buffer that the busiest thread block moves."""
    found = _CHUNKS.search(text)
    blocks = text.split("<tb ")[1:]
    most = max((sum(map(int, _COUNT.findall(block))) for block in blocks), default=0)
    return Fraction(most, int(found[1]) if found else 1)
