"""Prices of switches, cables and transceivers: a TOML file, or rounded values from the literature."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta
from msgspec.structs import asdict

from treadle.finder.building.toml_sheet import Length, Price, check_line, exact, metres, read_sheet
from treadle.input_files import naming_file
from treadle.typed_files import Table, read_toml


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
        Price per metre, and fixed price of a cable.
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


class _Switch(Table, frozen=True):
    port: Price | None = None
    radix: Annotated[int, Meta(ge=2, le=4096)] | None = None


class _Node(Table, frozen=True):
    port: Price | None = None


class _Copper(Table, frozen=True):
    metre: Price | None = None
    cable: Price | None = None
    reach: Length | None = None


class _Optical(Table, frozen=True):
    metre: Price | None = None
    cable: Price | None = None
    transceiver: Price | None = None


class _File(Table, frozen=True):
    source: str
    currency: str | None = None
    switch: _Switch = _Switch()
    node: _Node = _Node()
    copper: _Copper = _Copper()
    optical: _Optical = _Optical()


def load_prices(path: str | Path) -> BuildPrices:
    """Read prices: TOML with ``source``, ``currency`` and the tables switch, node, copper and optical.

    Raises
    ------
    FormatError
        If the file cannot be read or says something else.
    """
    with naming_file(path):
        return parse_prices(read_sheet(path, "cost"))


def parse_prices(text: str) -> BuildPrices:
    """Parse prices; missing ones have their defaults, and `source` is required."""
    file = read_toml(text, _File)
    values: dict[str, Any] = {"source": check_line(file.source, "source")}
    if file.currency is not None:
        values["currency"] = check_line(file.currency, "currency")
    names = {"optical_transceiver": "transceiver", "switch_radix": "radix"}
    for table in ("switch", "node", "copper", "optical"):
        for key, value in asdict(getattr(file, table)).items():
            name = f"{table}_{key}"
            if value is not None:
                read = metres if key == "reach" else int if key == "radix" else exact
                values[names.get(name, name)] = read(value)
    return BuildPrices(**values)
