"""Which number of rounds is taken, by what each is said to reach."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.demands import Demands
from treadle.schedules.alltoall.routes import routes_from_paths
from treadle.schedules.collective import Collective, CollectiveKind
from treadle.synthesis.alltoall.steps import rounds as module
from treadle.synthesis.alltoall.steps.rounds import fastest_at_size, fewest_rounds
from treadle.topologies.catalogue.direct import from_arcs

FABRIC = from_arcs("pair", [0, 1], [1, 0], n=2)
EVERYONE = Collective(CollectiveKind.ALLTOALL, (0, 1), demands=Demands(np.ones((2, 2), dtype=np.int64)))
ROUTES = routes_from_paths(2, 1, [(0, 1, 1, 0, [0]), (1, 0, 1, 0, [1])])


def tried(monkeypatch: pytest.MonkeyPatch, reached: dict[str, Any]) -> list[str]:
    """Names of what is made, which come up to what is given."""
    made: list[str] = []

    def named(name: str) -> str:
        made.append(name)
        return name

    monkeypatch.setattr(module, "hop_synchronous", lambda *_, **__: named("hops"))
    monkeypatch.setattr(module, "pipelined", lambda *_, rounds, **__: named(f"queue {rounds}"))
    monkeypatch.setattr(module, "staggered", lambda *_, rounds, **__: named(f"repeat {rounds}"))
    monkeypatch.setattr(module, "exchange_algbw", lambda _, __, name: reached[name])
    monkeypatch.setattr(module, "exchange_runtime_s", lambda _, __, name, *___, **____: reached[name])
    return made


def few() -> Any:
    return fewest_rounds(FABRIC, EVERYONE, ROUTES, Fraction(1000))


def test_no_rounds_where_hops_come_near(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tried(monkeypatch, {"hops": 995})
    assert few() == "hops"
    assert made == ["hops"]


def test_queues_until_one_comes_near(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tried(monkeypatch, {"hops": 994, "queue 8": 900, "queue 16": 994, "queue 32": 995})
    assert few() == "queue 32"
    assert made == ["hops", "queue 8", "queue 16", "queue 32"]


def test_routes_are_repeated_where_no_queue_does(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = {f"queue {rounds}": 900 + rounds // 8 for rounds in (8, 16, 32, 64, 128)}
    repeats = {"repeat 8": 916, "repeat 16": 917, "repeat 32": 996}
    made = tried(monkeypatch, {"hops": 901, **queues, **repeats})
    assert few() == "repeat 32"
    assert made == ["hops", *queues, *repeats]
    # while the sends are few enough: two hops, K times each
    monkeypatch.setattr(module, "_MOST_SENDS", 32)
    made.clear()
    assert few() == "repeat 16"
    assert made == ["hops", *queues, "repeat 8", "repeat 16"]
    monkeypatch.setattr(module, "_MOST_SENDS", 15)
    assert few() == "queue 128"


def test_rounds_for_a_size_until_their_latency_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"hops": 9.0, "queue 2": 7.0, "queue 4": 8.0, "queue 8": 7.5, "queue 16": 1.0}
    made = tried(monkeypatch, times)
    assert fastest_at_size(FABRIC, EVERYONE, ROUTES, 100, alpha_s=0.5) == "queue 2"
    assert made == ["hops", "queue 2", "queue 4", "queue 8"]  # 16 take 8 s at least
    made.clear()
    assert fastest_at_size(FABRIC, EVERYONE, ROUTES, 100, alpha_s=3.0) == "queue 2"
    assert made == ["hops", "queue 2"]  # 4 take 12 s
    made.clear()
    assert fastest_at_size(FABRIC, EVERYONE, ROUTES, 0, alpha_s=4.5) == "hops"
    assert made == ["hops"]


@pytest.mark.parametrize(("size", "alpha"), [(-1, 0.0), (1, -0.5), (1, float("nan"))])
def test_sizes_and_latencies_below_nothing(size: int, alpha: float) -> None:
    message = rf"^size {size} and latency {alpha} s: expected neither to be negative$"
    with pytest.raises(ScheduleError, match=message):
        fastest_at_size(FABRIC, EVERYONE, ROUTES, size, alpha_s=alpha)
