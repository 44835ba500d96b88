"""What switches, cables and transceivers cost: a TOML file, or rounded figures from the literature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from treadle.errors import FormatError
from treadle.input_files import naming_file
from treadle.planning.building.toml_sheet import (
    check_known,
    line_of_text,
    metres,
    price,
    read_tables,
    sub_table,
    whole,
)

_TABLES = {
    "switch": {"port", "radix"},
    "node": {"port"},
    "copper": {"metre", "cable", "reach"},
    "optical": {"metre", "cable", "transceiver"},
}


@dataclass(frozen=True)
class BuildPrices:
    """Prices of a link's parts, all for one link speed.

    Parameters
    ----------
    source : str
        Where they come from.
    currency : str
    switch_port, node_port : Fraction
        A port of a packet switch, and of a node (its network card).
    radix : int
        Most ports of a switch.
    copper_metre, copper_cable : Fraction
        A metre, and what any cable costs beside.
    copper_reach : Fraction
        Metres up to which cables are of copper.
    optical_metre, optical_cable, transceiver : Fraction
        The same of fibres; a transceiver at each of a cable's two ends.
    """

    source: str = (
        "assumed; cables and switch ports rounded from the fits of Besta and Hoefler, Slim Fly (2014), for "
        "40 Gbit/s InfiniBand; a node's port half a switch's"
    )
    currency: str = "$"
    switch_port: Fraction = Fraction(350)
    node_port: Fraction = Fraction(175)
    radix: int = 64
    copper_metre: Fraction = Fraction(16)
    copper_cable: Fraction = Fraction(23)
    copper_reach: Fraction = Fraction(3)
    optical_metre: Fraction = Fraction(4)
    optical_cable: Fraction = Fraction(0)
    transceiver: Fraction = Fraction(145)

    def cable(self, length: Fraction, *, is_copper: bool) -> Fraction:
        """Price of a cable, its transceivers included."""
        if is_copper:
            return self.copper_cable + length * self.copper_metre
        return self.optical_cable + length * self.optical_metre + 2 * self.transceiver


def load_prices(path: str | Path) -> BuildPrices:
    """Read prices: TOML with ``source``, ``currency`` and the tables switch, node, copper and optical.

    Raises
    ------
    FormatError
        If the file cannot be read or says something else.
    """
    with naming_file(path):
        return parse_prices(read_tables(path, "cost"))


def parse_prices(tables: Mapping[str, Any]) -> BuildPrices:
    """Prices from the tables of their file; what it leaves out is as by default, and `source` must stand."""
    check_known(tables, "the file", {"source", "currency", *_TABLES})
    if "source" not in tables:
        raise FormatError(
            'source: expected a line that says where the prices come from, as in source = "quote"'
        )
    values: dict[str, Any] = {"source": line_of_text(tables["source"], "source")}
    if "currency" in tables:
        values["currency"] = line_of_text(tables["currency"], "currency")
    names = {"optical.transceiver": "transceiver", "switch.radix": "radix"}
    for table, known in _TABLES.items():
        found = sub_table(tables, table)
        check_known(found, table, known)
        for key, value in found.items():
            place = f"{table}.{key}"
            name = names.get(place, f"{table}_{key}")
            if key == "reach":
                values[name] = metres(value, place)
            elif key == "radix":
                values[name] = whole(value, place, least=2, most=4096)
            else:
                values[name] = price(value, place)
    return BuildPrices(**values)
