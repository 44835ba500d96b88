"""How a fabric and its schedule are put together: bases and expansions as a tree of values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ScheduleMethod(StrEnum):
    """Where the schedule of a base comes from."""

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


def unplaced(construction: Construction) -> Construction:
    """The fabric with ranks in the order of its own numbers."""
    return construction.of if isinstance(construction, Placed) else construction


def expression(construction: Construction) -> str:
    """The topology in the catalogue's language; `treadle.topologies.parse` builds it.

    Examples
    --------
    >>> expression(LineGraph(Base("complete(3)", "K3", ScheduleMethod.BFB, "complete"), 2))
    'line_graph(complete(3), 2)'
    """
    match construction:
        case Base():
            return construction.expression
        case LineGraph(of, times):
            return f"line_graph({expression(of)}{'' if times == 1 else f', {times}'})"
        case DegreeExpansion(of, copies):
            return f"degree_expansion({expression(of)}, {copies})"
        case Power(of, exponent):
            return f"cartesian_power({expression(of)}, {exponent})"
        case Product(factors):
            return f"cartesian_product({', '.join(map(expression, factors))})"
        case Parallel(of, times):
            return f"with_parallel_links({expression(of)}, {times})"
        case WithReverse(of):
            return f"with_reverse_links({expression(of)})"
        case Placed(of, nodes):
            return f'with_nodes_ordered({expression(of)}, "{",".join(map(str, nodes))}")'


def notation(construction: Construction) -> str:
    """The topology as the dissertation writes it, in plain characters: ``L^3(C(16,{3,4}))``.

    What papers have no sign for stands in the catalogue's language. `treadle.topologies.parse` reads either.

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
            return in_one_word(expression(construction))


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


def in_one_word(expression: str) -> str:
    """An expression without blanks, as notation."""
    return expression.replace(", ", ",")


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
