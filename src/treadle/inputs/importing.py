"""Import of a fabric from a third-party file, with options for values that the file lacks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Unpack

from treadle.checking import checked
from treadle.errors import FormatError
from treadle.options.keywords import ImportKeywords
from treadle.spelling import did_you_mean, similarly_spelt
from treadle.topologies.readers.boxes.gpu_models import PCIE_GT_PER_S, pcie_bandwidth
from treadle.topologies.readers.imported import Imported, ImportOptions, LinkSpeeds, PcieDetail, spelt
from treadle.topologies.readers.reader import read_topology
from treadle.topologies.typed_quantities import bandwidth_of
from treadle.units import parse_bandwidth, parse_decimal_size


@checked()
def import_topology(
    path: str | Path, *, format: str | None = None, **keywords: Unpack[ImportKeywords]
) -> Imported:
    """Read a fabric from a file of any supported format, and report what was recognised in it.

    Parameters
    ----------
    path : str or Path
    format : str, optional
        Name of the format; default: recognised by the file's content.
    **keywords
        Values that the file lacks: see `treadle.topologies.readers.imported.ImportOptions`.

    Raises
    ------
    FormatError
        If the file is malformed or lacks a value. Then the message names the option of the command line for
        it: ``--nic-bandwidth`` is the keyword `nic_bandwidth`.

    Examples
    --------
    >>> from pathlib import Path
    >>> import treadle
    >>> _ = Path("topology.conf").write_text("SwitchName=s0 Nodes=tux[0-3]\\n")
    >>> found = treadle.import_topology("topology.conf", nic_bandwidth="50GB/s")
    >>> found.topology
    <Topology topology: 4 compute, 1 switch, 8 links>
    >>> dict(found.recognised)["speeds"]
    '50 GB/s per node'
    """
    return read_topology(path, format=format, options=import_options(**keywords))


def import_options(**keywords: Unpack[ImportKeywords]) -> ImportOptions:
    """Return options from keywords; FormatError for a number below 1 or an unknown word.

    Examples
    --------
    >>> from treadle import planning
    >>> options = planning.import_options(nic_bandwidth="50GB/s", boxes=2)
    >>> options.nic_bandwidth, options.boxes
    (50000000000, 2)
    """
    values: dict[str, Any] = {name: value for name, value in keywords.items() if value is not None}
    for name, kind in (("links", LinkSpeeds), ("pcie", PcieDetail)):
        if name in values:
            word = str(values[name])
            if (meant := similarly_spelt(word, kind)) is None:
                known = " or ".join(kind)
                raise FormatError(f"{spelt(name)} {word[:40]!r}: expected {known}{did_you_mean(word, kind)}")
            values[name] = kind(meant)
    if isinstance(values.get("pcie_bandwidth"), str):
        values["pcie_bandwidth"] = _pcie_bandwidth(values["pcie_bandwidth"], values.get("links"))
    for name in ("nic_bandwidth", "bandwidth", "pcie_bandwidth", "cpu_link"):
        if name in values:
            values[name] = bandwidth_of(values[name], name)
    if isinstance(values.get("chunk_size"), str):
        values["chunk_size"] = parse_decimal_size(values["chunk_size"])
    for name in ("boxes", "trays", "nic_bandwidth", "bandwidth", "pcie_bandwidth", "cpu_link", "chunk_size"):
        if name in values and (not isinstance(values[name], int) or values[name] < 1):
            raise FormatError(f"{spelt(name)}: expected at least 1, found {values[name]}")
    return ImportOptions(**values)


def _pcie_bandwidth(text: str, links: LinkSpeeds | None) -> int:
    """Return the bytes/s of ``gen4x16``, or of a rate."""
    lanes = re.fullmatch(r"(?:pcie)?gen([1-6])x(1|2|4|8|16)", text.strip().casefold())
    if lanes is not None:
        return pcie_bandwidth(PCIE_GT_PER_S[int(lanes[1])], int(lanes[2]), links or LinkSpeeds.NOMINAL)
    try:
        return parse_bandwidth(text)
    except FormatError:
        expected = "expected gen4x16 and the like, or a rate such as 31.5GB/s"
        raise FormatError(f"--pcie-bandwidth {text[:40]!r}: {expected}") from None
