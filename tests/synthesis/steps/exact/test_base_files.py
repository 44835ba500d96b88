"""Files of base schedules, key by key, and what is wrong with damaged ones in full."""

from __future__ import annotations

import json
import re

import pytest

from treadle.errors import FormatError
from treadle.schedules.steps.steps import steps_from_sends
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.steps.exact import bases
from treadle.synthesis.steps.exact.bases import SearchedBase, base_json, read_base
from treadle.topologies.catalogue.direct import from_arcs
from treadle.topologies.topology import Topology

BASE = SearchedBase("oneway", 2, (1, 2))


def fabric() -> Topology:
    """Three nodes round in both directions, links in no order."""
    return from_arcs("oneway", [2, 0, 1, 0, 2, 1], [0, 1, 2, 2, 1, 0], n=3)


def value(direction: Direction = Direction.BROADCAST) -> dict[str, object]:
    """Everybody to both others: half of each shard in the first step, half in the second."""
    sends = [
        (node, link, step, step, step + 1) for step in (0, 1) for link, node in enumerate([2, 0, 1, 0, 2, 1])
    ]
    if direction is Direction.REDUCE:
        heads = [0, 1, 2, 2, 1, 0]
        sends = [(heads[link], link, step, low, high) for _, link, step, low, high in sends]
    steps = steps_from_sends(direction, 3, 2, sends)
    return dict(base_json(fabric(), BASE, steps, (1, 1)))


@pytest.mark.parametrize("direction", Direction)
def test_a_file_comes_back_whatever_the_links_numbers(direction: Direction) -> None:
    data = bases._text(value(direction))
    assert data.decode().startswith('{\n "treadle": "exact-base",\n "version": 1,\n "topology": "oneway",\n')
    assert data.decode().endswith("]\n ]\n}\n")
    assert json.loads(data) == value(direction)
    other = from_arcs("oneway", [1, 2, 0, 1, 0, 2], [0, 1, 2, 2, 1, 0], n=3)
    steps = read_base(data, other, direction, source="it")
    ends = [(int(other.tails[link]), int(other.heads[link])) for link in steps.link]
    sends = value(direction)["sends"]
    assert isinstance(sends, list)
    assert ends == [(tail, head) for _, tail, head, *_ in sends]
    assert (steps.n_chunks, steps.n_steps) == (2, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"treadle": "plan"}, "expected treadle exact-base, version 1"),
        ({"version": 2}, "expected treadle exact-base, version 1"),
        ({"topology": "ring"}, "it is about ring, broadcast"),
        ({"direction": "reduce"}, "it is about oneway, reduce"),
        ({"arcs": [[0, 1]]}, "its arcs are not those of oneway"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, object], words: str) -> None:
    message = f"it: damaged base schedule ({words}); make it again: {bases.COMMAND}"
    with pytest.raises(FormatError, match=f"^{re.escape(message)}$"):
        read_base(json.dumps({**value(), **change}).encode(), fabric(), Direction.BROADCAST, source="it")


def test_so_large_a_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bases._text(value())
    monkeypatch.setattr(bases, "_MAX_FILE_BYTES", len(data))
    assert read_base(data, fabric(), Direction.BROADCAST, source="it").n_sends == 12
    monkeypatch.setattr(bases, "_MAX_FILE_BYTES", len(data) - 1)
    with pytest.raises(FormatError, match=re.escape(f"({len(data)} bytes, at most {len(data) - 1})")):
        read_base(data, fabric(), Direction.BROADCAST, source="it")


def test_a_schedule_that_lacks_a_send_says_what_is_missing() -> None:
    made = value()
    sends = made["sends"]
    assert isinstance(sends, list)
    short = json.dumps({**made, "sends": sends[:-1]}).encode()
    with pytest.raises(FormatError, match=r"^it: the base schedule fails verification \(.*\); make it again"):
        read_base(short, fabric(), Direction.BROADCAST, source="it")
