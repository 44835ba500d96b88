"""Allreduces factor by factor: sums are scattered and gathered, or exchanged in full.

Ranks are numbers of mixed radix. Over a factor that is scattered each rank keeps the sum of one part, and
gathers all of them in the end: two messages one after another, of little data. Over one that is exchanged
it sends its sum to all others that differ in that digit, and adds up what it gets: one message, of all that
it has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import isqrt, prod

import numpy as np

from treadle.arrays import BoolArray, Int64Array
from treadle.errors import ScheduleError
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.schedules.steps.steps import StepSchedule
from treadle.schedules.steps.urgent_first import in_chunks
from treadle.schedules.trees.forest import Direction
from treadle.synthesis.scheduler import equal_shards, tried_with
from treadle.synthesis.sizes.boxed import Boxes, checked_factors, listed, nearest_factor, usual_factors
from treadle.synthesis.sizes.exchanges import Messages, joined
from treadle.synthesis.sizes.shortest_paths import steps_over_paths
from treadle.synthesis.sizes.spanning_exchanges import not_too_many
from treadle.synthesis.trees.baselines.boxes import find_boxes
from treadle.synthesis.trees.baselines.embedding import check_supported
from treadle.topologies.topology import Topology

_NAME = "factor-allreduce"
_KINDS = (CollectiveKind.ALLREDUCE,)
_CHUNKS = (3, 4, 8)
"""Numbers to try: more are seldom faster, because each message has its own occupancy; three lie between
powers of two when they are sliced."""
_WIDE, _WIDE_CHUNKS = 16, 4
"""Ranks of a box above which chunks go through two factors of it, for fewer messages of each."""


def _trials(topology: Topology, collective: Collective) -> Sequence[Mapping[str, object]]:
    """Options to try: exchange all factors, those between boxes, the last, none; split the last factor;
    chunks."""
    boxes = find_boxes(topology, collective)
    plain, _ = _asked(boxes, None, None)
    low = nearest_factor(plain[-1])
    shapes = [plain] if low == 1 else [plain, (*plain[:-1], plain[-1] // low, low)]
    found: list[Mapping[str, object]] = [{"chunks": number} for number in _CHUNKS]
    found += [{"exchanged": (), "chunks": number} for number in _CHUNKS]
    if len(plain) > 1 and plain[0] > _WIDE:
        parts = [part for part in range(isqrt(plain[0]), 1, -1) if plain[0] % part == 0][:2]
        divided = [(plain[0] // part, part, *plain[1:]) for part in parts]
        found += [{"factors": shape, "chunks": _WIDE_CHUNKS} for shape in divided]
    for shape in shapes:
        every = tuple(range(1, len(shape) + 1))
        usual = tuple(place + 1 for place in sorted(_asked(boxes, shape, None)[1]))
        places = dict.fromkeys((every, usual, every[-1:], ()))
        found += [{"factors": shape, "exchanged": one} for one in places if (shape, one) != (plain, usual)]
    return found


@tried_with(_trials)
def factor_allreduce(
    topology: Topology,
    collective: Collective,
    *,
    factors: Sequence[int] | None = None,
    exchanged: Sequence[int] | None = None,
    chunks: int = 1,
) -> StepSchedule:
    """Allreduce with a full exchange over some factors of the ranks, scatter and gather over the others.

    Parameters
    ----------
    topology : Topology
    collective : Collective
        An allreduce of equal shards.
    factors : sequence of int, optional
        Radices from the last digit, which distinguishes neighbours; their product is N. Ranks are numbered
        box by box. Default: of boxes of one size the size and their number, else N.
    exchanged : sequence of int, optional
        Places, from 1, of the factors that are exchanged in full. Default: all between boxes; of one box all.
    chunks : int, optional
        Chunks of the data that follow each other through the factors, default 1.

    Raises
    ------
    ScheduleError
        If the factors do not multiply to the number of ranks, or there is no such place.
    InfeasibleError
        If a rank does not reach another.

    Notes
    -----
    Over the factors in order partial sums are scattered or exchanged, then gathered in the opposite order.
    Sums that are exchanged are due at several ranks, which own one shard together.
    """
    check_supported(_NAME, topology, collective, _KINDS, (not_too_many, equal_shards))
    boxes = find_boxes(topology, collective)
    radices, places = _asked(boxes, factors, exchanged)

    def digits_of(sizes: Sequence[int]) -> Int64Array:
        digits: Int64Array = np.stack(np.unravel_index(np.arange(prod(sizes)), sizes, order="F"), axis=1)
        return digits

    grid = Grid(
        ranks=np.array([rank for box in boxes for rank in box], dtype=np.int64),
        digits=digits_of(radices),
        weights=np.cumprod([1, *radices[:-1]]),
        radices=radices,
        exchanged=places,
        shards=digits_of([1 if place in places else radix for place, radix in enumerate(radices)]),
    )
    homes = grid.owners()
    reduce = steps_over_paths(topology, collective, Direction.REDUCE, [grid.reducing()], homes)
    broadcast = steps_over_paths(topology, collective, Direction.BROADCAST, [grid.gathering()], homes)
    whole = StepSchedule(CollectiveKind.ALLREDUCE, reduce=reduce, broadcast=broadcast)
    return in_chunks(whole, topology, chunks)


def _asked(
    boxes: Boxes, factors: Sequence[int] | None, exchanged: Sequence[int] | None
) -> tuple[tuple[int, ...], frozenset[int]]:
    """Radices from the last digit, and the places of those that are exchanged, from 0."""
    usual = usual_factors(boxes)
    radices = usual if factors is None else checked_factors(_NAME, boxes, factors)
    if exchanged is not None:
        if not set(exchanged) <= set(range(1, len(radices) + 1)):
            raise ScheduleError(
                f"{_NAME}: exchanged {listed(exchanged)}: expected places from 1 to {len(radices)}"
            )
        return radices, frozenset(place - 1 for place in exchanged)
    # whole boxes are scattered: digits that distinguish more ranks than a box has are exchanged
    distinguished = np.cumprod(radices).tolist()
    places = (i for i, inner in enumerate(distinguished) if len(usual) == 1 or inner > len(boxes[0]))
    return radices, frozenset(places)


@dataclass(frozen=True)
class Grid:
    """Ranks as numbers of several digits, and the shards that they sum.

    Parameters
    ----------
    ranks : array of int64, shape (N,)
        Rank of each number.
    digits : array of int64, shape (N, k)
        Of each number.
    weights : array of int64, shape (k,)
        A number is the sum of its digits times these.
    radices : tuple of int
    exchanged : frozenset of int
        Digits along which all ranks get the sums; those of others are scattered.
    shards : array of int64, shape (S, k)
        Scattered digits of the ranks at which each shard is summed; 0 in other digits.
    is_torus : bool
        Digits are places on axes: messages that go far come first, and shards one after another.
    """

    ranks: Int64Array
    digits: Int64Array
    weights: Int64Array
    radices: tuple[int, ...]
    exchanged: frozenset[int]
    shards: Int64Array
    is_torus: bool = False

    def owners(self) -> list[Int64Array]:
        """Ranks at which each shard is summed."""
        free = [range(radix) if i in self.exchanged else (0,) for i, radix in enumerate(self.radices)]
        found = [self.ranks[(self.shards + np.array(offset)) @ self.weights] for offset in product(*free)]
        return list(np.sort(found, axis=0)) if self.is_torus else found

    def reducing(self) -> list[Messages]:
        """Messages of each factor in order."""
        return [
            self._step(factor, self._agrees(factor), scatters=True) for factor in range(len(self.radices))
        ]

    def gathering(self) -> list[Messages]:
        """Messages of the scattered factors, the last first: all that is held so far."""
        scattered = [factor for factor in range(len(self.radices)) if factor not in self.exchanged]
        return [self._step(factor, self._agrees(factor + 1), scatters=False) for factor in scattered[::-1]]

    def _agrees(self, past: int) -> BoolArray:
        """Whether each number and each shard agree in the scattered digits before `past`, shape (N, S)."""
        factors = [factor for factor in range(past) if factor not in self.exchanged]
        same = self.digits[:, None, factors] == self.shards[:, factors]
        return np.asarray(same.all(axis=2), dtype=np.bool_)

    def _step(self, factor: int, held: BoolArray, *, scatters: bool) -> Messages:
        """All ranks to all others that differ in one digit, each beginning with the one after it."""
        parts, radix = [], self.radices[factor]
        shifts = sorted(range(1, radix), key=lambda shift: -min(shift, radix - shift) if self.is_torus else 0)
        for shift in shifts:
            theirs = self.digits.copy()
            theirs[:, factor] = (theirs[:, factor] + shift) % radix
            carried = held
            if scatters and factor not in self.exchanged:
                carried = held & (theirs[:, factor, None] == self.shards[:, factor])
            sender, shard = np.nonzero(carried.T)[::-1] if self.is_torus else np.nonzero(carried)
            parts.append((self.ranks[sender], self.ranks[(theirs @ self.weights)[sender]], shard))
        return joined(parts)
