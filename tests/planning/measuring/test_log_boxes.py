"""How many boxes a log tells of, in which order, and what is taken for granted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from treadle.diagnosis import log_fabric
from treadle.errors import FormatError
from treadle.topologies.readers.imported import ImportOptions
from treadle.unsupported import Unsupported


def made_up(**values: Any) -> Any:
    return SimpleNamespace(**values)


def log(**values: Any) -> Any:
    base: dict[str, Any] = {
        "ranks": {},
        "rank_hosts": {},
        "n_ranks": None,
        "n_nodes": None,
        "trees": (),
        "settings": (),
    }
    found = made_up(**{**base, **values})
    found.setting = lambda *names: next((one for one in found.settings if one.name in names), None)
    return found


def listed(*hosts: str) -> dict[int, Any]:
    return {rank: made_up(host=host) for rank, host in enumerate(hosts)}


@pytest.mark.parametrize(
    ("network", "gpus", "nics", "is_own"),
    [
        ("one-switch", 2, 3, True),
        ("one-switch", 2, 1, True),  # its rails are nobody's matter
        ("fat", 2, 3, True),
        ("fat", 2, 1, False),
        ("one-switch", 1, 3, False),
    ],
)
def test_a_box_of_its_own_needs_as_many_gpus_and_rails(
    network: str, gpus: int, nics: int, is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Host b's box differs, as does c's, which cannot be read, d's, which makes no fabric, and e's, of a
    number that is no box's; f's is that of a, and the tree of g is cut off."""
    first = made_up(name="a", gpus=[0] * 2, nics=[0] * 3)
    boxes: dict[str, Any] = {name: replaced(first, name) for name in "de"}
    boxes.update(b=made_up(name="b", gpus=[0] * gpus, nics=[0] * nics), f=first)

    def read(lines: list[tuple[int, str]], **_: Any) -> Any:
        ((number, host),) = lines
        assert number == 7
        if host == "c":
            raise FormatError("no tree")
        return boxes[host]

    monkeypatch.setattr(log_fabric, "read_system", read)
    monkeypatch.setattr(log_fabric, "_measures", lambda box: box.name)
    monkeypatch.setattr(
        log_fabric, "_joined", lambda _, box, __: Unsupported("no") if box.name == "d" else f"like {box.name}"
    )
    trees = [
        made_up(host=host, is_whole=host != "g", lines=[(made_up(number=7), host)]) for host in "abcdefg"
    ]
    given = log(trees=trees, ranks=listed(*"agbcdfe"), source="x")
    options = ImportOptions(boxes=6, network=network)
    own: Any
    own, unlike = log_fabric._others(given, trees[0], first, options)
    assert own == ({"b": (2, "like b")} if is_own else {})
    assert unlike == (["c", "d", "e"] if is_own else ["b", "c", "d", "e"])


def replaced(box: Any, name: str) -> Any:
    return made_up(name=name, gpus=box.gpus, nics=box.nics)
