"""``treadle topology``: the catalogue, one fabric in detail, and its JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from treadle.atomic import write_bytes
from treadle.cli.fabric_arguments import findings, import_keywords, left_of
from treadle.cli.output import Output
from treadle.cli.plan_file import read_plan
from treadle.cli.status import put
from treadle.errors import FormatError
from treadle.options.designing import TopologyExport, TopologyImport, TopologyList, TopologyShow
from treadle.planning import FactLimits, describe_fabric, import_topology
from treadle.render.designing import import_rows, topology_rows
from treadle.render.rows import facts, row
from treadle.topologies import (
    CatalogueEntry,
    catalogue_entries,
    dump_topology,
)
from treadle.topologies.exports import EXPORTS, EXTENSIONS
from treadle.topologies.topology import Topology

_LINK_KEYWORDS = re.compile(r'(, )?(\*, )?bandwidth="1B/s", latency="0ns"\)$')
"""Arguments common to all direct-connect graphs, at the end of a signature."""


def list_command(o: TopologyList) -> int:
    """List the catalogue: every name with its arguments and their defaults."""
    output = Output.of(o)
    entries = [entry for entry in catalogue_entries() if _matches(entry, o.text or "")]
    lines = [
        line
        for group in dict.fromkeys(entry.group for entry in entries)
        for line in _group_lines(group, [entry for entry in entries if entry.group == group])
    ] or [f"nothing in the catalogue matches {o.text!r}; 'treadle topology list' shows all of it"]
    keys = ("name", "group", "signature", "summary")
    catalogue = [{key: getattr(entry, key) for key in keys} for entry in entries]
    output.show([row(None, "\n".join(lines), catalogue=catalogue)])
    return 0


def _group_lines(group: str, entries: Sequence[CatalogueEntry]) -> Iterator[str]:
    """Return the entries of a group; link keywords common to all are in its heading only."""
    short = [_LINK_KEYWORDS.sub(")", entry.signature) for entry in entries]
    shared = all(text != entry.signature for text, entry in zip(short, entries, strict=True))
    yield f'{group} (also bandwidth="1B/s", latency="0ns"):' if shared else f"{group}:"
    for text, entry in zip(short, entries, strict=True):
        yield f"  {text if shared else entry.signature}"
        yield f"      {entry.summary.replace('`', '')}"


def _matches(entry: CatalogueEntry, text: str) -> bool:
    """Whether every word is in the entry's name, group or summary; a hyphen or underscore is a space."""
    where, words = (
        part.casefold().replace("_", " ").replace("-", " ")
        for part in (f"{entry.name} {entry.group} {entry.summary}", text)
    )
    return all(word in where for word in words.split())


def show_command(o: TopologyShow) -> int:
    """Show a fabric: nodes, links, balance; of a direct-connect one distances, bounds and symmetries."""
    output = Output.of(o)
    fabric = _fabric(o.topology)
    found = describe_fabric(fabric, limits=FactLimits.lifted() if o.full else FactLimits())
    output.show(topology_rows(fabric, found, output.rates))
    return 0


def export_command(o: TopologyExport) -> int:
    """Write a fabric as Treadle's JSON, as GraphML or as an edge list."""
    name = (
        o.to if o.to is not None else EXTENSIONS.get(o.output.suffix.casefold() if o.output else "", "json")
    )
    if name not in EXPORTS:
        raise FormatError(f"--to {name[:40]!r}: expected one of {', '.join(EXPORTS)}")
    text = EXPORTS[name](_fabric(o.topology))
    if o.output is None:
        put(text)
    else:
        write_bytes(o.output, text.encode())
    return 0


def _fabric(given: Topology | str) -> Topology:
    """Return the fabric; that of the plan where a plan file is named."""
    return given if isinstance(given, Topology) else read_plan(given, None).topology


def import_command(o: TopologyImport) -> int:
    """Read a fabric from a file of other tools; show what was recognised, taken for granted and doubted."""
    output = Output.of(o)
    found = import_topology(o.path, format=o.file_format, **import_keywords(o))
    fabric = left_of(found.topology, o.without)
    if o.output is not None:
        write_bytes(o.output, dump_topology(fabric).encode())
    output.show([*import_rows(o.path, found, fabric, o.output), facts(findings(found))])
    return 0
