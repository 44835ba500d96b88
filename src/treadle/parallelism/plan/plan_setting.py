"""Setting of a plan: fabric, device and size of a step, as its file holds them.

A fabric of the catalogue is its expression, any other its nodes and links; a device with a name in Treadle
is that name, any other its values. A file never refers to another one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import asdict

from treadle.brief import brief
from treadle.errors import FormatError, TreadleError
from treadle.topologies import parse
from treadle.topologies.expressions import names_fabric
from treadle.topologies.files import dump_topology, topology_from_json
from treadle.topologies.topology import Topology
from treadle.training.devices import ACCELERATORS, ELEMENT_BYTES, Accelerator
from treadle.typed_files import Table, read_value

_MOST_NAME = 1000
_MOST_LINKS = 100_000
"""Largest fabric that is written out link by link: 15 MB."""
_MOST_FIGURE = 1e24
_MOST_TOKENS = 2**50


@brief("fabric_name", "gpu.name", "tokens", "sequence")
@dataclass(frozen=True)
class PlanSetting:
    """Setting that a plan was computed for.

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


def stored_fabric(topology: Topology) -> Topology | str | None:
    """Return A fabric as a file keeps it: the catalogue's expression if that makes the same fabric again."""
    if _is_expression(topology.name):
        try:
            if parse(topology.name) == topology:
                return topology.name
        except TreadleError:
            pass  # a name that only looks like one
    return topology if topology.n_links <= _MOST_LINKS else None


def setting_to_json(setting: PlanSetting) -> dict[str, object]:
    """Return A setting as a value of JSON."""
    gpu, fabric = setting.gpu, setting.fabric
    is_known = ACCELERATORS.get(gpu.name) == gpu
    values = {field.name: getattr(gpu, field.name) for field in fields(gpu)}
    found = {
        "gpu": gpu.name if is_known else values | {"peak_flops": dict(gpu.peak_flops)},
        "fabric": json.loads(dump_topology(fabric)) if isinstance(fabric, Topology) else fabric,
        "tokens": setting.tokens,
        "sequence": setting.sequence,
    }
    return {name: value for name, value in found.items() if value is not None}


_Figure = Annotated[float, Meta(gt=0, lt=_MOST_FIGURE, description="a number above 0")]
_Tokens = Annotated[int, Meta(ge=1, le=_MOST_TOKENS - 1)]


class _Gpu(Table, frozen=True):
    name: Annotated[str, Meta(max_length=_MOST_NAME)]
    peak_flops: dict[str, _Figure]
    memory_bytes: Annotated[int, Meta(ge=1, le=2**63 - 1)]
    memory_bytes_per_s: _Figure
    source: str

    def __post_init__(self) -> None:
        line = self.name + self.source
        if not (self.name.strip() and line.isprintable() and len(line) <= _MOST_NAME):
            raise FormatError(f"name and source: expected lines of at most {_MOST_NAME} characters")
        if not self.peak_flops or not set(self.peak_flops) <= set(ELEMENT_BYTES):
            raise FormatError(f"peak_flops: expected some of {', '.join(ELEMENT_BYTES)}")


class _Setting(Table, frozen=True):
    gpu: str | _Gpu
    fabric: Any = None
    tokens: _Tokens | None = None
    sequence: _Tokens | None = None


def read_setting(data: Any, place: str) -> PlanSetting:
    """Parse a setting from `setting_to_json`; FormatError for anything else."""
    table = read_value(data, _Setting, source=place)
    gpu = table.gpu
    if isinstance(gpu, _Gpu):
        device = Accelerator(**asdict(gpu) | {"peak_flops": MappingProxyType(gpu.peak_flops)})
    elif gpu in ACCELERATORS:
        device = ACCELERATORS[gpu]
    else:
        raise FormatError(f"{place}, gpu: {gpu[:40]!r} is none of {', '.join(ACCELERATORS)}")
    return PlanSetting(_fabric(table.fabric, place), device, table.tokens, table.sequence)


def _is_expression(text: str) -> bool:
    """Whether a string is a catalogue expression, and so never a path."""
    return len(text) <= _MOST_NAME and text.isprintable() and "(" in text and names_fabric(text)


def _fabric(data: Any, place: str) -> Topology | str | None:
    if data is None:
        return None
    if isinstance(data, dict):
        try:
            return topology_from_json(data)
        except TreadleError as error:
            raise FormatError(f"{place}, fabric: {error}") from None
    text = read_value(data, str, source=f"{place}, fabric")
    if not _is_expression(text):
        raise FormatError(f"{place}, fabric: {text[:40]!r}: expected a call of the catalogue, or a fabric")
    return text
