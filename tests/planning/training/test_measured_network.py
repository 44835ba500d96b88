"""Network efficiency: one share, or measured times by kind."""

from __future__ import annotations

import pytest

from treadle.errors import TreadleError
from treadle.training.prices.measured_network import read_network_efficiency


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["much"], "expected a share such as 0.85"),
        (["0"], "more than 0 and at most 1"),
        (["1.5"], "more than 0 and at most 1"),
        (["nan"], "more than 0 and at most 1"),
        (["0.5", "0.6"], "second share"),
        (["sideways=x"], "unknown collective"),
        (["allgather=/nowhere/x"], "/nowhere/x"),
    ],
)
def test_what_is_no_efficiency(texts: list[str], message: str) -> None:
    with pytest.raises(TreadleError, match=message):
        read_network_efficiency(texts)
