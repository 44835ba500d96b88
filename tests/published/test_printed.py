"""The figures in print that `treadle reproduce` quotes are those that the other tests here hold."""

from __future__ import annotations

from fractions import Fraction

import pytest

from published import test_alltoall_published as alltoall
from published import test_direct_connect_tables as direct
from topologies import test_moore as moore
from treadle.reproduction.printed import published_figures

A1 = published_figures()["table-A.1"].figures


def texts(exhibit: str, ending: str) -> list[str]:
    figures = published_figures()[exhibit].figures
    return [figure.text for label, figure in figures.items() if label.endswith(ending)]


@pytest.mark.parametrize("n", [32, 64, 128, 256, 512, 1024])
def test_table_a1(n: int) -> None:
    """T_L, T_B and D of each row, whatever its name."""
    names = {label.partition(": ")[0] for label in A1 if label.startswith(f"N={n} ")} - {f"N={n} bound"}
    printed = sorted(
        (int(A1[f"{x}: T_L"].text), A1[f"{x}: T_B"].text, int(A1[f"{x}: D"].text)) for x in names
    )
    assert printed == sorted((row[3], row[4], row[5]) for row in direct.TABLE_A1 if row[0] == n)


def test_rates_of_table_a1() -> None:
    rates = {Fraction(text) for text in texts("table-A.1", ": MCF")}
    for _, printed in alltoall.TABLE_A1:
        assert Fraction(str(printed)) in rates
    assert Fraction("8.12e-4") in rates


def test_bounds_of_table_a1() -> None:
    for n, steps, t_b, _, rate in moore.TABLE_A1:
        place = f"N={n} bound"
        assert int(A1[f"{place}: T_L"].text) == steps
        assert float(A1[f"{place}: T_B"].text) == t_b
        assert float(A1[f"{place}: MCF"].text) == rate


def test_table_a2() -> None:
    figures = published_figures()["table-A.2"].figures
    for n, steps, bidirectional in moore.TABLE_A2:
        name = next(label for label in figures if label.endswith(f"N={n}: T_L"))
        assert (figures[f"{name}*"].text, figures[f"{name}**"].text) == (str(steps), str(bidirectional))


def test_table_3_4() -> None:
    """2 (T_L + T_B), and the same T_L, T_B and D as table A.1 has for 1024 nodes."""
    figures = published_figures()["table-3.4"].figures
    assert sorted(texts("table-3.4", ": T_L")) == sorted(str(r[3]) for r in direct.TABLE_A1 if r[0] == 1024)
    for label, figure in figures.items():
        if label.endswith((": T_L", ": T_B", ": D")):
            assert A1[f"N=1024 {label}"].text == figure.text
    for printed in ("323.5", "291.0", "328.4", "387.8", "567.6", "267.6", "1407.6", "20640", "1434"):
        assert printed in texts("table-3.4", ": 2(T_L+T_B)")
