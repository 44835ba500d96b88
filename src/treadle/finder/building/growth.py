"""A plan that grows a fabric to more nodes, cable by cable, connected at every stage.

A new node is put into d links: each is pulled and becomes one to the node and one from it (of duplex cables
d / 2 of them), so that all degrees stay. Which links is found by simulated annealing on the value of
breadth-first broadcast, in both directions. The same move expands Jellyfish (Singla et al., NSDI 2012,
section 4.2), with links taken at random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, islice
from time import monotonic

import numpy as np

from treadle.arrays import Int32Array, Int64Array, mask_of, offsets_of
from treadle.brief import brief
from treadle.checking import checked
from treadle.context import Context, Progress, TimeLimitError, context, under
from treadle.engine import core
from treadle.errors import FormatError, InfeasibleError
from treadle.finder.cabling import Cable, CableMove, cables, unidirectional_cables
from treadle.finder.measure import bfb_values
from treadle.inputs.fabrics_and_plans import FabricLike
from treadle.inputs.problem import resolve_topology
from treadle.math.graphs import reached
from treadle.synthesis.core_values.step_values import InLinks
from treadle.synthesis.steps.bfb.in_links import TRANSFORM_LIMIT
from treadle.tabular import format_csv
from treadle.topologies.properties import has_switches, has_uniform_links, is_regular
from treadle.topologies.topology import Topology

_MOST_TRIES = 16_000
_WORK = 1_500_000_000
"""Tries times N^2 d: about half a minute."""
_LEAST_TRIES = 50
_HOT, _COLD = 0.01, 0.0005
"""Temperatures, in M/B of T_B."""
MAX_NODES = 4096


@brief("topology", "steps", "t_b", "n_cut", "is_connected")
@dataclass(frozen=True)
class GrowthPlan:
    """Expansion of a fabric by new nodes.

    Parameters
    ----------
    before, topology : Topology
        The fabric now, and at the end; the new nodes come last.
    moves : tuple of CableMove
        In order.
    steps : int
        Of an allgather by breadth-first broadcast at the end, or of a reduce-scatter if that takes more.
    t_b : Fraction
        Mean T_B of both in M/B, at the end.
    is_connected : bool
        Whether after every single move all nodes that were there, and all whose cables are in, reach each
        other.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.grow("ring:3", 4)
    >>> plan.n_cut, plan.is_connected, plan.csv().splitlines()[1:]
    (1, True, ['1,pull,n2,1,n0,1,yes', '1,add,n2,1,n3,0,yes', '1,add,n3,1,n0,1,yes'])
    """

    before: Topology
    topology: Topology
    moves: tuple[CableMove, ...]
    steps: int
    t_b: Fraction
    is_connected: bool

    @property
    def n_cut(self) -> int:
        """Cables that are pulled."""
        return sum(not move.is_added for move in self.moves)

    @property
    def is_duplex(self) -> bool:
        """Whether every cable that is moved joins both directions of two ports, else one direction."""
        return all(wire.is_duplex for wire in cables(self.before))

    def csv(self) -> str:
        """Format the moves as CSV; ``duplex`` is as in a cabling list."""
        heading = ["stage", "action", "from_node", "from_port", "to_node", "to_port", "duplex"]
        names, duplex = self.topology.node_names, "yes" if self.is_duplex else "no"
        rows = [
            [
                *(move.stage, "add" if move.is_added else "pull"),
                *(names[move.tail], move.tail_port, names[move.head], move.head_port, duplex),
            ]
            for move in self.moves
        ]
        return format_csv(heading, rows)


@checked()
def grow(
    topology: FabricLike,
    nodes: int,
    *,
    seed: int = 0,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> GrowthPlan:
    """Plan the cables by which a regular fabric without switches grows to `nodes`.

    Parameters
    ----------
    topology : Topology or str
        Equal links; equal degrees.
    nodes : int
        More than there are, at most twice as many.
    seed : int
    time_limit_s : float, optional
        Of the search, which then ends with what it has.
    progress : callable, optional

    Raises
    ------
    InfeasibleError
        If the fabric cannot grow so.
    FormatError
        If the number is out of range.

    Examples
    --------
    >>> import treadle
    >>> plan = treadle.grow("generalized_kautz:2,8", 9)
    >>> plan.topology.n_nodes, plan.n_cut, plan.is_connected
    (9, 2, True)
    """
    fabric = resolve_topology(topology)
    if has_switches(fabric) or not is_regular(fabric) or not has_uniform_links(fabric):
        raise InfeasibleError(f"grow: {fabric.name} has switches, or nodes or links that differ")
    n = fabric.n_nodes
    if not n < nodes <= min(2 * n, MAX_NODES):
        raise FormatError(
            f"grow: {nodes} nodes, expected {n + 1} to {min(2 * n, MAX_NODES)}: the fabric has {n}"
        )
    wires = cables(fabric)
    is_duplex = all(wire.is_duplex for wire in wires)
    cuttable = list(wires) if is_duplex else unidirectional_cables(wires)
    degree = fabric.n_links // n
    per_node = degree // 2 if is_duplex else degree
    if is_duplex and degree % 2 and (nodes - n) % 2:
        raise InfeasibleError(
            f"grow: {nodes} nodes of {degree} duplex cables have an odd number of ports; expected an even "
            f"number of nodes"
        )
    if not per_node:
        raise InfeasibleError(f"grow: {fabric.name} joins nodes by twos, and no node fits between")
    search = _Search(n, nodes, degree, cuttable, is_duplex)
    limit = Context(progress, None if time_limit_s is None else monotonic() + time_limit_s)
    with under(limit):
        chosen = search.best(per_node, np.random.default_rng(seed))
    moves = search.moves(chosen)
    tails, heads = search.ends(chosen)
    fresh = (name for i in count(n) if (name := f"n{i}") not in fabric.node_names)
    grown = Topology(
        name=f"{fabric.name}, grown to {nodes}"[:200],
        node_names=(*fabric.node_names, *islice(fresh, nodes - n)),
        is_compute=np.ones(nodes, dtype=np.bool_),
        tails=tails,
        heads=heads,
        bandwidths=np.full(len(tails), fabric.bandwidths[0], dtype=np.int64),
        latencies_ns=np.full(len(tails), fabric.latencies_ns[0], dtype=np.int64),
    )
    steps, gather, reduce = bfb_values(grown)
    return GrowthPlan(fabric, grown, moves, steps, (gather + reduce) / 2, _stays_connected(fabric, moves))


class _Search:
    """Choose the links that the new nodes interrupt."""

    def __init__(self, n: int, nodes: int, degree: int, wires: Sequence[Cable], is_duplex: bool) -> None:
        self.n, self.nodes, self.degree = n, nodes, degree
        self.wires, self.is_duplex = wires, is_duplex
        self.tail = np.array([wire.tail for wire in wires], dtype=np.int64)
        self.head = np.array([wire.head for wire in wires], dtype=np.int64)
        self.control = np.zeros(3, dtype=np.int64)
        self.known: dict[bytes, float] = {}

    def pairs(self) -> list[tuple[int, int]]:
        """Return new nodes that a cable of their own joins: of odd degree, duplex."""
        if not self.is_duplex or self.degree % 2 == 0:
            return []
        return [(node, node + 1) for node in range(self.n, self.nodes, 2)]

    def ends(self, chosen: Int64Array) -> tuple[Int32Array, Int32Array]:
        """Return the grown fabric's links; row i of `chosen` has the wires that new node i is put into."""
        kept = ~mask_of(len(self.wires), chosen.ravel())
        new = np.repeat(np.arange(self.n, self.nodes), chosen.shape[1])
        cut = chosen.ravel()
        extra = np.array(self.pairs(), dtype=np.int64).reshape(-1, 2)
        tails = np.concatenate([self.tail[kept], self.tail[cut], new, extra[:, 0]])
        heads = np.concatenate([self.head[kept], new, self.head[cut], extra[:, 1]])
        if self.is_duplex:
            tails, heads = np.concatenate([tails, heads]), np.concatenate([heads, tails])
        return tails.astype(np.int32), heads.astype(np.int32)

    def value(self, chosen: Int64Array) -> float:
        """Return the mean T_B plus a penalty for steps beyond Moore's; larger where a node is cut off."""
        if (found := self.known.get(key := chosen.tobytes())) is not None:
            return found  # small fabrics have fewer choices than the search has tries
        tails, heads = self.ends(chosen)
        both = [self._one_way(tails, heads)]
        both.append(both[0] if self.is_duplex else self._one_way(heads, tails))
        found = self.known[key] = sum(t_b + 0.05 * steps for steps, t_b in both) / 2
        return found

    def _one_way(self, tails: Int32Array, heads: Int32Array) -> tuple[int, float]:
        carries = tails != heads
        tails, heads = tails[carries], heads[carries]
        order = np.argsort(heads, kind="stable")
        links = InLinks(
            offsets_of(np.bincount(heads, minlength=self.nodes)), np.ascontiguousarray(tails[order])
        )
        status, ratios, _ = core.bfb_loads(
            links, np.ones(len(tails), dtype=np.int64), TRANSFORM_LIMIT, self.control
        )
        if status:
            return self.nodes, float(self.nodes)
        loads = ratios[0] / ratios[1]
        return len(loads), float(loads.sum()) * self.degree / self.nodes

    def best(self, per_node: int, random: np.random.Generator) -> Int64Array:
        """Return the wires for every new node, by annealing from a random choice."""
        n_new = self.nodes - self.n
        order = random.permutation(len(self.wires))
        chosen = order[: n_new * per_node].reshape(n_new, per_node).copy()
        spare = order[n_new * per_node :].copy()
        now = least = self.value(chosen)
        found = chosen.copy()
        tries = max(_LEAST_TRIES, min(_MOST_TRIES, _WORK // (self.nodes**2 * self.degree)))
        cooling = (_COLD / _HOT) ** (1 / tries)
        heat = _HOT
        for place in range(tries):
            if place % 64 == 0:
                if (progress := context().progress) is not None:
                    progress("growth", place, tries)
                if context().is_late:
                    break
            one = int(random.integers(n_new)), int(random.integers(per_node))
            other: tuple[int, ...]
            if len(spare) and (n_new == 1 or random.random() < 0.7):
                shelf, other = spare, (int(random.integers(len(spare))),)
            else:
                shelf, other = chosen, (int(random.integers(n_new)), int(random.integers(per_node)))
            chosen[one], shelf[other] = shelf[other], chosen[one]
            after = self.value(chosen)
            if after <= now or random.random() < np.exp((now - after) / heat):
                now = after
            else:
                chosen[one], shelf[other] = shelf[other], chosen[one]
            if now < least:
                least, found = now, chosen.copy()
            heat *= cooling
        if least >= self.nodes:
            if context().is_late:
                raise TimeLimitError("grow: time ran out before all nodes reached each other")
            raise InfeasibleError("grow: no choice of links lets all nodes reach each other")
        return found

    def moves(self, chosen: Int64Array) -> tuple[CableMove, ...]:
        """Return pulls and adds, node by node and link by link; ports of pulled cables are used again."""
        found: list[CableMove] = []
        stage = 0
        free = dict.fromkeys(range(self.n, self.nodes), 0)
        joined = {other: one for one, other in self.pairs()}
        for row, links in enumerate(chosen.tolist()):
            new = self.n + row
            for link in links:
                stage += 1
                wire = self.wires[link]
                port = free[new]
                # a duplex cable takes two ports of the new node; of one-way links a port has both sides
                ports = (port, port + 1) if self.is_duplex else (port, port)
                free[new] = port + 1 + self.is_duplex
                found += [
                    CableMove(False, wire.tail, wire.tail_port, wire.head, wire.head_port, stage),
                    CableMove(True, wire.tail, wire.tail_port, new, ports[0], stage),
                    CableMove(True, new, ports[1], wire.head, wire.head_port, stage),
                ]
            if new in joined:
                stage += 1
                other = joined[new]
                found.append(CableMove(True, other, free[other], new, free[new], stage))
        return tuple(found)


def _stays_connected(fabric: Topology, moves: Sequence[CableMove]) -> bool:
    """Whether nodes with cables in and out reach each other after every move."""
    wires = cables(fabric)
    is_duplex = all(wire.is_duplex for wire in wires)
    links = list(zip(fabric.tails.tolist(), fabric.heads.tolist(), strict=True))
    for move in moves:
        for link in ((move.tail, move.head), (move.head, move.tail))[: 1 + is_duplex]:
            if move.is_added:
                links.append(link)
            else:
                links.remove(link)
        tails, heads = np.array(links, dtype=np.int64).reshape(-1, 2).T
        wanted = np.union1d(np.intersect1d(tails, heads), np.arange(fabric.n_nodes))
        n = int(max(wanted.max(), tails.max(initial=0), heads.max(initial=0))) + 1
        if not (reached(n, tails, heads, 0) & reached(n, heads, tails, 0))[wanted].all():
            return False
    return True
