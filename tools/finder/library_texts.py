"""The finder's libraries as the JSON that is shipped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from treadle.finder.searches import cayley_library, line_graph_library
from treadle.finder.searches.abelian_search import AbelianSet, inverse
from treadle.finder.searches.abelian_table import ABELIAN_HEAD
from treadle.finder.searches.cayley_library import LibraryEntry, LineGraphEntry
from treadle.finder.searches.cayley_value import load_scale


def cayley_text(entries: Iterable[LibraryEntry]) -> str:
    """The library's JSON: the commands once, then one line an entry, dominated ones dropped."""
    kept = cayley_library.pareto_entries(entries)
    commands = sorted({entry.command for entry in kept})
    lines = ",\n".join(
        json.dumps(
            [
                e.degree,
                e.nodes,
                int(e.bidirectional),
                e.t_l,
                str(e.t_b),
                e.expression,
                commands.index(e.command),
            ]
        )
        for e in kept
    )
    version = cayley_library.VERSION
    head = json.dumps({"treadle": "cayley_library", "version": version, "commands": commands}, indent=1)
    columns = '["degree", "nodes", "bidirectional", "t_l", "t_b", "expression", "command"]'
    return f'{head[:-2]},\n "columns": {columns},\n "entries": [\n{lines}\n]}}\n'


def line_graph_text(entries: Iterable[LineGraphEntry]) -> str:
    """The library's JSON: the commands once, then one line an entry, dominated ones dropped."""
    kept = cayley_library.pareto_entries(entries)
    commands = sorted({entry.command for entry in kept})
    lines = ",\n".join(json.dumps(_row(entry, commands)) for entry in kept)
    name, version = line_graph_library.NAME, cayley_library.VERSION
    head = json.dumps({"treadle": name, "version": version, "commands": commands}, indent=1)
    columns = json.dumps(line_graph_library.COLUMNS)
    return f'{head[:-2]},\n "columns": {columns},\n "entries": [\n{lines}\n]}}\n'


def _row(e: LineGraphEntry, commands: list[str]) -> list[int | str]:
    gather, reduce = str(e.gather_t_b), str(e.reduce_t_b)
    return [e.degree, e.nodes, e.power, e.t_l, gather, reduce, e.base, commands.index(e.command)]


def abelian_text(cells: Mapping[tuple[int, int, bool], Iterable[AbelianSet]], commands: Sequence[str]) -> str:
    """The table as text: cells by degree, kind and size."""
    lines = [ABELIAN_HEAD, *(f"# {command}" for command in commands)]
    before: tuple[int, bool] | None = None
    for n, degree, two_way in sorted(cells, key=lambda cell: (cell[1], cell[2], cell[0])):
        if (degree, two_way) != before:
            before = degree, two_way
            lines.append(f"{degree} {'two-way' if two_way else 'one-way'}")
        lines += [_abelian_line(n, degree, two_way, one) for one in cells[n, degree, two_way]]
    return "\n".join(lines) + "\n"


def _abelian_line(n: int, degree: int, two_way: bool, one: AbelianSet) -> str:
    optimum = (n - 1) * load_scale(degree) // degree
    is_optimal = one.cost * degree == (n - 1) * load_scale(degree) and one.cost == optimum
    kept = list(one.generators)
    if two_way:
        kept = []
        left = list(one.generators)
        while left:
            first = left.pop(0)
            other = inverse(first, one.moduli)
            if other != first:
                left.remove(other)
            kept.append(min(first, other))
    moduli = "" if len(one.moduli) == 1 else "x".join(map(str, one.moduli))
    return " ".join(
        [str(n), str(one.steps), "" if is_optimal else str(one.cost), moduli, *map(str, sorted(kept))]
    )
