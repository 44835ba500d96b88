"""Allreduces of two rounds on line digraphs: Kautz and de Bruijn graphs, generalized ones too.

After L links a walk may be at d^L nodes, and those from which it comes have them in common: the ranks fall
into classes, each of which reaches one block of ranks, all to all (a line digraph of a graph has complete
bipartite parts; Fiol, Yebra and Alegre, "Line digraph iterations and the (d, k) digraph problem", IEEE ToC
1984). In the first round every rank sends each rank of its block a slice, over ways that pass other ranks:
a block then has the sum of its class. In the second every rank hears from as many ranks of every block, and
those have different slices. What a rank had itself is dropped where it is in no sum that is due there, so
that sums begin anew.

Scatter and gather over all ranks is the case of the most links in both rounds; fewer links cost more bytes
and save starts of messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from treadle.arrays import BoolArray, Int64Array, frozen, sums_of
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import tried_with
from treadle.synthesis.sizes.exchanges import Messages
from treadle.synthesis.sizes.shortest_paths import steps_over_paths
from treadle.synthesis.sizes.spanning_exchanges import few_ranks
from treadle.synthesis.steps.baselines.bidirectional import WHOLE_FABRIC
from treadle.synthesis.trees.baselines.embedding import check_supported
from treadle.topologies.topology import Topology
from treadle.unsupported import Unsupported

_NAME = "two-round"
_KINDS = (CollectiveKind.ALLREDUCE,)
_MOST_LINKS = 8
_TRIED = 3
"""Sums of the lengths that are worth a trial, from the least: longer walks come near scatter and gather."""


def in_classes(topology: Topology, _: Collective) -> Unsupported | None:
    """Some two rounds bring every rank's data to all, once."""
    if _shapes(topology):
        return None
    return Unsupported(
        f"{topology.name}: expected ranks in classes that reach blocks of ranks all to all, as in Kautz "
        "graphs"
    )


def _trials(topology: Topology, _: Collective) -> Sequence[Mapping[str, object]]:
    """Of each sum of lengths the most even pair, which sends the fewest bytes; the first is the default."""
    even: dict[int, tuple[int, int]] = {}
    for one in _shapes(topology):
        even.setdefault(one.first + one.second, (one.first, one.second))
    return [{"rounds": pair} for pair in list(even.values())[1:_TRIED]]


@tried_with(_trials)
def two_round(
    topology: Topology, collective: Collective, *, rounds: Sequence[int] | None = None
) -> StepSchedule:
    """Sums of classes of ranks in the first round, and of all of them in the second, slice by slice.

    Parameters
    ----------
    topology : Topology
        Direct, a line digraph as Kautz graphs are.
    collective : Collective
        An allreduce on all nodes in order.
    rounds : sequence of int, optional
        Links of the walks of either round; default the fewest in all, of these the most even pair.

    Raises
    ------
    ScheduleError
        If two such rounds do not bring every rank's data to all ranks once.
    """
    check_supported(_NAME, topology, collective, _KINDS, (few_ranks, *WHOLE_FABRIC, in_classes))
    shapes = {(one.first, one.second): one for one in _shapes(topology)}
    asked = next(iter(shapes)) if rounds is None else tuple(rounds)
    if asked not in shapes:
        listed = ", ".join(f"{first},{second}" for first, second in shapes)
        raise ScheduleError(f"{_NAME}: rounds {','.join(map(str, asked))}: expected one of {listed}")
    return _schedule(topology, collective, shapes[asked])


@dataclass(frozen=True, eq=False)
class _Shape:
    """Two rounds that bring every rank's data to all.

    Parameters
    ----------
    first, second : int
        Links of their walks.
    reached : pair of arrays of bool, shape (N, N)
        Of each round whom each rank reaches.
    slice_of : array of int64, shape (N,)
        Which slice of the data each rank sums.
    """

    first: int
    second: int
    reached: tuple[BoolArray, BoolArray]
    slice_of: Int64Array


def _shapes(topology: Topology) -> list[_Shape]:
    """All pairs of rounds that work, the fewest links first, then the most even; none twice the diameter."""
    walks = _walks(topology)
    lengths = [place for place, reached in enumerate(walks, 1) if _blocks(reached) is not None]
    pairs = sorted(product(lengths, repeat=2), key=lambda pair: (sum(pair), abs(pair[0] - pair[1]), pair))
    found = []
    for first, second in pairs:
        reached = walks[first - 1], walks[second - 1]
        if topology.n_nodes > 1 and not (reached[0].all() and reached[1].all()):
            slices = _slices(*reached)
            if slices is not None:
                found.append(_Shape(first, second, reached, slices))
    return found


def _walks(topology: Topology) -> list[BoolArray]:
    """Who is reached by walks of 1, 2, ... links, up to those that reach everybody.

    A generalized Kautz graph has loops, which fabrics leave out: who has fewer links than others stays.
    """
    n = topology.n_nodes
    links = sums_of((n, n), (topology.tails, topology.heads), 1, dtype=float)
    links[np.arange(n), np.arange(n)] += links.sum(axis=1).max() - links.sum(axis=1)
    found = [links > 0]
    while len(found) < _MOST_LINKS and not found[-1].all():
        found.append((found[-1].astype(np.float64) @ links) > 0)
    return found


def _blocks(reached: BoolArray) -> Int64Array | None:
    """Block of each rank, if whom ranks reach is the same or apart; None otherwise."""
    _, first, class_of = np.unique(reached, axis=0, return_index=True, return_inverse=True)
    if not (reached[first].sum(axis=0) == 1).all() or len(set(np.bincount(class_of.reshape(-1)))) > 1:
        return None
    blocks: Int64Array = np.argmax(reached[first], axis=0)
    return blocks


def _slices(first: BoolArray, second: BoolArray) -> Int64Array | None:
    """Slices by rank, so that whoever is reached in the second round gets each once from every block."""
    block = _blocks(first)
    assert block is not None
    n_blocks = int(block.max()) + 1
    # per target and block how many reach it
    counts = second.T.astype(np.float64) @ (block[:, None] == np.arange(n_blocks))
    if counts.min() == 0 or counts.min() != counts.max():
        return None
    _, group = np.unique(second, axis=0, return_inverse=True)
    together = group.reshape(-1) * n_blocks + block
    order = np.argsort(together, kind="stable")
    places = np.empty(len(block), dtype=np.int64)
    places[order] = np.arange(len(block)) - np.searchsorted(together[order], together[order])
    return places


def _schedule(topology: Topology, collective: Collective, shape: _Shape) -> StepSchedule:
    n, slice_of = topology.n_nodes, shape.slice_of
    slices = int(slice_of.max()) + 1
    homes = [np.full(slices, rank) for rank in range(n)]
    rounds: list[Messages] = []
    keeps = np.zeros((2, n, slices), dtype=np.bool_)
    for place, reached in enumerate(shape.reached):
        # senders and targets, each rank beginning with the one after it
        turned = [reached[np.arange(n), (np.arange(n) + shift) % n] for shift in range(1, n)]
        shift, sender = np.nonzero(turned)
        target = (sender + shift + 1) % n
        rounds.append((sender, target, slice_of[target if place == 0 else sender]))
        own = np.flatnonzero(reached.diagonal())
        keeps[place, own, slice_of[own]] = True
    reduce = steps_over_paths(topology, collective, Direction.REDUCE, [rounds], homes)
    targets = topology.heads[reduce.way_links[reduce.way_offset[1:] - 1]][reduce.link]
    fresh = ~keeps[reduce.send_steps(), targets, reduce.shard]
    return StepSchedule(
        CollectiveKind.ALLREDUCE,
        reduce=replace(reduce, fresh=frozen(fresh, np.bool_)),
        broadcast=steps_over_paths(topology, collective, Direction.BROADCAST, [[]], homes),
    )
