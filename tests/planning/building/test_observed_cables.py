"""Cables as files tell them: every cell, with the line where it stands, and words at their limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from treadle.errors import FormatError
from treadle.finder.building.observed_cables import (
    MAX_CABLES,
    MAX_FILE_BYTES,
    SeenCable,
    read_cables,
)


def read(folder: Path, text: str, *, name: str = "seen.csv", host: str | None = None) -> list[SeenCable]:
    (folder / name).write_bytes(text.encode())
    return list(read_cables(folder / name, host=host)[0])


def refusal(folder: Path, text: str) -> str:
    """What is said, without the name of the file."""
    with pytest.raises(FormatError) as caught:
        read(folder, text)
    said = str(caught.value)
    assert said.startswith(f"{folder / 'seen.csv'}:")
    return said.removeprefix(f"{folder / 'seen.csv'}:")


def test_lists_of_cables_cell_by_cell(tmp_path: Path) -> None:
    text = (
        "\ufeffcable,From Node,from port, TO_NODE ,to_port,duplex,note\n"
        "7,a,eth3,b,Ethernet1/12,YES,\n"
        "\n"
        " 8 , c ,4,,,no,a port that sees nobody\n"
        ",,,,,,\n"
        "123456789012345678901234,d,0,e.f,99999,no,\n"
        "x\x07y,d,1,e,p-0:2.1,yes,\n"
    )
    assert read(tmp_path, text) == [
        SeenCable(("a", 3), ("b", 12), True, 2, "7"),
        SeenCable(("d", 0), ("e.f", 99999), False, 6, "12345678901234567890"),
        SeenCable(("d", 1), ("e", 1), True, 7, ""),
    ]


@pytest.mark.parametrize(
    "heading",
    [
        "from_node,from_port,to_node,to_port",
        "local_node,local_port,remote_node,remote_port",
        "local_device,local_interface,remote_device,remote_interface",
        "chassis,interface,neighbor,neighbor_port",
        "host,interface,neighbour,neighbour_port",
        "host,local port,remote host,remote port",
    ],
)
def test_headings_of_others(heading: str, tmp_path: Path) -> None:
    """Columns in another order; without a column for it, all are duplex and have no names."""
    rows = [line.split(",") for line in (heading, "a,1,b,2")]
    text = "\n".join(",".join(row[place] for place in (3, 0, 2, 1)) for row in rows)
    assert read(tmp_path, text) == [SeenCable(("a", 1), ("b", 2), True, 2)]


def test_the_first_of_several_columns_that_would_do(tmp_path: Path) -> None:
    text = "host,from_node,from_port,to_node,to_port,remote_port\nx,a,1,b,2,3\n"
    assert read(tmp_path, text) == [SeenCable(("a", 1), ("b", 2), True, 2)]


HEAD = "from_node,from_port,to_node,to_port"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "from_node,from_port,to_node\n",
            "1: no column to_port; expected from_node, from_port, to_node and to_port, or local_node, "
            "local_port, remote_node and remote_port",
        ),
        (f"{HEAD}\na,1,b,2\na,2,c\n", "3: 3 columns, expected 4"),
        (f"{HEAD}\na,1,b,2,3\n", "2: 5 columns, expected 4"),
        (f"{HEAD}\na,x,b,2\n", "2: port 'x': expected a number, or a name that ends in one"),
        (f"{HEAD}\na,1,b,123456\n", "2: port '123456': expected a number, or a name that ends in one"),
        (f"{HEAD}\na,1,b,-2\n", "2: port '-2': expected a number, or a name that ends in one"),
        (f"{HEAD}\n,1,b,2\n", "2: node '': expected a name of 1 to 200 characters"),
        (f"{HEAD}\na\x07,1,b,2\n", "2: node 'a\\x07': expected a name of 1 to 200 characters"),
        (
            f"{HEAD}\na,1,{'b' * 201},2\n",
            f"2: node '{'b' * 40}': expected a name of 1 to 200 characters",
        ),
        (
            f"{HEAD}\na,{'p' * 200}1,b,2\n",
            f"2: port '{'p' * 40}': expected a number, or a name that ends in one",
        ),
        (
            f"{HEAD},duplex\na,1,b,2,{'p' * 30}\n",
            f"2: duplex: found '{'p' * 20}', expected yes or no",
        ),
        ("[1] x\n", "1: no column from_node; expected from_node, from_port, to_node and to_port, or "
         "local_node, local_port, remote_node and remote_port"),
    ],
)  # fmt: skip
def test_what_lists_must_not_say(text: str, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, text) == said


def test_the_most_that_is_read() -> None:
    assert (MAX_FILE_BYTES, MAX_CABLES) == (64 * 2**20, 500_000)


def test_words_as_long_as_they_may_be(tmp_path: Path) -> None:
    text = f"{HEAD}\n{'a' * 200},{'p' * 195}12345,b,2\n"
    assert read(tmp_path, text) == [SeenCable(("a" * 200, 12345), ("b", 2), True, 2)]


def test_lines_of_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "seen.csv").write_bytes(b"a\nb\n\xffc")
    with pytest.raises(FormatError, match=r"seen\.csv:3:1: byte 0xff is not valid UTF-8"):
        read_cables(tmp_path / "seen.csv")
    (tmp_path / "seen.csv").write_text(f'{HEAD}\na,1,b,2\n"a,1')
    with pytest.raises(FormatError, match=r"seen\.csv:3: no CSV \("):
        read_cables(tmp_path / "seen.csv")
    with pytest.raises(FormatError, match=r"nothing: cannot be read: No such file"):
        read_cables(tmp_path / "nothing")


LLDP = """\
lldp.eth1.via=LLDP
lldp.eth1.chassis.name=b
lldp.eth1.port.descr=to 9
lldp.eth1.port.local=7
  lldp.eth1.port.ifname=eth5
lldp.eth2.chassis.name=c
lldp.eth2.port.descr=swp8
lldp.eth2.port.local= swp6
garbage
lldp.eth10.port.descr=port 3
lldp.eth10.chassis.name = not this
lldp.eth10.chassis.name=d
"""


def test_what_lldp_says(tmp_path: Path) -> None:
    """The name of a port, else its local name, else its description, with the line of the neighbour."""
    text = LLDP.replace("=port 3", "=port3")
    wanted = [
        SeenCable(("n7", 1), ("b", 5), True, 2),
        SeenCable(("n7", 2), ("c", 6), True, 6),
        SeenCable(("n7", 10), ("d", 3), True, 12),
    ]
    assert read(tmp_path, text, name="n7.room.lldp") == wanted
    (tmp_path / "n7.room.lldp").write_text(f"\n\n{text}")
    found, kind = read_cables(tmp_path / "n7.room.lldp", host="x")
    assert kind == "lldp"
    assert [(one.tail, one.line) for one in found] == [(("x", 1), 4), (("x", 2), 8), (("x", 10), 14)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LLDP, "12: port 'port 3': expected a number, or a name that ends in one"),
        (
            "lldp.eth1.port.ifname=eth5\n",
            "1: interface 'eth1' lacks chassis.name or port.ifname",
        ),
        (
            "\nlldp.eth1.chassis.name=b\nlldp.eth1.port.ifname=\n",
            "2: interface 'eth1' lacks chassis.name or port.ifname",
        ),
        (
            f"lldp.{'x' * 50}1.chassis.name=b\n",
            f"1: interface '{'x' * 40}' lacks chassis.name or port.ifname",
        ),
    ],
)
def test_what_lldp_must_not_say(text: str, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, text) == said


IB = """\
# a comment
Switch\t36 "S-0002"\t\t# "leaf0" enhanced port 0 lid 4
[36]\t"H-0001"[1](248a)\t\t# "n0 mlx5_0" lid 5 4xEDR
[2][ext 7]\t"S-0003"[12]\t# "spine"

Ca\t1 "H-0001"\t\t# "n0 mlx5_0"
[1](248a) \t"S-0002"[36]\t\t# lid 5
Rt\t3 "S-0003"\t\t# " ib0"
[12]\t"S-0002"[2]
Ca\t1 "H-0004"\t\t# "n4 HCA-1"
[1](0e) \t"H-0005"[2]
Ca\t1 "H-0005"\t\t# "ib x"
"""


def test_what_ibnetdiscover_says(tmp_path: Path) -> None:
    """Ports count from 0 here, and a node's name ends where that of its adapter begins."""
    (tmp_path / "net").write_text(IB)
    found, kind = read_cables(tmp_path / "net")
    assert kind == "ibnetdiscover"
    assert list(found) == [
        SeenCable(("leaf0", 35), ("n0", 0), True, 3),
        SeenCable(("leaf0", 1), ("S-0003", 11), True, 4),
        SeenCable(("n0", 0), ("leaf0", 35), True, 7),
        SeenCable(("S-0003", 11), ("leaf0", 1), True, 9),
        SeenCable(("n4", 0), ("ib x", 1), True, 11),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[1] "H"[1]\nCa 1 "H" # "n0"\n', "1: a port before any node"),
        ('Ca 1 "H" # "n0"\n[1] "H"\n', "2: a port that cannot be read: '[1] \"H\"'"),
        (f'Ca 1 "H" # "n0"\n[{"x" * 70}\n', f"2: a port that cannot be read: '[{'x' * 59}'"),
        (
            f'Ca 1 "H" # "n0"\n\n[1] "{"Z" * 50}"[1]\n',
            f"3: node '{'Z' * 40}' is not described",
        ),
    ],
)
def test_what_ibnetdiscover_must_not_say(text: str, said: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, text) == said
