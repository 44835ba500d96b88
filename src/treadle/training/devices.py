"""Accelerators: peak speeds by precision, memory and its bandwidth, from their makers' data sheets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Accelerator:
    """A device that ranks run on: one rank each.

    Parameters
    ----------
    name : str
    peak_flops : mapping of str to float
        FLOP/s of dense matrix products by precision: fp32, tf32, bf16, fp16, fp8; those that it has.
    memory_bytes : int
    memory_bytes_per_s : float
        Bandwidth of its memory.
    source : str
    """

    name: str
    peak_flops: Mapping[str, float]
    memory_bytes: int
    memory_bytes_per_s: float
    source: str
