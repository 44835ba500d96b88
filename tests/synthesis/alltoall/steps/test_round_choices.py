"""Which number of rounds is taken, by what each is said to reach."""

from __future__ import annotations

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.steps.rounds import fastest_at_size
from treadle.topologies.catalogue.direct import from_arcs

FABRIC = from_arcs("pair", [0, 1], [1, 0], n=2)
EVERYONE = Collective(CollectiveKind.ALLTOALL, (0, 1), demands=Demands(np.ones((2, 2), dtype=np.int64)))
ROUTES = routes_from_paths(2, 1, [(0, 1, 1, 0, [0]), (1, 0, 1, 0, [1])])


@pytest.mark.parametrize(("size", "alpha"), [(-1, 0.0), (1, -0.5), (1, float("nan"))])
def test_sizes_and_latencies_below_nothing(size: int, alpha: float) -> None:
    message = rf"^size {size} and latency {alpha} s: expected neither to be negative$"
    with pytest.raises(ScheduleError, match=message):
        fastest_at_size(FABRIC, EVERYONE, ROUTES, size, alpha_s=alpha)
