"""How many boxes a log tells of, in which order, and what is taken for granted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from treadle.diagnosis import log_fabric
from treadle.diagnosis.log import Log, SystemTree
from treadle.diagnosis.log_fabric import (
    FORMAT,
    _completed,
    _count,
    _measures,
    _refused,
    _several,
    _tree,
)
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
    ("values", "gpus", "count"),
    [
        ({"ranks": listed("a", "a")}, 2, 1),
        ({"ranks": listed("a", "b")}, 2, 1),  # NVLink joins them into one
        ({"ranks": listed("a", "a", "b", "b", "c", "c")}, 2, 3),
        ({"n_ranks": 6}, 2, 3),
        ({"n_ranks": 6}, 6, 1),
        ({"n_ranks": 6, "n_nodes": 3}, 2, 3),
        ({"n_nodes": 5}, 2, 5),
        ({"n_ranks": 4, "rank_hosts": {0: "a", 1: "a", 2: "b", 3: "b"}}, 2, 2),
        ({"n_ranks": 4, "rank_hosts": {0: "a", 1: "b"}}, 2, 2),  # not all are told: by division
        ({"ranks": listed("a", "a", "b", "b"), "n_nodes": 7}, 2, 2),
    ],
)
def test_how_many_boxes_there_are(values: dict[str, Any], gpus: int, count: int) -> None:
    assert _count(log(**values), gpus) == count


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "the log does not say how many boxes took part; give --boxes and --network, or --topology"),
        (
            {"n_ranks": 5},
            "the log does not say how many boxes took part; give --boxes and --network, or --topology",
        ),
        (
            {"n_ranks": 5, "n_nodes": 3},
            "the system tree has 2 GPUs, which is no box of 5 ranks on 3 hosts; give --topology, a catalogue "
            "name or a file",
        ),
        (
            {"ranks": listed("a", "a", "a", "b")} | {"n_nodes": 9},
            "",
        ),
        (
            {"ranks": listed("a", "a", "a", "b", "c")},
            "the system tree has 2 GPUs, which is no box of 5 ranks on 3 hosts; give --topology, a catalogue "
            "name or a file",
        ),
    ],
)
def test_logs_that_do_not_tell(values: dict[str, Any], said: str) -> None:
    found = _count(log(**values), 2)
    if said:
        assert found == Unsupported(said)
    else:
        assert found == 2, "as many hosts as that makes boxes"


def test_hosts_in_words() -> None:
    assert _several(["a"]) == "a"
    assert _several(["a", "b"]) == "a and 1 more"
    assert _several(["a", "b", "c"]) == "a and 2 more"


def test_reasons_say_what_helps() -> None:
    assert _refused(" so ") == Unsupported("so; give --topology, a catalogue name or a file")
    assert FORMAT == "nccl-log"


def tree(host: str, *, whole: bool = True) -> SystemTree:
    return SystemTree(host, (), whole)


def test_the_tree_of_the_first_rank_if_it_is_whole() -> None:
    ranks: Any = {0: made_up(host="b"), 1: made_up(host="a")}

    def found(*trees: SystemTree, **values: Any) -> Any:
        return _tree(Log("x", 1, trees=trees, **values))

    assert found(tree("a"), tree("b"), ranks=ranks) == tree("b")
    assert found(tree("a"), tree("b", whole=False), tree("c"), ranks=ranks) == tree("a")
    assert found(tree("c"), tree("a")) == tree("c")
    assert found(tree("a", whole=False)) == Unsupported(
        "the system tree in the log is cut off; give --topology, a catalogue name or a file"
    )
    assert found() == Unsupported(
        "the log has no system tree (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH prints it); give "
        "--topology, a catalogue name or a file"
    )


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


def test_all_cards_are_tried_where_the_chosen_ones_make_no_fabric(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    answers: list[Any] = [FormatError("x: no card 2"), FormatError("no card"), FormatError("no"), "fabric"]

    def fabric_of(source: Any, box: Any, options: ImportOptions, name: str) -> Any:
        asked.append((source.text, source.name, box, options.nics, options.boxes, name))
        found = answers.pop(0)
        if isinstance(found, FormatError):
            raise found
        return found

    monkeypatch.setattr(log_fabric, "fabric_of", fabric_of)
    given: Any = (log(source="x"), "box", ImportOptions(nics="2", boxes=5))
    assert log_fabric._joined(*given) == Unsupported(
        "the log does not show the whole fabric: no card 2; give --topology, a catalogue name or a file"
    )
    assert asked == [("", "x", "box", nics, 5, "nccl-log") for nics in ("2", "all")]
    joined: Any = log_fabric._joined(*given)
    assert joined == "fabric"


def replaced(box: Any, name: str) -> Any:
    return made_up(name=name, gpus=box.gpus, nics=box.nics)


def test_what_is_taken_for_granted() -> None:
    given = ImportOptions(boxes=9, network="fat", nics="2")
    one = _completed(log(), given, 1)
    assert (one.boxes, one.network, one.nics) == (None, None, "2")
    several = _completed(log(), ImportOptions(), 3)
    assert (several.boxes, several.network, several.nics) == (3, "one-switch", None)
    kept = _completed(log(), given, 3)
    assert (kept.boxes, kept.network, kept.nics) == (3, "fat", "2")
    for value, nics in (("mlx5_0", "all"), ("^mlx5_0", None)):
        chosen = log(settings=(made_up(name="NCCL_IB_HCA", value=value),))
        assert _completed(chosen, ImportOptions(), 2).nics == nics
        assert _completed(chosen, given, 2).nics == "2"
    assert _completed(log(settings=(made_up(name="NCCL_DEBUG", value="x"),)), ImportOptions(), 2).nics is None


def test_what_boxes_of_a_kind_have_in_common() -> None:
    """Links by their ends and speeds in any order, GPUs and cards in theirs; names do not matter."""

    def box(*links: tuple[int, int | None, int], gpus: tuple[Any, ...] = (7,), nics: Any = ((5, 6),)) -> Any:
        return made_up(
            links=[made_up(gpu=one, other=other, bandwidth=width) for one, other, width in links],
            gpus=[made_up(slot=made_up(bandwidth=width)) for width in gpus],
            nics=[made_up(slot=made_up(bandwidth=slot), bandwidth=port) for slot, port in nics],
        )

    first = box((0, 1, 20), (0, None, 10), (1, 0, 20))
    assert _measures(first) == (
        ((0, False, 1, 20), (0, True, 0, 10), (1, False, 0, 20)),
        (7,),
        ((5, 6),),
    )
    assert _measures(box((1, 0, 20), (0, None, 10), (0, 1, 20))) == _measures(first)
    assert _measures(box((1, 0, 20), (0, None, 10), (0, 1, 21))) != _measures(first)
    assert _measures(box(gpus=(None, 3), nics=((None, None),))) == ((), (0, 3), ((0, 0),))
