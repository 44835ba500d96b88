"""GraphML: graphs with typed data at nodes and edges, as networkx, Gephi and yEd write them.

Source: "The GraphML File Format", graphml.graphdrawing.org. Nested graphs, hyperedges and ports are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from lxml import etree

from treadle.errors import TreadleError
from treadle.spelling import counted
from treadle.topologies.readers.boxes.xml_text import line_of, parse_xml
from treadle.topologies.readers.graphs.attributed import EDGE_KEYS, NODE_KEYS, AttributedGraph, GraphEdge
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceText


def read(source: SourceText, options: ImportOptions) -> Imported:
    """The fabric of a file; FormatError if it is malformed or edges have no bandwidth."""
    return _GraphMl(source, options).imported()


class _GraphMl:
    """One document."""

    def __init__(self, source: SourceText, options: ImportOptions) -> None:
        def error(message: str, line: int | None) -> TreadleError:
            return source.error(message, line=line)

        self._source = source
        self._graph = AttributedGraph(error, options.bandwidth, "--bandwidth")
        self._undirected = bool(options.undirected)
        self._bare = 0
        """Directed edges that are drawn without arrows."""
        self._root = parse_xml(source)
        if _name(self._root) != "graphml":
            raise source.error(f"<{_name(self._root)}>: expected <graphml>")
        self._keys: dict[str, tuple[str, str, str]] = {}
        """Of each key: node, edge or all; its name; its default."""

    def imported(self) -> Imported:
        graphs = [child for child in self._root if _name(child) == "graph"]
        if len(graphs) != 1:
            raise self._source.error(f"has {len(graphs)} graphs; expected one")
        (top,) = graphs
        for key in (child for child in self._root if _name(child) == "key"):
            self._take_key(key)
        directed = self._direction(top, "edgedefault", "") and not self._undirected
        for child in top:
            if _name(child) in ("hyperedge", "port", "locator"):
                raise self._source.error(f"<{_name(child)}> is not read", line=line_of(child))
            if _name(child) == "node":
                self._graph.add_node(self._word(child, "id"), self._data(child, "node"), line_of(child))
        title = top.get("id") or self._source.stem
        if not title.isprintable():
            raise self._source.error("the graph's id has control characters", line=line_of(top))
        topology = self._graph.fabric(title, self._edges(top, directed))
        count = self._graph.filled_in
        found = {
            "nodes": f"{len(topology.compute_nodes)} compute, {counted(len(topology.switches), 'switch')}",
            "links": f"{topology.n_links} directed, of a{' directed' if directed else 'n undirected'} graph",
            "rank order": "nodes in the order of the file",
        }
        filled = (Finding(f"{counted(count, 'edge')} with the speed of --bandwidth"),) if count else ()
        drawn = f"{counted(self._bare, 'edge')} of one direction drawn without arrows; see --undirected"
        doubts = (Finding(drawn),) if self._bare else ()
        return Imported(topology, "graphml", MappingProxyType(found), filled, doubts)

    def _take_key(self, key: etree._Element) -> None:
        name = self._word(key, "id")
        if name in self._keys:
            raise self._source.error(f"<key> {name[:40]!r} stands here a second time", line=line_of(key))
        defaults = [child.text or "" for child in key if _name(child) == "default"]
        self._keys[name] = (key.get("for", "all"), key.get("attr.name", name), "".join(defaults[:1]).strip())

    def _edges(self, top: etree._Element, directed: bool) -> Iterator[GraphEdge]:
        for child in top:
            if _name(child) != "edge":
                continue
            tail, head = self._word(child, "source"), self._word(child, "target")
            both_ways = not self._direction(child, "directed", "true" if directed else "false")
            both_ways = both_ways or self._undirected
            self._bare += not both_ways and _is_bare(child)
            yield GraphEdge(tail, head, self._data(child, "edge"), both_ways, line_of(child))

    def _direction(self, element: etree._Element, key: str, default: str) -> bool:
        value = element.get(key, default)
        words = {"directed": True, "true": True, "undirected": False, "false": False}
        if value not in words:
            found = f"{key}={value[:40]!r}" if value else f"no {key}"
            raise self._source.error(f"<{_name(element)}> has {found}; expected it", line=line_of(element))
        return words[value]

    def _word(self, element: etree._Element, key: str) -> str:
        value = element.get(key)
        if value is None:
            raise self._source.error(f"<{_name(element)}> lacks the attribute {key}", line=line_of(element))
        return str(value)

    def _data(self, element: etree._Element, of: str) -> dict[str, str]:
        """Attributes that mean something here, by name; defaults of their keys where they are absent."""
        known = NODE_KEYS if of == "node" else EDGE_KEYS
        found = {
            name: default for what, name, default in self._keys.values() if what in (of, "all") and default
        }
        for child in element:
            if _name(child) in ("graph", "port"):
                raise self._source.error(f"<{_name(child)}> within a node is not read", line=line_of(child))
            if _name(child) != "data":
                continue
            key = self._word(child, "key")
            if key not in self._keys:
                raise self._source.error(f"<data> of the unknown key {key[:40]!r}", line=line_of(child))
            if self._keys[key][1] in known:
                found[self._keys[key][1]] = (child.text or "").strip()
        return {name: value for name, value in found.items() if name in known}


def _is_bare(edge: etree._Element) -> bool:
    """Whether yEd drew an edge without arrows: it writes every edge as directed."""
    arrows = [part for part in edge.iter() if _name(part) == "Arrows"]
    return any(part.get("source") == part.get("target") == "none" for part in arrows)


def _name(element: etree._Element) -> str:
    """An element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]
