"""Cayley digraphs of abelian, metacyclic and other small groups, and what their symmetry offers.

In-links of node x come from x s for every generator s, in the order given: link number x d + i runs from
x s_i to x. Multiplication from the left, x -> g x, is an automorphism that keeps i and moves any node to any
other.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from treadle.arrays import Int64Array
from treadle.brief import brief
from treadle.errors import TopologyError
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.catalogue.finite_groups import FiniteGroup, abelian_group, metacyclic_group
from treadle.topologies.limits import check_count, check_size
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
        for generator in self.generators:
            check_count(name, "each generator", generator, most=n - 1)
        if not self._is_connected():
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

    def translate_links(self, element: int, links: ArrayLike) -> Int64Array:
        """Images of physical link numbers under the same automorphism."""
        numbers = np.asarray(links, dtype=np.int64)
        return self.translate(element, numbers // self.degree) * self.degree + numbers % self.degree

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
            np.repeat(np.arange(self.n_nodes), self.degree),
            n=self.n_nodes,
            bandwidth=bandwidth,
            latency=latency,
        )

    def _is_connected(self) -> bool:
        """Whether every node is reached; in a finite group link directions make no difference to that."""
        n = self.n_nodes
        parent, nodes = np.arange(n), np.arange(n)
        tails = [self.group.multiply(nodes, s) for s in sorted(set(self.generators))]
        while True:
            before = parent
            parent = before.copy()
            for tail in tails:
                # Hook the roots of both ends, and the ends themselves, onto the smaller root.
                smaller = np.minimum(before[tail], before)
                for end in (before[tail], before, tail, nodes):
                    np.minimum.at(parent, end, smaller)
            parent = parent[parent]
            if np.array_equal(parent, before):
                return not parent.any()


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


def _words(function: str, *words: str | int) -> str:
    shown = (f'"{word}"' if isinstance(word, str) else str(word) for word in words)
    return f"{function}({', '.join(shown)})"


def _numbers(function: str, key: str, text: str, separator: str) -> tuple[int, ...]:
    """Decimal numbers of at most seven digits between separators."""
    words = text.split(separator) if isinstance(text, str) else []
    if not words or not all(word.isascii() and word.isdigit() and len(word) <= 7 for word in words):
        raise TopologyError(
            f"{function}: {key} must be numbers joined by {separator!r} in quotes, found {text!r}"
        )
    return tuple(int(word) for word in words)


def _check_integers(function: str, **values: int) -> None:
    for key, value in values.items():
        check_count(function, key, value, least=-_MAX_NUMBER, most=_MAX_NUMBER)


def _abelian(moduli: str, *generators: int) -> CayleyGraph:
    group = abelian_group(*_numbers("abelian_cayley", "moduli", moduli, "x"))
    return CayleyGraph(_words("abelian_cayley", moduli, *generators), group, generators)


def _metacyclic(m: int, k: int, r: int, *generators: int) -> CayleyGraph:
    check_count("metacyclic_cayley", "m", m)
    check_count("metacyclic_cayley", "k", k)
    _check_integers("metacyclic_cayley", r=r)
    expression = _words("metacyclic_cayley", m, k, r, *generators)
    return CayleyGraph(expression, metacyclic_group(m, k, r), generators)


def _dihedral(n: int, *generators: int) -> CayleyGraph:
    check_count("dihedral_cayley", "n", n)
    return CayleyGraph(_words("dihedral_cayley", n, *generators), metacyclic_group(n, 2, n - 1), generators)


def _plane(m: int, k: int, a: int, b: int, c: int, d: int, *generators: int) -> CayleyGraph:
    check_count("plane_cayley", "m", m, least=2)
    check_count("plane_cayley", "k", k)
    _check_integers("plane_cayley", a=a, b=b, c=c, d=d)
    group = FiniteGroup((m, m), k, ((a, b), (c, d)), (0, 0))
    return CayleyGraph(_words("plane_cayley", m, k, a, b, c, d, *generators), group, generators)


def _extension(moduli: str, action: str, carry: str, k: int, *generators: int) -> CayleyGraph:
    name = "extension_cayley"
    check_count(name, "k", k)
    if not isinstance(action, str):
        raise TopologyError(f"{name}: action must be rows of numbers in quotes, found {action!r}")
    group = FiniteGroup(
        _numbers(name, "moduli", moduli, "x"),
        k,
        tuple(_numbers(name, "action", row, ",") for row in action.split("/")),
        _numbers(name, "carry", carry, ","),
    )
    return CayleyGraph(_words(name, moduli, action, carry, k, *generators), group, generators)


_BUILDERS: Mapping[str, Callable[..., CayleyGraph]] = MappingProxyType(
    {
        "abelian_cayley": _abelian,
        "metacyclic_cayley": _metacyclic,
        "dihedral_cayley": _dihedral,
        "plane_cayley": _plane,
        "extension_cayley": _extension,
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
    refusal = TopologyError(
        f"{expression[:80]!r}: expected a Cayley digraph, such as dihedral_cayley(8, 1, 2)"
    )
    try:
        call = ast.parse(expression.strip(), mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            raise refusal
        builder = _BUILDERS.get(call.func.id)
        arguments = [ast.literal_eval(argument) for argument in call.args]
        if builder is None or any(type(argument) not in (int, str) for argument in arguments):
            raise refusal
        return builder(*arguments)
    except (SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise refusal from error
    except TopologyError:
        raise
    except ValueError as error:
        raise refusal from error


def cayley_graph_of(topology: Topology) -> CayleyGraph | None:
    """The Cayley digraph that a fabric is, found by its name and confirmed link by link; else None."""
    try:
        graph = cayley_graph(topology.name)
    except TopologyError:
        return None
    same = graph.n_nodes == topology.n_nodes and graph.n_nodes * graph.degree == topology.n_links
    if not same or not bool(topology.is_compute.all()):
        return None
    heads = np.repeat(np.arange(graph.n_nodes), graph.degree)
    same = np.array_equal(topology.heads, heads)
    return graph if same and np.array_equal(topology.tails, graph.neighbours().ravel()) else None
