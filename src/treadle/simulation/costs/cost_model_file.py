"""Cost models as files: JSON, version 1."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from treadle.atomic import write_bytes
from treadle.errors import FormatError, ScheduleError
from treadle.input_files import parse_json, read_input_text
from treadle.simulation.costs.cost_model import ClassCost, CostModel, LinkClass, Protocol

MAX_FILE_BYTES = 2**20
_VERSION = 1
_FILE_KEYS = {"treadle", "version", "name", "source", "protocols"}
_FILE_OPTIONAL = {"reduction_bytes_per_s", "bands"}
_PROTOCOL_KEYS = {"name"}
_PROTOCOL_OPTIONAL = {"launch_ns", "channels", "channel_bytes_per_s", *LinkClass}
_CLASS_OPTIONAL = {"alpha_ns", "occupancy_ns", "hop_ns", "efficiency"}
_MOST_BANDS = 1000


def load_cost_model(path: str | Path) -> CostModel:
    """Read a cost model.

    Parameters
    ----------
    path : str or Path
        JSON, version 1, UTF-8, at most 1 MiB.

    Raises
    ------
    FormatError
        If the file cannot be read, is malformed, or a figure is out of range.

    Examples
    --------
    >>> from treadle import planning
    >>> planning.save_cost_model("costs.json", planning.as_cost_model("reference"))
    >>> planning.load_cost_model("costs.json")
    <CostModel reference, 1 protocol>
    """
    return cost_model_from_text(read_input_text(path, MAX_FILE_BYTES), source=str(path))


def cost_model_from_text(text: str, *, source: str = "") -> CostModel:
    """The cost model of a file's text; FormatError, which names `source`, if it is malformed."""
    value = parse_json(text, source=source)
    top = _object(value, "the file", _FILE_KEYS, _FILE_OPTIONAL, source)
    if top["treadle"] != "cost-model":
        raise FormatError(f'"treadle" is {_shown(top["treadle"])}, expected "cost-model"', source=source)
    if type(top["version"]) is not int or top["version"] != _VERSION:
        raise FormatError(f"version {_shown(top['version'])}, expected {_VERSION}", source=source)
    rows = top["protocols"]
    if not isinstance(rows, list):
        raise FormatError(f"protocols: {_shown(rows)}, expected a list of objects", source=source)
    try:
        return CostModel(
            name=_text(top["name"], "name", source),
            source=_text(top["source"], "source", source),
            protocols=tuple(_protocol(row, f"protocols[{place}]", source) for place, row in enumerate(rows)),
            reduction_bytes_per_s=_whole(
                top.get("reduction_bytes_per_s", 0), "reduction_bytes_per_s", source
            ),
            bands=_bands(top.get("bands", {}), source),
        )
    except ScheduleError as error:
        raise FormatError(str(error), source=source) from None


def cost_model_to_json(model: CostModel) -> dict[str, Any]:
    """The file's JSON object."""
    value: dict[str, Any] = {
        "treadle": "cost-model",
        "version": _VERSION,
        "name": model.name,
        "source": model.source,
        "protocols": [_protocol_to_json(protocol) for protocol in model.protocols],
    }
    if model.reduction_bytes_per_s:
        value["reduction_bytes_per_s"] = model.reduction_bytes_per_s
    if model.bands:
        value["bands"] = {name: list(band) for name, band in model.bands.items()}
    return value


def dump_cost_model(model: CostModel) -> str:
    """The file's text."""
    return json.dumps(cost_model_to_json(model), indent=1, allow_nan=False) + "\n"


def save_cost_model(path: str | Path, model: CostModel) -> None:
    """Write a cost model; the file appears whole or not at all. FormatError if it cannot be written.

    Examples
    --------
    >>> from treadle import planning
    >>> simple = planning.Protocol("simple", planning.ClassCost(alpha_ns=2000))
    >>> planning.save_cost_model("ours.json", planning.CostModel("ours", "measured in May", (simple,)))
    >>> planning.load_cost_model("ours.json").source
    'measured in May'
    """
    write_bytes(path, dump_cost_model(model).encode())


def _protocol_to_json(protocol: Protocol) -> dict[str, Any]:
    value: dict[str, Any] = {"name": protocol.name, "launch_ns": protocol.launch_ns}
    if protocol.channels:
        value |= {"channels": protocol.channels, "channel_bytes_per_s": protocol.channel_bytes_per_s}
    for link_class in LinkClass:
        cost = protocol.of(link_class)
        value[link_class.value] = {
            "alpha_ns": cost.alpha_ns,
            "occupancy_ns": cost.occupancy_ns,
            "hop_ns": cost.hop_ns,
            "efficiency": str(cost.efficiency),
        }
    return value


def _protocol(value: object, place: str, source: str) -> Protocol:
    row = _object(value, place, _PROTOCOL_KEYS, _PROTOCOL_OPTIONAL, source)
    numbers = {
        key: _whole(row[key], f"{place}.{key}", source)
        for key in ("launch_ns", "channels", "channel_bytes_per_s")
        if key in row
    }
    costs = {
        link_class.value: _class_cost(row[link_class.value], f"{place}.{link_class}", source)
        for link_class in LinkClass
        if link_class.value in row
    }
    try:
        return Protocol(_text(row["name"], f"{place}.name", source), **costs, **numbers)  # type: ignore[arg-type]
    except ScheduleError as error:
        raise FormatError(f"{place}: {error}", source=source) from None


def _class_cost(value: object, place: str, source: str) -> ClassCost:
    row = _object(value, place, set(), _CLASS_OPTIONAL, source)
    numbers = {
        key: _whole(row[key], f"{place}.{key}", source)
        for key in ("alpha_ns", "occupancy_ns", "hop_ns")
        if key in row
    }
    efficiency = _fraction(row.get("efficiency", "1"), f"{place}.efficiency", source)
    try:
        return ClassCost(**numbers, efficiency=efficiency)
    except ScheduleError as error:
        raise FormatError(f"{place}: {error}", source=source) from None


def _bands(value: object, source: str) -> dict[str, tuple[float, float]]:
    if not isinstance(value, dict) or len(value) > _MOST_BANDS:
        raise FormatError(f"bands: expected an object of at most {_MOST_BANDS} intervals", source=source)
    found = {}
    for name, ends in value.items():
        is_pair = isinstance(ends, list) and len(ends) == 2
        numbers = [end for end in ends if type(end) in (int, float)] if is_pair else []
        if len(numbers) != 2 or not all(map(math.isfinite, numbers)) or numbers[0] > numbers[1]:
            raise FormatError(
                f"bands: {_shown(name)}: {_shown(ends)}, expected two numbers, the smaller first",
                source=source,
            )
        found[name] = (float(numbers[0]), float(numbers[1]))
    return found


def _object(
    value: object, place: str, keys: set[str], optional: set[str] | set[LinkClass | str], source: str
) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise FormatError(f"{place}: {_shown(value)}, expected an object", source=source)
    known = keys | set(map(str, optional))
    for key in value:
        if key not in known:
            raise FormatError(
                f"{place}: unknown key {_shown(key)}, expected {', '.join(sorted(known))}", source=source
            )
    for key in sorted(keys):
        if key not in value:
            raise FormatError(f"{place}: lacks {key!r}", source=source)
    return value


def _text(value: object, place: str, source: str) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{place}: {_shown(value)}, expected text", source=source)
    return value


def _whole(value: object, place: str, source: str) -> int:
    if type(value) is not int:
        raise FormatError(f"{place}: {_shown(value)}, expected a whole number", source=source)
    return value


def _fraction(value: object, place: str, source: str) -> Fraction:
    """A rational as text, ``23/25`` or ``0.92``, or a JSON number."""
    text = value if isinstance(value, str) else repr(value) if type(value) in (int, float) else ""
    try:
        if not 0 < len(text) <= 40 or "e" in text.lower():
            raise ValueError
        return Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise FormatError(
            f'{place}: {_shown(value)}, expected a share such as "23/25" or 0.92', source=source
        ) from None


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:60] + "..."
