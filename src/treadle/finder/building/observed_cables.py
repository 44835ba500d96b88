"""Cables as they were seen: from CSV, lldpctl and ibnetdiscover. All of it is of strangers."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from treadle.errors import FormatError
from treadle.input_files import read_input_string
from treadle.tabular import format_cell

MAX_FILE_BYTES = 2**26
MAX_CABLES = 500_000
_MAX_WORD = 200
_PORT = re.compile(r"(?:[A-Za-z][A-Za-z0-9_.:/-]*?)?([0-9]{1,5})")
_COLUMNS = {
    "from_node": ("from_node", "local_node", "local_device", "chassis", "host"),
    "from_port": ("from_port", "local_port", "local_interface", "interface"),
    "to_node": ("to_node", "remote_node", "remote_device", "neighbor", "neighbour", "remote_host"),
    "to_port": ("to_port", "remote_port", "remote_interface", "neighbor_port", "neighbour_port"),
}
_IB_NODE = re.compile(r'(Switch|Ca|Rt)\s+[0-9]{1,5}\s+"([^"]{1,80})"\s*#\s*"([^"]{1,200})".*')
_IB_PORT = re.compile(
    r'\[([0-9]{1,5})\](?:\([0-9a-fA-F]+\)|\[ext [0-9]+\])?\s+"([^"]{1,80})"\[([0-9]{1,5})\].*'
)
_LLDP = re.compile(r"lldp\.([^=\s]{1,200}?)\.(chassis\.name|port\.(?:ifname|descr|local))=(.{0,400})")

Plug = tuple[str, int]
"""A node and one of its ports."""


@dataclass(frozen=True)
class SeenCable:
    """A cable of a file.

    Parameters
    ----------
    tail, head : Plug
    is_duplex : bool
    line : int
        Where it stands.
    name : str
        Its number in the list, or "".
    """

    tail: Plug
    head: Plug
    is_duplex: bool
    line: int
    name: str = ""


def read_cables(path: str | Path, *, host: str | None = None) -> tuple[tuple[SeenCable, ...], str]:
    """Cables of a file, and what kind of file it is.

    Parameters
    ----------
    path : str or Path
        CSV with a heading (that of cabling lists, or local_node, local_port, remote_node, remote_port), the
        text of ``lldpctl -f keyvalue`` of one host, or that of ibnetdiscover.
    host : str, optional
        Whose ``lldpctl`` it is, which the text does not say; default the file's name up to its first dot.

    Raises
    ------
    FormatError
        With the line, for what is malformed.
    """
    source = str(path)
    text = read_input_string(path, MAX_FILE_BYTES, expected="a cabling list")
    head = text.lstrip()[:20_000]
    if re.search(r"^lldp\.", head, re.MULTILINE):
        return tuple(_of_lldp(text, host or Path(path).name.partition(".")[0], source)), "lldp"
    if re.search(r'^(Switch|Ca|Rt)\s+[0-9]+\s+"', head, re.MULTILINE):
        return tuple(_of_ibnetdiscover(text, source)), "ibnetdiscover"
    return tuple(_of_csv(text, source)), "csv"


def _of_csv(text: str, source: str) -> Iterator[SeenCable]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heading = [word.strip().lower().replace(" ", "_") for word in next(reader, [])]
        places = {}
        for name, known in _COLUMNS.items():
            found = [one for one in known if one in heading]
            if not found:
                raise FormatError(
                    f"no column {name}; expected from_node, from_port, to_node and to_port, or local_node, "
                    f"local_port, remote_node and remote_port",
                    source=source,
                    line=1,
                )
            places[name] = heading.index(found[0])
        duplex = heading.index("duplex") if "duplex" in heading else None
        number = heading.index("cable") if "cable" in heading else None
        for count, row in enumerate(reader):
            line = reader.line_num
            if not any(row):
                continue
            if count >= MAX_CABLES:
                raise FormatError(f"more than {MAX_CABLES} cables", source=source, line=line)
            if len(row) != len(heading):
                raise FormatError(f"{len(row)} columns, expected {len(heading)}", source=source, line=line)
            cells = {name: format_cell(row[place].strip()) for name, place in places.items()}
            if not cells["to_node"]:
                continue  # a port that sees nobody
            tail = _plug(cells["from_node"], cells["from_port"], source, line)
            head = _plug(cells["to_node"], cells["to_port"], source, line)
            yes = row[duplex].strip().lower() if duplex is not None else "yes"
            if yes not in ("yes", "no"):
                raise FormatError(f"duplex: found {yes[:20]!r}, expected yes or no", source=source, line=line)
            name = row[number].strip()[:20] if number is not None else ""
            yield SeenCable(tail, head, yes == "yes", line, name if name.isprintable() else "")
    except csv.Error as error:
        raise FormatError(f"no CSV ({error})", source=source, line=reader.line_num) from None


def _plug(node: str, port: str, source: str, line: int) -> Plug:
    if not node or len(node) > _MAX_WORD or not node.isprintable():
        raise FormatError(
            f"node {node[:40]!r}: expected a name of 1 to {_MAX_WORD} characters", source=source, line=line
        )
    match = _PORT.fullmatch(port) if len(port) <= _MAX_WORD else None
    if match is None:
        raise FormatError(
            f"port {port[:40]!r}: expected a number, or a name that ends in one", source=source, line=line
        )
    return node, int(match[1])


def _of_lldp(text: str, host: str, source: str) -> Iterator[SeenCable]:
    seen: dict[str, dict[str, tuple[str, int]]] = {}
    for line, row in enumerate(text.splitlines(), start=1):
        match = _LLDP.fullmatch(row.strip())
        if match is not None:
            seen.setdefault(match[1], {})[match[2]] = (match[3].strip(), line)
        if len(seen) > MAX_CABLES:
            raise FormatError(f"more than {MAX_CABLES} interfaces", source=source, line=line)
    for interface, facts in seen.items():
        name, line = facts.get("chassis.name", ("", next(iter(facts.values()))[1]))
        port, _ = facts.get("port.ifname") or facts.get("port.local") or facts.get("port.descr") or ("", line)
        if not name or not port:
            raise FormatError(
                f"interface {interface[:40]!r} lacks chassis.name or port.ifname", source=source, line=line
            )
        yield SeenCable(_plug(host, interface, source, line), _plug(name, port, source, line), True, line)


def _of_ibnetdiscover(text: str, source: str) -> Iterator[SeenCable]:
    names: dict[str, str] = {}
    rows: list[tuple[str, int, str, int, int]] = []
    current = ""
    for line, row in enumerate(text.splitlines(), start=1):
        row = row.strip()
        node, port = _IB_NODE.fullmatch(row), _IB_PORT.fullmatch(row)
        if node is not None:
            current = node[2]
            # "host HCA-1": the host is the node
            names[current] = re.split(r" (?:HCA-|mlx|ib)", node[3])[0].strip() or current
        elif port is not None:
            if not current:
                raise FormatError("a port before any node", source=source, line=line)
            rows.append((current, int(port[1]), port[2], int(port[3]), line))
        elif row.startswith("["):
            raise FormatError(f"a port that cannot be read: {row[:60]!r}", source=source, line=line)
        if len(rows) > 2 * MAX_CABLES:
            raise FormatError(f"more than {MAX_CABLES} cables", source=source, line=line)
    for one, port_number, other, far, line in rows:
        if other not in names:
            raise FormatError(f"node {other[:40]!r} is not described", source=source, line=line)
        # ports of InfiniBand count from 1
        yield SeenCable((names[one], port_number - 1), (names[other], far - 1), True, line)
