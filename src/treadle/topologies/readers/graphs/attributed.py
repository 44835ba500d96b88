"""Fabrics from graphs with attributes, wherever the graph stands: one set of rules for all of them.

Nodes have `kind` ("compute", the default, or "switch"), and switches `multicast`, `aggregation` and
`turns_round`, as those of `Topology`; compute nodes may have `injection_bytes_per_s`. Edges say how fast they
are by `bandwidth_bytes_per_s` (a number), `bandwidth` (text with a unit) or `weight` (a multiple of the
bandwidth that is given with the graph), or as the Internet Topology Zoo does, by `LinkSpeedRaw` (bits/s);
without any of them they have that bandwidth itself. `latency_ns`
is a number, `latency` text with a unit. An undirected edge is a link each way. All else is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from treadle.errors import TreadleError
from treadle.topologies.naming import is_one_line
from treadle.topologies.readers.checked_values import MAX_IMPORTED_LINKS, MAX_IMPORTED_NODES, format_value
from treadle.topologies.topology import MAX_BANDWIDTH, SWITCH_FLAGS, Topology, TopologyBuilder
from treadle.units import parse_bandwidth, parse_time_ns

MAX_GRAPH_NODES = MAX_IMPORTED_NODES
"""Largest graph that becomes a fabric."""
MAX_GRAPH_LINKS = MAX_IMPORTED_LINKS
"""Same as `MAX_GRAPH_NODES`, for directed links."""
NODE_KEYS = ("kind", *SWITCH_FLAGS, "injection_bytes_per_s")
EDGE_KEYS = ("bandwidth_bytes_per_s", "bandwidth", "weight", "LinkSpeedRaw", "latency_ns", "latency")
_SPEED_KEYS = EDGE_KEYS[:4]

_NUMBER = re.compile(r"[0-9]{1,24}(?:\.[0-9]{1,24})?(?:[eE][+-]?[0-9]{1,2})?")
_FLAGS = {"true": True, "1": True, "false": False, "0": False}


class GraphEdge(NamedTuple):
    """An edge, and the line where it stands."""

    tail: str
    head: str
    attributes: Mapping[str, Any]
    both_ways: bool
    line: int | None = None

    @property
    def location(self) -> str:
        """Name in messages."""
        return f"edge {format_value(self.tail)} to {format_value(self.head)}"

    def given(self, key: str) -> Any:
        """Return an attribute; None for one that is missing or empty."""
        value = self.attributes.get(key)
        return None if isinstance(value, str) and not value else value


@dataclass
class AttributedGraph:
    """Nodes and edges on their way to a fabric.

    Parameters
    ----------
    error : callable
        Makes the error from a message and a line.
    bandwidth : int, optional
        Of edges that have none, and what weights are multiples of, bytes/s.
    says : str
        How the caller gives that bandwidth, for error messages.
    bare_numbers : bool
        Whether `bandwidth` may be a bare number, of bytes/s.
    """

    error: Callable[[str, int | None], TreadleError]
    bandwidth: int | None
    says: str
    bare_numbers: bool = False
    nodes: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    filled_in: int = 0
    """Edges that took `bandwidth`, or a multiple of it."""
    _values: dict[tuple[Any, ...], tuple[int, int, bool]] = field(default_factory=dict)

    def add_node(self, name: str, attributes: Mapping[str, Any], line: int | None = None) -> None:
        """A node; its name must be new."""
        if not name or not is_one_line(name):
            raise self.error(f"node {format_value(name)}: expected a name of one line", line)
        if name in self.nodes:
            raise self.error(f"node {format_value(name)} stands here a second time", line)
        if len(self.nodes) == MAX_GRAPH_NODES:
            raise self.error(f"more than {MAX_GRAPH_NODES} nodes, the most that are read", line)
        self.nodes[name] = attributes

    def fabric(self, name: str, edges: Iterable[GraphEdge]) -> Topology:
        """Return the fabric; the caller's error if an attribute is wrong or a bandwidth is not said."""
        builder = TopologyBuilder(name)
        for node, attributes in self.nodes.items():
            self._build_node(builder, node, attributes)
        links = 0
        for edge in edges:
            is_pair = edge.both_ways and edge.tail != edge.head
            links += 1 + is_pair
            if links > MAX_GRAPH_LINKS:
                most = f"more than {MAX_GRAPH_LINKS} directed links"
                raise self.error(f"{most}, the most that are read", edge.line)
            for end in (edge.tail, edge.head):
                if end not in self.nodes:
                    raise self._error(edge, f"unknown node {format_value(end)}")
            (builder.duplex if is_pair else builder.link)(edge.tail, edge.head, *self._rate_and_latency(edge))
        if all(attributes.get("kind", "compute") != "compute" for attributes in self.nodes.values()):
            raise self.error("has no compute node", None)
        return builder.build()

    def _error(self, edge: GraphEdge, message: str) -> TreadleError:
        return self.error(f"{edge.location}: {message}", edge.line)

    def _rate_and_latency(self, edge: GraphEdge) -> tuple[int, int]:
        """Return bytes/s and nanoseconds of an edge; those of equal attributes are computed once."""
        found = edge.attributes
        try:
            key = tuple([(type(found.get(key)), found.get(key)) for key in EDGE_KEYS])
            if key not in self._values:
                before = self.filled_in
                self._values[key] = self._speed(edge), self._latency(edge), self.filled_in > before
            elif self._values[key][2]:
                self.filled_in += 1
            return self._values[key][:2]
        except TypeError:  # a value that has no hash
            return self._speed(edge), self._latency(edge)

    def _build_node(self, builder: TopologyBuilder, name: str, attributes: Mapping[str, Any]) -> None:
        kind, place = attributes.get("kind", "compute"), f"node {format_value(name)}"
        flags: dict[str, bool] = {}
        for key in SWITCH_FLAGS:
            value = attributes.get(key, False)
            if str(value).lower() not in _FLAGS:
                raise self.error(f"{place}: {key} {format_value(value)}; expected true or false", None)
            flags[key] = _FLAGS[str(value).lower()]
        if kind == "switch":
            builder.switch(name, **flags)
            return
        if kind != "compute":
            raise self.error(f"{place}: kind {format_value(kind)}; expected compute or switch", None)
        if any(flags.values()):
            raise self.error(f"{place}: a compute node neither multicasts nor aggregates; switches do", None)
        cap = attributes.get("injection_bytes_per_s")
        cap = 0 if cap in (None, "") else self._whole(place, "injection_bytes_per_s", cap)
        builder.compute(name, injection_bytes_per_s=cap)

    def _speed(self, edge: GraphEdge) -> int:
        given = [key for key in _SPEED_KEYS if edge.given(key) is not None]
        if len(given) > 1:
            raise self._error(edge, f"has both {given[0]} and {given[1]}; expected one of them")
        if given in ([], ["weight"]):
            if self.bandwidth is None:
                what = "a weight, which is a multiple of a bandwidth" if given else "no bandwidth"
                raise self.error(f"{edge.location} has {what}; say it by {self.says}", edge.line)
            self.filled_in += 1
            if not given:
                return self.bandwidth
        key, value = given[0], edge.given(given[0])
        shown = f"bandwidth {format_value(value)}"
        if key == "bandwidth" and isinstance(value, str):
            rate = Fraction(self._parsed(edge, parse_bandwidth, value))
        elif key == "bandwidth" and not self.bare_numbers:
            raise self._error(edge, f"{shown} has no unit, as in 25GB/s")
        elif key == "bandwidth_bytes_per_s":
            rate = Fraction(self._whole(edge.location, key, value, edge.line))
        else:
            rate = self._number(edge.location, key, value, edge.line)
        if key == "bandwidth" and rate.denominator != 1:
            example = f"a string with a unit, such as {float(rate):g}GB/s"
            raise self._error(edge, f"{shown}; expected an integer number of bytes/s, or {example}")
        if key == "weight":
            rate *= self.bandwidth or 0
        rate /= 8 if key == "LinkSpeedRaw" else 1
        if not 1 <= rate <= MAX_BANDWIDTH:
            raise self._error(edge, f"expected 1 to 2**50 bytes/s, found {float(rate):g}")
        return int(rate)

    def _parsed(self, edge: GraphEdge, parse: Callable[[str], int], text: str) -> int:
        try:
            return parse(text)
        except TreadleError as error:
            raise self._error(edge, str(error)) from None

    def _latency(self, edge: GraphEdge) -> int:
        exact, text = edge.given("latency_ns"), edge.given("latency")
        if exact is not None:
            return self._whole(edge.location, "latency_ns", exact, edge.line)
        if text is not None and not isinstance(text, str):
            raise self._error(edge, f"latency {format_value(text)} has no unit, as in 5us")
        return 0 if text is None else self._parsed(edge, parse_time_ns, text)

    def _number(self, place: str, key: str, value: Any, line: int | None = None) -> Fraction:
        """Return a number that is not negative, exactly as written."""
        if isinstance(value, Fraction) and value >= 0:
            return value
        text = str(value.item() if isinstance(value, np.generic) else value).strip()
        if isinstance(value, bool | np.bool_) or not _NUMBER.fullmatch(text):
            raise self.error(f"{place}: {key} {format_value(value)}; expected a number", line)
        return Fraction(text)

    def _whole(self, place: str, key: str, value: Any, line: int | None = None) -> int:
        number = self._number(place, key, value, line)
        if number.denominator != 1 or number >= 2**63:
            raise self.error(f"{place}: {key} {format_value(value)}; expected an integer below 2**63", line)
        return int(number)
