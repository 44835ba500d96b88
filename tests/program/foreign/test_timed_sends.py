"""Programs of sends with times: they keep a program's rules and do on real data what the sends say."""

from __future__ import annotations

import pytest

from samples.foreign import foreign_files
from treadle.errors import ScheduleError
from treadle.formats.teccl.traffic import traffic as teccl_traffic
from treadle.formats.verdict import Terms
from treadle.program.foreign.timed_sends import SendsFrame, TimedSend, program_of_sends
from treadle.schedules.collective import CollectiveKind


def test_names_on_the_way_stay_with_their_sends() -> None:
    found = teccl_traffic(foreign_files.as_bytes(foreign_files.teccl_star_allgather(3)), Terms())
    assert len(found.ways) == 6
    assert set(found.ways.values()) == {("0",)}


def test_what_has_not_come_cannot_be_sent() -> None:
    frame = SendsFrame(CollectiveKind.ALLGATHER, 3, 3, [0, 1, 2, 3])
    with pytest.raises(
        ScheduleError, match="rank 1 sends chunk 0 to rank 2: it has not arrived there by then"
    ):
        program_of_sends(frame, [TimedSend(0, 0, 1, 0, 1), TimedSend(0, 1, 2, 0, 1)])
    with pytest.raises(ScheduleError, match="no such chunks"):
        program_of_sends(frame, [TimedSend(0, 0, 1, 2, 2)])
