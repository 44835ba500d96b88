"""Slurm's ``topology.conf`` and ``topology.yaml``: switches, their children, and nothing else.

Names of switches and nodes are hostlists. Speeds stand nowhere (a LinkSpeed has no unit and no meaning to
Slurm), so a node's comes from --nic-bandwidth and a switch's uplink from --oversubscription: what its
downlinks add up to, divided by the ratio of its level. Plugins other than topology/tree describe no links.

Source: topology.conf(5) and topology.yaml(5) of Slurm.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter

from treadle.errors import FormatError
from treadle.spelling import counted
from treadle.topologies.readers.checked_values import (
    check_import_size,
    expanded_hosts,
    format_value,
    integer_bandwidth,
    mapping,
    missing_option,
)
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile
from treadle.topologies.readers.yaml_source import parse_yaml
from treadle.topologies.topology import TopologyBuilder
from treadle.units import format_link_bandwidth

_PAIR = re.compile(r"(\w+)\s*=\s*(\S+)")
_KEYS = {"switchname", "switches", "nodes", "linkspeed"}
_PLAIN_RATIO = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?)(?:x|:)?", re.I)
_RATIO = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?):([0-9]{1,6}(?:\.[0-9]{1,6})?)")
_MAX_LEVELS = 64


@dataclass(frozen=True)
class _Switch:
    """A line of the file: below it are other switches or nodes."""

    name: str
    switches: tuple[str, ...]
    nodes: tuple[str, ...]
    place: str
    line: int | None = None
    speed: str = ""


def read_conf(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the tree of a ``topology.conf``; FormatError if it is malformed or a speed was not given."""
    return _tree(source, options, _conf_switches(source), "slurm")


def read_yaml(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the default tree of a ``topology.yaml``; FormatError likewise."""
    return _tree(source, options, _yaml_switches(source), "slurm-yaml")


def _lines(source: SourceFile) -> Iterator[tuple[int, str]]:
    """Yield logical lines with the number of their first: a backslash at the end continues one."""
    start, pending = 0, ""
    for number, text in enumerate(source.text.splitlines(), start=1):
        text = text.partition("#")[0].rstrip()
        start = start if pending else number
        if text.endswith("\\"):
            pending += text[:-1] + " "
            continue
        if (pending + text).strip():
            yield start, (pending + text).strip()
        pending = ""
    if pending.strip():
        yield start, pending.strip()


def _conf_switches(source: SourceFile) -> Iterator[_Switch]:
    for line, text in _lines(source):
        pairs = _PAIR.findall(text)
        if re.sub(r"\s", "", text) != "".join(f"{key}={value}" for key, value in pairs):
            raise source.error(f"expected KEY=VALUE pairs, found {format_value(text)}", line)
        values = {key.lower(): value for key, value in pairs}
        if "blockname" in values or "blocksizes" in values:
            found = "topology/block describes groups of nodes, no links"
            raise source.error(f"{found}; only trees are read", line)
        for key, _ in pairs:
            if key.lower() not in _KEYS:
                raise source.error(f"unknown key {format_value(key)}", line)
        if len(values) < len(pairs) or "switchname" not in values:
            raise source.error("expected SwitchName= and each key once", line)
        yield _switch(source, values, line)


def _switch(source: SourceFile, values: dict[str, str], line: int | None = None, place: str = "") -> _Switch:
    """Return the switch of one line."""
    names, switches, nodes = (
        tuple(expanded_hosts(source, f"{place}{title}", values[key], line)) if values.get(key) else ()
        for title, key in (("SwitchName", "switchname"), ("switches", "switches"), ("nodes", "nodes"))
    )
    if (switches and nodes) or len(names) != 1:
        what = "expected one name and either switches or nodes below it"
        raise source.error(f"{place}switch {format_value(values['switchname'])}: {what}", line)
    speed = values.get("linkspeed", "")
    return _Switch(names[0], switches, nodes, place.removesuffix(": ") or f"line {line}", line, speed)


def _yaml_switches(source: SourceFile) -> Iterator[_Switch]:
    document = parse_yaml(source)
    if not isinstance(document, list) or not all(isinstance(one, dict) for one in document):
        raise source.error("expected a list of topologies, each a mapping")
    trees = [(k, one) for k, one in enumerate(document) if "tree" in one]
    if not trees:
        raise source.error("no topology has a tree; block and flat ones describe no links")
    preferred = [row for row in trees if str(row[1].get("cluster_default")).lower() in ("true", "yes", "on")]
    k, chosen = (preferred or trees)[0]
    tree = chosen["tree"]
    switches = tree.get("switches") if isinstance(tree, dict) else None
    if not isinstance(switches, list):
        raise source.error(f"[{k}].tree: expected a mapping with a list of switches")
    keys = {"switch": "switchname", "children": "switches", "nodes": "nodes", "link_speed": "linkspeed"}
    for j, row in enumerate(switches):
        place = f"[{k}].tree.switches[{j}]"
        if not isinstance(row, dict) or not all(isinstance(value, str) for value in row.values()):
            raise source.error(f"{place}: expected a mapping of switch, and children or nodes")
        mapping(source, place, row, keys, ["switch"])
        values = {keys[key]: value for key, value in row.items()}
        yield _switch(source, values, place=f"{place}: ")


def _inhabited(rows: Sequence[_Switch]) -> list[_Switch]:
    """Return the switches with nodes somewhere below; generated files have some without nodes yet."""
    kept = list(rows)
    for _ in range(_MAX_LEVELS):
        bare = {row.name for row in kept if not row.nodes and not row.switches}
        if not bare:
            return kept
        below = [(row, tuple(child for child in row.switches if child not in bare)) for row in kept]
        kept = [replace(row, switches=rest) for row, rest in below if row.name not in bare]
    return kept


def _tree(source: SourceFile, options: ImportOptions, switches: Iterable[_Switch], format: str) -> Imported:
    all_rows: dict[str, _Switch] = {}
    n_hosts = 0
    for row in switches:  # one by one, so that too many are rejected before the last
        if all_rows.setdefault(row.name, row) is not row:
            raise source.error(f"switch {format_value(row.name)} stands here and elsewhere", row.line)
        n_hosts += len(row.nodes)
        check_import_size(source, nodes=len(all_rows) + n_hosts)
    rows = _inhabited([*all_rows.values()])
    if not rows:
        raise source.error("names no switch with nodes")
    by_name = {row.name: row for row in rows}
    above = _parents(source, rows, by_name)
    hosts = [(node, row.name) for row in rows for node in row.nodes]
    check_import_size(source, nodes=len(rows) + len(hosts), links=2 * (len(rows) + len(hosts)))
    speed = options.nic_bandwidth
    if speed is None:
        missing = "names nodes and switches only, not how fast a node is joined"
        raise missing_option(source, "nic-bandwidth", missing)
    levels = _levels(source, by_name)
    ratios = _ratios(source, options, max(levels.values()) if above else 0)
    down = {row.name: Fraction(len(row.nodes) * speed) for row in rows}
    builder = TopologyBuilder(source.stem)
    for node, _ in hosts:
        builder.compute(node)
    for row in rows:
        builder.switch(row.name)
    for node, switch in hosts:
        builder.duplex(node, switch, speed)
    for name in sorted(by_name, key=levels.__getitem__):
        if name in above:
            uplink = down[name] / ratios[levels[name]]
            down[above[name]] += uplink
            builder.duplex(name, above[name], integer_bandwidth(source, f"uplink of {name}", uplink))
    found = {
        "nodes": str(len(hosts)),
        "switches": f"{len(rows)} on {counted(max(levels.values()) + 1, 'level')}",
        "speeds": f"{format_link_bandwidth(speed)} per node",
        "rank order": "nodes in the order of the file",
    }
    shares = f"downlinks over uplinks, from the leaves: {', '.join(map(str, ratios))}"
    warnings = []
    if bare := len(all_rows) - len(rows):
        warnings.append(Finding(f"left out: {counted(bare, 'switch')} without nodes"))
    if unused := [row.place for row in rows if row.speed]:
        warnings.append(Finding("LinkSpeed has no unit and is not used", unused[0]))
    if (n_roots := len(rows) - len(above)) > 1:
        warnings.append(Finding(f"{n_roots} switches have none above: the fabric falls into as many parts"))
    filled = (Finding(shares, "uplinks"),) if ratios else ()
    return Imported(builder.build(), format, found, filled, tuple(warnings))


def _parents(source: SourceFile, rows: Sequence[_Switch], by_name: dict[str, _Switch]) -> dict[str, str]:
    """Return the switch above each switch; FormatError for names used twice and for unknown ones."""
    seen: set[str] = set()
    above: dict[str, str] = {}
    for row in rows:
        for node in row.nodes:
            if node in seen or node in by_name:
                raise source.error(f"node {format_value(node)} is named twice", row.line)
            seen.add(node)
        for child in row.switches:
            place = f"switch {format_value(child)} is below"
            if child not in by_name:
                raise source.error(f"{place} {row.name}, but has no line", row.line)
            if child in above:
                both = f"both {above[child]} and {row.name}"
                raise source.error(f"{place} {both}; only trees are read", row.line)
            above[child] = row.name
    return above


def _levels(source: SourceFile, by_name: dict[str, _Switch]) -> dict[str, int]:
    """Return the levels above the leaves, which are 0; FormatError for switches that are below themselves."""
    levels: dict[str, int] = {}
    sorter = TopologicalSorter({name: row.switches for name, row in by_name.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        row = by_name[error.args[1][0]]
        raise source.error(f"switch {format_value(row.name)} is below itself", row.line) from None
    while ready := sorter.get_ready():
        for name in ready:
            levels[name] = 1 + max((levels[child] for child in by_name[name].switches), default=-1)
            if levels[name] > _MAX_LEVELS:
                raise source.error(f"more than {_MAX_LEVELS} levels of switches", by_name[name].line)
        sorter.done(*ready)
    return levels


def _ratios(source: SourceFile, options: ImportOptions, levels: int) -> list[Fraction]:
    """Return downlinks over uplinks of each level from the leaves on; 1 above those that were given."""
    text = options.oversubscription
    if not levels:
        return []
    if text is None:
        missing = "does not say how fast switches are joined (8:1, or 1:1)"
        raise missing_option(source, "oversubscription", missing)
    option = f"--oversubscription {text[:40]!r}"
    given = []
    for part in text.split(","):
        match = _RATIO.fullmatch(part.strip())
        if match is None or not Fraction(match[1]) or not Fraction(match[2]):
            meant = _PLAIN_RATIO.fullmatch(text.strip())
            hint = f"; did you mean {meant[1]}:1?" if meant is not None else ""
            raise FormatError(f"{option}: expected down:up, such as 8:1 or 4:1,2:1{hint}")
        given.append(Fraction(match[1]) / Fraction(match[2]))
    if len(given) > levels:
        raise source.error(f"{option}: switches of {counted(levels, 'level')} have uplinks")
    return given + [Fraction(1)] * (levels - len(given))
