"""Well-known fabrics at the size of a design, with the values that the finder compares.

Direct ones by breadth-first broadcast, as the finder values its own. A fat tree has as many planes as a node
has ports: the values are those of as many concurrent ports without blocking (Bruck et al., 1997), and
a step counts one alpha however many switches it passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from treadle.brief import brief
from treadle.finder.building.reference_topologies import (
    MAX_NODES,
    concurrent_port_steps,
    nearest_names,
    switched_names,
)
from treadle.finder.construction import expression, notation
from treadle.finder.measure import is_quick_breadth_first, measure_graph
from treadle.finder.workload import Network
from treadle.inputs.problem import format_exact
from treadle.topologies import parse

if TYPE_CHECKING:
    from treadle.finder.designing.design_result import DesignResult

_RADIX = 64
"""Most ports of a switch."""
_PATIENCE = 4_000
"""Nodes times ports up to which fabrics of other sizes are valued: half a second for all."""


@brief("name", "nodes", "ports", "steps", "t_b")
@dataclass(frozen=True)
class KnownFabric:
    """A fabric compared with a design.

    Parameters
    ----------
    name : str
        An expression of the catalogue; of switches behind the number of planes.
    nodes, ports : int
        Ports of a node.
    steps : int
        Of an allgather or a reduce-scatter.
    t_b : Fraction
        Mean of both in M/B, B of all ports of a node.

    Examples
    --------
    >>> from treadle import planning
    >>> known = planning.known_fabrics(16, 4)[0]
    >>> known.name, known.ports, known.steps, known.t_b
    ('torus(4, 4)', 4, 4, Fraction(15, 16))
    """

    name: str
    nodes: int
    ports: int
    steps: int
    t_b: Fraction

    def allreduce_s(self, network: Network, size_bytes: int) -> float:
        """Return the seconds of an allreduce, by alpha and beta as for the finder's own."""
        transfer = size_bytes / network.bandwidth_bytes_per_s
        reduction = network.gamma_s_per_byte * size_bytes
        return 2 * self.steps * network.alpha_s + float(self.t_b) * (2 * transfer + reduction)


def known_fabrics(nodes: int, degree: int) -> tuple[KnownFabric, ...]:
    """Return Torus, rings, Kautz digraph, dragonfly and fat tree, each of the size nearest to a design's.

    Examples
    --------
    >>> from treadle import planning
    >>> [fabric.name for fabric in planning.known_fabrics(16, 4)][:3]
    ['torus(4, 4)', 'bi_ring(4, 16)', 'shifted_ring(16)']
    """
    found = []
    if nodes <= MAX_NODES:
        for name in _direct_names(nodes, degree):
            fabric = parse(name)
            ports = int(np.bincount(fabric.tails).max())
            is_own = (fabric.n_nodes, ports) == (nodes, degree)
            if is_quick_breadth_first(fabric.n_nodes, ports) and (
                is_own or fabric.n_nodes * ports <= _PATIENCE
            ):
                steps, gather, reduce = measure_graph(fabric)
                found.append(KnownFabric(name, fabric.n_nodes, ports, steps, (gather + reduce) / 2))
    for name in switched_names(nodes, _RADIX):
        if name.startswith("fat_tree"):
            n = len(parse(name).compute_nodes)
            steps = concurrent_port_steps(n, degree)
            found.append(KnownFabric(f"{degree} x {name}", n, degree, steps, Fraction(n - 1, n)))
    return tuple(found)


def _direct_names(nodes: int, degree: int) -> Iterator[str]:
    near = dict(zip(("torus", "dragonfly"), nearest_names(nodes, degree), strict=False))
    if degree > 1:
        yield near["torus"]
    if degree % 2 == 0 and nodes > 2:
        yield f"bi_ring({degree}, {nodes})"
    else:
        yield f"uni_ring({degree}, {nodes})"
    if degree == 4 and nodes >= 8:
        yield f"shifted_ring({nodes})"
    if 1 < degree < nodes:
        yield f"generalized_kautz({degree}, {nodes})"
    yield near["dragonfly"]


def is_beaten(steps: int, t_b: Fraction, by: Iterable[tuple[int, Fraction]]) -> bool:
    """Whether one of these takes no more steps and no more bandwidth time, and less of one."""
    return any(one <= steps and other <= t_b and (one, other) != (steps, t_b) for one, other in by)


def beaten_summary(result: DesignResult) -> dict[str, object]:
    """Return the part of ``design --json`` about fabrics besides the frontier.

    Examples
    --------
    >>> import treadle
    >>> from treadle.finder.workload import Network, allreduce_of
    >>> found = treadle.design(8, 2, network=Network(1e-6, 25 * 10**9), workload=allreduce_of(2**20))
    >>> told = treadle.planning.beaten_summary(found)
    >>> list(told), told["dominated"][0]["topology"]
    (['dominated', 'known'], 'diamond()')
    """
    best = [
        (row.option.candidate.steps, row.option.candidate.t_b_both / 2)
        for row in result.rows
        if row.option.parts == 1
    ]
    return {
        "dominated": [
            {
                "topology": expression(one.construction),
                "notation": notation(one.construction),
                "steps": one.steps,
                "t_b_exact": format_exact(one.gather.t_b),
                "t_b_reduce_scatter_exact": format_exact(one.reduce.t_b),
                "measured": one.is_exact,
            }
            for one in result.others
        ],
        "known": [
            {
                "fabric": one.name,
                "nodes": one.nodes,
                "ports_per_node": one.ports,
                "steps": one.steps,
                "t_b_mean_exact": format_exact(one.t_b),
                "allreduce_s": one.allreduce_s(result.network, result.shown_bytes),
                "beaten": is_beaten(one.steps, one.t_b, best),
            }
            for one in known_fabrics(result.nodes, result.degree)
        ],
    }
