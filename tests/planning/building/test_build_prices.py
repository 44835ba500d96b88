"""Prices of a link's parts: the usual ones, those of files, and cables of either kind."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from treadle.errors import FormatError
from treadle.planning.building.build_prices import BuildPrices, parse_prices

OWN = BuildPrices(
    source="quote",
    currency="EUR",
    switch_port=Fraction(11),
    node_port=Fraction(13),
    radix=17,
    copper_metre=Fraction(19, 10),
    copper_cable=Fraction(23),
    copper_reach=Fraction(29, 10),
    optical_metre=Fraction(31, 10),
    optical_cable=Fraction(37),
    transceiver=Fraction(41),
)


def test_the_usual_prices() -> None:
    found = BuildPrices()
    assert found == BuildPrices(
        source=found.source,
        currency="$",
        switch_port=Fraction(350),
        node_port=Fraction(175),
        radix=64,
        copper_metre=Fraction(16),
        copper_cable=Fraction(23),
        copper_reach=Fraction(3),
        optical_metre=Fraction(4),
        optical_cable=Fraction(0),
        transceiver=Fraction(145),
    )
    assert "Slim Fly" in found.source


def test_cables_of_either_kind() -> None:
    """So much a cable and a metre; fibres have a transceiver at either end."""
    assert OWN.cable(Fraction(5, 2), is_copper=True) == 23 + Fraction(19, 10) * Fraction(5, 2)
    assert OWN.cable(Fraction(5, 2), is_copper=False) == 37 + Fraction(31, 10) * Fraction(5, 2) + 82


def test_a_file_says_everything() -> None:
    assert (
        parse_prices(
            {
                "source": "quote",
                "currency": "EUR",
                "switch": {"port": 11, "radix": 17},
                "node": {"port": 13},
                "copper": {"metre": 1.9, "cable": 23, "reach": "2.9m"},
                "optical": {"metre": 3.1, "cable": 37, "transceiver": 41},
            }
        )
        == OWN
    )
    assert parse_prices({"source": "x"}) == BuildPrices(source="x")


@pytest.mark.parametrize("radix", [2, 4096])
def test_the_least_and_the_largest_radix(radix: int) -> None:
    assert parse_prices({"source": "x", "switch": {"radix": radix}}).radix == radix


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"switch": {"radix": 1}},
            "switch.radix: found '1', expected a whole number from 2 to 4096",
        ),
        (
            {"switch": {"radix": 4097}},
            "switch.radix: found '4097', expected a whole number from 2 to 4096",
        ),
        ({"node": {"port": -1}}, "node.port: found '-1', expected a number from 0 to 10**9"),
        (
            {"optical": {"transceiver": "x"}},
            "optical.transceiver: found 'x', expected a number from 0 to 10**9",
        ),
        (
            {"copper": {"reach": 3}},
            "copper.reach: found '3', expected a length with a unit, as in 60cm or 2.4m",
        ),
        ({"currency": ""}, "currency: expected one line of text"),
        ({"source": 3}, "source: expected one line of text"),
        ({"node": []}, "node: expected a table [node]"),
        ({"node": {"radix": 3}}, "node: key 'radix'"),
        ({"optical": {"reach": "3m"}}, "optical: key 'reach'"),
        ({"prices": {}}, "the file: key 'prices'"),
    ],
)
def test_what_a_file_must_not_say(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError) as caught:
        parse_prices({"source": "x", **tables})
    assert message in str(caught.value)
    if "key" not in message:
        assert str(caught.value) == message


def test_prices_of_nowhere() -> None:
    with pytest.raises(FormatError) as caught:
        parse_prices({"switch": {"port": 3}})
    assert str(caught.value) == (
        'source: expected a line that says where the prices come from, as in source = "quote"'
    )
