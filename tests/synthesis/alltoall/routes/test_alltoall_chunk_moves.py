"""Chunks moved off busy links, against a plain reading of the rule."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from samples.strategies import digraphs
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.alltoall.routes.chunk_moves import move_chunks
from treadle.synthesis.alltoall.routes.disjoint_paths import bounded_paths
from treadle.synthesis.alltoall.routes.path_sets import PathSet, check_paths
from treadle.topologies import parse
from treadle.topologies.topology import Topology


def moved_slowly(paths: PathSet, pair: np.ndarray, units: np.ndarray, topology: Topology) -> np.ndarray:
    """The same moves, each found by looking at all pairs of paths, in fractions."""
    units = units.copy()
    widths = topology.bandwidths.tolist()
    links = [paths.links_of(p).tolist() for p in range(paths.n_paths)]
    while True:
        load = [0] * topology.n_links
        for amount, path in zip(units.tolist(), links, strict=True):
            for link in path:
                load[link] += amount
        times = [Fraction(amount, width) for amount, width in zip(load, widths, strict=True)]
        worst = times.index(max(times))
        best, move = times[worst], None
        for giver in range(paths.n_paths):
            if not units[giver] or worst not in links[giver]:
                continue
            for taker in np.flatnonzero(pair == pair[giver]).tolist():
                gained = set(links[taker]) - set(links[giver])
                if worst not in links[taker] and gained:
                    after = max(Fraction(load[link] + 1, widths[link]) for link in gained)
                    if after < best:
                        best, move = after, (giver, taker)
        if move is None:
            return units
        units[move[0]] -= 1
        units[move[1]] += 1


@settings(derandomize=True, max_examples=9, deadline=None)
@given(digraphs(compute=(2, 5), extra_links=8), st.integers(1, 4), st.integers(0, 2**32 - 1))
def test_the_moves_are_those_of_the_rule(topology: Topology, chunks: int, seed: int) -> None:
    collective = on_all_ranks(topology, CollectiveKind.ALLTOALL)
    paths = bounded_paths(topology, collective, slack=1, most=6)
    pair = check_paths(collective, paths)
    units = np.random.default_rng(seed).integers(0, chunks + 1, paths.n_paths)
    moved = move_chunks(paths, pair, units, topology.bandwidths)
    assert moved.tolist() == moved_slowly(paths, pair, units, topology).tolist()
    assert np.bincount(pair, weights=moved).tolist() == np.bincount(pair, weights=units).tolist()


def test_many_chunks_leave_one_link() -> None:
    """Two paths for each pair that face each other in a ring of four: both take half."""
    ring = parse("ring(4)")
    collective = on_all_ranks(ring, CollectiveKind.ALLTOALL)
    paths = bounded_paths(ring, collective)
    pair = check_paths(collective, paths)
    first = np.append(True, np.diff(pair) != 0)
    units = np.where(first, 100, 0)
    moved = move_chunks(paths, pair, units, ring.bandwidths)
    load = np.bincount(paths.links, weights=moved[paths.owner])
    assert load.tolist() == [200.0] * 8


def test_nothing_moves_where_every_pair_has_one_path() -> None:
    ring = parse("ring(3, bidirectional=False)")
    collective = on_all_ranks(ring, CollectiveKind.ALLTOALL)
    paths = bounded_paths(ring, collective)
    units = np.arange(1, paths.n_paths + 1)
    assert (
        move_chunks(paths, check_paths(collective, paths), units, ring.bandwidths).tolist() == units.tolist()
    )
