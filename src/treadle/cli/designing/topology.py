"""``treadle topology``: the catalogue, one fabric in detail, and its JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from treadle.atomic import write_bytes
from treadle.cli.designing.fabric_text import fact_lines
from treadle.cli.fabric_arguments import findings, import_keywords, left_of
from treadle.cli.output import Output
from treadle.cli.plan_file import read_plan
from treadle.cli.quantities import Rates, counted
from treadle.cli.status import put
from treadle.errors import FormatError
from treadle.options.designing import TopologyExport, TopologyImport, TopologyList, TopologyShow
from treadle.planning import FactLimits, describe_fabric, fabric_summary, import_topology
from treadle.topologies import (
    CatalogueEntry,
    catalogue_entries,
    dump_topology,
    is_symmetric,
    non_eulerian_nodes,
    topology_hash,
    unreachable_pair,
)
from treadle.topologies.exports import EXPORTS, EXTENSIONS
from treadle.topologies.readers.imported import Imported
from treadle.topologies.topology import Topology

_LINK_KEYWORDS = re.compile(r'(, )?(\*, )?bandwidth="1B/s", latency="0ns"\)$')
"""What the direct-connect graphs take besides their own arguments, at the end of a signature."""


def list_command(o: TopologyList) -> int:
    """List the catalogue: every name with its arguments and their defaults."""
    output = Output.of(o)
    entries = [entry for entry in catalogue_entries() if _matches(entry, o.text or "")]
    if not entries:
        output.line(f"nothing in the catalogue matches {o.text!r}; 'treadle topology list' shows all of it")
    for group in dict.fromkeys(entry.group for entry in entries):
        for line in _group_lines(group, [entry for entry in entries if entry.group == group]):
            output.line(line)
    keys = ("name", "group", "signature", "summary")
    output.result({"catalogue": [{key: getattr(entry, key) for key in keys} for entry in entries]})
    return 0


def _group_lines(group: str, entries: Sequence[CatalogueEntry]) -> Iterator[str]:
    """The entries of a group; link keywords that all of them share stand in its heading only."""
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
    values = _summary(fabric)
    ranks = counted(len(fabric.compute_nodes), "compute node")
    output.line(f"{fabric.name}: {ranks}, {counted(len(fabric.switches), 'switch')}")
    links = Counter(int(bandwidth) for bandwidth in fabric.bandwidths)
    kinds = ", ".join(f"{count} of {output.rates.link(rate)}" for rate, count in sorted(links.items())[:8])
    output.line(f"links      {fabric.n_links} directed: {kinds}{', ...' if len(links) > 8 else ''}")
    output.line(f"symmetric  {_yes(is_symmetric(fabric))}")
    output.line(f"Eulerian   {_balance(fabric, output.rates)}")
    output.line(f"connected  {_connection(fabric)}")
    for switch, capability in _capable(fabric):
        output.line(f"in-network {switch}: {capability}")
    facts = describe_fabric(fabric, limits=FactLimits.lifted() if o.full else FactLimits())
    for line in fact_lines(fabric, facts, output.rates):
        output.line(line)
    output.line(f"hash       {values['hash']}")
    output.result({**values, **fabric_summary(facts)})
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


def _summary(fabric: Topology) -> dict[str, object]:
    return {
        "topology": fabric.name,
        "ranks": len(fabric.compute_nodes),
        "switches": len(fabric.switches),
        "nodes": fabric.n_nodes,
        "links": fabric.n_links,
        "symmetric": is_symmetric(fabric),
        "eulerian": not non_eulerian_nodes(fabric).size,
        "connected": unreachable_pair(fabric) is None,
        "hash": topology_hash(fabric),
    }


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _balance(fabric: Topology, rates: Rates) -> str:
    uneven = non_eulerian_nodes(fabric)
    if not uneven.size:
        return "yes"
    node = int(uneven[0])
    ingress, egress = (int(s[node]) for s in (fabric.ingress_bytes_per_s(), fabric.egress_bytes_per_s()))
    more = f" and {uneven.size - 1} more nodes" if uneven.size > 1 else ""
    return (
        f"no: {fabric.node_names[node]} receives {rates.link(ingress)} and sends {rates.link(egress)}{more}"
    )


def _connection(fabric: Topology) -> str:
    pair = unreachable_pair(fabric)
    if pair is None:
        return "yes"
    return f"no: {fabric.node_names[pair[0]]} does not reach {fabric.node_names[pair[1]]}"


def _capable(fabric: Topology) -> list[tuple[str, str]]:
    """What switches copy and add up, and which: those that are alike in one line."""
    alike: dict[str, list[str]] = {}
    for node in fabric.switches.tolist():
        able = [name for name in ("multicast", "aggregation") if getattr(fabric, name)[node]]
        if able:
            by_itself = fabric.turns_round[node]
            how = "by itself, turning sums round" if by_itself else "for a rank that asks, itself included"
            alike.setdefault(f"{' and '.join(able)}, {how}", []).append(fabric.node_names[node])
    return [(_named(switches), capability) for capability, switches in alike.items()]


def _named(switches: list[str]) -> str:
    return ", ".join(switches) if len(switches) < 4 else f"{switches[0]} and {len(switches) - 1} more"


def import_command(o: TopologyImport) -> int:
    """Read a fabric from a file of other tools; show what was recognised, taken for granted and doubted."""
    output = Output.of(o)
    found = import_topology(o.path, format=o.file_format, **import_keywords(o))
    fabric = left_of(found.topology, o.without)
    if o.output is not None:
        write_bytes(o.output, dump_topology(fabric).encode())
    for line in _import_lines(o.path, found, fabric):
        output.line(line)
    if o.output is not None:
        output.line(f"written     {o.output}")
    output.result(
        {
            "file": o.path,
            "format": found.format,
            "recognised": dict(found.recognised),
            **findings(found),
            "topology": fabric.name,
            "ranks": len(fabric.compute_nodes),
            "switches": len(fabric.switches),
            "nodes": fabric.n_nodes,
            "links": fabric.n_links,
            "hash": topology_hash(fabric),
            **({} if o.output is None else {"output": str(o.output)}),
        }
    )
    return 0


def _import_lines(path: str, found: Imported, fabric: Topology) -> Iterator[str]:
    """The report, a line for each subject and finding."""
    yield f"{'file':<11} {path}, read as {found.format}"
    for subject, text in found.recognised.items():
        yield f"{subject:<11} {text}"
    for what, several in (("defaulted", found.defaulted), ("warning", found.warnings)):
        for finding in several:
            yield f"{what:<11} {finding}"
    nodes = counted(len(fabric.compute_nodes), "compute node"), counted(len(fabric.switches), "switch")
    yield f"{'fabric':<11} {fabric.name}: {', '.join(nodes)}, {counted(fabric.n_links, 'link')}"
