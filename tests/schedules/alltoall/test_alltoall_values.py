"""Demands and the dual certificate of an all-to-all."""

from __future__ import annotations

import json

import numpy as np
import pytest

from treadle.errors import ScheduleError
from treadle.schedules.alltoall.alltoall_certificate import FlowDualCertificate
from treadle.schedules.alltoall.demands import block_demands, uniform_demands
from treadle.schedules.certificate import certificate_from_json
from treadle.schedules.collective import SPANNING_KINDS, Collective, CollectiveKind, on_all_ranks
from treadle.topologies import ring

A2A = CollectiveKind.ALLTOALL


def test_only_an_all_to_all_has_demands() -> None:
    demands = uniform_demands(3)
    assert Collective(A2A, (0, 1, 2)).pair_demands == demands
    with pytest.raises(ScheduleError, match="of 3 ranks, the collective has 2"):
        Collective(A2A, (0, 1), demands=demands)
    for kind in SPANNING_KINDS:
        root = 0 if kind.is_rooted else None
        with pytest.raises(ScheduleError, match="only an all-to-all"):
            Collective(kind, (0, 1, 2), root=root, demands=demands)
        with pytest.raises(ScheduleError, match="only an all-to-all"):
            _ = Collective(kind, (0, 1, 2), root=root).pair_demands
    with pytest.raises(ScheduleError, match="which spanning trees cannot"):
        _ = Collective(A2A, (0, 1, 2)).shard_weights


def test_json_round_trip_and_bad_lengths() -> None:
    certificate = FlowDualCertificate(np.array([0, 2**40, 3, 3, 1, 1]))
    again = certificate_from_json(json.loads(json.dumps(certificate.to_json())))
    assert again == certificate
    collective = on_all_ranks(ring(3), A2A)
    assert again.bound(ring(3), collective) == certificate.bound(ring(3), collective)
    with pytest.raises(ScheduleError, match="6 lengths, expected 8"):
        certificate.bound(ring(4), on_all_ranks(ring(4), A2A))
    with pytest.raises(ScheduleError, match="distance 0"):
        FlowDualCertificate(np.zeros(6, dtype=np.int64)).bound(ring(3), collective)
    for wrong in ([-1], [2**40 + 1], [[1]], [0.5]):
        with pytest.raises(ScheduleError, match="distance certificate"):
            FlowDualCertificate(np.array(wrong))
    for text in ('{"kind": "distances"}', '{"kind": "distances", "lengths": [true]}'):
        with pytest.raises(ValueError, match="distance certificate"):
            certificate_from_json(json.loads(text))


@pytest.mark.parametrize("groups", [[(0, 4)], [(-1, 0)], [(0, 1), (1, 2)], [(0, 0)]])
def test_groups_of_demands_are_disjoint_and_of_ranks(groups: list[tuple[int, ...]]) -> None:
    with pytest.raises(ScheduleError, match="each in one group"):
        block_demands(4, groups)
