"""What a plan was made for: fabric, device and size of a step, as its file holds them.

A fabric of the catalogue is its expression, any other its nodes and links; a device that has a name of ours
is that name, any other its figures. No file makes us read another one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from treadle.brief import brief
from treadle.errors import FormatError, TreadleError
from treadle.schedules.plan_files.manifest_values import read_object, read_optional, read_string, read_whole
from treadle.topologies import parse
from treadle.topologies.expressions import names_fabric
from treadle.topologies.files import dump_topology, topology_from_json
from treadle.topologies.topology import Topology
from treadle.training.devices import ACCELERATORS, ELEMENT_BYTES, Accelerator

_MOST_NAME = 1000
_MOST_LINKS = 100_000
"""Of a fabric that is written out link by link: 15 MB."""
_MOST_FIGURE = 1e24
_MOST_TOKENS = 2**50


@brief("fabric_name", "gpu.name", "tokens", "sequence")
@dataclass(frozen=True)
class PlanSetting:
    """What a plan was made for.

    Parameters
    ----------
    fabric : Topology, str or None
        Itself or an expression of the catalogue; None where it is too large to be written out.
    gpu : Accelerator
    tokens : int, optional
        Of a step, as it was given.
    sequence : int, optional
        Tokens of a sequence, as it was given.
    """

    fabric: Topology | str | None
    gpu: Accelerator
    tokens: int | None = None
    sequence: int | None = None

    @property
    def fabric_name(self) -> str:
        """The expression, or the name of what is written out; "" if it is not known."""
        return self.fabric.name if isinstance(self.fabric, Topology) else self.fabric or ""


def kept_fabric(topology: Topology) -> Topology | str | None:
    """A fabric as a file keeps it: the catalogue's expression if that makes the same fabric again."""
    if _is_expression(topology.name):
        try:
            if parse(topology.name) == topology:
                return topology.name
        except TreadleError:
            pass  # a name that only looks like one
    return topology if topology.n_links <= _MOST_LINKS else None


def setting_to_json(setting: PlanSetting) -> dict[str, object]:
    """A setting as a value of JSON."""
    gpu, fabric = setting.gpu, setting.fabric
    is_ours = ACCELERATORS.get(gpu.name) == gpu
    found: dict[str, object] = {"gpu": gpu.name if is_ours else _figures(gpu)}
    if fabric is not None:
        found["fabric"] = json.loads(dump_topology(fabric)) if isinstance(fabric, Topology) else fabric
    given = {"tokens": setting.tokens, "sequence": setting.sequence}
    return {**found, **{name: count for name, count in given.items() if count is not None}}


def read_setting(data: Any, place: str) -> PlanSetting:
    """A setting from `setting_to_json`; FormatError for anything else."""
    table = read_object(data, place, {"gpu"}, {"fabric", "tokens", "sequence"})
    tokens, sequence = (
        read_optional(table.get(name), read_whole, f"{place}, {name}") for name in ("tokens", "sequence")
    )
    if not all(0 < count < _MOST_TOKENS for count in (tokens, sequence) if count is not None):
        raise FormatError(f"{place}: tokens and sequence: expected more than none")
    fabric, gpu = _fabric(table.get("fabric"), place), _gpu(table["gpu"], f"{place}, gpu")
    return PlanSetting(fabric, gpu, tokens, sequence)


def _is_expression(text: str) -> bool:
    """Whether a text is a call of the catalogue, and so no path whatever files there are."""
    return len(text) <= _MOST_NAME and text.isprintable() and "(" in text and names_fabric(text)


def _fabric(data: Any, place: str) -> Topology | str | None:
    if data is None:
        return None
    if isinstance(data, dict):
        try:
            return topology_from_json(data)
        except TreadleError as error:
            raise FormatError(f"{place}, fabric: {error}") from None
    text = read_string(data, f"{place}, fabric")
    if not _is_expression(text):
        raise FormatError(f"{place}, fabric: {text[:40]!r}: expected a call of the catalogue, or a fabric")
    return text


def _figures(gpu: Accelerator) -> dict[str, object]:
    return {
        "name": gpu.name,
        "peak_flops": dict(gpu.peak_flops),
        "memory_bytes": gpu.memory_bytes,
        "memory_bytes_per_s": gpu.memory_bytes_per_s,
        "source": gpu.source,
    }


def _gpu(data: Any, place: str) -> Accelerator:
    if isinstance(data, str):
        if data not in ACCELERATORS:
            raise FormatError(f"{place}: {data[:40]!r} is none of {', '.join(ACCELERATORS)}")
        return ACCELERATORS[data]
    keys = {"name", "peak_flops", "memory_bytes", "memory_bytes_per_s", "source"}
    table = read_object(data, place, keys)
    name, source = (read_string(table[key], place) for key in ("name", "source"))
    peaks = table["peak_flops"]
    if not isinstance(peaks, dict) or not peaks or not set(peaks) <= set(ELEMENT_BYTES):
        raise FormatError(f"{place}: peak_flops: expected some of {', '.join(ELEMENT_BYTES)}")
    if not (name.strip() and (name + source).isprintable() and len(name + source) <= _MOST_NAME):
        raise FormatError(f"{place}: name and source: expected lines of at most {_MOST_NAME} characters")
    memory = read_whole(table["memory_bytes"], place)
    return Accelerator(
        name,
        MappingProxyType({precision: _figure(speed, place) for precision, speed in peaks.items()}),
        int(_figure(memory, place)),
        _figure(table["memory_bytes_per_s"], place),
        source,
    )


def _figure(value: Any, place: str) -> float:
    if type(value) not in (int, float) or not 0 < value < _MOST_FIGURE:
        raise FormatError(f"{place}: {str(value)[:40]}: expected a number above 0")
    return float(value)
