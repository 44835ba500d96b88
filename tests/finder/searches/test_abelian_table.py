"""The shipped table of abelian Cayley digraphs: valued anew in samples, and what it gives the finder."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.finder.searches.abelian_table import AbelianTable


@pytest.mark.parametrize(
    "line", ["9 4  3x3 1", "9 4   1 2 3", "9 x   1 2", "9 4 5 2x2 1 2", "9"], ids=lambda text: text[:12]
)
def test_faults_of_a_line_are_told(line: str) -> None:
    with pytest.raises(FormatError, match="line of 9 nodes"):
        AbelianTable(f"treadle abelian table 1\n2 one-way\n{line}\n").sets(9, 2, two_way=False)
