"""Messages along a line or a ring: each way once, one a link and slot, by definition and by trying."""

from __future__ import annotations

import pytest

from treadle.synthesis.alltoall.baselines.grid_phases import LineExchange, line_exchange


def messages(line: LineExchange) -> dict[tuple[int, int, int], list[tuple[int, int, int]]]:
    """Of each (start, end, half), its hops as (slot, at, way) in the order of time."""
    found: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}
    columns = (line.start, line.end, line.half, line.slot, line.at, line.way)
    for start, end, half, *hop in zip(*(column.tolist() for column in columns), strict=True):
        slot, at, way = hop
        found.setdefault((start, end, half), []).append((slot, at, way))
    return {key: sorted(hops) for key, hops in found.items()}


@pytest.mark.parametrize(
    ("side", "closed", "halves"),
    [(2, False, 1), (3, False, 1), (5, False, 1), (4, False, 2), (3, True, 1), (5, True, 1), (7, True, 2),
     (4, True, 2), (6, True, 2)],
)  # fmt: skip
def test_every_half_goes_its_way_and_no_link_has_two_at_once(side: int, closed: bool, halves: int) -> None:
    line = line_exchange(side, closed=closed, halves=halves)
    found = messages(line)
    pairs = [(start, end) for start in range(side) for end in range(side) if start != end]
    assert sorted(found) == sorted((*pair, half) for pair in pairs for half in range(halves))
    for (start, end, half), hops in found.items():
        way = hops[0][2]
        up = (end - start) % side if closed else end - start
        length = min(up, side - up) if closed else abs(up)
        if closed and 2 * up == side:
            assert way == (1, -1)[half]
        else:
            assert way == (1 if up > 0 and (2 * up < side or not closed) else -1)
        assert len(hops) == length
        assert [at for _, at, _ in hops] == [(start + way * hop) % side for hop in range(length)]
        assert len({slot for slot, _, _ in hops}) == length
    busy = list(zip(line.slot.tolist(), line.at.tolist(), line.way.tolist(), strict=True))
    assert len(set(busy)) == len(busy)
    assert line.side == side
    assert line.n_slots == max(slot for slot, _, _ in busy) + 1


def test_the_farthest_end_goes_first_on_a_path_of_four() -> None:
    """Upwards: 0 to 3, 1 to 3, 2 to 3 at once, and so on; downwards the mirror image in the same slots."""
    found = messages(line_exchange(4, closed=False, halves=1))
    slots = {key[:2]: [slot for slot, _, _ in hops] for key, hops in found.items()}
    up = {pair: taken for pair, taken in slots.items() if pair[0] < pair[1]}
    # link 0: to 3, 2, 1; link 1: from 1 to 3, then from 0 to 3; of those to 2 the nearer one first
    assert up == {
        (0, 3): [0, 1, 2],
        (1, 3): [0, 1],
        (2, 3): [0],
        (0, 2): [1, 3],
        (1, 2): [2],
        (0, 1): [2],
    }
    assert {(3 - start, 3 - end): taken for (start, end), taken in slots.items() if start > end} == up


@pytest.mark.parametrize(
    ("side", "closed", "halves"), [(4, False, 1), (5, False, 2), (6, True, 2), (7, True, 1), (9, True, 2)]
)
def test_groups_are_as_long_as_no_message_comes_twice(side: int, closed: bool, halves: int) -> None:
    line = line_exchange(side, closed=closed, halves=halves)
    keys = list(zip(line.start.tolist(), line.end.tolist(), line.half.tolist(), strict=True))
    of_slot: list[set[tuple[int, ...]]] = [set() for _ in range(line.n_slots)]
    for key, slot in zip(keys, line.slot.tolist(), strict=True):
        of_slot[slot].add(key)
    expected, number, seen = [], 0, set[tuple[int, ...]]()
    for slot in range(line.n_slots):
        if not seen.isdisjoint(of_slot[slot]):
            number, seen = number + 1, set()
        seen |= of_slot[slot]
        expected.append(number)
    assert line.groups().tolist() == expected
