"""What is taken as a fabric, a plan and sizes, one by one, and every word about what is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle
from treadle.errors import FormatError, TreadleError
from treadle.inputs.fabrics_and_plans import as_fabric, as_plan, as_size, as_sizes
from treadle.topologies import dump_topology, parse


def test_what_has_a_fabric() -> None:
    ring = parse("ring:3")
    assert as_fabric(ring) is ring
    assert as_fabric("ring:3") == "ring:3"
    assert as_fabric(SimpleNamespace(topology=ring)) is ring
    assert as_fabric(SimpleNamespace(topology=lambda: ring)) is ring
    solved = treadle.solve(ring, "allgather")
    assert as_fabric(solved) is as_fabric(solved.plan)
    assert as_fabric(solved) == ring

    class Unmade:
        def topology(self) -> object:
            return ring

    assert as_fabric(Unmade()) is ring
    for value in (3, None, SimpleNamespace(topology=3), Unmade):
        with pytest.raises(TreadleError) as caught:
            as_fabric(value, "own")
        assert str(caught.value).startswith(
            "own: expected a Topology, a catalogue expression or path, a graph of networkx, or a plan or "
            "result, found "
        )


def test_what_has_a_plan(tmp_path: Path) -> None:
    solved = treadle.solve("ring:3", "allgather")
    assert as_plan(solved) is solved.plan
    assert as_plan(solved.plan) is solved.plan
    treadle.save_plan(tmp_path / "x", solved)
    assert as_plan(tmp_path / "x") == as_plan(str(tmp_path / "x")) == solved.plan
    with pytest.raises(TreadleError) as caught:
        as_plan(3, "own")
    assert str(caught.value).startswith(
        "own: expected a Plan, the path of a plan file, or a result with a plan"
    )
    text = tmp_path / "text"
    text.write_text(treadle.lower(solved).text)
    with pytest.raises(FormatError) as caught:
        as_plan(text)
    assert str(caught.value) == (
        f"{str(text)[:80]}: this is a runtime file (msccl-xml), not a plan; use treadle.verify, or simulate "
        "or compare with a fabric"
    )
    fabric = tmp_path / "fabric"
    fabric.write_text(dump_topology(parse("ring:3")))
    for value in (fabric, str(fabric), "ring:3"):
        with pytest.raises(FormatError) as caught:
            as_plan(value)
        assert str(caught.value) == (
            f"{str(value)[:80]}: this is a fabric, not a plan; treadle.solve computes a plan for it"
        )
    for value in (Path("ring:3"), tmp_path / "none"):
        with pytest.raises(FormatError) as caught:
            as_plan(value)
        assert "this is a fabric" not in str(caught.value)
    other = tmp_path / "other"
    other.write_text("neither")
    with pytest.raises(FormatError) as caught:
        as_plan(other)
    assert "this is a" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "sizes"),
    [
        (7, [7]),
        (np.int64(9), [9]),
        ("1K", [1024]),
        ("1K..4K", [1024, 2048, 4096]),
        ([3, "2K", np.int64(5)], [3, 2048, 5]),
        (("1K..2K", 7), [1024, 2048, 7]),
        (iter([1, 2]), [1, 2]),
        ([], []),
        (np.array([3, 4]), [3, 4]),
    ],
)
def test_sizes(value: Any, sizes: list[int]) -> None:
    found = as_sizes(value, "own")
    assert found == sizes
    assert {type(one) for one in found} <= {int}


@pytest.mark.parametrize("value", [True, None, 1.5, b"1K", {1: 2}, [True], [1.5], [[1]], [None]])
def test_what_is_no_size(value: Any) -> None:
    with pytest.raises(TreadleError) as caught:
        as_sizes(value, "own")
    assert str(caught.value).startswith(
        "own: expected bytes, a string such as 64MB or 1K..1G, or a sequence of these, found "
    )


def test_the_least_size() -> None:
    assert as_sizes([1], "own") == [1]
    assert as_sizes(0, "own", least=0) == [0]
    assert as_sizes([4, "1K"], "own", least=4) == [4, 1024]
    for value, least, said in (
        (0, 1, "own: expected at least 1 byte, found 0"),
        ([9, 3], 4, "own: expected at least 4 bytes, found 3"),
    ):
        with pytest.raises(FormatError) as caught:
            as_sizes(value, "own", least=least)
        assert str(caught.value) == said


def test_one_size() -> None:
    assert as_size(None, "own") is None
    assert as_size("2K", "own") == 2048
    assert (as_size(3, "own"), as_size(np.int32(5), "own")) == (3, 5)
    assert type(as_size(np.int32(5), "own")) is int
    for value in (True, 1.5, [1]):
        with pytest.raises(TreadleError) as caught:
            as_size(value, "own")
        assert str(caught.value).startswith("own: expected bytes, or a string such as 64MB, found ")
