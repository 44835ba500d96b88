"""Prices of a link's parts: the usual ones, those of files, and cables of either kind."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from samples.toml_text import toml_text
from treadle.errors import FormatError
from treadle.finder.building.build_prices import BuildPrices, parse_prices

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


def prices_of(tables: dict[str, Any]) -> BuildPrices:
    return parse_prices(toml_text(tables))


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
        prices_of(
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
    assert prices_of({"source": "x"}) == BuildPrices(source="x")


@pytest.mark.parametrize("radix", [2, 4096])
def test_the_least_and_the_largest_radix(radix: int) -> None:
    assert prices_of({"source": "x", "switch": {"radix": radix}}).radix == radix


@pytest.mark.parametrize(
    ("tables", "message"),
    [
        (
            {"switch": {"radix": 1}},
            "switch.radix: expected 2 to 4096, found 1",
        ),
        (
            {"switch": {"radix": 4097}},
            "switch.radix: expected 2 to 4096, found 4097",
        ),
        ({"node": {"port": -1}}, "node.port: expected a number from 0 to 10**9, found -1"),
        (
            {"optical": {"transceiver": "x"}},
            'optical.transceiver: expected a number from 0 to 10**9, found "x"',
        ),
        (
            {"copper": {"reach": 3}},
            "copper.reach: expected a length with a unit, as in 60cm or 2.4m, found 3",
        ),
        ({"currency": ""}, "currency: expected a string of one line"),
        ({"source": 3}, "source: expected a string, found 3"),
        ({"node": []}, "node: expected a table, found a list"),
        ({"node": {"radix": 3}}, 'node: unknown key "radix"; known are port'),
        ({"optical": {"reach": "3m"}}, 'optical: unknown key "reach"; known are cable, metre, transceiver'),
        (
            {"prices": {}},
            'file: unknown key "prices"; known are copper, currency, node, optical, source, switch',
        ),
    ],
)
def test_what_a_file_must_not_say(tables: dict[str, Any], message: str) -> None:
    with pytest.raises(FormatError) as caught:
        prices_of({"source": "x", **tables})
    assert message in str(caught.value)
    if "key" not in message:
        assert str(caught.value) == message


def test_prices_of_nowhere() -> None:
    with pytest.raises(FormatError) as caught:
        prices_of({"switch": {"port": 3}})
    assert str(caught.value) == ("file: key 'source' is missing")
