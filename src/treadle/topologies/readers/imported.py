"""Result of a reader: the fabric, recognised facts, defaults and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType

from treadle.brief import brief
from treadle.errors import FormatError
from treadle.topologies.topology import Topology


class LinkSpeeds(StrEnum):
    """Speeds given to links of a known kind."""

    NOMINAL = "nominal"
    LIBRARY = "library"


class PcieDetail(StrEnum):
    """Part of a PCIe tree that becomes part of the fabric.

    `NEAR`: from GPUs over the lowest switch that they share with a NIC to that NIC. `FULL`: all of it.
    """

    NEAR = "near"
    FULL = "full"


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """Facts that a file does not give of its fabric and the user adds; None where not given.

    Parameters
    ----------
    boxes : int, optional
        How many such boxes there are.
    network : str, optional
        What joins them: ``one-switch``, ``rail``, ``rails:K``, ``leaf-spine:L,S[,over]``.
    nic_bandwidth : int, optional
        Of a network card, bytes/s in each direction.
    gpu : str, optional
        Model of the GPUs, such as ``h100``.
    links : LinkSpeeds, optional
        Nominal speeds (the default) or those of the vendor's library.
    pcie : PcieDetail, optional
    pcie_bandwidth : int, optional
        Of each GPU's and PCIe switch's link upwards, bytes/s in each direction. Typed, ``gen4x16`` is 16
        lanes of the fourth generation.
    cpu_link : int, optional
        Between two CPUs of a box, bytes/s in each direction.
    trays : int, optional
        How many such machines NVSwitches join into one box.
    nics : str, optional
        The NICs that are used: names with commas between, or ``all``.
    bandwidth : int, optional
        Of links that have none, bytes/s.
    undirected : bool, optional
        Whether edges of a directed graph are links each way.
    oversubscription : str, optional
        Of a tree of switches, as ``8:1``.
    chunk_size : int, optional
        Bytes for which a file's costs hold. Typed, ``1MB`` is 10**6 bytes here: costs per MB are decimal.
    """

    boxes: int | None = None
    network: str | None = None
    nic_bandwidth: int | None = None
    gpu: str | None = None
    links: LinkSpeeds | None = None
    pcie: PcieDetail | None = None
    pcie_bandwidth: int | None = None
    cpu_link: int | None = None
    trays: int | None = None
    nics: str | None = None
    bandwidth: int | None = None
    undirected: bool | None = None
    oversubscription: str | None = None
    chunk_size: int | None = None

    def given(self) -> tuple[str, ...]:
        """Return the fields that are given."""
        return tuple(one.name for one in fields(self) if getattr(self, one.name) is not None)


def spelt(option: str) -> str:
    """Return an option as the command line writes it."""
    return f"--{option.replace('_', '-')}"


@dataclass(frozen=True)
class Finding:
    """Something about a file that its user should know.

    Parameters
    ----------
    text : str
        One line.
    place : str
        Where in the file: a line, an element, a key; "" for all of it.
    """

    text: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}" if self.place else self.text


@brief("topology", "format", "recognised", "defaulted", "warnings")
@dataclass(frozen=True)
class Imported:
    """A fabric that a file describes.

    Parameters
    ----------
    topology : Topology
    format : str
        Name of the reader.
    recognised : mapping of str to str
        What was found, by subject: GPUs, NICs, switches, speeds, rank order, pairs of GPU and NIC.
    defaulted : tuple of Finding
        Values that the file does not hold and that are known otherwise, with their source.
    warnings : tuple of Finding
        What was left out or contradicts itself.
    """

    topology: Topology
    format: str
    recognised: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    defaulted: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class SourceFile:
    """A file's text on its way into a reader.

    Parameters
    ----------
    text : str
    name : str
        Path as typed, for messages.
    """

    text: str
    name: str

    @property
    def stem(self) -> str:
        """The file's name without folder and suffix: what the fabric is called where the file has no name."""
        return Path(self.name).stem

    def error(self, message: str, line: int | None = None, column: int | None = None) -> FormatError:
        """Return a FormatError that names the file and, if known, the place in it."""
        one_line = " ".join(message.split())  # words of the file may hold line breaks of any kind
        return FormatError(one_line, source=self.name, line=line, column=column)
