"""Parts of the peers' schedulers: who takes which link, columns, rows and limits of the programs."""

from __future__ import annotations

import pytest

from treadle.errors import ScheduleError
from treadle.schedules.collective import CollectiveKind, on_all_ranks
from treadle.synthesis.peers import tacos as tacos_module
from treadle.synthesis.peers.tacos import tacos
from treadle.topologies import parse

ALLGATHER, ALLTOALL = CollectiveKind.ALLGATHER, CollectiveKind.ALLTOALL


def test_so_many_pairs_of_chunks_and_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = parse("ring(3)")
    everyone = on_all_ranks(ring, ALLGATHER)
    monkeypatch.setattr(tacos_module, "MAX_PLACES", 18)
    assert tacos(ring, everyone, chunks=2).broadcast is not None
    with pytest.raises(ScheduleError, match=r"^tacos: 3 chunks a shard, expected 1 to 2$"):
        tacos(ring, everyone, chunks=3)
    with pytest.raises(ScheduleError, match=r"^tacos: 10000000000000000000 chunks a shard, expected 1 to 2$"):
        tacos(ring, everyone, chunks=10**30)
