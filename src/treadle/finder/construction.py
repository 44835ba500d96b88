"""Construction of a fabric and its schedule: bases and expansions as a tree of values."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum


class ScheduleMethod(StrEnum):
    """Origin of a base's schedule."""

    BFB = "bfb"
    """Breadth-first broadcast on the graph itself."""
    EXACT = "exact"
    """Found by exact synthesis and shipped as data."""


@dataclass(frozen=True)
class Base:
    """A catalogue graph.

    Parameters
    ----------
    expression : str
        In the catalogue's language.
    notation : str
        As papers write it.
    scheduler : ScheduleMethod
    family : str
        For reports: ``generalized Kautz``, ``circulant``, ...
    """

    expression: str
    notation: str
    scheduler: ScheduleMethod
    family: str


@dataclass(frozen=True)
class LineGraph:
    """L^times (Definitions 1 and 12)."""

    of: Construction
    times: int = 1


@dataclass(frozen=True)
class DegreeExpansion:
    """G * copies (Definitions 2 and 13)."""

    of: Construction
    copies: int


@dataclass(frozen=True)
class Power:
    """Cartesian power (Definition 14)."""

    of: Construction
    exponent: int


@dataclass(frozen=True)
class Product:
    """Cartesian product (Definition 3); scheduled by breadth-first broadcast (Theorem 13)."""

    factors: tuple[Construction, ...]


@dataclass(frozen=True)
class Parallel:
    """Every link `times` times over; scheduled by breadth-first broadcast."""

    of: Construction
    times: int


@dataclass(frozen=True)
class WithReverse:
    """G and its transpose together: a bidirectional fabric of twice the degree (section A.1.6)."""

    of: Construction


@dataclass(frozen=True)
class Placed:
    """The same fabric with rank r on node nodes[r]."""

    of: Construction
    nodes: tuple[int, ...]


Construction = Base | LineGraph | DegreeExpansion | Power | Product | Parallel | WithReverse | Placed

_CALLS: dict[type[LineGraph | DegreeExpansion | Power | Parallel], str] = {
    LineGraph: "line_graph",
    DegreeExpansion: "degree_expansion",
    Power: "cartesian_power",
    Parallel: "with_parallel_links",
}
"""Catalogue names of expansions of one fabric by a number."""


def unplaced(construction: Construction) -> Construction:
    """Return the fabric with ranks in the order of its own numbers."""
    return construction.of if isinstance(construction, Placed) else construction


def expression(construction: Construction) -> str:
    """Format the topology in the catalogue's language; `treadle.topologies.parse` builds it.

    Examples
    --------
    >>> expression(LineGraph(Base("complete(3)", "K3", ScheduleMethod.BFB, "complete"), 2))
    'line_graph(complete(3), 2)'
    """
    match construction:
        case Base():
            return construction.expression
        case LineGraph(of, 1):
            return f"line_graph({expression(of)})"
        case LineGraph(of, number) | DegreeExpansion(of, number) | Power(of, number) | Parallel(of, number):
            return f"{_CALLS[type(construction)]}({expression(of)}, {number})"
        case Product(factors):
            return f"cartesian_product({', '.join(map(expression, factors))})"
        case WithReverse(of):
            return f"with_reverse_links({expression(of)})"
        case Placed(of, nodes):
            return f'with_nodes_ordered({expression(of)}, "{",".join(map(str, nodes))}")'


def notation(construction: Construction) -> str:
    """Format the topology as the dissertation writes it, in plain characters: ``L^3(C(16,{3,4}))``.

    Constructions without a sign in papers use the catalogue's language. `treadle.topologies.parse` reads
    either.

    Examples
    --------
    >>> ring = Base("uni_ring(1, 4)", "UniRing(1,4)", ScheduleMethod.BFB, "ring")
    >>> notation(LineGraph(Power(ring, 2))), notation(LineGraph(Parallel(ring, 2)))
    ('L(UniRing(1,4)^2)', 'L(with_parallel_links(uni_ring(1,4),2))')
    """
    match construction:
        case Base():
            return construction.notation
        case LineGraph(of, times):
            return f"L{'' if times == 1 else f'^{times}'}({notation(of)})"
        case DegreeExpansion(of, copies):
            return f"{_operand(of)}*{copies}"
        case Power(of, exponent):
            return f"{_operand(of)}^{exponent}"
        case Product(factors):
            return " x ".join(map(_operand, factors))
        case Parallel() | WithReverse() | Placed():
            return join_name(expression(construction))


def family(construction: Construction) -> str:
    """Return the family in words, for people: ``line graph of circulant``."""
    match construction:
        case Base():
            return construction.family
        case LineGraph(of, _):
            return f"line graph of {family(of)}"
        case DegreeExpansion(of, _):
            return f"degree expansion of {family(of)}"
        case Power(of, _):
            return f"power of {family(of)}"
        case Product(factors):
            return f"product of {' and '.join(dict.fromkeys(map(family, factors)))}"
        case Parallel(of, times):
            return f"{family(of)} with {times} parallel links"
        case WithReverse(of):
            return f"bidirectional {family(of)}"
        case Placed(of, _):
            return family(of)


def join_name(expression: str) -> str:
    """Return an expression without blanks, as notation."""
    return expression.replace(", ", ",")


def bfb_base(expression: str, family: str = "") -> Base:
    """Return a graph with breadth-first broadcast; without a family that of its function's name."""
    named = family or expression.partition("(")[0].replace("_", " ")
    return Base(expression, join_name(expression), ScheduleMethod.BFB, named)


def _operand(construction: Construction) -> str:
    text = notation(construction)
    return f"({text})" if isinstance(construction, Power | DegreeExpansion | Product) else text


def is_breadth_first(construction: Construction) -> bool:
    """Whether the schedule is breadth-first broadcast on the finished graph.

    So for bases scheduled that way, their line graphs (Theorem 10) and products (Theorem 13).
    """
    match construction:
        case Base():
            return construction.scheduler is ScheduleMethod.BFB
        case LineGraph(of, _) | Parallel(of, _) | Placed(of, _):
            return is_breadth_first(of)
        case Product():
            return True
        case DegreeExpansion() | Power() | WithReverse():
            return False


_EXACT = {
    "diamond()": "Diamond",
    "modified_de_bruijn(2, 3)": "DBJMod(2,3)",
    "modified_de_bruijn(2, 4)": "DBJMod(2,4)",
    "modified_de_bruijn(3, 2)": "DBJMod(3,2)",
    "modified_de_bruijn(4, 2)": "DBJMod(4,2)",
}
"""Graphs whose schedules exact synthesis found, and how papers write them."""


def construction_of(expression: str) -> Construction:
    """Parse the outermost calls as expansions, as far as there are schedules for them; the inside is a base.

    Parameters
    ----------
    expression : str
        Of the catalogue, as it names a fabric.

    Examples
    --------
    >>> construction_of("line_graph(complete(3), 2)").times
    2
    """
    try:
        return _read(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return _base(expression)


def _base(text: str) -> Base:
    if text in _EXACT:
        return Base(text, _EXACT[text], ScheduleMethod.EXACT, "exact synthesis")
    return bfb_base(text)


def _read(node: ast.expr) -> Construction:
    text = ast.unparse(node).replace("'", '"')
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        return _base(text)
    name, values = node.func.id, node.args
    if name == "cartesian_product" and len(values) > 1:
        factors = tuple(map(_read, values))
        # other products have breadth-first broadcast on the graph itself, which needs nothing of the factors
        return Product(factors) if all(map(is_breadth_first, factors)) else _base(text)
    number: object = values[1].value if len(values) == 2 and isinstance(values[1], ast.Constant) else None
    if name == "with_nodes_ordered" and isinstance(number, str):
        return Placed(_read(values[0]), tuple(map(int, number.split(","))))
    if name == "line_graph" and len(values) == 1:
        number = 1
    expansion = {call: kind for kind, call in _CALLS.items()}.get(name)
    if expansion is None or not isinstance(number, int):
        return _base(text)
    return expansion(_read(values[0]), number)
