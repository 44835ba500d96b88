"""Options of the search for the best plan, and the request that they make."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from treadle.errors import FormatError
from treadle.options.keywords import ParallelizeKeywords
from treadle.parallelism.evaluation.node_work import DeviceNumbers
from treadle.parallelism.search.minimax import Overlap
from treadle.spelling import known_name
from treadle.training.compute_times import MEMORY_EFFICIENCY, RooflineTimes
from treadle.training.devices import Accelerator
from treadle.training.prices.contention_presets import contention_of
from treadle.training.prices.efficiency_presets import roofline_times
from treadle.training.train_options import as_accelerator

DEFAULT_GAP = 0.01
"""Optimality gap at which to stop, relative to the best time."""
DEFAULT_TIME_LIMIT_S, AUTO_TIME_LIMIT_S = 120.0, 300.0
"""Time limits of a search on a given mesh, and of one over meshes."""
_COUNT = re.compile(r"([1-9][0-9]*)\s*([KkMmGg]?)")
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30}
_MOST_TOKENS = 2**40


@dataclass(frozen=True)
class ParallelRequest:
    """A resolved request.

    Parameters
    ----------
    device : Accelerator
    times : RooflineTimes
    memory_bytes : float
        That a rank may use.
    tokens : int
        Of a step, on all ranks together.
    sequence : int, optional
        Tokens of a sequence; None: what the model was made for, or what its graph has.
    overlap : Overlap
    constraints : mapping of str to str
    gap : float
    zero : int
        As `ParallelPlan.zero`.
    """

    device: Accelerator
    times: RooflineTimes
    memory_bytes: float
    tokens: int | None
    sequence: int | None
    overlap: Overlap
    constraints: Mapping[str, str]
    gap: float
    zero: int

    @property
    def numbers(self) -> DeviceNumbers:
        """Numbers of the device; without overlap concurrent computing and communicating gain nothing."""
        kappa = 2 if self.overlap is Overlap.NONE else contention_of(None, self.device.name).kappa
        return DeviceNumbers.of(self.times, kappa)


def parallel_request(
    gpu: Accelerator | Path | str, tokens: int | str | None, asked: ParallelizeKeywords
) -> ParallelRequest:
    """Resolve a request; errors are those of `parallelize`."""
    device = as_accelerator(gpu)
    memory = asked.get("memory_bytes")
    if memory is not None and memory < 1:
        raise FormatError(f"memory {memory} bytes: expected at least 1")
    precision = next((one for one in ("bf16", "fp16", "fp32") if one in device.peak_flops), "bf16")
    sequence = asked.get("sequence")
    gap = asked.get("gap", DEFAULT_GAP)
    if not 0 <= gap < 1:
        raise FormatError(f"gap {gap}: expected a share of the time, at least 0 and below 1")
    zero = asked.get("zero", 1)
    if zero not in (0, 1, 2):
        raise FormatError(f"--zero {zero}: expected 0, 1 or 2; plans choose what ZeRO-3 shards")
    return ParallelRequest(
        device,
        replace(
            roofline_times(device, precision, asked.get("efficiency")),
            memory_efficiency=asked.get("memory_efficiency", MEMORY_EFFICIENCY),
        ),
        device.memory_bytes if memory is None else memory,
        None if tokens is None else as_count(tokens, "tokens"),
        None if sequence is None else as_count(sequence, "sequence"),
        as_overlap(asked.get("overlap", "layer")),
        MappingProxyType(dict(asked.get("constraints", {}))),
        gap,
        zero,
    )


def as_count(value: int | str, what: str) -> int:
    """Parse tokens, as a number or as people write them; K, M and G are powers of 1024, as in sizes.

    Examples
    --------
    >>> as_count("1M", "tokens"), as_count("131072", "tokens"), as_count("128K", "tokens")
    (1048576, 131072, 131072)
    """
    text = str(value).strip()
    found = _COUNT.fullmatch(text) if len(text) < 20 else None
    count = int(found[1]) << _POWERS[found[2].lower()] if found else 0
    if not 0 < count <= _MOST_TOKENS:
        raise FormatError(
            f"--{what} {text[:40]!r}: expected a number of tokens, such as 131072 or 1M (K, M and G are "
            f"powers of 1024)"
        )
    return count


def as_overlap(asked: str) -> Overlap:
    """Parse the scope of overlap of communication and computation: none, layer, model."""
    return Overlap(known_name("overlap", asked, [one.value for one in Overlap]))


def read_constraints(texts: Sequence[str]) -> dict[str, str]:
    """Parse constraints, ``wq=k:1/h:0``: a parameter as it is stored, or an operator's result.

    Raises
    ------
    FormatError
        Without a name or a state, or for a tensor twice.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.read_constraints(["wq=k:1/h:0", "query=whole"])
    {'wq': 'k:1/h:0', 'query': 'whole'}
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, state = (part.strip() for part in text.partition("="))
        if not equals or not name or not state:
            raise FormatError(
                f"--pin {text[:60]!r}: expected TENSOR=STATE, e.g. wq=k:1/h:0 (dimension k sharded by axis "
                "1, h by axis 0) or wq=whole"
            )
        if name in found:
            raise FormatError(f"--pin: {name[:40]!r} appears twice")
        found[name] = state
    return found
