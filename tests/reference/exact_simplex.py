"""The simplex method on a tableau of fractions with Bland's rule: slow, exact, and it always ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction


def maximum(
    costs: Sequence[int], rows: Sequence[Mapping[int, int]], rhs: Sequence[int]
) -> tuple[Fraction, list[Fraction]]:
    """Maximise ``costs . x`` subject to ``rows . x <= rhs``, x >= 0, where all rhs are at least 0.

    Returns
    -------
    The optimum and an x that attains it. The programs are bounded, or the loop fails loudly.
    """
    assert min(rhs) >= 0
    n, m = len(costs), len(rows)
    table = [
        [Fraction(row.get(j, 0)) for j in range(n)]
        + [Fraction(int(i == k)) for k in range(m)]
        + [Fraction(b)]
        for i, (row, b) in enumerate(zip(rows, rhs, strict=True))
    ]
    gain = [Fraction(cost) for cost in costs] + [Fraction(0)] * (m + 1)
    basis = list(range(n, n + m))
    while True:
        entering = next((j for j in range(n + m) if gain[j] > 0), None)
        if entering is None:
            break
        ratios = [(row[-1] / row[entering], basis[i], i) for i, row in enumerate(table) if row[entering] > 0]
        assert ratios, "the program is unbounded"
        _, _, leaving = min(ratios)
        _pivot(table, gain, leaving, entering)
        basis[leaving] = entering
    x = [Fraction(0)] * (n + m)
    for i, j in enumerate(basis):
        x[j] = table[i][-1]
    assert all(sum(a * x[j] for j, a in row.items()) <= b for row, b in zip(rows, rhs, strict=True))
    return -gain[-1], x[:n]


def _pivot(table: list[list[Fraction]], gain: list[Fraction], leaving: int, entering: int) -> None:
    pivot = table[leaving][entering]
    table[leaving] = [value / pivot for value in table[leaving]]
    for row in (*(row for i, row in enumerate(table) if i != leaving), gain):
        factor = row[entering]
        if factor:
            for j, value in enumerate(table[leaving]):
                if value:
                    row[j] -= factor * value
