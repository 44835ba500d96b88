"""Conversion of one fabric into another by few cross-connects: nodes are relabelled so that most links stay.

To maximise the links that two graphs share under a relabelling is a quadratic assignment problem, and hard.
Isomorphic graphs are recognised exactly; for others simulated annealing swaps nodes, and the result is never
worse than the order of the numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import count

import numpy as np

from treadle.arrays import Int32Array, positions_of
from treadle.brief import brief
from treadle.checking import checked
from treadle.context import Progress, start
from treadle.engine import core, run_core
from treadle.errors import FormatError, InfeasibleError
from treadle.finder.cabling import CableMove, cables, unidirectional_cables
from treadle.inputs.fabrics_and_plans import FabricLike, as_fabric
from treadle.inputs.problem import resolve_topology
from treadle.synthesis.core_values.arrangement_values import ArrangeProblem
from treadle.synthesis.core_values.flow_values import Annealing
from treadle.tabular import format_csv
from treadle.topologies.isomorphism import UndecidedError, find_isomorphism
from treadle.topologies.properties import has_switches
from treadle.topologies.topology import Topology
from treadle.topologies.transforms.changes import with_links

MAX_NODES = 4096
_STEPS_PER_NODE = 8000
_MOST_STEPS = 20_000_000


@brief("topology", "other", "n_changed", "is_duplex")
@dataclass(frozen=True)
class RewiringPlan:
    """Conversion of a fabric into another.

    Parameters
    ----------
    topology, other : Topology
        Now, and wanted.
    node : array of int32, shape (n,)
        By node of `other`: the node that takes its part.
    changes : tuple of CableMove
        All connections that are removed, then all that are made.
    is_duplex : bool
        Whether a connection joins both directions of two ports.
    n_in_order : int
        Connections that would be made if every node took the part of its own number.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.reconfigure("torus:3,4", "circulant:12,3,4")
    >>> plan.n_changed, plan.n_in_order
    (0, 9)
    """

    topology: Topology
    other: Topology
    node: Int32Array
    changes: tuple[CableMove, ...]
    is_duplex: bool
    n_in_order: int

    @property
    def n_changed(self) -> int:
        """Connections that are made."""
        return sum(change.is_added for change in self.changes)

    def csv(self) -> str:
        """Format the changes as CSV, with the nodes of the wanted fabric whose parts their ends take."""
        heading = ["action", "from_node", "from_port", "to_node", "to_port", "duplex", "from_part", "to_part"]
        names, duplex = self.topology.node_names, "yes" if self.is_duplex else "no"
        part = positions_of(len(self.node), self.node)
        rows = [
            [
                *("connect" if one.is_added else "disconnect", names[one.tail], one.tail_port),
                *(names[one.head], one.head_port, duplex),
                *(self.other.node_names[part[node]] for node in (one.tail, one.head)),
            ]
            for one in self.changes
        ]
        return format_csv(heading, rows)


@checked()
def reconfigure(
    topology: FabricLike,
    other: FabricLike,
    *,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> RewiringPlan:
    """Plan the fewest cross-connects that make one fabric out of another.

    Parameters
    ----------
    topology, other : Topology or str
        Now, and wanted: as many nodes without switches, as many links at each.
    seed : int
    time_limit_s : float, optional
    progress : callable, optional

    Raises
    ------
    InfeasibleError
        If nodes, ports or kinds of cable differ.
    TimeLimitError
        If time ran out.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.reconfigure("torus:3,4", "circulant:12,3,4")
    >>> plan.n_changed, plan.n_in_order
    (0, 9)
    """
    now, wanted = resolve_topology(topology), resolve_topology(as_fabric(other, "other"))
    n = now.n_nodes
    if has_switches(now) or has_switches(wanted) or wanted.n_nodes != n:
        raise InfeasibleError(
            f"reconfigure: {now.name} and {wanted.name} must have no switches and as many nodes; found {n} "
            f"and {wanted.n_nodes}"
        )
    if n > MAX_NODES:
        raise FormatError(f"reconfigure: {n} nodes, at most {MAX_NODES}")
    kinds = [
        {wire.is_duplex for wire in cables(fabric) if wire.tail != wire.head} for fabric in (now, wanted)
    ]
    is_duplex = kinds == [{True}, {True}]
    for name, ends in (("out of", "tails"), ("into", "heads")):
        counts = [np.bincount(getattr(fabric, ends), minlength=n) for fabric in (now, wanted)]
        if counts[0].min() != counts[0].max() or not np.array_equal(counts[0], counts[1]):
            raise InfeasibleError(
                f"reconfigure: links {name} nodes differ; expected the same at all, in both fabrics"
            )
    with start(progress, time_limit_s):
        node = _relabelled(now, wanted, seed)
    changes = _changes(now, wanted, node, is_duplex)
    in_order = _changes(now, wanted, np.arange(n, dtype=np.int32), is_duplex)
    if len(in_order) < len(changes):
        node, changes = np.arange(n, dtype=np.int32), in_order
    return RewiringPlan(now, wanted, node, changes, is_duplex, sum(one.is_added for one in in_order))


def _relabelled(now: Topology, wanted: Topology, seed: int) -> Int32Array:
    """Return, for each node of the new fabric, the old node that takes its part."""
    n = now.n_nodes
    # what is plugged counts, not how fast it is: a fabric by name has links of other rates than one designed
    alike = [with_links(fabric, bandwidth=1) for fabric in (wanted, now)]
    try:
        same = find_isomorphism(*alike)
    except UndecidedError:
        same = None
    if same is not None:
        return np.ascontiguousarray(same, dtype=np.int32)
    price = np.ones((n, n), dtype=np.int32)
    price[now.tails, now.heads] = 0
    places = np.arange(n, dtype=np.int32)
    tails, heads = (np.ascontiguousarray(ends, dtype=np.int32) for ends in (wanted.tails, wanted.heads))
    problem = ArrangeProblem(1, tails, heads, places, np.zeros_like(places), price, 0)
    steps = min(_MOST_STEPS, _STEPS_PER_NODE * n)
    _, found, _ = run_core(
        "relabelling",
        lambda control: core.arrange_items(problem, places, Annealing(steps, 1.5, 0.15, seed), control),
    )
    return np.ascontiguousarray(found, dtype=np.int32)


def _changes(now: Topology, wanted: Topology, node: Int32Array, is_duplex: bool) -> tuple[CableMove, ...]:
    """Return the connections to remove and to make; ports that become free are used again, in their order."""
    wires = [wire for wire in cables(now) if wire.tail != wire.head]
    if not is_duplex:
        wires = unidirectional_cables(wires)
    ends_wanted = zip(node[wanted.tails].tolist(), node[wanted.heads].tolist(), strict=True)
    need = Counter(_ends(tail, head, is_duplex) for tail, head in ends_wanted if tail != head)
    if is_duplex:
        need = Counter({ends: count // 2 for ends, count in need.items()})
    gone: list[CableMove] = []
    # (node, side): a duplex port has one side, of one-way links it sends or receives
    free: dict[tuple[int, int], list[int]] = defaultdict(list)
    used: dict[tuple[int, int], set[int]] = defaultdict(set)
    for wire in wires:
        plugs = ((wire.tail, 0), wire.tail_port), ((wire.head, int(not is_duplex)), wire.head_port)
        for side, port in plugs:
            used[side].add(port)
        ends = _ends(wire.tail, wire.head, is_duplex)
        if need[ends] > 0:
            need[ends] -= 1
            continue
        gone.append(CableMove(False, wire.tail, wire.tail_port, wire.head, wire.head_port))
        for side, port in plugs:
            free[side].append(port)
    made: list[CableMove] = []
    for tail, head in sorted(need.elements()):
        ports = [_port(free[side], used[side]) for side in ((tail, 0), (head, int(not is_duplex)))]
        made.append(CableMove(True, tail, ports[0], head, ports[1]))
    return (*gone, *made)


def _port(free: list[int], used: set[int]) -> int:
    """Return a port that became free, else the first one that a self-loop has left empty."""
    if free:
        return free.pop(0)
    port = next(port for port in count() if port not in used)
    used.add(port)
    return port


def _ends(tail: int, head: int, is_duplex: bool) -> tuple[int, int]:
    return (min(tail, head), max(tail, head)) if is_duplex else (tail, head)
