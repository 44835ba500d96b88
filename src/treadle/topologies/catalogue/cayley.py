"""Cayley digraphs of abelian, metacyclic and other small groups, and what their symmetry offers.

In-links of node x come from x s for every generator s, in the order given: link number x d + i runs from
x s_i to x. Multiplication from the left, x -> g x, is an automorphism that keeps i and moves any node to any
other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from treadle.arrays import Int64Array
from treadle.brief import brief
from treadle.errors import TopologyError
from treadle.math.graphs import components
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.finite_groups import FiniteGroup, abelian_group, metacyclic_group
from treadle.topologies.limits import check_count, check_counts, check_size, parse_numbers
from treadle.topologies.topology import MAX_BANDWIDTH, Topology

_MAX_NUMBER = 2**62


@brief("expression", "n_nodes", "degree", "is_bidirectional")
@dataclass(frozen=True)
class CayleyGraph:
    """Cayley digraph as a value: a group and its generators.

    Parameters
    ----------
    expression : str
        Catalogue expression of its fabric.
    group : FiniteGroup
    generators : tuple of int
        Elements other than the identity that generate the group; one listed twice gives parallel links.

    Raises
    ------
    TopologyError
        If a generator is out of range or the identity, or the generators do not reach every node.
    """

    expression: str
    group: FiniteGroup
    generators: tuple[int, ...]

    def __post_init__(self) -> None:
        n, name = self.group.order, self.expression
        check_count(name, "number of nodes", n, least=2)
        check_count(name, "number of generators", len(self.generators))
        check_size(name, n, n * len(self.generators))
        check_count(name, "each generator", *self.generators, most=n - 1)
        # in a finite group a path back exists wherever there is one onward, so directions do not count
        if components(n, self.neighbours().ravel(), self._heads()).any():
            raise TopologyError(f"{name}: the generators do not reach every node; add or change one")

    @property
    def n_nodes(self) -> int:
        """N, the order of the group."""
        return self.group.order

    @property
    def degree(self) -> int:
        """d, the number of generators."""
        return len(self.generators)

    @property
    def is_bidirectional(self) -> bool:
        """Whether the generators with their multiplicity are closed under inverses: links have opposites."""
        return sorted(self.generators) == sorted(self.group.inverse(self.generators).tolist())

    def fabric_to_draw(self) -> Topology:
        """Its fabric, for notebooks."""
        return self.topology()

    def neighbours(self) -> Int64Array:
        """Tails x s_i of the in-links of every node x, shape (N, d)."""
        return self.group.multiply(np.arange(self.n_nodes)[:, None], np.array(self.generators))

    def translate(self, element: int, nodes: ArrayLike) -> Int64Array:
        """Images of nodes under the automorphism x -> `element` x, which moves node 0 to `element`."""
        return self.group.multiply(element, nodes)

    def topology(self, *, bandwidth: int = 1, latency: int = 0) -> Topology:
        """The fabric, named by its expression; link x d + i runs from x s_i to x."""
        name = self.expression
        check_count(name, "bandwidth", bandwidth, most=MAX_BANDWIDTH)
        check_count(name, "latency", latency, least=0, most=_MAX_NUMBER)
        changed = f', bandwidth="{bandwidth}B/s"' if bandwidth != 1 else ""
        changed += f', latency="{latency}ns"' if latency else ""
        return from_arcs(
            f"{name[:-1]}{changed})",
            self.neighbours().ravel(),
            self._heads(),
            n=self.n_nodes,
            bandwidth=bandwidth,
            latency=latency,
        )

    def _heads(self) -> Int64Array:
        return np.repeat(np.arange(self.n_nodes), self.degree)


def abelian_cayley(moduli: str, *generators: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Cayley digraph of a product of cyclic groups, such as ``abelian_cayley("16x4", 1, 4)``.

    Parameters
    ----------
    moduli : str
        Orders of the cyclic factors: ``"16x4"`` is Z_16 x Z_4. Node number: mixed radix, last factor fastest.
    *generators : int
        Node numbers; their count is the degree.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If an argument is out of range or the generators do not reach every node.

    Examples
    --------
    >>> abelian_cayley("4x2", 1, 2)
    <Topology abelian_cayley("4x2", 1, 2): 8 compute, 0 switches, 16 links>
    """
    return _abelian(moduli, *generators).topology(bandwidth=bandwidth, latency=latency)


def metacyclic_cayley(
    m: int, k: int, r: int, *generators: int, bandwidth: int = 1, latency: int = 0
) -> Topology:
    """Cayley digraph of the metacyclic group Z_m :_r Z_k; r^k must be 1 modulo m.

    Parameters
    ----------
    m, k, r : int
        Elements (x, y) have number x k + y, and (x, y)(x', y') = (x + r^y x', y + y').
    *generators : int
        Node numbers; their count is the degree.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Raises
    ------
    TopologyError
        If an argument is out of range or the generators do not reach every node.

    Examples
    --------
    >>> metacyclic_cayley(8, 2, 3, 2, 3)
    <Topology metacyclic_cayley(8, 2, 3, 2, 3): 16 compute, 0 switches, 32 links>
    """
    return _metacyclic(m, k, r, *generators).topology(bandwidth=bandwidth, latency=latency)


def dihedral_cayley(n: int, *generators: int, bandwidth: int = 1, latency: int = 0) -> Topology:
    """Cayley digraph of the dihedral group of order 2n, the metacyclic group Z_n :_-1 Z_2.

    Parameters
    ----------
    n : int
        Rotations: even node numbers; reflections: odd ones.
    *generators : int
        Node numbers; their count is the degree.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.
    """
    return _dihedral(n, *generators).topology(bandwidth=bandwidth, latency=latency)


def plane_cayley(
    m: int, k: int, a: int, b: int, c: int, d: int, *generators: int, bandwidth: int = 1, latency: int = 0
) -> Topology:
    """Cayley digraph of (Z_m x Z_m) : Z_k, where Z_k acts by the matrix [[a, b], [c, d]].

    Parameters
    ----------
    m, k : int
        Elements ((p, q), y) have number (p m + q) k + y.
    a, b, c, d : int
        The matrix; its k-th power must be the identity modulo m.
    *generators : int
        Node numbers; their count is the degree.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.
    """
    return _plane(m, k, a, b, c, d, *generators).topology(bandwidth=bandwidth, latency=latency)


def extension_cayley(
    moduli: str, action: str, carry: str, k: int, *generators: int, bandwidth: int = 1, latency: int = 0
) -> Topology:
    """Cayley digraph of a cyclic extension of an abelian group; see `finite_groups.FiniteGroup`.

    Parameters
    ----------
    moduli : str
        ``"4x2"`` is Z_4 x Z_2.
    action : str
        Rows of the matrix, ``"1,2/0,1"``.
    carry : str
        The k-th power of the new element, ``"2,0"``; ``"0,0"`` splits.
    k : int
        Order of the cyclic quotient.
    *generators : int
        Node numbers; their count is the degree.
    bandwidth, latency : int
        Of each link, bytes/s and nanoseconds.

    Examples
    --------
    >>> extension_cayley("4", "3", "2", 2, 1, 2)
    <Topology extension_cayley("4", "3", "2", 2, 1, 2): 8 compute, 0 switches, 16 links>
    """
    graph = _extension(moduli, action, carry, k, *generators)
    return graph.topology(bandwidth=bandwidth, latency=latency)


def _graph(
    function: str, group: FiniteGroup, *arguments: str | int, generators: tuple[int, ...]
) -> CayleyGraph:
    words = (f'"{word}"' if isinstance(word, str) else str(word) for word in (*arguments, *generators))
    return CayleyGraph(f"{function}({', '.join(words)})", group, generators)


def _abelian(moduli: str, *generators: int) -> CayleyGraph:
    group = abelian_group(*parse_numbers("abelian_cayley", "moduli", moduli, "x"))
    return _graph("abelian_cayley", group, moduli, generators=generators)


def _metacyclic(m: int, k: int, r: int, *generators: int) -> CayleyGraph:
    check_counts("metacyclic_cayley", m=m, k=k)
    check_count("metacyclic_cayley", "r", r, least=-_MAX_NUMBER, most=_MAX_NUMBER)
    return _graph("metacyclic_cayley", metacyclic_group(m, k, r), m, k, r, generators=generators)


def _dihedral(n: int, *generators: int) -> CayleyGraph:
    check_count("dihedral_cayley", "n", n)
    return _graph("dihedral_cayley", metacyclic_group(n, 2, n - 1), n, generators=generators)


def _plane(m: int, k: int, a: int, b: int, c: int, d: int, *generators: int) -> CayleyGraph:
    check_count("plane_cayley", "m", m, least=2)
    check_count("plane_cayley", "k", k)
    check_count("plane_cayley", "a to d", a, b, c, d, least=-_MAX_NUMBER, most=_MAX_NUMBER)
    group = FiniteGroup((m, m), k, ((a, b), (c, d)), (0, 0))
    return _graph("plane_cayley", group, m, k, a, b, c, d, generators=generators)


def _extension(moduli: str, action: str, carry: str, k: int, *generators: int) -> CayleyGraph:
    name = "extension_cayley"
    check_count(name, "k", k)
    rows = action.split("/") if isinstance(action, str) else [action]
    matrix = tuple(parse_numbers(name, "action", row, ",") for row in rows)
    base, power = parse_numbers(name, "moduli", moduli, "x"), parse_numbers(name, "carry", carry, ",")
    group = FiniteGroup(base, k, matrix, power)
    return _graph(name, group, moduli, action, carry, k, generators=generators)


_BUILDERS: Mapping[str, Callable[..., CayleyGraph]] = MappingProxyType(
    {
        f"{build.__name__[1:]}_cayley": build
        for build in (_abelian, _metacyclic, _dihedral, _plane, _extension)
    }
)


def cayley_graph(expression: str) -> CayleyGraph:
    """The Cayley digraph that a catalogue expression of this module names; bandwidth and latency are ignored.

    Raises
    ------
    TopologyError
        If the expression is not one of this module's functions with literal arguments.

    Examples
    --------
    >>> cayley_graph("metacyclic_cayley(8, 2, 3, 2, 3)").n_nodes
    16
    """
    builder, arguments = None, []
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        call = ast.parse(expression.strip(), mode="eval").body
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            builder = _BUILDERS.get(call.func.id)
            arguments = [ast.literal_eval(argument) for argument in call.args]
    if builder is not None and all(type(argument) in (int, str) for argument in arguments):
        with suppress(TypeError):  # another number of arguments
            return builder(*arguments)
    raise TopologyError(f"{expression[:80]!r}: expected a Cayley digraph, such as dihedral_cayley(8, 1, 2)")


def cayley_graph_of(topology: Topology) -> CayleyGraph | None:
    """The Cayley digraph that a fabric is, found by its name and confirmed link by link; else None."""
    try:
        graph = cayley_graph(topology.name)
    except TopologyError:
        return None
    is_same = graph.n_nodes == topology.n_nodes and graph.n_nodes * graph.degree == topology.n_links
    is_same = is_same and bool(topology.is_compute.all()) and np.array_equal(topology.heads, graph._heads())
    return graph if is_same and np.array_equal(topology.tails, graph.neighbours().ravel()) else None
