"""Graphs as papers write them: every notation of tables A.1 and A.3 of the dissertation."""

from __future__ import annotations

import pytest

from treadle.errors import FormatError
from treadle.topologies.notations import notation_expression


@pytest.mark.parametrize(
    "text",
    [
        "",
        "L^2(",
        "Diamond^",
        "K4,4 y K3",
        "Foo(3)",
        "C(16,{3,4)",
        "(K3",
        "K3)",
        "DBJ(4)",
        "K3^0",
        "$",
        "(" * 40,
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(FormatError, match="notation"):
        notation_expression(text)


def test_notations_have_up_to_400_words_and_signs() -> None:
    text = "K5" + "^1" * 199
    assert notation_expression(text) == notation_expression("K5")
    with pytest.raises(FormatError, match=r"'K5[^ ]{78}': it has more than 400 words and signs; expected"):
        notation_expression(f"{text}^1")
