"""Arguments of public functions: fabrics, plans and sizes, in all accepted forms."""

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
    """Results, plans and imported files: values that have a fabric."""

    @property
    def topology(self) -> Any:
        """The fabric, or a function that returns it."""


FabricLike = Topology | HasTopology | Path | str
"""Accepted as a fabric: a catalogue expression, a path, a value that has one, and a graph of networkx."""
PlanLike = Plan | HasPlan | Path | str
"""Accepted as a plan: one, the path of its file, or a result that has one."""
SizesLike = Iterable[int | str] | int | str
"""Bytes, strings such as ``1K``, ranges such as ``1K..64M``, or several."""

_ZIP = b"PK"
"""First bytes of plan files; these also contain the JSON of a fabric."""


def as_fabric(value: Any, place: str = "topology") -> Topology | str:
    """Return a fabric, or the string that names one; TreadleError for anything else.

    A Path is a file, even if the catalogue has its name. A graph of networkx needs a bandwidth at each edge;
    `from_networkx` accepts one for all.
    """
    if isinstance(value, Topology | str):
        return value
    if isinstance(value, Path):
        return format_path(value)
    if "networkx" in sys.modules:  # otherwise the value cannot be one of its graphs
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
    """Return a plan, that of a result, or that of a file; TreadleError for anything else."""
    if isinstance(value, str | Path):
        from treadle.schedules.plan_files.archive import load_plan

        _check_is_plan(value)
        return load_plan(value)
    if (found := plan_of(value)) is not None:
        return found
    raise unexpected(place, "a Plan, the path of a plan file, or a result with a plan", value)


def _check_is_plan(value: str | Path) -> None:
    """Raise FormatError for a fabric or a runtime file; the reader of plans reports other errors."""
    from treadle.inputs.runtime_files import report_name
    from treadle.topologies.readers.reader import HEAD_CHARACTERS, topology_name

    shown = str(value)[:80]
    if name := report_name(Path(value)):
        uses = "use treadle.verify, or simulate or compare with a fabric"
        raise FormatError(f"this is a runtime file ({name}), not a plan; {uses}", source=shown)
    is_fabric = isinstance(value, str) and names_fabric(value)
    if is_file(value):
        head = read_head(value, HEAD_CHARACTERS)
        is_fabric = not head.startswith(_ZIP) and topology_name(head.decode("utf-8", "replace")) is not None
    if is_fabric:
        raise FormatError("this is a fabric, not a plan; treadle.solve computes a plan for it", source=shown)


def as_sizes(value: Any, place: str, *, least: int = 1) -> list[int]:
    """Return sizes in bytes from numbers of bytes, strings with a unit, ranges, or several of these."""
    from treadle.runtime.measured_sizes import parse_sizes

    is_single = isinstance(value, str | bytes | dict) or not isinstance(value, Iterable)
    found: list[int] = []
    for size in [value] if is_single else value:
        if not isinstance(size, str | int | np.integer) or isinstance(size, bool):
            raise unexpected(place, "bytes, a string such as 64MB or 1K..1G, or a sequence of these", size)
        sizes = parse_sizes(size) if isinstance(size, str) else [int(size)]
        if min(sizes) < least:
            raise FormatError(f"{place}: expected at least {counted(least, 'byte')}, found {min(sizes)}")
        found += sizes
    return found


def as_size(value: Any, place: str) -> int | None:
    """Return one size in bytes from a number of bytes or a string with a unit; None for None."""
    if value is None:
        return None
    if isinstance(value, str):
        from treadle.units import parse_size

        return parse_size(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return int(value)
    raise unexpected(place, "bytes, or a string such as 64MB", value)
