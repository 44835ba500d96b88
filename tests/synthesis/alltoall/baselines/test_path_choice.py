"""Local search for single paths: loads, prices and moves on a few links, reckoned by hand."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.synthesis.alltoall.baselines.single_path_ilp import choose_paths
from treadle.synthesis.alltoall.routes.chunk_moves import move_chunks
from treadle.synthesis.alltoall.routes.path_sets import PathSet

Pair = tuple[int, list[list[int]]]
"""Demand, and the links of each path."""

Found = tuple[list[int], list[int]]
"""Chosen paths, and the loads of the links."""


def search(bandwidths: list[int], pairs: list[Pair], seed: int = 0, *, only_moves: bool = False) -> Found:
    """The whole search, or moves off the busiest link from the first path of each pair."""
    owner = np.array([number for number, (_, paths) in enumerate(pairs) for _ in paths], dtype=np.int64)
    rows = [path for _, paths in pairs for path in paths]
    offset, flat = np.cumsum([0, *map(len, rows)]), np.concatenate(rows).astype(np.int32)
    paths = PathSet(owner.astype(np.int32), owner.astype(np.int32), offset, flat)
    demand, width = np.array([demand for demand, _ in pairs]), np.array(bandwidths)
    if only_moves:
        units = np.zeros(len(rows), dtype=np.int64)
        units[np.searchsorted(owner, np.arange(len(pairs)))] = 1
        chosen = np.flatnonzero(move_chunks(paths, owner, units, width, demand[owner]))
    else:
        chosen = choose_paths(paths, owner, demand, width, seed)
    load = np.zeros(len(width), dtype=int)
    for (amount, _), path in zip(pairs, chosen.tolist(), strict=True):
        load[rows[path]] += amount
    return chosen.tolist(), load.tolist()


def test_a_pair_alone_takes_the_fastest_path() -> None:
    """3 over links of 10, of 30 and 20, and of 20: prices are far below 1."""
    chosen, load = search([10, 30, 20, 20], [(3, [[0], [1, 2], [3]])], 0)
    assert chosen == [2]
    assert load == [0, 0, 0, 3]


def test_prices_rise_with_the_eighth_power() -> None:
    """420 over two links of 150 (2.8 each), or over one of 140 (3): 2 * 2.8^8 is more than 3^8.

    Squares of those prices say otherwise. A pair without choice keeps the busiest link.
    """
    chosen, load = search([150, 150, 140, 1], [(420, [[0, 1], [2]]), (1000, [[3]])], 0)
    assert chosen == [1, 2]
    assert load == [0, 0, 420, 1000]


def test_a_price_is_what_a_pair_adds() -> None:
    """On links of 1 that carry 5 and, twice, 4 already: 7^8 - 5^8 is 5.4 million, 2 * (6^8 - 4^8) 3.2."""
    others: list[Pair] = [(5, [[0]]), (4, [[1, 2]]), (1000, [[3]])]
    chosen, load = search([1, 1, 1, 1], [(2, [[0], [1, 2]]), *others], 0)
    assert chosen == [1, 2, 3, 4]
    assert load == [5, 6, 6, 1000]


def test_a_price_takes_off_what_the_link_has_already() -> None:
    """Link 0 of 20 has 12, link 1 of 10 nothing: (15 / 20)^8 - (12 / 20)^8 is 0.083, (3 / 10)^8 next to none.

    From link 2 of 20, which has 13: 0.8^8 - 0.65^8 is 0.136. Links 3 and 4 of 30 have 22: 0.149 each.
    """
    others: list[Pair] = [(12, [[0]]), (13, [[2]]), (22, [[3, 4]]), (1000, [[5]])]
    for ways, best in (
        ([[2], [0]], 1),
        ([[2], [0], [1]], 2),
        ([[3, 4], [2]], 1),
        ([[3], [2]], 1),
        ([[4], [0]], 1),
    ):
        chosen, _ = search([20, 10, 20, 30, 30, 1], [(3, ways), *others], 0)
        assert chosen[0] == best


def test_full_links_of_great_width_add_little() -> None:
    """2 more on 60 of 100: 0.62^8 - 0.6^8 = 0.005; on 1 of 4: 0.75^8 - 0.25^8 = 0.1."""
    others: list[Pair] = [(60, [[0]]), (1, [[1]]), (1000, [[2]])]
    _, load = search([100, 4, 1], [(2, [[1], [0]]), *others], 0)
    assert load == [62, 1, 1000]


def test_equal_prices_move_nobody() -> None:
    """2 and 3 are on link 0. If the 2 is first, it goes to link 1, the 3 to link 2, and both stay."""
    found = set()
    for seed in range(8):
        chosen, _ = search([1, 1, 2, 1], [(2, [[0], [1]]), (3, [[0], [2]]), (1000, [[3]])], seed)
        found.add(tuple(chosen))
    assert found == {(0, 3, 4), (1, 3, 4)}


def test_moves_off_the_busiest_link_come_last() -> None:
    """The price of one link at 2 is below that of four at 1.9, but it is the busiest: the pair leaves it."""
    chosen, _ = search([100, 105, 105, 105, 105], [(200, [[0], [1, 2, 3, 4]])], 0)
    assert chosen == [1]


@pytest.mark.parametrize("seed", range(5))
def test_passes_go_on_while_pairs_change(seed: int) -> None:
    """2 and 3 are on link 0. The 2, if first, goes to link 1, beside 2; the 3 to link 2; the 2 comes back."""
    chosen, load = search([1, 1, 2, 1], [(2, [[0], [1]]), (3, [[0], [2]]), (2, [[1]]), (1000, [[3]])], seed)
    assert chosen == [0, 3, 4, 5]
    assert load == [2, 2, 3, 1000]


def test_moves_off_the_busiest_link_take_the_least_busy_way() -> None:
    """The first pair goes over links of 3 and 4 (1 each at most), not of 2 (1.5), nor along link 0 again.

    The second one, of 2, is then as slow on link 0 as it would be on link 6: it stays.
    """
    pairs: list[Pair] = [(3, [[0, 5], [0, 1], [2], [3, 4]]), (2, [[0], [6]])]
    chosen, load = search([1, 9, 2, 3, 4, 9, 1], pairs, only_moves=True)
    assert chosen == [3, 4]
    assert load == [2, 0, 0, 3, 3, 0, 0]


def test_moves_go_on_until_none_is_better() -> None:
    """Links of 1: 4, 2 and 1 on the first; 4 leaves for 4, then 2 for 2, as the 4 cannot be moved back."""
    pairs: list[Pair] = [(4, [[0], [1]]), (2, [[0], [2]]), (1, [[0], [3, 1]])]
    chosen, load = search([1, 2, 1, 1], pairs, only_moves=True)
    # 7 on link 0: the 4 makes 2 of link 1; then 3 on link 0: the 2 makes 2 of link 2, the 1 would make 2.5
    assert chosen == [1, 3, 4]
    assert load == [1, 4, 2, 0]


def test_links_that_a_path_has_already_do_not_count() -> None:
    """Both paths share link 1, of 6 already; the move to link 2 is judged by that one alone."""
    pairs: list[Pair] = [(3, [[0, 1], [1, 2]]), (2, [[0]])]
    chosen, load = search([1, 1, 1], pairs, only_moves=True)
    assert chosen == [1, 2]
    assert load == [2, 3, 3]


@pytest.mark.parametrize("seed", range(4))
def test_no_single_move_is_left(seed: int) -> None:
    """After the search no pair on the busiest link has another path that would stay below its time."""
    rng = np.random.default_rng([seed, 5])
    bandwidths = rng.integers(1, 5, 9).tolist()
    pairs: list[Pair] = [
        (
            int(rng.integers(1, 6)),
            [rng.permutation(9)[: rng.integers(1, 4)].tolist() for _ in range(rng.integers(1, 5))],
        )
        for _ in range(12)
    ]
    chosen, load = search(bandwidths, pairs, seed)
    flat = [path for _, paths in pairs for path in paths]
    time = np.array(load) / np.array(bandwidths)
    worst = int(time.argmax())
    first = 0
    for (demand, paths), path in zip(pairs, chosen, strict=True):
        assert first <= path < first + len(paths)
        for other in paths:
            new = set(other) - set(flat[path])
            if worst in flat[path] and worst not in other and new:
                assert max((load[link] + demand) / bandwidths[link] for link in new) >= time[worst] * (
                    1 - 1e-9
                )
        first += len(paths)
