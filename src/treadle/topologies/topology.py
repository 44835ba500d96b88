"""The fabric as a value: compute and switch nodes joined by directed links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import BoolArray, FrozenArrays, Int32Array, Int64Array, exact_sum, frozen, mask_of
from treadle.errors import MissingDependencyError, TopologyError
from treadle.notebook import displayed, own_repr
from treadle.spelling import counted
from treadle.topologies.naming import is_one_line
from treadle.topologies.typed_quantities import bandwidth_of

if TYPE_CHECKING:
    import networkx

MAX_BANDWIDTH = 2**50
"""Largest bandwidth of a link, and cap of a host, bytes/s; any from 1 on may meet in one fabric."""

MAX_TOTAL_BANDWIDTH = 2**62
"""All links of a fabric, and likewise all caps, add up to less than this, bytes/s: any sum fits 64 bits."""


def _unset() -> NDArray[Any]:
    """Return the default of an optional array, which the constructor replaces by zeros."""
    return frozen([], np.int64)


def _figures(topology: Topology) -> list[str]:
    switches, links = counted(len(topology.switches), "switch"), counted(topology.n_links, "link")
    return [topology.name, f"{len(topology.compute_nodes)} compute", switches, links]


@displayed(_figures)
@dataclass(frozen=True, eq=False)
class Topology(FrozenArrays):
    """A network fabric.

    Nodes and links are numbered from 0 in the order given; the order of the compute nodes is rank order.
    Links are directed, parallel links are links of their own, self-loops are legal (they carry nothing).

    Parameters
    ----------
    name : str
        For reports; takes no part in equality.
    node_names : sequence of str, length n
        Unique, not empty, one line without control characters.
    is_compute : array of bool, shape (n,)
        True for compute nodes, False for switches.
    tails, heads : array of int32, shape (m,)
        Node indices of each link's ends.
    bandwidths : array of int64, shape (m,)
        Bytes/s, 1 to 2**50, less than 2**62 in all.
    latencies_ns : array of int64, shape (m,), optional
        Nanoseconds, default 0.
    multicast, aggregation : array of bool, shape (n,), optional
        Switch capabilities, default False; False at compute nodes.
    turns_round : array of bool, shape (n,), optional
        Of switches that multicast or aggregate, default False. True: the switch works by itself; copies and
        sums go wherever a schedule sends them, and switches multicast their own sums (SHARP over InfiniBand).
        False: each operation is initiated by a rank at the switch, and its group is all ranks at
        the switch, the asker included; the sum is handed to the asker (NVLink SHARP's multimem).
    injection_bytes_per_s : array of int64, shape (n,), optional
        Cap into and out of a compute node's host, up to 2**50; 0 (default) means none.

    Raises
    ------
    TopologyError
        If any of the above does not hold, or a switch has no link.

    Examples
    --------
    >>> import treadle
    >>> fabric = treadle.parse("ring:4")
    >>> fabric.n_nodes, fabric.n_links
    (4, 8)
    """

    name: str = field(compare=False)
    node_names: tuple[str, ...]
    is_compute: BoolArray
    tails: Int32Array
    heads: Int32Array
    bandwidths: Int64Array
    latencies_ns: Int64Array = field(default_factory=_unset)
    multicast: BoolArray = field(default_factory=_unset)
    aggregation: BoolArray = field(default_factory=_unset)
    turns_round: BoolArray = field(default_factory=_unset)
    injection_bytes_per_s: Int64Array = field(default_factory=_unset)

    def __post_init__(self) -> None:
        names = tuple(self.node_names)
        object.__setattr__(self, "node_names", names)
        n, m = len(names), len(np.asarray(self.tails))
        lengths = dict.fromkeys(LINK_COLUMNS, m) | dict.fromkeys(NODE_COLUMNS, n)
        for key in ("latencies_ns", *SWITCH_FLAGS, "injection_bytes_per_s"):
            if not len(getattr(self, key)):
                # read-only zeros of the right type are adopted as they are, and take no memory until read
                zeros: NDArray[Any] = np.zeros(lengths[key], np.bool_ if key in SWITCH_FLAGS else np.int64)
                zeros.setflags(write=False)
                object.__setattr__(self, key, zeros)
        self._freeze("", error=TopologyError)
        for key, length in lengths.items():
            shape = getattr(self, key).shape
            if shape != (length,):
                raise TopologyError(f"{key}: expected {length} values, found shape {shape}")
        self._check_name()
        self._check_names()
        self._check_links()
        self._check_nodes()

    def _check_name(self) -> None:
        if not is_one_line(self.name):
            raise TopologyError(f"name {self.name!r}: expected one line without control characters")

    def _check_names(self) -> None:
        names = self.node_names
        is_unique = set(map(type, names)) <= {str} and len(set(names)) == len(names)
        if is_unique and all(names) and "".join(names).isprintable():
            return  # valid for certain, by one test of all names, which are millions in a large fabric
        seen: set[str] = set()
        for name in names:
            if not isinstance(name, str) or not name:
                raise TopologyError(f"node name {name!r}: expected a non-empty string")
            if not is_one_line(name):
                raise TopologyError(f"node name {name!r}: expected one line without control characters")
            if name in seen:
                raise TopologyError(f"node {name!r} is named twice; names must be unique")
            seen.add(name)

    def _check_links(self) -> None:
        n = self.n_nodes
        for key in ("tails", "heads"):
            ends = getattr(self, key)
            if ends.size and (ends.min() < 0 or ends.max() >= n):
                raise TopologyError(f"{key}: node indices must be 0 to {n - 1}")
        for link in np.flatnonzero((self.bandwidths < 1) | (self.bandwidths > MAX_BANDWIDTH)).tolist():
            found = f"bandwidth {self.bandwidths[link]} bytes/s, expected 1 to 2**50"
            raise TopologyError(f"link {self.link_name(link)}: {found}")
        self._check_total("links", self.bandwidths)
        for link in np.flatnonzero(self.latencies_ns < 0).tolist():
            raise TopologyError(f"link {self.link_name(link)}: latency must not be negative")

    def _check_nodes(self) -> None:
        linked = mask_of(self.n_nodes, self.tails)
        linked[self.heads] = True
        able, caps = self.multicast | self.aggregation, self.injection_bytes_per_s
        for wrong, fault in (
            (~linked & ~self.is_compute, "switch {} has no link; remove it or connect it"),
            (able & self.is_compute, "{} is a compute node; only switches multicast"),
            (self.turns_round & ~able, "{}: turns_round needs multicast or aggregation, and it has neither"),
            ((caps < 0) | (caps > MAX_BANDWIDTH), "{}: injection cap {} bytes/s, expected 0 (none) to 2**50"),
            ((caps > 0) & ~self.is_compute, "{} is a switch; injection caps are for compute nodes"),
        ):
            for node in np.flatnonzero(wrong):
                raise TopologyError(fault.format(repr(self.node_names[node]), caps[node]))
        self._check_total("injection caps", caps)

    def _check_total(self, what: str, amounts: Int64Array) -> None:
        # no sum of less than 2**12 of them comes near
        if len(amounts) >= MAX_TOTAL_BANDWIDTH // MAX_BANDWIDTH and exact_sum(amounts) >= MAX_TOTAL_BANDWIDTH:
            total = f"{exact_sum(amounts)} bytes/s, expected less than 2**62"
            raise TopologyError(f"{self.name}: {what} add up to {total}")

    @property
    def n_nodes(self) -> int:
        """Number of nodes, compute and switch."""
        return len(self.node_names)

    @property
    def n_links(self) -> int:
        """Number of directed links."""
        return len(self.tails)

    @cached_property
    def compute_nodes(self) -> Int32Array:
        """Indices of the compute nodes, in rank order, shape (N,)."""
        return frozen(np.flatnonzero(self.is_compute), np.int32)

    @cached_property
    def switches(self) -> Int32Array:
        """Indices of the switches, shape (n - N,)."""
        return frozen(np.flatnonzero(~self.is_compute), np.int32)

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.node_names)}

    def node_index(self, name: str) -> int:
        """Return the index of the node called `name`; TopologyError if there is none."""
        try:
            return self._index[name]
        except KeyError:
            raise TopologyError(f"{self.name}: no node is called {name!r}") from None

    def link_name(self, link: int) -> str:
        """Return a link as ``tail->head``, for messages."""
        return f"{self.node_names[self.tails[link]]}->{self.node_names[self.heads[link]]}"

    def egress_bytes_per_s(self) -> Int64Array:
        """Return the total bandwidth out of each node, self-loops left out, shape (n,)."""
        return self._sums(self.tails)

    def ingress_bytes_per_s(self) -> Int64Array:
        """Return the total bandwidth into each node, self-loops left out, shape (n,)."""
        return self._sums(self.heads)

    def _sums(self, ends: Int32Array) -> Int64Array:
        total = np.zeros(self.n_nodes, dtype=np.int64)
        carries = self.tails != self.heads
        np.add.at(total, ends[carries], self.bandwidths[carries])
        return total

    def renamed(self, name: str) -> Topology:
        """Return the same fabric under another name; TopologyError unless that is one line."""
        found = copy(self)
        object.__setattr__(found, "name", name)
        found._check_name()
        return found

    def transpose(self) -> Topology:
        """Return the fabric with every link turned round; link numbers stay."""
        return replace(
            self,
            name=f"transpose({self.name})",
            tails=self.heads,
            heads=self.tails,
            multicast=self.aggregation,
            aggregation=self.multicast,
        )

    def to_networkx(self) -> networkx.MultiDiGraph:
        """The fabric as a graph of networkx (extra: networkx), which `treadle.from_networkx` reads back.

        Nodes have `kind` and capabilities; the keys of edges are the numbers of links, with
        `bandwidth_bytes_per_s` and `latency_ns`.

        Raises
        ------
        MissingDependencyError
            If networkx is not installed.
        """
        try:
            import networkx
        except ImportError:
            hint = "networkx is not installed; pip install 'treadle[networkx]'"
            raise MissingDependencyError(hint) from None
        graph = networkx.MultiDiGraph(name=self.name)
        names = self.node_names
        graph.add_nodes_from((name, node_attributes(self, node)) for node, name in enumerate(names))
        for number, (tail, head, bandwidth, latency) in enumerate(link_rows(self)):
            figures = {"bandwidth_bytes_per_s": bandwidth, "latency_ns": latency}
            graph.add_edge(names[tail], names[head], number, **figures)
        return graph

    def __repr__(self) -> str:
        name, *counts = _figures(self)
        return f"<Topology {name}: {', '.join(counts)}>"


LINK_COLUMNS = ("tails", "heads", "bandwidths", "latencies_ns")
"""Arrays of a fabric with an entry per link."""
SWITCH_FLAGS = ("multicast", "aggregation", "turns_round")
"""Arrays of a fabric that hold the capabilities of its switches."""
NODE_COLUMNS = ("is_compute", *SWITCH_FLAGS, "injection_bytes_per_s")
"""Arrays of a fabric with an entry per node."""


def node_columns(topology: Topology, nodes: Any) -> dict[str, Any]:
    """Return the arrays of a fabric's nodes for some nodes: indices, a mask or a slice."""
    return {key: getattr(topology, key)[nodes] for key in NODE_COLUMNS}


def link_rows(topology: Topology) -> Iterator[tuple[int, int, int, int]]:
    """Yield tail, head, bandwidth and latency of each link."""
    return zip(*(getattr(topology, key).tolist() for key in LINK_COLUMNS), strict=True)


@displayed(own_repr)
class TopologyBuilder:
    """Collector of nodes and links by name; `build` returns the fabric.

    Parameters
    ----------
    name : str
        Name of the fabric.

    Examples
    --------
    >>> import treadle
    >>> builder = treadle.TopologyBuilder("pair")
    >>> builder.compute("a"), builder.compute("b")
    ('a', 'b')
    >>> builder.duplex("a", "b", 25 * 10**9)
    >>> builder.build()
    <Topology pair: 2 compute, 0 switches, 2 links>
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._index: dict[str, int] = {}
        self._is_compute: list[bool] = []
        self._able: dict[str, list[int]] = {key: [] for key in SWITCH_FLAGS}
        """Switches that can do each operation."""
        self._injection: dict[int, int] = {}
        self._links: list[int] = []
        """Tail, head, bandwidth and latency of one link after the other."""

    def __repr__(self) -> str:
        n = sum(self._is_compute)
        switches, links = len(self._is_compute) - n, len(self._links) // 4
        return f"<TopologyBuilder {self._name}: {n} compute, {switches} switches, {links} links>"

    def fabric_to_draw(self) -> Topology | None:
        """Return the fabric so far; None if it is not valid yet."""
        with suppress(TopologyError):
            return self.build()
        return None

    def compute(self, name: str, *, injection_bytes_per_s: int = 0) -> str:
        """Add a compute node; returns its name."""
        node = self._node(name, True)
        if injection_bytes_per_s:
            self._injection[node] = injection_bytes_per_s
        return name

    def switch(
        self, name: str, *, multicast: bool = False, aggregation: bool = False, turns_round: bool = False
    ) -> str:
        """Add a switch; returns its name."""
        node = self._node(name, False)
        for nodes, is_able in zip(self._able.values(), (multicast, aggregation, turns_round), strict=True):
            if is_able:
                nodes.append(node)
        return name

    def _node(self, name: str, is_compute: bool) -> int:
        node = len(self._is_compute)
        if self._index.setdefault(name, node) != node:
            raise TopologyError(f"node {name!r} is named twice; names must be unique")
        self._is_compute.append(is_compute)
        return node

    def link(self, tail: str, head: str, bandwidth: float | str, latency_ns: int = 0) -> None:
        """Add one directed link; bandwidth is an integer in bytes/s, or a string with a unit."""
        self._links += (*self._link(tail, head, bandwidth), latency_ns)

    def duplex(self, one: str, other: str, bandwidth: float | str, latency_ns: int = 0) -> None:
        """Add a link each way; `bandwidth` is an integer, bytes/s per direction, or a string with a unit."""
        tail, head, rate = self._link(one, other, bandwidth)
        self._links += (tail, head, rate, latency_ns, head, tail, rate, latency_ns)

    def _link(self, one: str, other: str, bandwidth: float | str) -> tuple[int, int, int]:
        """Return the ends and bytes/s of a link; TopologyError for an unknown node or a wrong bandwidth."""
        if type(bandwidth) is not int:
            bandwidth = bandwidth_of(bandwidth, f"link {one}->{other}: bandwidth")
        tail, head = self._index.get(one), self._index.get(other)
        if tail is not None and head is not None and 1 <= bandwidth <= MAX_BANDWIDTH:
            return tail, head, bandwidth
        for name in (one, other):
            if name not in self._index:
                raise TopologyError(f"link {one}->{other}: no node is called {name!r}")
        raise TopologyError(f"link {one}->{other}: bandwidth {bandwidth} bytes/s, expected 1 to 2**50")

    def build(self) -> Topology:
        """Return the finished value; TopologyError if it is malformed."""
        tails, heads, bandwidths, latencies = np.array(self._links, dtype=np.int64).reshape(-1, 4).T
        n = len(self._index)
        injection = np.zeros(n, dtype=np.int64)
        injection[list(self._injection)] = list(self._injection.values())
        return Topology(
            name=self._name,
            node_names=tuple(self._index),
            is_compute=np.array(self._is_compute, dtype=bool),
            tails=tails.astype(np.int32),
            heads=heads.astype(np.int32),
            bandwidths=bandwidths,
            latencies_ns=latencies,
            injection_bytes_per_s=injection,
            **{key: mask_of(n, nodes) for key, nodes in self._able.items()},
        )


def node_attributes(topology: Topology, node: int) -> dict[str, Any]:
    """Return the attributes of a node besides its name: its kind, and what differs from the default."""
    found: dict[str, Any] = {"kind": "compute" if topology.is_compute[node] else "switch"}
    found |= {key: True for key in SWITCH_FLAGS if getattr(topology, key)[node]}
    if topology.injection_bytes_per_s[node]:
        found["injection_bytes_per_s"] = int(topology.injection_bytes_per_s[node])
    return found
