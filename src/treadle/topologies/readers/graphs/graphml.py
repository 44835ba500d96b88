"""GraphML: graphs with typed data at nodes and edges, as networkx, Gephi and yEd write them.

Source: "The GraphML File Format", graphml.graphdrawing.org. Nested graphs, hyperedges and ports are rejected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lxml import etree

from treadle.spelling import counted
from treadle.topologies.readers.boxes.xml_source import Attributes, line_of, name_of, parse_xml
from treadle.topologies.readers.graphs.attributed import EDGE_KEYS, NODE_KEYS, AttributedGraph, GraphEdge
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of a file; FormatError if it is malformed or edges have no bandwidth."""
    return _GraphMl(source, bool(options.undirected)).imported(options.bandwidth)


class _GraphMl(Attributes):
    """One document."""

    def __init__(self, source: SourceFile, undirected: bool) -> None:
        super().__init__(source)
        self._undirected = undirected
        self._bare = 0
        """Directed edges that are drawn without arrows."""
        self._keys: dict[str, tuple[str, str, str]] = {}
        """Domain (node, edge or all), name and default of each key."""

    def imported(self, bandwidth: int | None) -> Imported:
        root = parse_xml(self.source)
        if name_of(root) != "graphml":
            raise self.source.error(f"<{name_of(root)}>: expected <graphml>")
        graph = AttributedGraph(self.source.error, bandwidth, "--bandwidth")
        graphs = [child for child in root if name_of(child) == "graph"]
        if len(graphs) != 1:
            raise self.source.error(f"has {len(graphs)} graphs; expected one")
        (top,) = graphs
        for key in (child for child in root if name_of(child) == "key"):
            name = self.choice(key, "id")
            if name in self._keys:
                raise self.error(key, f"{name[:40]!r} stands here a second time")
            default = next((child.text or "" for child in key if name_of(child) == "default"), "").strip()
            self._keys[name] = key.get("for", "all"), key.get("attr.name", name), default
        directed = self._direction(top, "edgedefault", "") and not self._undirected
        for child in top:
            if name_of(child) in ("hyperedge", "port", "locator"):
                raise self.error(child, "is not read")
            if name_of(child) == "node":
                graph.add_node(self.choice(child, "id"), self._data(child, "node", NODE_KEYS), line_of(child))
        title = top.get("id") or self.source.stem
        if not title.isprintable():
            raise self.source.error("the graph's id has control characters", line_of(top))
        topology = graph.fabric(title, self._edges(top, directed))
        count = graph.filled_in
        found = {
            "nodes": f"{len(topology.compute_nodes)} compute, {counted(len(topology.switches), 'switch')}",
            "links": f"{topology.n_links} directed, of a{' directed' if directed else 'n undirected'} graph",
            "rank order": "nodes in the order of the file",
        }
        filled = (Finding(f"{counted(count, 'edge')} with the speed of --bandwidth"),) if count else ()
        drawn = f"{counted(self._bare, 'edge')} of one direction drawn without arrows; see --undirected"
        return Imported(topology, "graphml", found, filled, (Finding(drawn),) if self._bare else ())

    def _edges(self, top: etree._Element, directed: bool) -> Iterator[GraphEdge]:
        for child in top:
            if name_of(child) != "edge":
                continue
            tail, head = self.choice(child, "source"), self.choice(child, "target")
            both_ways = not self._direction(child, "directed", "true" if directed else "false")
            both_ways = both_ways or self._undirected
            # yEd writes every edge as directed, and those without a direction without arrows
            arrows = [part for part in child.iter() if name_of(part) == "Arrows"]
            is_bare = any(part.get("source") == part.get("target") == "none" for part in arrows)
            self._bare += not both_ways and is_bare
            yield GraphEdge(tail, head, self._data(child, "edge", EDGE_KEYS), both_ways, line_of(child))

    def _direction(self, element: etree._Element, key: str, default: str) -> bool:
        value = element.get(key, default)
        words = {"directed": True, "true": True, "undirected": False, "false": False}
        if value not in words:
            found = f"{key}={value[:40]!r}" if value else f"no {key}"
            raise self.error(element, f"has {found}; expected it")
        return words[value]

    def _data(self, element: etree._Element, of: str, known: Collection[str]) -> dict[str, str]:
        """Attributes that mean something here, by name; defaults of their keys where they are absent."""
        found = {
            name: default for what, name, default in self._keys.values() if what in (of, "all") and default
        }
        for child in element:
            if name_of(child) in ("graph", "port"):
                raise self.error(child, "within a node is not read")
            if name_of(child) != "data":
                continue
            key = self.choice(child, "key")
            if key not in self._keys:
                raise self.error(child, f"of the unknown key {key[:40]!r}")
            found[self._keys[key][1]] = (child.text or "").strip()
        return {name: value for name, value in found.items() if name in known}
