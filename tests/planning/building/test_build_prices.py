"""Prices of a link's parts: the usual ones, those of files, and cables of either kind."""

from __future__ import annotations

from typing import Any

import pytest

from samples.toml_text import toml_text
from treadle.finder.building.build_prices import BuildPrices, parse_prices


def prices_of(tables: dict[str, Any]) -> BuildPrices:
    return parse_prices(toml_text(tables))


@pytest.mark.parametrize("radix", [2, 4096])
def test_the_least_and_the_largest_radix(radix: int) -> None:
    assert prices_of({"source": "x", "switch": {"radix": radix}}).radix == radix
