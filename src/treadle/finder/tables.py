"""Figures of bases without a closed form, shipped as data; `treadle.finder.compute_tables` makes the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from importlib import resources
from math import lcm

from treadle.finder.construction import Base, Scheduler
from treadle.finder.search import Candidate

_FILE = "base_figures.json"

_DISTANCE_REGULAR = {
    **{6: 2, 9: 2, 10: 3, 14: 3, 15: 3, 16: 4, 21: 3, 26: 3},
    **{32: 4, 35: 3, 45: 4, 70: 7, 80: 4, 189: 6, 728: 6},
}
"""Diameter of the degree-4 distance-regular graph of each size (table A.2); all are bandwidth-optimal."""

_EXACT = (
    (8, 2, "diamond()", "Diamond", 3, False),
    (8, 2, "modified_de_bruijn(2, 3)", "DBJMod(2,3)", 4, True),
    (9, 3, "modified_de_bruijn(3, 2)", "DBJMod(3,2)", 3, False),
    (16, 4, "modified_de_bruijn(4, 2)", "DBJMod(4,2)", 3, False),
    (16, 2, "modified_de_bruijn(2, 4)", "DBJMod(2,4)", 5, False),
)
"""Bandwidth-optimal bases whose schedules come from exact synthesis (table A.3)."""


@dataclass(frozen=True)
class Tables:
    """What the data files say.

    Parameters
    ----------
    figures : mapping of family to mapping of (nodes, degree) to (steps, T_B, T_B of the reduce-scatter)
    library : mapping of (nodes, degree) to candidates found by search
    """

    figures: Mapping[str, Mapping[tuple[int, int], tuple[int, Fraction, Fraction]]]
    library: Mapping[tuple[int, int], Sequence[Candidate]] = field(default_factory=dict)

    def bases(self, nodes: int, degree: int) -> Iterator[Candidate]:
        """Bases of that size, the plainest first."""
        yield from _exact_bases(nodes, degree)
        if degree == 4 and nodes in _DISTANCE_REGULAR:
            yield _distance_regular(nodes)
        yield from self.library.get((nodes, degree), ())
        for family, rows in self.figures.items():
            if (nodes, degree) in rows:
                yield _from_figures(family, nodes, degree, rows[nodes, degree])


def _exact_bases(n: int, d: int) -> Iterator[Candidate]:
    for nodes, degree, expression, notation, steps, symmetric in _EXACT:
        if (nodes, degree) != (n, d):
            continue
        optimum = Fraction(n - 1, n)
        base = Base(expression, notation, Scheduler.EXACT, "exact synthesis")
        yield Candidate(
            n,
            d,
            steps,
            optimum,
            optimum,
            base,
            is_breadth_first=False,
            is_reverse_symmetric=symmetric,
        )


def _distance_regular(n: int) -> Candidate:
    optimum = Fraction(n - 1, n)
    base = Base(f"distance_regular(4, {n})", f"DistReg(4,{n})", Scheduler.BFB, "distance-regular")
    return Candidate(
        n,
        4,
        _DISTANCE_REGULAR[n],
        optimum,
        optimum,
        base,
        is_bidirectional=True,
        is_reverse_symmetric=True,
    )


def _from_figures(family: str, n: int, d: int, row: tuple[int, Fraction, Fraction]) -> Candidate:
    steps, t_b, t_b_reduce = row
    if family == "generalized_kautz":
        base = Base(f"generalized_kautz({d}, {n})", f"Pi({d},{n})", Scheduler.BFB, "generalized Kautz")
        has_loops = n % (d + 1) != 0
    else:
        base = Base(f"de_bruijn({d}, {steps})", f"DBJ({d},{steps})", Scheduler.BFB, "de Bruijn")
        has_loops = True
    simple = not has_loops and n > d
    return Candidate(n, d, steps, t_b, t_b_reduce, base, is_simple=simple, has_loops=has_loops)


@cache
def shipped_tables() -> Tables:
    """The data files of the package; read once, never changed."""
    from treadle.finder.library import library_candidates

    text = resources.files("treadle.finder").joinpath("data", _FILE).read_text("utf-8")
    return Tables(_decode(json.loads(text)), library_candidates())


def _decode(
    values: Mapping[str, Mapping[str, Mapping[str, list[int]]]],
) -> dict[str, dict[tuple[int, int], tuple[int, Fraction, Fraction]]]:
    figures: dict[str, dict[tuple[int, int], tuple[int, Fraction, Fraction]]] = {}
    for family, degrees in values.items():
        rows = figures.setdefault(family, {})
        for degree_text, columns in degrees.items():
            d = int(degree_text)
            scale = lcm(*range(1, d + 1))
            for n, steps, gather, reduce in zip(
                columns["nodes"], columns["steps"], columns["gather"], columns["reduce"], strict=True
            ):
                rows[n, d] = (steps, Fraction(gather, n * scale), Fraction(reduce, n * scale))
    return figures
