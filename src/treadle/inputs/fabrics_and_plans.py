"""What people pass for a fabric, a plan and sizes, and what functions make of it."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from treadle.checking import unexpected
from treadle.errors import FormatError
from treadle.input_files import is_file, read_head
from treadle.schedules.plan import HasPlan, Plan, plan_of
from treadle.spelling import counted
from treadle.topologies.expressions import format_path, names_fabric
from treadle.topologies.topology import Topology


class HasTopology(Protocol):
    """Results, plans and imported files: whatever has a fabric."""

    @property
    def topology(self) -> Any:
        """The fabric, or a function that gives it."""


FabricLike = Topology | HasTopology | Path | str
"""What is taken as a fabric: a catalogue expression, a path, what has one, and a graph of networkx."""
PlanLike = Plan | HasPlan | Path | str
"""What is taken as a plan: one, the path of its file, or the result that has one."""
SizesLike = Iterable[int | str] | int | str
"""Bytes, texts such as ``1K``, ranges such as ``1K..64M``, or several."""


_ZIP = b"PK"
"""How plan files begin; within, they have the text of a fabric too."""


def as_fabric(value: Any, place: str = "topology") -> Topology | str:
    """A fabric, or the text that names one; TreadleError for what is neither.

    A Path is a file, also where the catalogue has its name. A graph of networkx needs a bandwidth at each
    edge; `from_networkx` takes one for all.
    """
    if isinstance(value, Topology | str):
        return value
    if isinstance(value, Path):
        return format_path(value)
    if "networkx" in sys.modules:  # else there is no graph of it
        from treadle.topologies.readers.graphs.networkx_graphs import from_networkx, is_networkx_graph

        if is_networkx_graph(value):
            return from_networkx(value)
    found = getattr(value, "topology", None)
    if found is None and (plan := plan_of(value)) is not None:
        found = plan.topology
    found = found() if callable(found) and not isinstance(value, type) else found
    if isinstance(found, Topology):
        return found
    expected = "a Topology, a catalogue expression or path, a graph of networkx, or a plan or result"
    raise unexpected(place, expected, value)


def as_plan(value: Any, place: str = "plan") -> Plan:
    """A plan, that of a result, or that of a file; TreadleError for what is none."""
    if isinstance(value, str | Path):
        from treadle.schedules.plan_files.archive import load_plan

        _refuse_what_is_no_plan(value)
        return load_plan(value)
    if (found := plan_of(value)) is not None:
        return found
    raise unexpected(place, "a Plan, the path of a plan file, or a result with a plan", value)


def _refuse_what_is_no_plan(value: str | Path) -> None:
    """FormatError for a fabric or a text for a runtime; what else is wrong with a plan, its reader says."""
    from treadle.inputs.runtime_files import report_name
    from treadle.topologies.readers.reader import HEAD_CHARACTERS, topology_name

    shown = str(value)[:80]
    if name := report_name(Path(value)):
        raise FormatError(
            f"this is a text for a runtime ({name}), not a plan; treadle.verify judges it, and with a "
            f"fabric simulate and compare take it",
            source=shown,
        )
    is_fabric = isinstance(value, str) and names_fabric(value)
    if is_file(value):
        head = read_head(value, HEAD_CHARACTERS)
        is_fabric = not head.startswith(_ZIP) and topology_name(head.decode("utf-8", "replace")) is not None
    if is_fabric:
        raise FormatError("this is a fabric, not a plan; treadle.solve makes a plan for it", source=shown)


def as_sizes(value: Any, place: str, *, least: int = 1) -> list[int]:
    """Sizes in bytes from numbers of bytes, texts with a unit and ranges of them, or several of these."""
    from treadle.runtime.measured_sizes import parse_sizes

    expected = "bytes, a text such as 64MB or 1K..1G, or a sequence of these"
    if isinstance(value, str | int | np.integer) and not isinstance(value, bool):
        sizes = parse_sizes(value) if isinstance(value, str) else [int(value)]
        if min(sizes) < least:
            raise FormatError(f"{place}: expected at least {counted(least, 'byte')}, found {min(sizes)}")
        return sizes
    if not isinstance(value, Iterable) or isinstance(value, bytes | dict):
        raise unexpected(place, expected, value)
    found: list[int] = []
    for one in value:
        if not isinstance(one, str | int | np.integer) or isinstance(one, bool):
            raise unexpected(place, expected, one)
        found += as_sizes(one, place, least=least)
    return found


def as_size(value: Any, place: str) -> int | None:
    """One size in bytes from a number of bytes or a text with a unit; None stays."""
    if value is None:
        return None
    if isinstance(value, str):
        from treadle.units import parse_size

        return parse_size(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise unexpected(place, "bytes, or a text such as 64MB", value)
