"""Planted faults, all assignments of small lists, and files of strangers."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from treadle.errors import FormatError
from treadle.finder.building.cabling_check import PlugAction, check_cabling

HEAD = "from_node,from_port,to_node,to_port"
Pair = tuple[str, str]


def listed(pairs: list[Pair]) -> str:
    """Ends are written as node.port."""
    rows = [",".join((*one.split("."), *other.split("."))) for one, other in pairs]
    return "\n".join([HEAD, *rows]) + "\n"


def checked(tmp_path: Path, planned: list[Pair], seen: list[Pair]) -> tuple[int, int, int]:
    """Moves, cables to lay and cables to take out; the steps are carried out and must work."""
    (tmp_path / "planned.csv").write_text(listed(planned))
    (tmp_path / "seen.csv").write_text(listed(seen))
    report = check_cabling(tmp_path / "planned.csv", tmp_path / "seen.csv")
    cables = [set(pair) for pair in seen]
    held = None
    for step in report.steps:
        at, to = f"{step.at[0]}.{step.at[1]}", f"{step.to[0]}.{step.to[1]}"
        taken = set().union(*cables) if cables else set()
        if step.action is PlugAction.TAKE_OUT:
            cables.remove({at, to})
        elif step.action is PlugAction.LAY:
            assert not {at, to} & taken
            cables.append({at, to})
        else:
            assert step.stays is not None
            stays = f"{step.stays[0]}.{step.stays[1]}"
            if step.is_held:
                assert to in taken
                held = next(cable for cable in cables if to in cable)
                held.remove(to)
                held.add("hand")
            else:
                assert to not in taken
            here = next(cable for cable in cables if stays in cable and (at in cable or "hand" in cable))
            here.remove("hand" if here is held and at not in here else at)
            here.add(to)
    assert sorted(map(sorted, cables)) == sorted(sorted(pair) for pair in planned)
    return report.n_moves, report.n_missing, report.n_surplus


def fewest(planned: list[Pair], seen: list[Pair]) -> int:
    """Over all ways to make seen cables into planned ones: plugs moved, cables laid and taken out."""
    want = [set(pair) for pair in planned if set(pair) not in [set(one) for one in seen]]
    have = [set(pair) for pair in seen if set(pair) not in [set(one) for one in planned]]
    wide = [*want, *([None] * len(have))]
    return (
        min(
            sum(1 if new is None else 2 - len(new & old) for new, old in zip(order, have, strict=False))
            + sum(new is not None for new in order[len(have) :])
            for order in permutations(wide)
        )
        if have
        else len(want)
    )


@pytest.mark.parametrize(
    ("planned", "seen", "todo"),
    [
        ([("a.0", "b.0")], [("a.0", "b.0")], (0, 0, 0)),
        ([("a.0", "b.0"), ("c.0", "d.0")], [("b.0", "a.0")], (0, 1, 0)),
        ([("a.0", "b.0"), ("c.0", "d.0")], [("a.0", "d.0"), ("c.0", "b.0")], (2, 0, 0)),
        ([("a.0", "b.0")], [("a.0", "b.1")], (1, 0, 0)),
        ([("a.0", "b.0")], [("a.0", "b.0"), ("a.1", "b.1")], (0, 0, 1)),
        ([("a.0", "b.0")], [("a.0", "c.0"), ("b.0", "d.0")], (1, 0, 1)),
    ],
)
def test_planted_faults(planned: list[Pair], seen: list[Pair], todo: tuple[int, ...], tmp_path: Path) -> None:
    assert checked(tmp_path, planned, seen) == todo


@pytest.mark.parametrize("seed", range(60))
def test_no_fewer_do(seed: int, tmp_path: Path) -> None:
    """Random matchings of ten ports, up to five cables each."""
    random = np.random.default_rng(seed)
    lists = []
    for _ in range(2):
        ports = [f"{'abcde'[port // 2]}.{port % 2}" for port in random.permutation(10)]
        count = int(random.integers(0 if lists else 1, 5))
        lists.append([(ports[2 * place], ports[2 * place + 1]) for place in range(count)])
    if not lists[1]:
        lists[1] = lists[0][:1]
    assert sum(checked(tmp_path, *lists)) == fewest(*lists)


def test_lldp_is_of_one_host(tmp_path: Path) -> None:
    (tmp_path / "planned.csv").write_text(listed([("a.0", "b.0"), ("a.1", "c.0"), ("b.1", "c.1")]))
    (tmp_path / "a.lldp").write_text(
        "lldp.eth0.via=LLDP\nlldp.eth0.chassis.name=b\nlldp.eth0.port.ifname=eth0\n"
        "lldp.eth1.chassis.name=c\nlldp.eth1.port.ifname=eth1\n"
    )
    report = check_cabling(tmp_path / "planned.csv", tmp_path / "a.lldp")
    assert (report.kind, report.n_planned, report.n_right, report.n_moves) == ("lldp", 2, 1, 1)
    assert report.steps[0].to == ("c", 0)


def test_ibnetdiscover_counts_ports_from_one(tmp_path: Path) -> None:
    (tmp_path / "planned.csv").write_text(listed([("a.0", "b.0"), ("a.1", "b.1")]))
    (tmp_path / "net").write_text(
        'Ca\t2 "H-1"\t\t# "a HCA-1"\n[1](0a) \t"H-2"[1](0b)\t\t# lid 1\n[2](0c) \t"H-2"[2](0d)\n\n'
        'Ca\t2 "H-2"\t\t# "b HCA-1"\n[1](0b) \t"H-1"[1](0a)\n[2](0d) \t"H-1"[2](0c)\n'
    )
    report = check_cabling(tmp_path / "planned.csv", tmp_path / "net")
    assert (report.kind, report.n_right, report.steps) == ("ibnetdiscover", 2, ())


def test_ends_that_do_not_agree_are_told(tmp_path: Path) -> None:
    (tmp_path / "planned.csv").write_text(listed([("a.0", "b.0")]))
    (tmp_path / "seen.csv").write_text(listed([("a.0", "b.0"), ("b.0", "c.0")]))
    report = check_cabling(tmp_path / "planned.csv", tmp_path / "seen.csv")
    assert report.doubts == (
        "line 3: b port 0 is joined to a port 0 and to c port 0 (line 2); the first is believed",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column from_node"),
        ("a,b\n1,2\n", "line 1.*no column from_node|no column from_node.*"),
        (f"{HEAD}\na,0,b\n", "3 columns, expected 4"),
        (f"{HEAD}\na,x,b,0\n", "port 'x': expected a number"),
        (f"{HEAD}\n,0,b,0\n", "node ''"),
        (f"{HEAD}\n{'a' * 300},0,b,0\n", "expected a name of 1 to 200"),
        (f'{HEAD}\n"a,0,b,0\n', "no CSV"),
        (f"{HEAD}\na,0,c,0\na,0,b,0\n", "joined to"),
        (f"{HEAD},duplex\na,0,b,0,perhaps\n", "expected yes or no"),
        ("[1] x", "no column"),
        ('Ca 2 "H" # "a"\n[1] nonsense\n', "a port that cannot be read"),
        ('Ca 2 "H" # "a"\n[1] "Z"[1]\n', "is not described"),
        ("lldp.eth0.chassis.name=b\n", "lacks chassis.name or port.ifname"),
    ],
)
def test_files_of_strangers(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "planned.csv").write_text(listed([("a.0", "b.0")]))
    path = tmp_path / "seen"
    path.write_text(text)
    if "joined" in message:
        with pytest.raises(FormatError, match="joined to"):
            check_cabling(path, tmp_path / "planned.csv")
        return
    with pytest.raises(FormatError, match=message) as caught:
        check_cabling(tmp_path / "planned.csv", path)
    assert str(path) in str(caught.value)
