"""What a plan's manifest says of an entry besides its schedule: sizes, who made it, how messages are cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from treadle.errors import FormatError
from treadle.schedules.plan import Pipelining, PlanEntry
from treadle.schedules.plan_files.manifest_values import (
    read_list,
    read_optional,
    read_string,
    read_whole,
)
from treadle.schedules.schedule import Schedule

SIZE_KEYS = frozenset({"min_bytes", "max_bytes"})
MADE_KEYS = frozenset({"algorithm", "options", "pipelining"})
"""Only there where something is known: plans of one schedule are as they have always been."""

_MOST_CUTS = 1000


def entry_values(entry: PlanEntry) -> dict[str, object]:
    """An entry's row of the manifest, without its schedule."""
    cuts = [[one.min_bytes, one.slices, one.protocol] for one in entry.pipelining]
    made: dict[str, object] = {
        "algorithm": entry.algorithm,
        "options": entry.options,
        "pipelining": cuts,
    }
    sizes: dict[str, object] = {"min_bytes": entry.min_bytes, "max_bytes": entry.max_bytes}
    return sizes | {key: value for key, value in made.items() if value}


def read_entry(fields: Mapping[str, Any], schedule: Schedule) -> PlanEntry:
    """An entry of a schedule that was read already."""
    cuts = read_list(fields.get("pipelining", []), "entries: pipelining")
    if len(cuts) > _MOST_CUTS:
        raise FormatError(f"entries: pipelining: {len(cuts)}, expected 0 to {_MOST_CUTS}")
    return PlanEntry(
        read_whole(fields["min_bytes"], "entries: min_bytes"),
        read_optional(fields["max_bytes"], read_whole, "entries: max_bytes"),
        schedule,
        algorithm=read_string(fields.get("algorithm", ""), "entries: algorithm"),
        options=read_string(fields.get("options", ""), "entries: options"),
        pipelining=tuple(map(_pipelining, cuts)),
    )


def _pipelining(value: Any) -> Pipelining:
    place = "entries: pipelining"
    row = read_list(value, place)
    if len(row) != 3:
        raise FormatError(f"{place}: expected bytes, slices and protocol, found {len(row)} values")
    return Pipelining(read_whole(row[0], place), read_whole(row[1], place), read_string(row[2], place))
