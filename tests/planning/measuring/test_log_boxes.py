"""How many boxes a log tells of, in which order, and what is taken for granted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from treadle.diagnosis.log import Log, SystemTree
from treadle.planning.measuring.log_fabric import (
    FORMAT,
    _completed,
    _count,
    _measures,
    _places,
    _refused,
    _several,
    _tree,
)
from treadle.refusal import Refusal
from treadle.topologies.readers.imported import ImportOptions


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
        assert found == Refusal(said)
    else:
        assert found == 2, "as many hosts as that makes boxes"


def test_places_of_hosts() -> None:
    tree = made_up(host="t")
    trees = (made_up(host="u"), made_up(host="b"))
    ranks = {2: made_up(host="c"), 0: made_up(host="b"), 1: made_up(host="b")}
    assert _places(log(ranks=ranks, trees=trees), tree) == {"b": 0, "c": 1, "t": 2, "u": 3}
    told = _places(log(rank_hosts={1: "x", 0: "y"}, trees=trees), tree)
    assert told == {"y": 0, "x": 1, "t": 2, "u": 3, "b": 4}
    assert _places(log(trees=trees), tree) == {"t": 0, "u": 1, "b": 2}


def test_hosts_in_words() -> None:
    assert _several(["a"]) == "a"
    assert _several(["a", "b"]) == "a and 1 more"
    assert _several(["a", "b", "c"]) == "a and 2 more"


def test_reasons_say_what_helps() -> None:
    assert _refused(" so ") == Refusal("so; give --topology, a catalogue name or a file")
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
    assert found(tree("a", whole=False)) == Refusal(
        "the system tree in the log is cut off; give --topology, a catalogue name or a file"
    )
    assert found() == Refusal(
        "the log has no system tree (NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH prints it); give "
        "--topology, a catalogue name or a file"
    )


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
