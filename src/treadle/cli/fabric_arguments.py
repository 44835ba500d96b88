"""The fabric that a command is about: an expression or a file, with what the file does not say.

Libraries are loaded when a command runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from treadle.errors import FormatError
from treadle.options.rows import Options, keywords
from treadle.options.shared import Fabric, Imports

if TYPE_CHECKING:
    from treadle.options.keywords import ImportKeywords
    from treadle.topologies.readers.imported import Imported
    from treadle.topologies.topology import Topology


@contextmanager
def fabric_read(options: Options) -> Iterator[None]:
    """Replace the fabric's expression by the fabric.

    That is `topology`; where a plan may stand instead, its place, with a collective behind it.
    """
    rows = options.rows
    if not isinstance(options, Fabric) or not ("topology" in rows or {"plan", "collective"} <= rows.keys()):
        yield
        return
    values: Any = options
    place = "topology"
    if getattr(values, "topology", None) is None and getattr(values, "collective", None) and "plan" in rows:
        place = "plan"
    with fabric_at(options, place):
        yield


@contextmanager
def fabric_at(options: Fabric, place: str) -> Iterator[None]:
    """Replace the fabric's expression by the fabric; a plan stays, without options of fabrics."""
    from treadle.cli.output import FINDINGS

    text, told = getattr(options, place, None), None
    if isinstance(text, str) and not _is_plan(text):
        found = read_fabric(text, options)
        if not getattr(options, "quiet", False):
            print_warnings(found)
        told = findings(found) if found.format not in _OURS else None
        setattr(options, place, left_of(found.topology, options.without))
    else:
        plan = getattr(options, "plan", None)
        reject_fabric(options, plan if text is None and isinstance(plan, str) and _is_plan(plan) else text)
    token = FINDINGS.set(told)
    try:
        yield
    finally:
        FINDINGS.reset(token)


def import_keywords(options: Fabric) -> ImportKeywords:
    """Options as `treadle.planning.import_topology` takes them."""
    found: ImportKeywords = keywords(options, Imports)
    return found


def read_fabric(text: str, options: Fabric) -> Imported:
    """The fabric of an expression or a file, and what was recognised."""
    from treadle.planning import import_options
    from treadle.topologies.expressions import parse_imported

    asked = import_options(**import_keywords(options))
    return parse_imported(text, format=options.file_format, options=asked)


def left_of(topology: Topology, failed: Sequence[str] | None) -> Topology:
    """The fabric without what ``--without`` names."""
    if not failed:
        return topology
    from treadle.topologies.transforms.failures import without_failures

    return without_failures(topology, failed)


_OURS = ("catalogue", "json")
"""Formats whose fabrics need no assumptions."""


def findings(found: Imported) -> dict[str, object]:
    """Defaults and warnings of an import, for JSON."""
    return {
        "defaulted": [asdict(finding) for finding in found.defaulted],
        "warnings": [asdict(finding) for finding in found.warnings],
    }


def print_warnings(found: Imported) -> None:
    """Print the warnings of an import, a line each on stderr."""
    from treadle.cli.output import warn

    for warning in found.warnings:
        warn(f"warning: {warning}")


def _is_plan(text: str) -> bool:
    from treadle.input_files import is_plan_file

    return is_plan_file(text)


def reject_fabric(options: Fabric, text: str | None) -> None:
    """FormatError if an option is about a fabric and none is read."""
    for row in Fabric.rows.values():
        if row.name in options.typed:
            where = "no fabric is named" if text is None else f"{text} is a plan, which has its own"
            what = "a fabric" if row.name == "without" else "a file with a fabric"
            fix = (
                "; treadle repair computes a new plan after a failure"
                if row.name == "without" and text
                else ""
            )
            raise FormatError(f"{row.flag} is about {what}, and {where}{fix}")
