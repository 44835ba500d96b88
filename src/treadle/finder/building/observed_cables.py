"""Observed cables from CSV, lldpctl and ibnetdiscover; all input is untrusted."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
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
    """Return the cables of a file, and its kind: csv, lldp or ibnetdiscover.

    Parameters
    ----------
    path : str or Path
        CSV with a heading (that of cabling lists, or local_node, local_port, remote_node, remote_port), the
        text of ``lldpctl -f keyvalue`` of one host, or that of ibnetdiscover.
    host : str, optional
        Host of the ``lldpctl`` output, which does not name it; default the file's name up to its first dot.

    Raises
    ------
    FormatError
        With the line, for what is malformed.
    """
    text = read_input_string(path, MAX_FILE_BYTES, expected="a cabling list")
    head, fail = text.lstrip()[:20_000], partial(FormatError, source=str(path))
    if re.search(r"^lldp\.", head, re.MULTILINE):
        return tuple(_of_lldp(text, host or Path(path).name.partition(".")[0], fail)), "lldp"
    if re.search(r'^(Switch|Ca|Rt)\s+[0-9]+\s+"', head, re.MULTILINE):
        return tuple(_of_ibnetdiscover(text, fail)), "ibnetdiscover"
    return tuple(_of_csv(text, fail)), "csv"


_Fail = Callable[..., FormatError]
"""fail(message, line=...): the error of a file."""


def _of_csv(text: str, fail: _Fail) -> Iterator[SeenCable]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        heading = [word.strip().lower().replace(" ", "_") for word in next(reader, [])]
        places = {}
        for name, known in _COLUMNS.items():
            found = [one for one in known if one in heading]
            if not found:
                raise fail(
                    f"no column {name}; expected from_node, from_port, to_node and to_port, or local_node, "
                    f"local_port, remote_node and remote_port",
                    line=1,
                )
            places[name] = heading.index(found[0])
        for count, row in enumerate(reader):
            line = reader.line_num
            if not any(row):
                continue
            if count >= MAX_CABLES:
                raise fail(f"more than {MAX_CABLES} cables", line=line)
            if len(row) != len(heading):
                raise fail(f"{len(row)} columns, expected {len(heading)}", line=line)
            cells = {name: format_cell(row[place].strip()) for name, place in places.items()}
            if not cells["to_node"]:
                continue  # nothing is plugged into the port
            others = dict(zip(heading, row, strict=True))
            duplex, name = others.get("duplex", "yes").strip().lower(), others.get("cable", "").strip()[:20]
            tail = _plug(cells["from_node"], cells["from_port"], fail, line)
            head = _plug(cells["to_node"], cells["to_port"], fail, line)
            if duplex not in ("yes", "no"):
                raise fail(f"duplex: found {duplex[:20]!r}, expected yes or no", line=line)
            yield SeenCable(tail, head, duplex == "yes", line, name if name.isprintable() else "")
    except csv.Error as error:
        raise fail(f"no CSV ({error})", line=reader.line_num) from None


def _plug(node: str, port: str, fail: _Fail, line: int) -> Plug:
    if not node or len(node) > _MAX_WORD or not node.isprintable():
        raise fail(f"node {node[:40]!r}: expected a name of 1 to {_MAX_WORD} characters", line=line)
    match = _PORT.fullmatch(port) if len(port) <= _MAX_WORD else None
    if match is None:
        raise fail(f"port {port[:40]!r}: expected a number, or a name that ends in one", line=line)
    return node, int(match[1])


def _of_lldp(text: str, host: str, fail: _Fail) -> Iterator[SeenCable]:
    seen: dict[str, dict[str, tuple[str, int]]] = {}
    for line, row in enumerate(text.splitlines(), start=1):
        match = _LLDP.fullmatch(row.strip())
        if match is not None:
            seen.setdefault(match[1], {})[match[2]] = (match[3].strip(), line)
        if len(seen) > MAX_CABLES:
            raise fail(f"more than {MAX_CABLES} interfaces", line=line)
    for interface, facts in seen.items():
        name, line = facts.get("chassis.name", ("", next(iter(facts.values()))[1]))
        port, _ = facts.get("port.ifname") or facts.get("port.local") or facts.get("port.descr") or ("", line)
        if not name or not port:
            raise fail(f"interface {interface[:40]!r} lacks chassis.name or port.ifname", line=line)
        yield SeenCable(_plug(host, interface, fail, line), _plug(name, port, fail, line), True, line)


def _of_ibnetdiscover(text: str, fail: _Fail) -> Iterator[SeenCable]:
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
                raise fail("a port before any node", line=line)
            rows.append((current, int(port[1]), port[2], int(port[3]), line))
        elif row.startswith("["):
            raise fail(f"a port that cannot be read: {row[:60]!r}", line=line)
        if len(rows) > 2 * MAX_CABLES:
            raise fail(f"more than {MAX_CABLES} cables", line=line)
    for one, port_number, other, far, line in rows:
        if other not in names:
            raise fail(f"node {other[:40]!r} is not described", line=line)
        # ports of InfiniBand count from 1
        yield SeenCable((names[one], port_number - 1), (names[other], far - 1), True, line)
