"""Step schedules of an all-to-all from its sends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from treadle.arrays import frozen
from treadle.schedules.alltoall.exchange import ExchangeSchedule
from treadle.schedules.collective import Collective
from treadle.schedules.steps.steps import Send, steps_from_sends
from treadle.schedules.trees.forest import Direction


def exchange_from_sends(
    collective: Collective,
    n_chunks: int,
    sends: Iterable[Send] | Sequence[NDArray[np.integer]],
    n_steps: int | None = None,
) -> ExchangeSchedule:
    """Return the schedule of these sends, as `steps_from_sends`; shards are the demanded pairs in order."""
    source, target = np.nonzero(collective.pair_demands.between)
    steps = steps_from_sends(
        Direction.BROADCAST, collective.n_ranks, n_chunks, sends, homes=source.tolist(), n_steps=n_steps
    )
    return ExchangeSchedule(steps, frozen(target, np.int32))
