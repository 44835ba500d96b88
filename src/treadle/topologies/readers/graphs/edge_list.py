"""Edge lists: an edge a line, as networkx writes them, and with speeds as people do.

A line is ``tail head``, then nothing, a weight, a bandwidth with its unit (and a latency), or networkx's
``{'bandwidth': '25GB/s'}``; all but the last also with commas between, below a heading or none. ``#`` begins
a comment, but three comments say something: ``# directed`` or ``# undirected``, ``# name: NAME``, and
``# node NAME KIND [multicast] [aggregation] [turns_round]``. Names with blanks are JSON strings. Without
either word an edge is a link each way.
"""

from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from treadle.spelling import counted
from treadle.topologies.readers.checked_values import format_value
from treadle.topologies.readers.graphs.attributed import (
    EDGE_KEYS,
    MAX_GRAPH_LINKS,
    NODE_KEYS,
    AttributedGraph,
    GraphEdge,
)
from treadle.topologies.readers.imported import Finding, Imported, ImportOptions, SourceFile

_WORD = r'(?:"(?:[^"\\]|\\.)*"|[^\s"\'{}\[\],=#<>]*[^\s"\'{}\[\],=#<>:])'
_NUMBER = r"[0-9.]+(?:[eE][+-]?[0-9]+)?"
_SPEED = r"[0-9.]+\s?[kKMGTP]?i?(?:B/s|bit/s|bps|b/s)"
_TIME = r"[0-9.]+\s?(?:ns|us|µs|μs|ms|s)"
EDGE = re.compile(
    rf"\s*({_WORD})\s+({_WORD})(?:\s+(?:({_NUMBER})|({_SPEED})(?:\s+({_TIME}))?|(\{{.*\}})))?\s*"
)
_COMMA_EDGE = re.compile(
    rf"\s*({_WORD})\s*,\s*({_WORD})(?:\s*,\s*(?:({_NUMBER})|({_SPEED})(?:\s*,\s*({_TIME}))?))?\s*"
)
_HEADING = re.compile(
    r"\s*(?:source|src|from|tail|node1|u)\s*,"
    r"\s*(?:target|destination|dst|dest|to|head|node2|v)\b[\w\s,/()-]*",
    re.I,
)
"""First line of a list with commas, as spreadsheets write it."""
_COMMENT = re.compile(r"\s*(?:#.*)?")
_NODE = re.compile(rf"\s*#\s*node\s+({_WORD})((?:\s+[\w=]+)*)\s*")
_TITLE = re.compile(r"\s*#\s*name:\s*(\S.*?)\s*")
_DIRECTION = re.compile(r"\s*#\s*(directed|undirected)\s*")


def is_edge_list(head: str) -> bool:
    """Whether all complete lines of a file's beginning, two at least, are edges or comments."""
    edges = _whole_edges(head)
    return len(edges) > 1 and (all(map(EDGE.fullmatch, edges)) or is_with_commas(head))


def is_with_commas(head: str) -> bool:
    """Whether edges, two at least, have commas between their words, and are not rows of a matrix.

    Without a heading names that are numbers need a speed with its unit behind them.
    """
    edges = _whole_edges(head)
    if edges and _HEADING.fullmatch(edges[0]):
        return len(edges) > 1 and all(map(_COMMA_EDGE.fullmatch, edges[1:]))
    matches = [_COMMA_EDGE.fullmatch(line) for line in edges]
    return len(edges) > 1 and all(
        match is not None and (match[4] or not (_is_cell(match[1]) or _is_cell(match[2])))
        for match in matches
    )


def _is_cell(word: str) -> bool:
    """Whether a word may be a link of a matrix, or the lack of one."""
    return word.lower() in ("x", "-") or bool(re.fullmatch(_NUMBER, word))


def _whole_edges(head: str) -> list[str]:
    lines = head.splitlines()
    if len(lines) > 2 and not head.endswith("\n"):
        del lines[-1]
    return [line for line in lines if not _COMMENT.fullmatch(line)]


def read(source: SourceFile, options: ImportOptions) -> Imported:
    """Return the fabric of a list; FormatError if it is malformed or edges have no bandwidth."""
    graph = AttributedGraph(source.error, options.bandwidth, "--bandwidth")
    reading = _Lines(source, graph)
    edges = list(reading.edges())
    if not edges:
        raise source.error("has no edge")
    topology = graph.fabric(reading.name or source.stem, edges)
    found = {
        "nodes": f"{len(topology.compute_nodes)} compute, {counted(len(topology.switches), 'switch')}",
        "links": f"{topology.n_links} directed",
        "rank order": "nodes in the order in which they first stand",
    }
    findings = []
    if graph.filled_in:
        findings.append(Finding(f"{counted(graph.filled_in, 'edge')} with the speed of --bandwidth"))
    if reading.directed is None:
        findings.append(Finding("edges are links each way; '# directed' in a line of its own says otherwise"))
    return Imported(topology, "edge-list", found, tuple(findings))


class _Lines:
    """Lines of a list; nodes go into the graph as they come."""

    def __init__(self, source: SourceFile, graph: AttributedGraph) -> None:
        self._source = source
        self._graph = graph
        self.directed: bool | None = None
        self.name = ""

    def edges(self) -> Iterator[GraphEdge]:
        pairs: set[tuple[str, str]] = set()
        count = 0
        for line, whole in enumerate(io.StringIO(self._source.text), start=1):
            text = whole.rstrip("\r\n")
            if _COMMENT.fullmatch(text):
                self._take_comment(text, line, started=bool(pairs))
                continue
            match = EDGE.fullmatch(text) or _COMMA_EDGE.fullmatch(text)
            if not pairs and _HEADING.fullmatch(text):
                continue
            if match is None:
                expected = "expected an edge, such as a b 25GB/s or a,b,25GB/s"
                raise self._source.error(f"{expected}; found {format_value(text)}", line)
            tail, head = (self._word(word, line) for word in match.groups()[:2])
            for name in (tail, head):
                if name not in self._graph.nodes:
                    self._graph.add_node(name, {}, line)
            if self.directed is None and (head, tail) in pairs and head != tail:
                both = f"{format_value(tail)} and {format_value(head)} stand in both orders"
                raise self._source.error(f"{both}; write # directed or # undirected first", line)
            pairs.add((tail, head))
            count += 1
            attributes = self._attributes(match, line)
            if count > MAX_GRAPH_LINKS:
                raise self._source.error(f"more than {MAX_GRAPH_LINKS} edges, the most that are read", line)
            yield GraphEdge(tail, head, attributes, not self.directed, line)

    def _attributes(self, match: re.Match[str], line: int) -> dict[str, Any]:
        weight, speed, time, literal = (*match.groups(), None)[2:6]
        if literal is None:
            named = {"weight": weight, "bandwidth": speed, "latency": time}
            return {key: value for key, value in named.items() if value is not None}
        value: object = None
        # a small text could nest far or name a huge number
        if len(literal) <= 1000 and literal.count("{") <= 1 and literal.count("[") + literal.count("(") <= 8:
            with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
                value = ast.literal_eval(literal)
        if not isinstance(value, dict):
            raise self._source.error(f"expected attributes, found {format_value(literal)}", line)
        return {key: one for key, one in value.items() if key in EDGE_KEYS}

    def _take_comment(self, text: str, line: int, *, started: bool) -> None:
        direction, node, title = (pattern.fullmatch(text) for pattern in (_DIRECTION, _NODE, _TITLE))
        if direction is not None:
            if started or self.directed is not None:
                raise self._source.error(f"# {direction[1]} must appear once, before all edges", line)
            self.directed = direction[1] == "directed"
        elif title is not None:
            self.name = title[1] if title[1].isprintable() else ""
        elif node is not None:
            kind, *words = node[2].split() or ["compute"]
            attributes: dict[str, Any] = {"kind": kind}
            for word in words:
                key, _, value = word.partition("=")
                if key not in NODE_KEYS[1:]:
                    known = f"known are {', '.join(NODE_KEYS[1:])}"
                    raise self._source.error(f"{format_value(word)} of a node is unknown; {known}", line)
                attributes[key] = value or True
            self._graph.add_node(self._word(node[1], line), attributes, line)

    def _word(self, text: str, line: int) -> str:
        if not text.startswith('"'):
            return text
        try:
            return str(json.loads(text))
        except ValueError:
            raise self._source.error(f"malformed name {format_value(text)}", line) from None
