"""How a fabric was put together, from its expression: the inverse of `construction.expression`."""

from __future__ import annotations

import ast

from treadle.finder.construction import (
    Base,
    Construction,
    DegreeExpansion,
    LineGraph,
    Parallel,
    Placed,
    Power,
    Product,
    ScheduleMethod,
    in_one_word,
    is_breadth_first,
)

_EXACT = {
    "diamond()": "Diamond",
    "modified_de_bruijn(2, 3)": "DBJMod(2,3)",
    "modified_de_bruijn(2, 4)": "DBJMod(2,4)",
    "modified_de_bruijn(3, 2)": "DBJMod(3,2)",
    "modified_de_bruijn(4, 2)": "DBJMod(4,2)",
}
"""Graphs whose schedules exact synthesis found, and how papers write them."""


def construction_of(expression: str) -> Construction:
    """Expansions of the outermost calls, as far as there are schedules for them; what is inside is a base.

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
    return Base(text, in_one_word(text), ScheduleMethod.BFB, text.partition("(")[0].replace("_", " "))


def _read(node: ast.expr) -> Construction:
    text = ast.unparse(node).replace("'", '"')
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.keywords:
        return _base(text)
    name, values = node.func.id, node.args
    if name == "cartesian_product" and len(values) > 1:
        factors = tuple(map(_read, values))
        # other products have breadth-first broadcast on the graph itself, which needs nothing of the factors
        return Product(factors) if all(map(is_breadth_first, factors)) else _base(text)
    number = values[1].value if len(values) == 2 and isinstance(values[1], ast.Constant) else None
    if name == "with_nodes_ordered" and isinstance(number, str):
        return Placed(_read(values[0]), tuple(map(int, number.split(","))))
    if name == "line_graph" and len(values) == 1:
        number = 1
    if not isinstance(number, int):
        return _base(text)
    inner = _read(values[0])
    match name:
        case "line_graph":
            return LineGraph(inner, number)
        case "degree_expansion":
            return DegreeExpansion(inner, number)
        case "cartesian_power":
            return Power(inner, number)
        case "with_parallel_links":
            return Parallel(inner, number)
    return _base(text)
